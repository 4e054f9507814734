/* Ranks as MPI processes (MPI-3.1). Operations are MPI's own non-blocking ones, except sums
 * (mpi_sum.c).
 *
 * Nothing here blocks inside of MPI, so that a rank that waits can notice that another one gave up
 * (a notice on a communicator of its own) or that it has waited too long. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include <stdio.h>

#include "comm/mpi.h"

mpi_world mpi_process;

weft_status mpi_failed(const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int size = 0;
    MPI_Error_string(code, text, &size);
    return weft_fail(WEFT_ERR_PEER, "%s: %s", call, text);
}

/* At the end of the process; a job that was given up is ended by its launcher instead. */
static void finalize(void)
{
    int done = 0;
    MPI_Finalized(&done);
    if (!done && !mpi_process.given_up) MPI_Finalize();
}

static weft_status start_process(void)
{
    int running = 0, level;
    MPI_Comm node;
    if (mpi_process.started) return WEFT_OK;
    MPI_Initialized(&running);
    if (!running) {
        MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
        atexit(finalize);
    }
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &mpi_process.control));
    MPI_TRY(MPI_Comm_set_errhandler(mpi_process.control, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &mpi_process.rank));
    MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &mpi_process.size));
    MPI_TRY(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MPI_TRY(MPI_Comm_size(node, &mpi_process.local));
    MPI_TRY(MPI_Comm_rank(node, &mpi_process.local_rank));
    MPI_TRY(MPI_Comm_free(&node));
    mpi_process.started = true;
    return WEFT_OK;
}

MPI_Datatype mpi_type(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F32: return MPI_FLOAT;
    case WEFT_F64: return MPI_DOUBLE;
    case WEFT_I32: return MPI_INT32_T;
    default: return MPI_BYTE;
    }
}

static weft_status fill_counts(const weft_operation *o, mpi_pending *p)
{
    int n = o->comm->size;
    int64_t sent = 0, received = 0;
    for (int r = 0; r < n; r++) {
        int64_t count = o->counts[r];
        int64_t from = o->t.kind == WEFT_ALL_TO_ALL ? o->counts[n + r] : o->counts[r];
        if (sent + count > INT32_MAX || received + from > INT32_MAX)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "%s of %s: MPI-3.1 counts end at 2147483647 elements",
                             weft_transfer_name(o->t.kind), o->what);
        p->counts[r] = (int)count;
        p->offsets[r] = (int)sent;
        p->receive_counts[r] = (int)from;
        p->receive_offsets[r] = (int)received;
        sent += count;
        received += from;
    }
    return WEFT_OK;
}

static void mpi_destroy(weft_operation *o)
{
    mpi_pending *p = o->state;
    if (p->summed) mpi_sum_destroy(o);
    free(p->counts);
    free(p);
}

static weft_status mpi_prepare(weft_operation *o)
{
    mpi_pending *p;
    int n = o->comm->size;
    if (o->t.count > INT32_MAX)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s of %s: MPI-3.1 counts end at 2147483647 elements",
                         weft_transfer_name(o->t.kind), o->what);
    WEFT_TRY(WEFT_NEW(&p, 1));
    o->state = p;
    p->request = MPI_REQUEST_NULL;
    p->summed = o->t.kind == WEFT_ALL_REDUCE || o->t.kind == WEFT_REDUCE_SCATTER;
    weft_status status = WEFT_NEW(&p->counts, (size_t)4 * n);
    if (status == WEFT_OK) {
        p->offsets = p->counts + n;
        p->receive_counts = p->offsets + n;
        p->receive_offsets = p->receive_counts + n;
        status = fill_counts(o, p);
    }
    if (status == WEFT_OK && p->summed) status = mpi_sum_prepare(o);
    if (status != WEFT_OK) mpi_destroy(o);
    return status;
}

/* Whether what this rank gives to an all-gather is its part of the result already. */
static bool lies_there(const weft_operation *o, const mpi_pending *p)
{
    size_t size = weft_dtype_size(o->t.dtype);
    return o->t.send == (const char *)o->t.receive + (size_t)p->offsets[o->comm->rank] * size;
}

