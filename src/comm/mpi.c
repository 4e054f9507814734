/* Implements the engine mpi: ranks are MPI processes (MPI-3.1). Every operation is made of messages
 * between two ranks (mpi_rounds.c).
 *
 * No operation blocks inside of MPI, so a waiting rank notices that another rank has aborted (by a
 * notice on the communicator `control`) or that it has waited too long. Only the creation of a
 * communicator blocks in MPI, and that comes after a barrier of all its ranks. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include <stdio.h>

#include "comm/mpi.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

mpi_world mpi_process = {.piece = 1 << 30};

void weft_mpi_set_piece(int64_t bytes)
{
    mpi_process.piece = bytes;
}

weft_status mpi_failed(const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int size = 0;
    MPI_Error_string(code, text, &size);
    return weft_fail(WEFT_ERR_PEER, "%s: %s", call, text);
}

/* Runs at the exit of the process. After an abort MPI is not finalized: the launcher ends the
 * job. */
static void finalize(void)
{
    int done = 0;
    MPI_Finalized(&done);
    if (!done && !mpi_process.aborting) MPI_Finalize();
}

/* Over TCP, Open MPI sends more than 64 KiB after a rendezvous: its two messages cross the line
 * before the first byte, and behind the data of the other direction, so a slow line is idle
 * meanwhile. Receives of collectives wait when their data come, so that these need no copy; larger
 * messages begin in the same way. A limit in the environment
 * stays; it comes before those of files of parameters. */
static void send_at_once(void)
{
    static const char limit[] = "1048576"; /* bytes: above the chunks of sums */
    (void)setenv("OMPI_MCA_btl_tcp_eager_limit", limit, 0);
    (void)setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", limit, 0);
}

static weft_status start_process(void)
{
    int running = 0, level;
    MPI_Comm node;
    if (mpi_process.started) return WEFT_OK;
    MPI_Initialized(&running);
    if (!running) {
        send_at_once();
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
    WEFT_TRY(WEFT_NEW(&mpi_process.notice_requests, mpi_process.size));
    mpi_process.started = true;
    return WEFT_OK;
}

static void forget(weft_operation *o)
{
    mpi_pending *p = o->state;
    if (p->kept[0] != o->t.receive) free(p->kept[0]);
    free(p->kept[1]);
    free(p->room);
    free(p->brought);
    free(p->made);
    free(p->merge_work);
    free(p->rounds);
    free(p->messages);
    free(p->merges);
    free(p->sources);
    free(p->ranges);
    free(p);
}

/* Destroying an operation that has not ended aborts the job. Receives are cancelled, and active
 * messages have 0.2 s to end. After that this process calls MPI no more, so MPI writes nothing to
 * the freed memory. */
static void mpi_destroy(weft_operation *o)
{
    mpi_pending *p = o->state;
    if (p->begun && !o->done) {
        for (double end = weft_seconds() + 0.2;
             !mpi_process.aborting && !mpi_stop_rounds(o) && weft_seconds() < end;) {
        }
        mpi_abort(o->comm);
    }
    forget(o);
}

static weft_status mpi_prepare(weft_operation *o)
{
    mpi_pending *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    o->state = p;
    weft_status status = weft_is_sum(o->t.kind) ? mpi_plan_sum(o) : mpi_plan_move(o);
    if (status == WEFT_OK) status = mpi_end_rounds(o);
    if (status != WEFT_OK) forget(o);
    return status;
}

weft_status mpi_new(mpi_pending *p, size_t bytes, void *out)
{
    p->bytes += bytes;
    return weft_new_aligned(bytes, out);
}

/* Plans the operation, which needs no MPI. */
static size_t mpi_operation_room(weft_operation *o)
{
    if (mpi_prepare(o) != WEFT_OK) return 0;
    size_t bytes = ((const mpi_pending *)o->state)->bytes;
    forget(o);
    return bytes;
}

/* The tool interface makes MPI load its parts, as MPI_Init does, and needs no launcher. */
static size_t mpi_process_bytes(void)
{
    int started = 0, level;
    size_t before = weft_resident_memory(), after;
    MPI_Initialized(&started);
    if (started || MPI_T_init_thread(MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) return 0;
    after = weft_resident_memory();
    MPI_T_finalize();
    return after > before ? after - before : 0;
}

static weft_status mpi_start(weft_operation *o)
{
    mpi_pending *p = o->state;
    p->begun = false;
    if (mpi_process.aborting) return weft_operation_ended(o, "before", mpi_process.why);
    if (o->comm->member->check && weft_is_collective(o->t.kind) && !o->t.polled)
        WEFT_TRY(mpi_check_alike(o));
    p->begun = true;
    return mpi_start_rounds(o);
}

/* A rank that aborts sends a notice before it frees its send buffers. MPI may fetch a message from
 * the sender's buffer late, so an operation with such messages counts as done only if no notice has
 * arrived. The notice is probed twice, since the first probe may only make MPI receive it. */
static weft_status mpi_advance(weft_operation *o)
{
    const mpi_pending *p = o->state;
    if (mpi_process.aborting) return WEFT_OK;
    WEFT_TRY(mpi_advance_rounds(o));
    for (int look = 0; look < 2 && o->done && p->fetches; look++)
        if (mpi_aborted(o->comm)) return weft_operation_ended(o, "in", mpi_process.why);
    return WEFT_OK;
}

static void mpi_close(weft_comm *comm)
{
    mpi_comm *m = (mpi_comm *)comm;
    if (!mpi_process.aborting) {
        MPI_Comm_free(&m->collectives);
        MPI_Comm_free(&m->comm);
    }
    free(m);
}

static weft_status make(weft_context *context, weft_progress *member, MPI_Comm comm,
                        weft_comm **out);

static weft_status mpi_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    MPI_Comm part;
    WEFT_TRY(weft_comm_barrier(comm));
    MPI_TRY(
        MPI_Comm_split(((mpi_comm *)comm)->comm, color < 0 ? MPI_UNDEFINED : color, key, &part));
    if (part == MPI_COMM_NULL) return WEFT_OK;
    return make(comm->context, comm->member, part, out);
}

/* Whether this MPI was built for memory of cards, and has not been told otherwise. */
static bool mpi_reads(weft_pointer_kind kind)
{
    int reads = kind == WEFT_POINTER_HOST;
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    if (kind == WEFT_POINTER_CUDA) reads = MPIX_Query_cuda_support();
#elif defined(MPIX_GPU_SUPPORT_CUDA)
    if (kind == WEFT_POINTER_CUDA && MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &reads) != 0)
        reads = 0;
#endif
    return reads != 0;
}

