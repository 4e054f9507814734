/* Inside of the engine mpi. */
#ifndef WEFT_COMM_MPI_H
#define WEFT_COMM_MPI_H

#include <mpi.h>

#include "comm/comm.h"

/* What is there once for a process, as MPI is. */
typedef struct mpi_world {
    bool started, given_up;
    MPI_Comm control;
    int rank, size, local, local_rank;
    char why[768];
} mpi_world;
extern mpi_world mpi_process;

typedef struct mpi_comm {
    weft_comm head;
    MPI_Comm comm; /* for MPI's own operations */
    MPI_Comm sums; /* for the messages of our sums */
    int id;        /* the same on all ranks of a communicator */
} mpi_comm;

/* A sum in a fixed order. Each rank adds up a slice of the elements, in chunks: it receives the
 * others' parts of a chunk, adds them in the tree, and sends the result to all. Small sums are
 * added by everybody. */
typedef struct mpi_sum {
    int chunks;
    bool small;            /* every rank's slice is the whole */
    int added;             /* chunks done so far */
    char *parts;           /* [N] of what others sent of this rank's slice */
    char *packed;          /* this rank's subtrees, where there are several */
    MPI_Request *requests; /* [4][chunks][N]: parts in and out, results in and out */
} mpi_sum;

typedef struct mpi_pending {
    MPI_Request request;
    int *counts, *offsets, *receive_counts, *receive_offsets; /* [N] each */
    bool summed;
    mpi_sum sum;
} mpi_pending;

weft_status mpi_failed(const char *call, int code) WEFT_NODISCARD;
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        int mpi_try_code = (call);                                                                 \
        if (mpi_try_code != MPI_SUCCESS) return mpi_failed(#call, mpi_try_code);                   \
    } while (0)
MPI_Datatype mpi_type(weft_dtype dtype);

/* mpi_trouble.c: collectives that do not match, ranks that give up, ranks that are missing. */
weft_status mpi_check_alike(const weft_operation *o) WEFT_NODISCARD;
const char *mpi_aborted(weft_comm *comm);
void mpi_abort(weft_comm *comm);
void mpi_describe(weft_operation *o, weft_text *text);

/* mpi_sum.c; o->state is an mpi_pending */
weft_status mpi_sum_prepare(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_sum_start(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_sum_advance(weft_operation *o) WEFT_NODISCARD;
void mpi_sum_destroy(weft_operation *o);

#endif
