/* Messages and collectives over a transport that was added. In a collective each rank sends each
 * rank one frame: its description of the collective, which is compared, and the elements that the
 * other rank needs. With the frames of all ranks it computes its result, sums by the tree of all
 * engines. So no element crosses a line twice; but in an all-reduce of N ranks each would need all
 * elements of all. A long one is a reduce-scatter of equal slices, whose sums all ranks then send
 * each other: 2 (N - 1) / N of the elements in place of N - 1, which is the least there is. */
#include <stdio.h>

#include "base/tree_sum.h"
#include "comm/added.h"

/* How a frame begins: what its sender does; for collectives followed by the 2 N counts. */
typedef struct description {
    weft_transfer t;
    char what[64];
} description;

static int64_t number_of(const weft_operation *o)
{
    return weft_is_collective(o->t.kind) ? o->sequence : -1 - o->t.tag;
}

frame *weft_added_arrived(const weft_operation *o, int rank)
{
    return weft_lines_find(weft_added_of(o)->lines, weft_added_of(o)->world[rank],
                           weft_added_of(o)->id, number_of(o));
}

/* Whether an all-reduce is sliced. A shorter one takes a single round. */
static bool is_sliced(const weft_operation *o)
{
    enum { SHORT_BYTES = 4096 };
    return o->t.kind == WEFT_ALL_REDUCE && o->comm->size > 2 &&
           (size_t)o->t.count * weft_dtype_size(o->t.dtype) > SHORT_BYTES;
}

/* Sets *begin and *count to the elements of a sum that a rank computes. */
static void summed_by(const weft_operation *o, int rank, int64_t *begin, int64_t *count)
{
    int n = o->comm->size;
    *begin = 0;
    *count = o->t.count;
    if (o->t.kind == WEFT_REDUCE_SCATTER) {
        *begin = weft_counts_before(o->counts, rank);
        *count = o->counts[rank];
    } else if (is_sliced(o)) {
        *begin = weft_part_start(o->t.count, rank, n);
        *count = weft_part_start(o->t.count, rank + 1, n) - *begin;
    }
}

/* The bytes of the counts in a frame. */
static size_t counts_bytes(const weft_operation *o)
{
    return weft_is_collective(o->t.kind) ? 2 * (size_t)o->comm->size * sizeof(int64_t) : 0;
}

static char *data_of(const weft_operation *o, frame *f)
{
    return f->data + sizeof(description) + counts_bytes(o);
}

/* The elements that rank `to` needs of this one: `parts` arrays of *count each, the first at
 * element *begin of *from. */
static int needed_by(const weft_operation *o, int to, const void **from, int64_t *begin,
                     int64_t *count)
{
    const weft_transfer *t = &o->t;
    const pending *p = o->state;
    int me = o->comm->rank;
    *from = t->send;
    *begin = 0;
    *count = 0;
    if (p->summed) {
        *from = t->receive;
        if (to != me) summed_by(o, me, begin, count);
        return 1;
    }
    switch (t->kind) {
    case WEFT_SEND: *count = t->count; break;
    case WEFT_BROADCAST:
        *from = t->receive;
        if (me == t->peer && to != me) *count = t->count;
        break;
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE_SCATTER: summed_by(o, to, begin, count); break;
    case WEFT_ALL_GATHER: *count = o->counts[me]; break;
    case WEFT_GATHER: *count = to == t->peer ? o->counts[me] : 0; break;
    case WEFT_ALL_TO_ALL:
        *begin = weft_counts_before(o->counts, to);
        *count = o->counts[to];
        break;
    case WEFT_RECEIVE:
    case WEFT_BARRIER: break;
    }
    return weft_is_sum(t->kind) && t->parts ? t->parts : 1;
}

weft_status weft_added_send(weft_operation *o, int to)
{
    pending *p = o->state;
    const void *from;
    frame *f;
    int64_t begin, count;
    int parts = needed_by(o, to, &from, &begin, &count);
    size_t size = weft_dtype_size(o->t.dtype), bytes = (size_t)count * size;
    const frame_head head = {weft_added_of(o)->id, number_of(o),
                             sizeof(description) + counts_bytes(o) + (size_t)parts * bytes};
    WEFT_TRY(weft_frame_new(&head, &f));
    description d = {.t = o->t};
    (void)snprintf(d.what, sizeof(d.what), "%s", o->what);
    memcpy(f->data, &d, sizeof(d));
    memcpy(f->data + sizeof(d), o->counts, counts_bytes(o));
    for (int i = 0; i < parts && bytes > 0; i++)
        memcpy(data_of(o, f) + (size_t)i * bytes,
               (const char *)from + (size_t)(i * o->t.count + begin) * size, bytes);
    f->unsent = &p->unsent;
    p->unsent++;
    weft_lines_put(weft_added_of(o)->lines, weft_added_of(o)->world[to], f);
    return WEFT_OK;
}

