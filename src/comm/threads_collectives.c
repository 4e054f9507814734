/* Exchanges data between ranks that are threads: collectives use the cells of a hub, and messages
 * use mailboxes. */
#include <sched.h>
#include <stdio.h>

#include "base/tree_sum.h"
#include "comm/threads.h"

/* Whether every rank has reached a stage of collective number `sequence`; a negative number, before
 * the first collective, counts as reached. */
static bool all_reached(const weft_operation *o, int64_t sequence, int stage)
{
    for (int r = 0; r < o->comm->size; r++)
        if (atomic_load_explicit(&cell_of(o, r)->progress, memory_order_acquire) <
            STAGES * sequence + stage)
            return false;
    return true;
}

static void reach(const weft_operation *o, int stage)
{
    pending *p = o->state;
    p->stage = stage;
    atomic_store_explicit(&cell_of(o, o->comm->rank)->progress, STAGES * o->sequence + stage,
                          memory_order_release);
}

static size_t size_of(const weft_operation *o)
{
    return weft_dtype_size(o->t.dtype);
}

static bool small(const weft_operation *o)
{
    return o->t.kind == WEFT_ALL_REDUCE && o->t.leaves == 0 && o->t.count <= SMALL / 8;
}

static void post(weft_operation *o)
{
    cell *c = cell_of(o, o->comm->rank);
    c->t = o->t;
    c->counts = o->counts;
    (void)snprintf(c->what, sizeof(c->what), "%s", o->what);
    if (small(o) && o->t.count > 0) memcpy(c->small, o->t.send, (size_t)o->t.count * size_of(o));
    reach(o, POSTED);
}

/* Checks that all ranks are in the same collective. The cells hold the descriptions anyway, so the
 * check is always on. */
static weft_status check_alike(const weft_operation *o)
{
    int n = o->comm->size;
    for (int r = 0; r < n; r++) {
        const cell *c = cell_of(o, r);
        char mine[WEFT_TRANSFER_TEXT], other[WEFT_TRANSFER_TEXT];
        if (weft_transfer_alike(o, r, &c->t, c->counts)) continue;
        weft_transfer_describe(&o->t, o->what, o->counts, n, mine);
        weft_transfer_describe(&c->t, c->what, c->counts, n, other);
        return weft_fail(WEFT_ERR_PEER,
                         "collective %lld does not match: rank %d is in %s, rank %d in %s",
                         (long long)o->sequence, o->comm->rank, mine, r, other);
    }
    return WEFT_OK;
}

static void copy_elements(const weft_operation *o, const void *from, int64_t from_at, int64_t to_at,
                          int64_t count)
{
    size_t size = size_of(o);
    char *to = (char *)o->t.receive + (size_t)to_at * size;
    const char *source = (const char *)from + (size_t)from_at * size;
    if (count > 0 && to != source) memcpy(to, source, (size_t)count * size);
}

static void sum_part(const weft_operation *o, int64_t begin, int64_t end, int64_t to)
{
    const pending *p = o->state;
    int n = o->comm->size;
    for (int r = 0; r < n; r++)
        p->source[r] = small(o) ? (const void *)cell_of(o, r)->small : cell_of(o, r)->t.send;
    weft_tree tree = {.dtype = o->t.dtype,
                      .ranks = n,
                      .leaves = o->t.leaves ? o->t.leaves : n,
                      .source = p->source,
                      .stride = o->t.count,
                      .room = p->room};
    weft_tree_sum(&tree, begin, end, (char *)o->t.receive + (size_t)to * size_of(o));
}

static void gather(const weft_operation *o)
{
    int n = o->comm->size;
    for (int i = 0; i < n; i++) {
        int r = (o->comm->rank + i) % n; /* ranks read different peers at a time */
        copy_elements(o, cell_of(o, r)->t.send, 0, weft_counts_before(o->counts, r), o->counts[r]);
    }
}

/* Does this rank's part of a collective after all ranks have posted: sums or copies from their
 * memory. */
static void compute_part(weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank;
    int64_t begin = weft_part_start(o->t.count, me, n),
            end = weft_part_start(o->t.count, me + 1, n);
    switch (o->t.kind) {
    case WEFT_ALL_REDUCE:
        if (small(o))
            sum_part(o, 0, o->t.count, 0);
        else
            sum_part(o, begin, end, begin);
        break;
    case WEFT_REDUCE_SCATTER:
        begin = weft_counts_before(o->counts, me);
        sum_part(o, begin, begin + o->counts[me], 0);
        break;
    case WEFT_ALL_GATHER: gather(o); break;
    case WEFT_GATHER:
        if (me == o->t.peer) gather(o);
        break;
    case WEFT_ALL_TO_ALL:
        for (int i = 0; i < n; i++) {
            int r = (me + i) % n;
            const cell *c = cell_of(o, r);
            copy_elements(o, c->t.send, weft_counts_before(c->counts, me),
                          weft_counts_before(o->counts + n, r), o->counts[n + r]);
        }
        break;
    case WEFT_BROADCAST:
        if (me != o->t.peer) copy_elements(o, cell_of(o, o->t.peer)->t.receive, 0, 0, o->t.count);
        break;
    default: break;
    }
}

