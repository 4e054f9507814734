/* What MPI ranks tell each other when something is wrong: on a communicator of their own, so that
 * it never meets what is under way. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include <stdio.h>

#include "comm/mpi.h"

enum { TAG_GIVEN_UP = 1, TAG_WAITING = 2 };

typedef struct notice {
    int id, rank;
    int64_t sequence;
    char text[128];
} notice;

static notice notice_of(const weft_operation *o)
{
    notice n = {((const mpi_comm *)o->comm)->id, mpi_process.rank, o->sequence, ""};
    (void)snprintf(n.text, sizeof(n.text), "%s of %s (%lld %s)", weft_transfer_name(o->t.kind),
                   o->what, (long long)o->t.count, weft_dtype_name(o->t.dtype));
    return n;
}

/* In check mode everybody tells what it is about to do before it does it. */
weft_status mpi_check_alike(const weft_operation *o)
{
    notice mine = notice_of(o), *all;
    int n = o->comm->size;
    WEFT_TRY(WEFT_NEW(&all, n));
    int64_t counts[WEFT_MAX_RANKS];
    for (int r = 0; r < n; r++) counts[r] = (int64_t)sizeof(mine);
    weft_comm *c = o->comm;
    c->member->check = false;
    c->sequence--;
    weft_status status = weft_comm_run(c, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                           .dtype = WEFT_U8,
                                                           .what = "the check of collectives",
                                                           .send = &mine,
                                                           .receive = all,
                                                           .counts = counts});
    c->member->check = true;
    for (int r = 0; r < n && status == WEFT_OK; r++)
        if (strcmp(all[r].text, mine.text) != 0)
            status = weft_fail(
                WEFT_ERR_PEER, "collective %lld does not match: rank %d is in %s, rank %d in %s",
                (long long)o->sequence, mpi_process.rank, mine.text, all[r].rank, all[r].text);
    free(all);
    return status;
}

static void tell(weft_comm *comm, int tag, const void *data, int bytes)
{
    (void)comm;
    for (int r = 0; r < mpi_process.size; r++) {
        MPI_Request request;
        if (r == mpi_process.rank) continue;
        if (MPI_Isend(data, bytes, MPI_BYTE, r, tag, mpi_process.control, &request) == MPI_SUCCESS)
            MPI_Request_free(&request); /* short: it goes out at once */
    }
}

const char *mpi_aborted(weft_comm *comm)
{
    (void)comm;
    int there = 0;
    MPI_Status status;
    if (mpi_process.given_up) return mpi_process.why;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_GIVEN_UP, mpi_process.control, &there, &status) !=
            MPI_SUCCESS ||
        !there)
        return NULL;
    MPI_Recv(mpi_process.why, sizeof(mpi_process.why), MPI_BYTE, status.MPI_SOURCE, TAG_GIVEN_UP,
             mpi_process.control, &status);
    mpi_process.why[sizeof(mpi_process.why) - 1] = '\0';
    mpi_process.given_up = true;
    return mpi_process.why;
}

void mpi_abort(weft_comm *comm)
{
    if (mpi_process.given_up) return;
    mpi_process.given_up = true;
    (void)snprintf(mpi_process.why, sizeof(mpi_process.why), "%s", weft_last_message());
    tell(comm, TAG_GIVEN_UP, mpi_process.why, sizeof(mpi_process.why));
}

/* Everybody who is stuck tells so and listens for a second; who says nothing is missing. */
void mpi_describe(weft_operation *o, weft_text *text)
{
    static notice mine; /* outlives the messages */
    char *state;
    int n = mpi_process.size;
    mine = notice_of(o);
    if (WEFT_NEW(&state, (size_t)n * sizeof(notice)) != WEFT_OK) return;
    notice *all = (notice *)(void *)state;
    tell(o->comm, TAG_WAITING, &mine, sizeof(mine));
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
typedef int weft_no_mpi_trouble; /* a file must not be empty */
#endif
