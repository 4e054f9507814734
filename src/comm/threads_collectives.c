/* Exchanges data between ranks that are threads in collectives, which use the cells of a hub. Data
 * in memory of a device are added and copied by the device of the rank that receives them: where a
 * rank would read memory here, it queues the work, and its next stage says that it is queued. */
#include <stdio.h>

#include "base/tree_sum.h"
#include "comm/threads.h"

bool threads_all_reached(const weft_operation *o, int64_t sequence, int stage)
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
    return o->t.kind == WEFT_ALL_REDUCE && o->t.leaves == 0 && o->t.count <= SMALL / 8 && !o->far;
}

static void post(weft_operation *o)
{
    cell *c = cell_of(o, o->comm->rank);
    c->t = o->t;
    c->counts = o->counts;
    c->far = o->far;
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
        if (weft_transfer_alike(o, r, &c->t, c->counts) && !c->far == !o->far) continue;
        weft_transfer_describe(&o->t, o->what, o->counts, n, mine);
        weft_transfer_describe(&c->t, c->what, c->counts, n, other);
        return weft_fail(WEFT_ERR_PEER,
                         "collective %lld does not match: rank %d is in %s, rank %d in %s",
                         (long long)o->sequence, o->comm->rank, mine, r, other);
    }
    return WEFT_OK;
}

/* Copies elements of what rank r sends, or (received) of what it receives. */
static weft_status copy_elements(const weft_operation *o, int r, bool received, int64_t from_at,
                                 int64_t to_at, int64_t count)
{
    const cell *c = cell_of(o, r);
    size_t size = size_of(o), from = (size_t)from_at * size, at = (size_t)to_at * size;
    if (count <= 0) return WEFT_OK;
    if (o->far) return o->far->ops->copy(o->far, c->far, received, from, at, (size_t)count * size);
    char *to = (char *)o->t.receive + at;
    const char *source = (const char *)(received ? c->t.receive : c->t.send) + from;
    if (to != source) memcpy(to, source, (size_t)count * size);
    return WEFT_OK;
}

static weft_status sum_part(const weft_operation *o, int64_t begin, int64_t end, int64_t to)
{
    const pending *p = o->state;
    int n = o->comm->size;
    for (int r = 0; r < n; r++) {
        const cell *c = cell_of(o, r);
        p->source[r] = o->far ? (const void *)c->far : small(o) ? c->small : c->t.send;
    }
    if (o->far) return o->far->ops->sum(o->far, (const weft_far *const *)p->source, begin, end, to);
    weft_tree tree = {.dtype = o->t.dtype,
                      .ranks = n,
                      .leaves = o->t.leaves ? o->t.leaves : n,
                      .source = p->source,
                      .stride = o->t.count,
                      .room = ((const threads *)o->comm)->room};
    weft_tree_sum(&tree, begin, end, (char *)o->t.receive + (size_t)to * size_of(o));
    return WEFT_OK;
}

static weft_status gather(const weft_operation *o)
{
    int n = o->comm->size;
    for (int i = 0; i < n; i++) {
        int r = (o->comm->rank + i) % n; /* ranks read different peers at a time */
        WEFT_TRY(copy_elements(o, r, false, 0, weft_counts_before(o->counts, r), o->counts[r]));
    }
    return WEFT_OK;
}

static weft_status all_to_all(const weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank;
    for (int i = 0; i < n; i++) {
        int r = (me + i) % n;
        WEFT_TRY(copy_elements(o, r, false, weft_counts_before(cell_of(o, r)->counts, me),
                               weft_counts_before(o->counts + n, r), o->counts[n + r]));
    }
    return WEFT_OK;
}

/* Later work of this rank's device waits for a mark of all ranks. */
static weft_status follow_all(const weft_operation *o, weft_far_mark mark)
{
    for (int r = 0; o->far && r < o->comm->size; r++)
        WEFT_TRY(o->far->ops->follow(o->far, cell_of(o, r)->far, mark));
    return WEFT_OK;
}