/* The all-gather that ends an all-reduce: copies the summed parts of the other ranks. */
static void collect_parts(weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank;
    for (int i = 1; i < n; i++) {
        int r = (me + i) % n;
        int64_t begin = weft_part_start(o->t.count, r, n);
        copy_elements(o, cell_of(o, r)->t.receive, begin, begin,
                      weft_part_start(o->t.count, r + 1, n) - begin);
    }
}

/* Whether other ranks may still read the memory of this rank, its counts included, when this rank
 * has done its part. */
static bool is_read(const weft_operation *o)
{
    if (o->t.kind == WEFT_BARRIER || small(o)) return false;
    return o->t.kind != WEFT_BROADCAST || o->comm->rank == o->t.peer;
}

weft_status threads_advance_collective(weft_operation *o)
{
    pending *p = o->state;
    if (p->stage == 0) {
        if (!all_reached(o, o->sequence - RING, LEFT)) return WEFT_OK;
        post(o);
    }
    const hub *h = hub_of(o);
    if (p->stage == POSTED) {
        if (!all_reached(o, o->sequence, POSTED)) return WEFT_OK;
        if (!threads_enter(h, o->comm->rank)) return WEFT_OK;
        weft_status status = check_alike(o);
        if (status == WEFT_OK) compute_part(o);
        threads_leave(h, o->comm->rank);
        WEFT_TRY(status);
        reach(o, o->t.kind == WEFT_ALL_REDUCE && !small(o) ? WORKED : LEFT);
    }
    if (p->stage == WORKED) {
        if (!all_reached(o, o->sequence, WORKED)) return WEFT_OK;
        if (!threads_enter(h, o->comm->rank)) return WEFT_OK;
        collect_parts(o);
        threads_leave(h, o->comm->rank);
        reach(o, LEFT);
    }
    o->done = !is_read(o) || all_reached(o, o->sequence, LEFT);
    return WEFT_OK;
}

/* --- messages --- */

void threads_mail(weft_operation *o)
{
    pending *p = o->state;
    mailbox *box = &hub_of(o)->boxes[o->t.peer];
    p->message = (message){.operation = o, .source = o->comm->rank};
    pthread_mutex_lock(&box->lock);
    message **at = &box->sends;
    while (*at) at = &(*at)->next;
    *at = &p->message;
    pthread_mutex_unlock(&box->lock);
}

void threads_withdraw(weft_operation *o)
{
    pending *p = o->state;
    if (!p->message.operation) return; /* never sent */
    mailbox *box = &hub_of(o)->boxes[o->t.peer];
    bool found = false;
    pthread_mutex_lock(&box->lock);
    for (message **at = &box->sends; *at && !found; at = &(*at)->next)
        if (*at == &p->message) {
            *at = p->message.next;
            found = true;
            break;
        }
    pthread_mutex_unlock(&box->lock);
    /* If the send is not in the mailbox, a receiver has taken it and finishes its copy, also if the
     * job has been ended. */
    while (!found && !atomic_load_explicit(&p->message.taken, memory_order_acquire)) sched_yield();
}

static message *take_message(weft_operation *o)
{
    mailbox *box = &hub_of(o)->boxes[o->comm->rank];
    message *found = NULL;
    pthread_mutex_lock(&box->lock);
    for (message **at = &box->sends; *at && !found; at = &(*at)->next)
        if ((*at)->source == o->t.peer && (*at)->operation->t.tag == o->t.tag) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&box->lock);
    return found;
}

weft_status threads_advance_receive(weft_operation *o)
{
    message *m = take_message(o);
    if (!m) return WEFT_OK;
    const weft_transfer *sent = &m->operation->t;
    weft_status status = WEFT_OK;
    if (sent->count != o->t.count || sent->dtype != o->t.dtype)
        status = weft_fail(
            WEFT_ERR_PEER, "rank %d sent %lld %s as %s, rank %d expects %lld %s of %s", o->t.peer,
            (long long)sent->count, weft_dtype_name(sent->dtype), m->operation->what, o->comm->rank,
            (long long)o->t.count, weft_dtype_name(o->t.dtype), o->what);
    else if (o->t.count > 0)
        memcpy(o->t.receive, sent->send, (size_t)o->t.count * size_of(o));
    /* From here on the sender may free the message, its operation and its buffer. */
    atomic_store_explicit(&m->taken, 1, memory_order_release);
    o->done = true;
    return status;
}
