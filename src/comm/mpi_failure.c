/* Handles failures of the engine mpi: ranks send each other notices of an abort or of a wait
 * without end, and check mode compares their collectives. Notices use the communicator `control`,
 * so they never match messages of operations. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include <stdio.h>

#include "comm/mpi.h"

enum { TAG_GIVEN_UP = 1, TAG_WAITING = 2 };

/* A notice of a rank that waits: the operation that it waits for. */
typedef struct notice {
    char text[128];
} notice;

static notice notice_of(const weft_operation *o)
{
    notice n = {""};
    (void)snprintf(n.text, sizeof(n.text), "%s of %s (%lld %s)", weft_transfer_name(o->t.kind),
                   o->what, (long long)o->t.count, weft_dtype_name(o->t.dtype));
    return n;
}

/* The collective that a rank is about to start, with its count for each rank. */
typedef struct intent {
    weft_transfer t;
    int rank;
    char what[64];
    int64_t counts[];
} intent;

static size_t intent_size(const weft_comm *c)
{
    return sizeof(intent) + (size_t)c->size * sizeof(int64_t);
}

/* Gathers the intents of all ranks by an all-gather, which is neither numbered nor checked
 * itself. */
static weft_status gather_intents(weft_comm *c, const void *mine, void *all)
{
    c->member->check = false;
    c->sequence--;
    weft_status status =
        weft_comm_run(c, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                       .what = "the check of collectives", .send = mine,
                                       .receive = all, .count = (int64_t)intent_size(c)));
    c->member->check = true;
    return status;
}

static weft_status compare(const weft_operation *o, const intent *other, int r)
{
    char mine[WEFT_TRANSFER_TEXT], theirs[WEFT_TRANSFER_TEXT];
    if (weft_transfer_alike(o, r, &other->t, other->counts)) return WEFT_OK;
    weft_transfer_describe(&o->t, o->what, o->counts, o->comm->size, mine);
    weft_transfer_describe(&other->t, other->what, other->counts, o->comm->size, theirs);
    return weft_fail(WEFT_ERR_PEER,
                     "collective %lld does not match: rank %d is in %s, rank %d in %s",
                     (long long)o->sequence, mpi_process.rank, mine, other->rank, theirs);
}

/* Check mode: before all ranks start a collective, they gather each other's description of it, and
 * fail if two differ. */
weft_status mpi_check_alike(const weft_operation *o)
{
    weft_comm *c = o->comm;
    size_t size = intent_size(c);
    char *all, *room;
    WEFT_TRY(weft_new_aligned(size * (size_t)(c->size + 1), &all));
    room = all + size * (size_t)c->size;
    intent *mine = (intent *)(void *)room;
    mine->t = o->t;
    mine->rank = mpi_process.rank;
    (void)snprintf(mine->what, sizeof(mine->what), "%s", o->what);
    memcpy(mine->counts, o->counts, (size_t)c->size * sizeof(int64_t));
    weft_status status = gather_intents(c, room, all);
    for (int r = 0; r < c->size && status == WEFT_OK; r++)
        status = compare(o, (const intent *)(const void *)(all + size * (size_t)r), r);
    free(all);
    return status;
}

/* Sends a notice to all other ranks. A notice leaves at once to a rank with which this one has
 * communicated before. To other ranks MPI must first connect, so the notices have `seconds` to
 * leave; on a busy machine a shorter time would lose them. */
static void send_notice(int tag, const void *data, int bytes, double seconds)
{
    MPI_Request *all = mpi_process.notice_requests;
    int done = 0;
    for (int r = 0; r < mpi_process.size; r++) {
        all[r] = MPI_REQUEST_NULL;
        if (r != mpi_process.rank)
            (void)MPI_Isend(data, bytes, MPI_BYTE, r, tag, mpi_process.control, &all[r]);
    }
    for (double end = weft_seconds() + seconds; !done && weft_seconds() < end;)
        if (MPI_Testall(mpi_process.size, all, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
    for (int r = 0; r < mpi_process.size; r++)
        if (all[r] != MPI_REQUEST_NULL) MPI_Request_free(&all[r]);
}

const char *mpi_aborted(weft_comm *comm)
{
    (void)comm;
    int there = 0;
    MPI_Status status;
    if (mpi_process.aborting) return mpi_process.why;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_GIVEN_UP, mpi_process.control, &there, &status) !=
            MPI_SUCCESS ||
        !there)
        return NULL;
    MPI_Recv(mpi_process.why, sizeof(mpi_process.why), MPI_BYTE, status.MPI_SOURCE, TAG_GIVEN_UP,
             mpi_process.control, &status);
    mpi_process.why[sizeof(mpi_process.why) - 1] = '\0';
    mpi_process.aborting = true;
    return mpi_process.why;
}

void mpi_abort(weft_comm *comm)
{
    (void)comm;
    if (mpi_process.aborting) return;
    mpi_process.aborting = true;
    (void)snprintf(mpi_process.why, sizeof(mpi_process.why), "%s", weft_last_message());
    send_notice(TAG_GIVEN_UP, mpi_process.why, sizeof(mpi_process.why), 1);
}

/* Appends the waiting and the missing ranks. Each rank whose wait has exceeded the time limit sends
 * a notice to the others and collects their notices for a second; a rank without a notice is
 * missing. */
void mpi_describe(weft_operation *o, weft_text *text)
{
    static notice mine; /* static, since a notice may leave after this call */
    char *state;
    int n = mpi_process.size;
    mine = notice_of(o);
    if (WEFT_NEW(&state, (size_t)n * sizeof(notice)) != WEFT_OK) return;
    notice *all = (notice *)(void *)state;
    send_notice(TAG_WAITING, &mine, sizeof(mine), 0.2);
    all[mpi_process.rank] = mine;
    for (double end = weft_seconds() + 1; weft_seconds() < end;) {
        int there = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_WAITING, mpi_process.control, &there, &status);
        if (!there) continue;
        MPI_Recv(&all[status.MPI_SOURCE], sizeof(notice), MPI_BYTE, status.MPI_SOURCE, TAG_WAITING,
                 mpi_process.control, &status);
    }
    weft_text_add(text, "; ranks that wait:");
    for (int r = 0; r < n; r++)
        if (all[r].text[0]) weft_text_add(text, " %d in %s,", r, all[r].text);
    weft_text_add(text, " missing:");
    int missing = 0;
    for (int r = 0; r < n; r++)
        if (!all[r].text[0]) {
            weft_text_add(text, " %d", r);
            missing++;
        }
    if (missing == 0) weft_text_add(text, " none");
    free(state);
}

#else
typedef int weft_no_mpi_failures; /* a file must not be empty */
#endif
