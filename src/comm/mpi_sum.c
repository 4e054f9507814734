/* Sums over MPI processes, of messages: MPI promises no order of additions, and its non-blocking
 * sums are slower than these. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include "comm/mpi.h"

enum { SMALL = 1024, CHUNK = 1 << 18, MOST_CHUNKS = 64 }; /* bytes; bytes; per slice */
enum { PARTS_IN, PARTS_OUT, RESULTS_IN, RESULTS_OUT, KINDS };

static int leaves_of(const weft_operation *o)
{
    return o->t.leaves ? o->t.leaves : o->comm->size;
}

/* Subtrees of virtual workers that a rank brings, one behind the other. */
static int subtrees(const weft_operation *o, int rank)
{
    int v = leaves_of(o), n = o->comm->size;
    return weft_tree_parts(v, (int)weft_part_start(v, rank, n),
                           (int)weft_part_start(v, rank + 1, n));
}

static int64_t whole(const weft_operation *o)
{
    return o->t.kind == WEFT_REDUCE_SCATTER ? weft_counts_before(o->counts, o->comm->size)
                                            : o->t.count;
}

static int64_t slice_start(const weft_operation *o, int r)
{
    const mpi_pending *p = o->state;
    if (o->t.kind == WEFT_REDUCE_SCATTER) return weft_counts_before(o->counts, r);
    if (p->sum.small) return 0;
    return weft_part_start(o->t.count, r, o->comm->size);
}

static int64_t slice_size(const weft_operation *o, int r)
{
    const mpi_pending *p = o->state;
    if (o->t.kind == WEFT_REDUCE_SCATTER) return o->counts[r];
    return p->sum.small ? o->t.count : slice_start(o, r + 1) - slice_start(o, r);
}

static MPI_Request *request(const weft_operation *o, int kind, int chunk, int rank)
{
    const mpi_pending *p = o->state;
    size_t n = (size_t)o->comm->size;
    return &p->sum.requests[((size_t)kind * (size_t)p->sum.chunks + (size_t)chunk) * n +
                            (size_t)rank];
}

/* Part c of a slice. */
static int64_t chunk_start(const weft_operation *o, int r, int c)
{
    const mpi_pending *p = o->state;
    return weft_part_start(slice_size(o, r), c, p->sum.chunks);
}

static int64_t chunk_size(const weft_operation *o, int r, int c)
{
    return chunk_start(o, r, c + 1) - chunk_start(o, r, c);
}

/* Where the subtrees of rank q for a chunk of this rank's slice are received. */
static char *received(const weft_operation *o, int q, int c)
{
    const mpi_pending *p = o->state;
    int64_t at = 0, mine = slice_size(o, o->comm->rank);
    for (int r = 0; r < q; r++) at += subtrees(o, r) * mine;
    at += subtrees(o, q) * chunk_start(o, o->comm->rank, c);
    return p->sum.parts + (size_t)at * weft_dtype_size(o->t.dtype);
}

/* This rank's subtrees for a chunk of rank r's slice: as they lie, or packed behind each other. */
static const char *sent(const weft_operation *o, int r, int c)
{
    const mpi_pending *p = o->state;
    size_t size = weft_dtype_size(o->t.dtype);
    int n = subtrees(o, o->comm->rank);
    int64_t at = slice_start(o, r) + chunk_start(o, r, c), count = chunk_size(o, r, c);
    const char *from = (const char *)o->t.send + (size_t)at * size;
    if (n == 1) return from;
    char *to = p->sum.packed + (size_t)(n * at) * size;
    for (int k = 0; k < n; k++)
        memcpy(to + (size_t)(k * count) * size, from + (size_t)(k * whole(o)) * size,
               (size_t)count * size);
    return to;
}

/* Where the result of a chunk of rank r's slice belongs. */
static char *result(const weft_operation *o, int r, int c)
{
    int64_t at = chunk_start(o, r, c);
    if (o->t.kind == WEFT_ALL_REDUCE) at += slice_start(o, r);
    return (char *)o->t.receive + (size_t)at * weft_dtype_size(o->t.dtype);
}