static weft_status mpi_start(weft_operation *o)
{
    mpi_pending *p = o->state;
    const weft_transfer *t = &o->t;
    MPI_Comm comm = ((mpi_comm *)o->comm)->comm;
    MPI_Datatype type = mpi_type(t->dtype);
    int count = (int)t->count;
    if (o->comm->member->check && weft_is_collective(t->kind)) WEFT_TRY(mpi_check_alike(o));
    switch (t->kind) {
    case WEFT_SEND:
        MPI_TRY(MPI_Isend(t->send, count, type, t->peer, t->tag, comm, &p->request));
        break;
    case WEFT_RECEIVE:
        MPI_TRY(MPI_Irecv(t->receive, count, type, t->peer, t->tag, comm, &p->request));
        break;
    case WEFT_BROADCAST:
        MPI_TRY(MPI_Ibcast(t->receive, count, type, t->peer, comm, &p->request));
        break;
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE_SCATTER: return mpi_sum_start(o);
    case WEFT_ALL_GATHER:
        MPI_TRY(MPI_Iallgatherv(lies_there(o, p) ? MPI_IN_PLACE : t->send, p->counts[o->comm->rank],
                                type, t->receive, p->counts, p->offsets, type, comm, &p->request));
        break;
    case WEFT_ALL_TO_ALL:
        MPI_TRY(MPI_Ialltoallv(t->send, p->counts, p->offsets, type, t->receive, p->receive_counts,
                               p->receive_offsets, type, comm, &p->request));
        break;
    case WEFT_BARRIER: MPI_TRY(MPI_Ibarrier(comm, &p->request)); break;
    }
    return WEFT_OK;
}

static weft_status mpi_advance(weft_operation *o)
{
    mpi_pending *p = o->state;
    int done = 0;
    MPI_Status status;
    if (p->summed) return mpi_sum_advance(o);
    MPI_TRY(MPI_Test(&p->request, &done, &status));
    if (!done) return WEFT_OK;
    if (o->t.kind == WEFT_RECEIVE) {
        int count = 0;
        MPI_TRY(MPI_Get_count(&status, mpi_type(o->t.dtype), &count));
        if (count != o->t.count)
            return weft_fail(WEFT_ERR_PEER, "rank %d sent %d %s, rank %d expects %lld of %s",
                             o->t.peer, count, weft_dtype_name(o->t.dtype), o->comm->rank,
                             (long long)o->t.count, o->what);
    }
    o->done = true;
    return WEFT_OK;
}

static void mpi_close(weft_comm *comm)
{
    mpi_comm *m = (mpi_comm *)comm;
    if (!mpi_process.given_up) {
        MPI_Comm_free(&m->sums);
        MPI_Comm_free(&m->comm);
    }
    free(m);
}

static weft_status make(weft_context *context, weft_member *member, MPI_Comm comm, int id,
                        weft_comm **out);

static weft_status mpi_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    MPI_Comm part;
    MPI_TRY(
        MPI_Comm_split(((mpi_comm *)comm)->comm, color < 0 ? MPI_UNDEFINED : color, key, &part));
    if (part == MPI_COMM_NULL) return WEFT_OK;
    int id = (int)(weft_mix((uint64_t)((mpi_comm *)comm)->id, (uint64_t)color) & 0x3fffffff);
    return make(comm->context, comm->member, part, id, out);
}

static const weft_comm_ops ops = {
    .name = "mpi",
    .close = mpi_close,
    .split = mpi_split,
    .prepare = mpi_prepare,
    .destroy = mpi_destroy,
    .start = mpi_start,
    .advance = mpi_advance,
    .describe = mpi_describe,
    .abort = mpi_abort,
    .aborted = mpi_aborted,
};

static weft_status make(weft_context *context, weft_member *member, MPI_Comm comm, int id,
                        weft_comm **out)
{
    mpi_comm *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->head = (weft_comm){
        .ops = &ops, .context = context, .member = member, .local_size = mpi_process.local};
    m->comm = comm;
    m->id = id;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_dup(comm, &m->sums);
    MPI_Comm_rank(comm, &m->head.rank);
    MPI_Comm_size(comm, &m->head.size);
    *out = &m->head;
    return WEFT_OK;
}

static weft_status mpi_open(weft_context *context, int ranks, weft_comm **out, int *local)
{
    weft_member *member;
    MPI_Comm comm;
    WEFT_TRY(start_process());
    if (ranks > 0 && ranks != mpi_process.size)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%d ranks are asked for, but mpirun started %d processes", ranks,
                         mpi_process.size);
    if (mpi_process.size > WEFT_MAX_RANKS)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "%d processes, at most %d are possible",
                         mpi_process.size, WEFT_MAX_RANKS);
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    WEFT_TRY(weft_member_new(&member));
    member->local_rank = mpi_process.local_rank;
    weft_status status = make(context, member, comm, 1, out);
    if (status != WEFT_OK) weft_member_release(member);
    *local = 1;
    return status;
}

#else

static weft_status mpi_open(weft_context *context, int ranks, weft_comm **out, int *local)
{
    (void)context;
    (void)ranks;
    (void)out;
    (void)local;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "this weft was built without MPI; install it (apt-get install libopenmpi-dev "
                     "openmpi-bin) and build again, or use --engine threads");
}

#endif

const weft_engine weft_engine_mpi = {
    "mpi", "ranks are the processes that mpirun or srun starts, on one machine or many", mpi_open};
