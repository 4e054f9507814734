/* Ranks as threads of this process. Nobody sends anything: a collective posts where its data lie,
 * and each rank reads what it needs from the others' memory.
 *
 * The ranks of a communicator share a hub. Collective number s uses row s of a ring, with a cell
 * for each rank that says how far it has come: posted, worked (its part of a sum is there), left
 * (it needs nothing of the others any more). All that ranks share is ordered by these counters. */
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>

#include "comm/comm.h"

enum { RING = 64, SMALL = 512 }; /* collectives under way; bytes that are summed by everybody */
enum { POSTED = 1, WORKED = 2, LEFT = 3, STAGES = 4 };

typedef struct cell {
    alignas(64) _Atomic int64_t progress; /* STAGES * sequence + stage */
    weft_transfer t;
    const int64_t *counts;
    char what[64];
    alignas(8) char small[SMALL];
} cell;

/* A send or receive that waits for its partner. */
typedef struct message {
    weft_operation *operation;
    int source;
    _Atomic int taken;
    struct message *next;
} message;

typedef struct mailbox {
    pthread_mutex_t lock;
    message *sends; /* oldest first */
} mailbox;

typedef struct hub {
    int size;
    struct hub *root;
    _Atomic int references;
    int *world; /* ranks in the root's numbers */
    cell *cells;
    mailbox *boxes; /* of each receiver */
    _Atomic int aborted;
    char why[768];
    pthread_mutex_t lock;
} hub;

typedef struct threads {
    weft_comm head;
    hub *hub;
} threads;

typedef struct pending {
    int stage;
    message message;
} pending;

static void hub_release(hub *h)
{
    if (!h || atomic_fetch_sub(&h->references, 1) != 1) return;
    if (h->root != h) hub_release(h->root);
    for (int i = 0; h->boxes && i < h->size; i++) pthread_mutex_destroy(&h->boxes[i].lock);
    pthread_mutex_destroy(&h->lock);
    free(h->boxes);
    free(h->cells);
    free(h->world);
    free(h);
}

static weft_status hub_new(int size, hub *root, hub **out)
{
    hub *h;
    WEFT_TRY(WEFT_NEW(&h, 1));
    h->size = size;
    h->root = root ? root : h;
    atomic_store(&h->references, size);
    pthread_mutex_init(&h->lock, NULL);
    if (root) atomic_fetch_add(&root->references, 1);
    weft_status status = weft_new_aligned((size_t)RING * (size_t)size * sizeof(cell), &h->cells);
    if (status == WEFT_OK) status = WEFT_NEW(&h->boxes, size);
    if (status == WEFT_OK) status = WEFT_NEW(&h->world, size);
    if (status != WEFT_OK) {
        atomic_store(&h->references, 1);
        hub_release(h);
        return status;
    }
    for (int i = 0; i < size; i++) {
        pthread_mutex_init(&h->boxes[i].lock, NULL);
        h->world[i] = i;
    }
    *out = h;
    return WEFT_OK;
}

static hub *hub_of(const weft_operation *o)
{
    return ((const threads *)o->comm)->hub;
}

static cell *cell_of(const weft_operation *o, int rank)
{
    const hub *h = hub_of(o);
    return &h->cells[(size_t)(o->sequence % RING) * (size_t)h->size + (size_t)rank];
}

/* Whether every rank has come so far in collective `sequence` (which may be negative). */
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

