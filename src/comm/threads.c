/* Ranks as threads of this process. Nobody sends anything: a collective posts where its data lie,
 * and each rank reads what it needs from the others' memory.
 *
 * The ranks of a communicator share a hub. Collective number s uses row s of a ring, with a cell
 * for each rank that says how far it has come: posted, worked (its part of a sum is there), left
 * (it needs nothing of the others any more). All that ranks share is ordered by these counters. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "comm/threads.h"

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
    if (o->t.kind == WEFT_RECEIVE) return o->done ? WEFT_OK : threads_advance_receive(o);
    if (o->t.kind != WEFT_SEND) return threads_advance_collective(o);
    o->done = atomic_load_explicit(&p->message.taken, memory_order_acquire) != 0;
    return WEFT_OK;
}

static weft_status threads_start(weft_operation *o)
{
    pending *p = o->state;
    p->stage = 0;
    if (o->t.kind == WEFT_SEND) threads_mail(o);
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
