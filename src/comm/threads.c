/* Implements the engine threads: ranks are threads of this process. No data are sent: in a
 * collective each rank posts the addresses of its buffers, and reads the memory of the other ranks.
 *
 * The ranks of a communicator share a hub. Collective number s uses row s modulo RING of a ring,
 * which has a cell for each rank. The cell records how far the rank is: POSTED, WORKED (its part of
 * a sum is ready), LEFT (it reads no memory of other ranks any more). These counters order all
 * accesses to shared data.
 *
 * An operation is done when no other rank needs this rank's memory. A rank that destroys an
 * operation before that ends the job, and waits until no rank reads any more.
 *
 * If the buffers are in memory of devices (weft_far), a stage says what a rank has queued on its
 * device instead of what it has done, and a last stage, GONE, that it waits, on its device, for
 * what the others have queued: nobody needs the marks of another rank after it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/tree_sum.h"
#include "comm/threads.h"

static void hub_release(hub *h)
{
    if (!h || atomic_fetch_sub(&h->references, 1) != 1) return;
    if (h->root != h) hub_release(h->root);
    for (int i = 0; h->boxes && i < h->size; i++) pthread_mutex_destroy(&h->boxes[i].lock);
    pthread_mutex_destroy(&h->lock);
    free(h->readers);
    free(h->boxes);
    free(h->cells);
    free(h->world);
    free(h);
}

static size_t bytes_of_cells(int ranks)
{
    return (size_t)RING * (size_t)ranks * sizeof(cell);
}

/* The cells of the rank, and the workspace of its sums. */
static size_t threads_share(int size)
{
    return bytes_of_cells(1) + weft_tree_room(size, 0);
}