static weft_status mark(const weft_operation *o, weft_far_mark mark)
{
    return o->far ? o->far->ops->mark(o->far, mark) : WEFT_OK;
}

/* Does this rank's part of a collective after all ranks have posted: sums or copies from their
 * memory. */
static weft_status compute_part(const weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank;
    int64_t begin = weft_part_start(o->t.count, me, n),
            end = weft_part_start(o->t.count, me + 1, n);
    switch (o->t.kind) {
    case WEFT_ALL_REDUCE:
        return small(o) ? sum_part(o, 0, o->t.count, 0) : sum_part(o, begin, end, begin);
    case WEFT_REDUCE_SCATTER:
        begin = weft_counts_before(o->counts, me);
        return sum_part(o, begin, begin + o->counts[me], 0);
    case WEFT_ALL_GATHER: return gather(o);
    case WEFT_GATHER: return me == o->t.peer ? gather(o) : WEFT_OK;
    case WEFT_ALL_TO_ALL: return all_to_all(o);
    case WEFT_BROADCAST:
        return me == o->t.peer ? WEFT_OK : copy_elements(o, o->t.peer, true, 0, 0, o->t.count);
    default: return WEFT_OK;
    }
}

/* The all-gather that ends an all-reduce: copies the summed parts of the other ranks. */
static weft_status collect_parts(const weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank;
    for (int i = 1; i < n; i++) {
        int r = (me + i) % n;
        int64_t begin = weft_part_start(o->t.count, r, n);
        WEFT_TRY(
            copy_elements(o, r, true, begin, begin, weft_part_start(o->t.count, r + 1, n) - begin));
    }
    return WEFT_OK;
}

/* Whether other ranks may still read the memory of this rank, its counts included, when this rank
 * has done its part. */
static bool is_read(const weft_operation *o)
{
    if (o->t.kind == WEFT_BARRIER || small(o)) return false;
    return o->t.kind != WEFT_BROADCAST || o->comm->rank == o->t.peer;
}

/* Does the work of a stage, which all ranks have reached. *next: the stage that this rank has
 * reached then. */
static weft_status do_stage(const weft_operation *o, int stage, int *next)
{
    bool two = o->t.kind == WEFT_ALL_REDUCE && !small(o);
    int left = o->far ? LEFT : GONE; /* marks in host memory are read by nobody */
    switch (stage) {
    case POSTED:
        WEFT_TRY(check_alike(o));
        WEFT_TRY(follow_all(o, WEFT_FAR_READY));
        WEFT_TRY(compute_part(o));
        *next = two ? WORKED : left;
        return mark(o, two ? WEFT_FAR_SUMMED : WEFT_FAR_READ);
    case WORKED:
        WEFT_TRY(follow_all(o, WEFT_FAR_SUMMED));
        WEFT_TRY(collect_parts(o));
        *next = left;
        return mark(o, WEFT_FAR_READ);
    default:
        WEFT_TRY(follow_all(o, WEFT_FAR_READ));
        *next = GONE;
        return mark(o, WEFT_FAR_DONE);
    }
}

weft_status threads_advance_collective(weft_operation *o)
{
    const pending *p = o->state;
    const hub *h = hub_of(o);
    if (p->stage == 0) {
        if (!threads_all_reached(o, o->sequence - RING, GONE)) return WEFT_OK;
        post(o);
    }
    while (p->stage < GONE) {
        int next = GONE;
        if (!threads_all_reached(o, o->sequence, p->stage)) return WEFT_OK;
        if (!threads_enter(h, o->comm->rank)) return WEFT_OK;
        weft_status status = do_stage(o, p->stage, &next);
        if (status == WEFT_OK) reach(o, next);
        threads_leave(h, o->comm->rank);
        WEFT_TRY(status);
    }
    o->done = !(o->far || is_read(o)) || threads_all_reached(o, o->sequence, GONE);
    return WEFT_OK;
}