/* Everybody must mean the same. The descriptions are there anyway, so this costs nothing. */
static weft_status check_alike(const weft_operation *o)
{
    for (int r = 0; r < o->comm->size; r++) {
        const cell *c = cell_of(o, r);
        if (c->t.kind == o->t.kind && c->t.dtype == o->t.dtype && c->t.count == o->t.count &&
            c->t.leaves == o->t.leaves)
            continue;
        return weft_fail(
            WEFT_ERR_PEER,
            "collective %lld does not match: rank %d is in %s of %s (%lld %s), rank %d in %s of "
            "%s (%lld %s)",
            (long long)o->sequence, o->comm->rank, weft_transfer_name(o->t.kind), o->what,
            (long long)o->t.count, weft_dtype_name(o->t.dtype), r, weft_transfer_name(c->t.kind),
            c->what, (long long)c->t.count, weft_dtype_name(c->t.dtype));
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
    const void *source[WEFT_MAX_RANKS];
    int n = o->comm->size;
    for (int r = 0; r < n; r++)
        source[r] = small(o) ? (const void *)cell_of(o, r)->small : cell_of(o, r)->t.send;
    weft_tree tree = {o->t.dtype, n, o->t.leaves ? o->t.leaves : n, source, o->t.count};
    weft_tree_sum(&tree, begin, end, (char *)o->t.receive + (size_t)to * size_of(o));
}

/* What a rank does as soon as everybody has posted. */
static void work(weft_operation *o)
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
    case WEFT_ALL_GATHER:
        for (int i = 0; i < n; i++) {
            int r = (me + i) % n; /* not all from the same rank at once */
            copy_elements(o, cell_of(o, r)->t.send, 0, weft_counts_before(o->counts, r),
                          o->counts[r]);
        }
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

/* The second half of an all-reduce: the others' parts. */
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

/* Whether others may still read this rank's memory when it has all it needs. */
static bool is_read(const weft_operation *o)
{
    if (o->t.kind == WEFT_BARRIER || small(o)) return false;
    return o->t.kind != WEFT_BROADCAST || o->comm->rank == o->t.peer;
}

static weft_status advance_collective(weft_operation *o)
{
    pending *p = o->state;
    if (p->stage == 0) {
        if (!all_reached(o, o->sequence - RING, LEFT)) return WEFT_OK;
        post(o);
    }
    if (p->stage == POSTED) {
        if (!all_reached(o, o->sequence, POSTED)) return WEFT_OK;
        WEFT_TRY(check_alike(o));
        work(o);
        reach(o, o->t.kind == WEFT_ALL_REDUCE && !small(o) ? WORKED : LEFT);
    }
    if (p->stage == WORKED) {
        if (!all_reached(o, o->sequence, WORKED)) return WEFT_OK;
        collect_parts(o);
        reach(o, LEFT);
    }
    o->done = !is_read(o) || all_reached(o, o->sequence, LEFT);
    return WEFT_OK;
}

/* --- messages --- */

static void mail(weft_operation *o)
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

static message *take(weft_operation *o)
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

static weft_status advance_receive(weft_operation *o)
{
    message *m = take(o);
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
    atomic_store_explicit(&m->taken, 1, memory_order_release);
    o->done = true;
    return status;
}

/* --- the vtable --- */

static weft_status threads_prepare(weft_operation *o)
{
    pending *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    o->state = p;
    return WEFT_OK;
}

/* A send that nobody took must not be found any more. */
static void threads_destroy(weft_operation *o)
{
    pending *p = o->state;
    if (o->t.kind == WEFT_SEND && p->message.operation) {
        mailbox *box = &hub_of(o)->boxes[o->t.peer];
        pthread_mutex_lock(&box->lock);
        for (message **at = &box->sends; *at; at = &(*at)->next)
            if (*at == &p->message) {
                *at = p->message.next;
                break;
            }
        pthread_mutex_unlock(&box->lock);
    }
    free(p);
}

static weft_status threads_advance(weft_operation *o)
{
    pending *p = o->state;
    if (o->t.kind == WEFT_RECEIVE) return o->done ? WEFT_OK : advance_receive(o);
    if (o->t.kind != WEFT_SEND) return advance_collective(o);
    o->done = atomic_load_explicit(&p->message.taken, memory_order_acquire) != 0;
    return WEFT_OK;
}

static weft_status threads_start(weft_operation *o)
{
    pending *p = o->state;
    p->stage = 0;
    if (o->t.kind == WEFT_SEND) mail(o);
    return threads_advance(o);
}

static void add_ranks(weft_operation *o, weft_text *text, bool come)
{
    const hub *h = hub_of(o);
    const char *between = "";
    for (int r = 0; r < h->size; r++) {
        int64_t at = atomic_load_explicit(&cell_of(o, r)->progress, memory_order_acquire);
        if ((at >= STAGES * o->sequence + POSTED) != come) continue;
        weft_text_add(text, "%s%d", between, h->world[r]);
        between = ", ";
    }
    if (!*between) weft_text_add(text, "none");
}

static void threads_describe(weft_operation *o, weft_text *text)
{
    if (!weft_is_collective(o->t.kind)) {
        weft_text_add(text, ": rank %d did not %s it", hub_of(o)->world[o->t.peer],
                      o->t.kind == WEFT_SEND ? "receive" : "send");
        return;
    }
    weft_text_add(text, " (collective %lld): ranks that are in it: ", (long long)o->sequence);
    add_ranks(o, text, true);
    weft_text_add(text, "; missing: ");
    add_ranks(o, text, false);
}

static void threads_abort(weft_comm *comm)
{
    hub *root = ((threads *)comm)->hub->root;
    pthread_mutex_lock(&root->lock);
    if (!atomic_load(&root->aborted)) {
        (void)snprintf(root->why, sizeof(root->why), "%s", weft_last_message());
        atomic_store(&root->aborted, 1);
    }
    pthread_mutex_unlock(&root->lock);
}

static const char *threads_aborted(weft_comm *comm)
{
    hub *root = ((threads *)comm)->hub->root;
    return atomic_load(&root->aborted) ? root->why : NULL;
}

static void threads_close(weft_comm *comm)
{
    hub_release(((threads *)comm)->hub);
    free(comm);
}

static const weft_comm_ops ops;

static weft_status threads_make(weft_context *context, weft_member *member, hub *h, int rank,
                                weft_comm **out)
{
    threads *t;
    WEFT_TRY(WEFT_NEW(&t, 1));
    t->head = (weft_comm){.ops = &ops,
                          .context = context,
                          .member = member,
                          .rank = rank,
                          .size = h->size,
                          .local_size = h->root->size};
    t->hub = h;
    *out = &t->head;
    return WEFT_OK;
}

/* Rank of this one among those of its color, and how many there are; *first is the first of them.
 */
static int place_in_group(const int32_t *wish, int n, int me, int *size, int *first)
{
    int rank = 0, best = -1;
    *size = 0;
    for (int r = 0; r < n; r++) {
        const int32_t *other = &wish[(size_t)2 * r], *mine = &wish[(size_t)2 * me];
        if (other[0] != mine[0]) continue;
        (*size)++;
        if (other[1] < mine[1] || (other[1] == mine[1] && r < me)) rank++;
        if (best < 0 || other[1] < wish[(size_t)2 * best + 1]) best = r;
    }
    *first = best;
    return rank;
}

static weft_status gather(weft_comm *comm, weft_dtype dtype, int64_t each, const void *mine,
                          void *all)
{
    int64_t counts[WEFT_MAX_RANKS];
    for (int r = 0; r < comm->size; r++) counts[r] = each;
    return weft_comm_run(comm, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                .dtype = dtype,
                                                .what = "the split of a communicator",
                                                .send = mine,
                                                .receive = all,
                                                .counts = counts});
}

