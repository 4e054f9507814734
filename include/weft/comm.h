/* Communicators: groups of ranks that send each other messages and run collectives.
 *
 * An engine opens a communicator over all ranks of a job: "self" is one rank, "threads" are the
 * threads of this process, "mpi" the processes that mpirun or srun started. Everything else is the
 * same for all engines.
 *
 * A transfer is described once (weft_transfer), prepared as an operation, and then started and
 * waited for any number of times without allocating memory. Every rank of a communicator must start
 * the same collectives in the same order; sends and receives are matched by (peer, tag) in order.
 * Several operations may be active; waiting for one of them advances all.
 *
 * A wait that lasts longer than the time limit ends with WEFT_ERR_PEER and a message that names the
 * collective, its ranks that have come and those that are missing. After that, or after
 * weft_comm_abort, every operation of the job fails the same way: no rank hangs.
 *
 * A communicator belongs to one thread at a time. */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include <stdbool.h>

#include "weft/context.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_comm weft_comm;
typedef struct weft_operation weft_operation;

/* Kinds of transfers. N ranks; counts are elements. Sums are of F32, F64 or I32. */
typedef enum weft_transfer_kind {
    WEFT_SEND,           /* count elements to peer */
    WEFT_RECEIVE,        /* count elements from peer */
    WEFT_BROADCAST,      /* count elements of peer, to all ranks; in `receive` */
    WEFT_ALL_REDUCE,     /* receive[i] = sum over ranks of send[i] */
    WEFT_REDUCE_SCATTER, /* likewise, but rank r keeps only its counts[r] elements */
    WEFT_ALL_GATHER,     /* counts[r] elements of each rank r, to all ranks, in rank order */
    WEFT_GATHER,         /* likewise, but to peer only; the others receive nothing */
    WEFT_ALL_TO_ALL,     /* send counts[r] elements to rank r, receive receive_counts[r] from it */
    WEFT_BARRIER
} weft_transfer_kind;
WEFT_API const char *weft_transfer_name(weft_transfer_kind kind);

typedef struct weft_transfer {
    weft_transfer_kind kind;
    weft_dtype dtype;
    const char *what; /* name of the data, for messages; copied; may be NULL */
    /* May equal `receive` in an all-reduce, be this rank's part of it in a gather or all-gather, or
     * contain it as this rank's part in a reduce-scatter with one leaf a rank. Otherwise the two
     * must not overlap. */
    const void *send;
    void *receive; /* not used by WEFT_SEND, nor by WEFT_GATHER but at its peer */
    int64_t count; /* SEND, RECEIVE, BROADCAST, ALL_REDUCE; of each rank, where counts is NULL */
    /* [N] REDUCE_SCATTER, (ALL_)GATHER, ALL_TO_ALL; NULL: `count` (more than 0) for each rank;
     * receive_counts: ALL_TO_ALL. Copied. */
    const int64_t *counts, *receive_counts;
    int peer, tag; /* tag from 0 to 30000 */
    /* Sums: add over a fixed binary tree of the ranks, so that bits do not depend on the engine. */
    bool reproducible;
    /* Reproducible sums over V leaves, more than there are ranks: rank r has the leaves V r / N up
     * to V (r + 1) / N, already summed up to the largest subtrees that it has alone, one after the
     * other in `send`: weft_tree_parts of them, count elements each. 0: one leaf a rank. */
    int leaves;
    int parts; /* number of subtrees in `send`, which `leaves` determines; 0 means 1 */
} weft_transfer;

/* Opens the communicators of this process's ranks: `ranks` of them for threads, one otherwise; 0
 * means as many as there are. out has room for WEFT_MAX_RANKS. Collective over the processes.
 * ARGUMENT: no such engine, or a number of ranks that it does not have; UNSUPPORTED: the library
 * was built without it, with what to install. */
enum { WEFT_MAX_RANKS = 1024 };
WEFT_API WEFT_NODISCARD weft_status weft_comm_open(weft_context *context, const char *engine,
                                                   int ranks, weft_comm **out, int *local);
/* Closes *comm and nulls it. Operations of it must have been destroyed. */
WEFT_API void weft_comm_close(weft_comm **comm);