static const weft_comm_ops ops = {
    .name = "mpi",
    .reads = mpi_reads,
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

static weft_status fill(mpi_comm *m)
{
    MPI_TRY(MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_rank(m->comm, &m->head.rank));
    MPI_TRY(MPI_Comm_size(m->comm, &m->head.size));
    MPI_TRY(MPI_Comm_dup(m->comm, &m->collectives));
    MPI_TRY(MPI_Comm_set_errhandler(m->collectives, MPI_ERRORS_RETURN));
    return WEFT_OK;
}

/* Makes a communicator that owns `comm`; on failure `comm` is freed. */
static weft_status make(weft_context *context, weft_progress *member, MPI_Comm comm,
                        weft_comm **out)
{
    mpi_comm *m;
    weft_status status = WEFT_NEW(&m, 1);
    if (status != WEFT_OK) {
        MPI_Comm_free(&comm);
        return status;
    }
    m->head = (weft_comm){
        .ops = &ops, .context = context, .member = member, .local_size = mpi_process.local};
    m->comm = comm;
    m->collectives = MPI_COMM_NULL;
    status = fill(m);
    if (status != WEFT_OK) {
        if (m->collectives != MPI_COMM_NULL) MPI_Comm_free(&m->collectives);
        MPI_Comm_free(&m->comm);
        free(m);
        return status;
    }
    *out = &m->head;
    return WEFT_OK;
}

weft_status weft_mpi_built(void)
{
    return WEFT_OK;
}

static weft_status mpi_open(const weft_engine *engine, weft_context *context, int ranks,
                            weft_comm **out, int *local)
{
    (void)engine;
    weft_progress *member;
    MPI_Comm comm;
    WEFT_TRY(start_process());
    if (ranks > 0 && ranks != mpi_process.size)
        return weft_fail(WEFT_ERR_ARGUMENT, "-n gives %d ranks, but mpirun started %d processes",
                         ranks, mpi_process.size);
    if (mpi_process.size > WEFT_MAX_RANKS)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "%d processes, at most %d are possible",
                         mpi_process.size, WEFT_MAX_RANKS);
    WEFT_TRY(weft_progress_new(&member));
    member->local_rank = mpi_process.local_rank;
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    weft_status status =
        code == MPI_SUCCESS ? make(context, member, comm, out) : mpi_failed("MPI_Comm_dup", code);
    if (status != WEFT_OK) weft_progress_release(member);
    *local = 1;
    return status;
}

#else

void weft_mpi_set_piece(int64_t bytes)
{
    (void)bytes;
}

weft_status weft_mpi_built(void)
{
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "this weft was built without MPI; use --engine threads or processes, or build "
                     "weft on a machine that has MPI (apt-get install libopenmpi-dev openmpi-bin)");
}

static size_t mpi_operation_room(weft_operation *o)
{
    (void)o;
    return 0;
}

static size_t mpi_process_bytes(void)
{
    return 0;
}

static weft_status mpi_open(const weft_engine *engine, weft_context *context, int ranks,
                            weft_comm **out, int *local)
{
    (void)engine;
    (void)context;
    (void)ranks;
    (void)out;
    (void)local;
    return weft_mpi_built();
}

#endif

const weft_engine weft_engine_mpi = {
    .name = "mpi",
    .summary = "ranks are the processes that mpirun or srun starts, on one machine or many",
    .open = mpi_open,
    .room = mpi_operation_room,
    .process = mpi_process_bytes,
};