static weft_status check_alike(const weft_operation *o, int r, const frame *f)
{
    int n = o->comm->size;
    description d;
    char mine[WEFT_TRANSFER_TEXT], other[WEFT_TRANSFER_TEXT];
    const int64_t *counts = (const int64_t *)(const void *)(f->data + sizeof(d));
    memcpy(&d, f->data, sizeof(d));
    if (weft_transfer_alike(o, r, &d.t, counts)) return WEFT_OK;
    weft_transfer_describe(&o->t, o->what, o->counts, n, mine);
    weft_transfer_describe(&d.t, d.what, counts, n, other);
    return weft_fail(WEFT_ERR_PEER,
                     "collective %lld does not match: rank %d is in %s, rank %d in %s",
                     (long long)o->sequence, o->comm->rank, mine, r, other);
}

static void sum(weft_operation *o)
{
    pending *p = o->state;
    int n = o->comm->size;
    int64_t begin, count;
    summed_by(o, o->comm->rank, &begin, &count);
    if (o->t.kind == WEFT_REDUCE_SCATTER) begin = 0; /* of what it receives */
    for (int r = 0; r < n; r++) p->source[r] = data_of(o, weft_added_arrived(o, r));
    weft_tree tree = {.dtype = o->t.dtype,
                      .ranks = n,
                      .leaves = o->t.leaves ? o->t.leaves : n,
                      .source = p->source,
                      .stride = count,
                      .room = p->room};
    char *out = (char *)o->t.receive + (size_t)begin * weft_dtype_size(o->t.dtype);
    if (count > 0) weft_tree_sum(&tree, 0, count, out);
}

/* Copies what rank r has sent to its place in the result. */
static void take(weft_operation *o, int r)
{
    int n = o->comm->size, me = o->comm->rank;
    const weft_transfer *t = &o->t;
    int64_t to = 0, count = 0;
    if (((const pending *)o->state)->summed && r != me) summed_by(o, r, &to, &count);
    if (t->kind == WEFT_BROADCAST && r == t->peer && r != me) count = t->count;
    if (t->kind == WEFT_ALL_GATHER || (t->kind == WEFT_GATHER && me == t->peer)) {
        to = weft_counts_before(o->counts, r);
        count = o->counts[r];
    }
    if (t->kind == WEFT_ALL_TO_ALL) {
        to = weft_counts_before(o->counts + n, r);
        count = o->counts[n + r];
    }
    size_t size = weft_dtype_size(t->dtype);
    if (count > 0)
        memcpy((char *)t->receive + (size_t)to * size, data_of(o, weft_added_arrived(o, r)),
               (size_t)count * size);
}

weft_status weft_added_receive_all(weft_operation *o)
{
    pending *p = o->state;
    int n = o->comm->size;
    for (int r = 0; r < n; r++)
        if (!weft_added_arrived(o, r)) return WEFT_OK;
    for (int r = 0; r < n; r++) WEFT_TRY(check_alike(o, r, weft_added_arrived(o, r)));
    if (weft_is_sum(o->t.kind) && !p->summed) sum(o);
    for (int r = 0; r < n; r++) {
        take(o, r);
        weft_lines_drop(weft_added_of(o)->lines, weft_added_of(o)->world[r],
                        weft_added_arrived(o, r));
    }
    p->received = p->summed || !is_sliced(o);
    if (p->received) return WEFT_OK;
    p->summed = true;
    for (int r = 0; r < n; r++) WEFT_TRY(weft_added_send(o, r));
    return WEFT_OK;
}

weft_status weft_added_receive_one(weft_operation *o)
{
    pending *p = o->state;
    frame *f = weft_added_arrived(o, o->t.peer);
    description d;
    weft_status status = WEFT_OK;
    if (!f) return WEFT_OK;
    memcpy(&d, f->data, sizeof(d));
    if (d.t.count != o->t.count || d.t.dtype != o->t.dtype)
        status =
            weft_fail(WEFT_ERR_PEER, "rank %d sent %lld %s as %s, rank %d expects %lld %s of %s",
                      o->t.peer, (long long)d.t.count, weft_dtype_name(d.t.dtype), d.what,
                      o->comm->rank, (long long)o->t.count, weft_dtype_name(o->t.dtype), o->what);
    else if (o->t.count > 0)
        memcpy(o->t.receive, data_of(o, f), (size_t)o->t.count * weft_dtype_size(o->t.dtype));
    weft_lines_drop(weft_added_of(o)->lines, weft_added_of(o)->world[o->t.peer], f);
    p->received = true;
    return status;
}