static weft_status threads_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    const hub *parent = ((threads *)comm)->hub;
    int32_t mine[2] = {color, key}, *wish;
    int size = 0, first = 0, n = comm->size;
    hub *made = NULL, **hubs = NULL;
    WEFT_TRY(WEFT_NEW(&wish, (size_t)2 * n));
    weft_status status = WEFT_NEW(&hubs, n);
    if (status == WEFT_OK) status = gather(comm, WEFT_I32, 2, mine, wish);
    int rank = status == WEFT_OK ? place_in_group(wish, n, comm->rank, &size, &first) : 0;
    if (status == WEFT_OK && color >= 0 && first == comm->rank) {
        status = hub_new(size, parent->root, &made);
        for (int r = 0; status == WEFT_OK && r < n; r++) {
            int other_size, other_first;
            if (wish[(size_t)2 * r] != color) continue;
            int at = place_in_group(wish, n, r, &other_size, &other_first);
            made->world[at] = parent->world[r];
        }
    }
    if (status == WEFT_OK)
        status = gather(comm, WEFT_U8, (int64_t)sizeof(made), (const void *)&made, (void *)hubs);
    if (status == WEFT_OK && color >= 0)
        status = threads_make(comm->context, comm->member, hubs[first], rank, out);
    free((void *)hubs);
    free(wish);
    return status;
}

static const weft_comm_ops ops = {
    .name = "threads",
    .close = threads_close,
    .split = threads_split,
    .prepare = threads_prepare,
    .destroy = threads_destroy,
    .start = threads_start,
    .advance = threads_advance,
    .describe = threads_describe,
    .abort = threads_abort,
    .aborted = threads_aborted,
};

static weft_status threads_open(weft_context *context, int ranks, weft_comm **out, int *local)
{
    hub *h;
    int made = 0;
    if (ranks < 1) ranks = 1;
    WEFT_TRY(hub_new(ranks, NULL, &h));
    weft_status status = WEFT_OK;
    while (made < ranks && status == WEFT_OK) {
        weft_member *member;
        status = weft_member_new(&member);
        if (status != WEFT_OK) break;
        member->local_rank = made;
        status = threads_make(context, member, h, made, &out[made]);
        if (status != WEFT_OK)
            weft_member_release(member);
        else
            made++;
    }
    if (status != WEFT_OK) {
        /* One reference is left for each that was made, or for this release. */
        atomic_fetch_sub(&h->references, ranks - WEFT_MAX(made, 1));
        for (int i = 0; i < made; i++) weft_comm_close(&out[i]);
        if (made == 0) hub_release(h);
        return status;
    }
    *local = ranks;
    return WEFT_OK;
}

const weft_engine weft_engine_threads = {
    "threads", "ranks are threads of this process; needs nothing installed", threads_open};