weft_status mpi_sum_prepare(weft_operation *o)
{
    mpi_pending *p = o->state;
    mpi_sum *s = &p->sum;
    size_t n = (size_t)o->comm->size, size = weft_dtype_size(o->t.dtype);
    int64_t slice = 0, all = 0;
    s->small = o->t.kind == WEFT_ALL_REDUCE && o->t.count * (int64_t)size <= SMALL;
    for (int r = 0; r < o->comm->size; r++) {
        slice = WEFT_MAX(slice, slice_size(o, r));
        all += subtrees(o, r);
    }
    s->chunks = (int)WEFT_MIN(slice * (int64_t)size / CHUNK + 1, (int64_t)MOST_CHUNKS);
    WEFT_TRY(WEFT_NEW(&s->requests, KINDS * (size_t)s->chunks * n));
    for (size_t i = 0; i < KINDS * (size_t)s->chunks * n; i++) s->requests[i] = MPI_REQUEST_NULL;
    int own = subtrees(o, o->comm->rank);
    if (own > 1) WEFT_TRY(weft_new_aligned((size_t)(own * whole(o)) * size, &s->packed));
    return weft_new_aligned((size_t)(all * slice_size(o, o->comm->rank)) * size, &s->parts);
}

void mpi_sum_destroy(weft_operation *o)
{
    mpi_pending *p = o->state;
    free(p->sum.parts);
    free(p->sum.packed);
    free(p->sum.requests);
}

/* Messages of one operation between two ranks are matched in order, those of several by tag. */
static int tag_of(const weft_operation *o, bool results)
{
    return 2 * (int)(o->sequence % 8000) + results;
}

/* A result may arrive in memory from which its part was sent: whoever sends a result has had the
 * part. */
weft_status mpi_sum_start(weft_operation *o)
{
    mpi_pending *p = o->state;
    mpi_sum *s = &p->sum;
    MPI_Comm comm = ((mpi_comm *)o->comm)->sums;
    MPI_Datatype type = mpi_type(o->t.dtype);
    int n = o->comm->size, me = o->comm->rank;
    s->added = 0;
    for (int c = 0; c < s->chunks; c++)
        for (int i = 1; i < n; i++) {
            int q = (me + i) % n;
            int64_t in = chunk_size(o, me, c), out = chunk_size(o, q, c);
            MPI_TRY(MPI_Irecv(received(o, q, c), (int)(subtrees(o, q) * in), type, q,
                              tag_of(o, false), comm, request(o, PARTS_IN, c, q)));
            MPI_TRY(MPI_Isend(sent(o, q, c), (int)(subtrees(o, me) * out), type, q,
                              tag_of(o, false), comm, request(o, PARTS_OUT, c, q)));
            if (o->t.kind == WEFT_ALL_REDUCE && !s->small)
                MPI_TRY(MPI_Irecv(result(o, q, c), (int)out, type, q, tag_of(o, true), comm,
                                  request(o, RESULTS_IN, c, q)));
        }
    return WEFT_OK;
}

static weft_status add_chunk(weft_operation *o, int c)
{
    const void *source[WEFT_MAX_RANKS];
    mpi_pending *p = o->state;
    int n = o->comm->size, me = o->comm->rank;
    int64_t count = chunk_size(o, me, c);
    for (int r = 0; r < n; r++) source[r] = r == me ? sent(o, me, c) : received(o, r, c);
    weft_tree tree = {o->t.dtype, n, leaves_of(o), source, count};
    weft_tree_sum(&tree, 0, count, result(o, me, c));
    if (o->t.kind != WEFT_ALL_REDUCE || p->sum.small) return WEFT_OK;
    for (int i = 1; i < n; i++) {
        int q = (me + i) % n;
        MPI_TRY(MPI_Isend(result(o, me, c), (int)count, mpi_type(o->t.dtype), q, tag_of(o, true),
                          ((mpi_comm *)o->comm)->sums, request(o, RESULTS_OUT, c, q)));
    }
    return WEFT_OK;
}

weft_status mpi_sum_advance(weft_operation *o)
{
    mpi_pending *p = o->state;
    mpi_sum *s = &p->sum;
    int there = 1, n = o->comm->size;
    for (; s->added < s->chunks && there; s->added += there != 0) {
        MPI_TRY(MPI_Testall(n, request(o, PARTS_IN, s->added, 0), &there, MPI_STATUSES_IGNORE));
        if (there) WEFT_TRY(add_chunk(o, s->added));
    }
    if (s->added < s->chunks) return WEFT_OK;
    MPI_TRY(MPI_Testall(KINDS * s->chunks * n, s->requests, &there, MPI_STATUSES_IGNORE));
    o->done = there != 0;
    return WEFT_OK;
}

#else
typedef int weft_no_mpi_sums; /* a file must not be empty */
#endif