static weft_status hub_new(int size, hub *root, hub **out)
{
    hub *h;
    WEFT_TRY(WEFT_NEW(&h, 1));
    h->size = size;
    h->root = root ? root : h;
    atomic_store(&h->references, 1); /* of the creator */
    pthread_mutex_init(&h->lock, NULL);
    if (root) atomic_fetch_add(&root->references, 1);
    weft_status status = weft_new_aligned(bytes_of_cells(size), &h->cells);
    if (status == WEFT_OK) status = WEFT_NEW(&h->boxes, size);
    if (status == WEFT_OK) status = WEFT_NEW(&h->world, size);
    if (status == WEFT_OK && !root)
        status = weft_new_aligned((size_t)size * sizeof(reader), &h->readers);
    if (status != WEFT_OK) {
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

static void forget(weft_operation *o)
{
    pending *p = o->state;
    free((void *)p->source);
    free(p);
}

/* Makes the workspace of the communicator large enough for a sum of so many leaves. */
static weft_status make_room(threads *t, int leaves)
{
    size_t bytes = weft_tree_room(leaves, 0);
    void *room;
    if (bytes <= t->room_bytes) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(bytes, &room));
    free(t->room);
    t->room = room;
    t->room_bytes = bytes;
    return WEFT_OK;
}

static weft_status threads_prepare(weft_operation *o)
{
    pending *p;
    weft_status status = WEFT_OK;
    int leaves = o->t.leaves ? o->t.leaves : o->comm->size;
    WEFT_TRY(WEFT_NEW(&p, 1));
    if (weft_is_sum(o->t.kind)) status = WEFT_NEW(&p->source, o->comm->size);
    if (weft_is_sum(o->t.kind) && status == WEFT_OK) status = make_room((threads *)o->comm, leaves);
    o->state = p;
    if (status != WEFT_OK) forget(o);
    return status;
}

bool threads_enter(const hub *h, int rank)
{
    reader *mine = &h->root->readers[h->world[rank]];
    atomic_store(&mine->reading, 1);
    if (!atomic_load(&h->root->aborted)) return true;
    atomic_store(&mine->reading, 0);
    return false;
}

void threads_leave(const hub *h, int rank)
{
    atomic_store_explicit(&h->root->readers[h->world[rank]].reading, 0, memory_order_release);
}

static void end_job(hub *root, const char *why)
{
    pthread_mutex_lock(&root->lock);
    if (!atomic_load(&root->aborted)) {
        (void)snprintf(root->why, sizeof(root->why), "%s", why);
        atomic_store(&root->aborted, 1);
    }
    pthread_mutex_unlock(&root->lock);
}

/* Waits until no rank reads the memory of other ranks. The job has been ended, so no rank begins to
 * read afterwards. */
static void wait_for_readers(const hub *root)
{
    for (int r = 0; r < root->size; r++)
        while (atomic_load(&root->readers[r].reading)) sched_yield();
}

static void give_up(weft_operation *o)
{
    char why[768];
    hub *root = hub_of(o)->root;
    (void)snprintf(why, sizeof(why), "rank %d gave up %s of %.100s: %s",
                   hub_of(o)->world[o->comm->rank], weft_transfer_name(o->t.kind), o->what,
                   weft_last_message());
    end_job(root, why);
    wait_for_readers(root);
}

static void threads_destroy(weft_operation *o)
{
    const pending *p = o->state;
    if (o->t.kind == WEFT_SEND) threads_withdraw(o);
    bool taken = o->t.kind == WEFT_SEND && o->far && p->message.operation;
    bool posted = p->stage >= POSTED || (taken && atomic_load(&p->message.taken));
    if (posted && !o->done) give_up(o);
    if (posted && !o->done && o->far) threads_part_far(o);
    forget(o);
}

static weft_status threads_advance(weft_operation *o)
{
    if (o->done) return WEFT_OK;
    return o->t.kind == WEFT_RECEIVE ? threads_advance_receive(o)
           : o->t.kind == WEFT_SEND  ? threads_advance_send(o)
                                     : threads_advance_collective(o);
}

static weft_status threads_start(weft_operation *o)
{
    pending *p = o->state;
    const hub *root = hub_of(o)->root;
    p->stage = 0;
    if (o->t.kind == WEFT_RECEIVE) p->message = (message){.operation = o};
    if (atomic_load(&root->aborted)) return weft_operation_ended(o, "before", root->why);
    if (o->t.kind == WEFT_SEND) threads_mail(o);
    return threads_advance(o);
}

static bool has_arrived(const weft_operation *o, int rank)
{
    int64_t at = atomic_load_explicit(&cell_of(o, rank)->progress, memory_order_acquire);
    return at >= STAGES * o->sequence + POSTED;
}

static void threads_describe(weft_operation *o, weft_text *text)
{
    weft_describe_ranks(o, hub_of(o)->world, has_arrived, text);
}

static void threads_abort(weft_comm *comm)
{
    end_job(((threads *)comm)->hub->root, weft_last_message());
}

static const char *threads_aborted(weft_comm *comm)
{
    hub *root = ((threads *)comm)->hub->root;
    return atomic_load(&root->aborted) ? root->why : NULL;
}

static void threads_close(weft_comm *comm)
{
    hub_release(((threads *)comm)->hub);
    free(((threads *)comm)->room);
    free(comm);
}

static const weft_comm_ops ops;

static weft_status threads_make(weft_context *context, weft_progress *member, hub *h, int rank,
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

static weft_status gather(weft_comm *comm, weft_dtype dtype, int64_t each, const void *mine,
                          void *all)
{
    return weft_comm_run(comm, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = dtype,
                                             .what = "the split of a communicator", .send = mine,
                                             .receive = all, .count = each));
}

/* Creates the hub of this rank's color; only the first rank of the color calls it. */
static weft_status make_hub(const weft_comm *comm, const int32_t *splits, int size, hub **out)
{
    const hub *parent = ((const threads *)comm)->hub;
    WEFT_TRY(hub_new(size, parent->root, out));
    for (int r = 0; r < comm->size; r++) {
        int other_size, other_first;
        if (splits[(size_t)2 * r] != splits[(size_t)2 * comm->rank]) continue;
        (*out)->world[weft_split_place(splits, comm->size, r, &other_size, &other_first)] =
            parent->world[r];
    }
    return WEFT_OK;
}

/* Takes a reference to the hub that the first rank of the color has created. That rank keeps its
 * own reference until all ranks of the color have one, or until the job has ended and no rank reads
 * the hub any more. */
static weft_status take_hub(weft_comm *comm, hub *made)
{
    const hub *parent = ((threads *)comm)->hub;
    if (!threads_enter(parent, comm->rank))
        return weft_fail(WEFT_ERR_PEER, WEFT_ENDED " in the split of a communicator: %s",
                         parent->root->why);
    if (made) atomic_fetch_add(&made->references, 1);
    threads_leave(parent, comm->rank);
    return WEFT_OK;
}

static weft_status threads_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    hub *parent = ((threads *)comm)->hub, *made = NULL, **hubs = NULL, *mine = NULL;
    int32_t own_split[2] = {color, key}, *splits;
    int size = 0, first = 0, n = comm->size, rank = 0;
    WEFT_TRY(WEFT_NEW(&splits, (size_t)2 * n));
    weft_status status = WEFT_NEW(&hubs, n);
    if (status == WEFT_OK) status = gather(comm, WEFT_I32, 2, own_split, splits);
    if (status == WEFT_OK) rank = weft_split_place(splits, n, comm->rank, &size, &first);
    if (status == WEFT_OK && color >= 0 && first == comm->rank)
        status = make_hub(comm, splits, size, &made);
    if (status == WEFT_OK)
        status = gather(comm, WEFT_U8, (int64_t)sizeof(made), (const void *)&made, (void *)hubs);
    if (status == WEFT_OK) status = take_hub(comm, color >= 0 ? hubs[first] : NULL);
    if (status == WEFT_OK && color >= 0) mine = hubs[first];
    if (status == WEFT_OK) status = weft_comm_barrier(comm);
    if (status == WEFT_OK && color >= 0)
        status = threads_make(comm->context, comm->member, mine, rank, out);
    if (status != WEFT_OK) {
        end_job(parent->root, weft_last_message());
        wait_for_readers(parent->root);
        hub_release(mine);
    }
    hub_release(made);
    free((void *)hubs);
    free(splits);
    return status;
}

static const weft_comm_ops ops = {
    .name = "threads",
    .far = true,
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

static weft_status threads_open(const weft_engine *engine, weft_context *context, int ranks,
                                weft_comm **out, int *local)
{
    (void)engine;
    hub *h;
    int made = 0;
    if (ranks < 1) ranks = 1;
    WEFT_TRY(hub_new(ranks, NULL, &h));
    weft_status status = WEFT_OK;
    while (made < ranks && status == WEFT_OK) {
        weft_progress *member;
        status = weft_progress_new(&member);
        if (status != WEFT_OK) break;
        member->local_rank = made;
        status = threads_make(context, member, h, made, &out[made]);
        if (status != WEFT_OK) {
            weft_progress_release(member);
            break;
        }
        atomic_fetch_add(&h->references, 1);
        made++;
    }
    hub_release(h);
    if (status != WEFT_OK) {
        for (int i = 0; i < made; i++) weft_comm_close(&out[i]);
        return status;
    }
    *local = ranks;
    return WEFT_OK;
}

const weft_engine weft_engine_threads = {
    .name = "threads",
    .summary = "ranks are threads of this process; needs nothing installed",
    .open = threads_open,
    .share = threads_share,
};