WEFT_API int weft_comm_rank(const weft_comm *comm);
WEFT_API int weft_comm_size(const weft_comm *comm);
/* The number of ranks of this job on this machine, and the index of this one among them. */
WEFT_API int weft_comm_local_size(const weft_comm *comm);
WEFT_API int weft_comm_local_rank(const weft_comm *comm);

/* Seconds after which a wait fails; 300 at first. Also for communicators split off later. */
WEFT_API void weft_comm_set_timeout(weft_comm *comm, double seconds);
/* From now on the rank writes into `note` what it does: "in all-reduce of fc1/dw" while it waits or
 * has active transfers, "after ..." when it has none, so that a supervisor can tell what a dead
 * rank was doing. The memory is the caller's, may be shared with other processes, and must outlive
 * the communicators of the rank. NULL: no more. */
enum { WEFT_NOTE_SIZE = 96 };
WEFT_API void weft_comm_set_note(weft_comm *comm, char *note);
/* Compare (sequence, operation, dtype, count) over the ranks before each collective. */
WEFT_API void weft_comm_set_check(weft_comm *comm, bool check);

/* Collective: makes a communicator of the ranks with the same color (at least 0), ordered by (key,
 * rank). color < 0: this rank gets NULL. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_split(weft_comm *comm, int color, int key,
                                                    weft_comm **out);

/* Prepares an operation; local. ARGUMENT: negative counts, no such peer, a sum of a type that has
 * none, a buffer that is NULL but has elements, or a wrong number of subtrees in `send`. The
 * buffers must outlive the operation. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_prepare(weft_comm *comm,
                                                      const weft_transfer *transfer,
                                                      weft_operation **out);
WEFT_API void weft_operation_destroy(weft_operation **operation);
/* Begins; buffers must not be touched until it is done. */
WEFT_API WEFT_NODISCARD weft_status weft_operation_start(weft_operation *operation);
/* Makes progress without waiting; *done says whether the operation has ended. */
WEFT_API WEFT_NODISCARD weft_status weft_operation_test(weft_operation *operation, bool *done);
WEFT_API WEFT_NODISCARD weft_status weft_operation_wait(weft_operation *operation);

/* Prepares, starts, waits and destroys. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_run(weft_comm *comm, const weft_transfer *transfer);
WEFT_API WEFT_NODISCARD weft_status weft_comm_barrier(weft_comm *comm);

/* Makes every operation of every rank of the job fail with this thread's last message. The mpi
 * engine ends all its processes within seconds. */
WEFT_API void weft_comm_abort(weft_comm *comm);

/* PEER: the job was ended. For code that waits for something else than an operation. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_check(weft_comm *comm);
WEFT_API double weft_comm_timeout(const weft_comm *comm);

/* Statistics of one rank, with this communicator and all split off from it. Bytes are those that
 * this rank sends in the best known algorithm: over the ranks, (N - 1) times the whole for
 * reduce-scatter and all-gather, twice that for all-reduce, and for a gather all that its peer
 * lacks. */
typedef struct weft_comm_stats {
    int64_t operations, bytes;
    /* Between start and end of an operation, summed; an operation that ends within about a
     * microsecond may count as nothing. */
    double seconds;
    double waited; /* of these, spent in weft_operation_wait */
} weft_comm_stats;
WEFT_API weft_comm_stats weft_comm_get_stats(const weft_comm *comm);

/* The communicators of one rank of a mesh, owned by the caller. */
enum { WEFT_MESH_MASKS = 8 };
typedef struct weft_comms {
    weft_comm *learner; /* all ranks of the mesh */
    weft_comm
        *axes[WEFT_MESH_MASKS]; /* ranks that differ only along the axes of a mask; may be NULL */
} weft_comms;

/* The fixed binary tree over V leaves: its inner nodes join [j 2^l, (j + 1) 2^l) as far as they are
 * below V. Returns how many of its largest subtrees make up the leaves from `first` up to
 * `last`. */
WEFT_API int weft_tree_parts(int leaves, int first, int last);

#ifdef __cplusplus
}
#endif
#endif
