/* Communicators: groups of ranks that send each other messages and run collectives.
 *
 * An engine opens a communicator over all ranks of a job. With the engine "self" there is one rank,
 * with "threads" ranks are threads of this process, with "mpi" they are the processes that mpirun
 * or srun started. Everything else is the same for all engines.
 *
 * A transfer is a collective or a message. The caller describes it once (weft_transfer), prepares
 * it as an operation, and then starts and waits for the operation any number of times without
 * allocating memory. Every rank of a communicator must start the same collectives in the same
 * order; a send and a receive match by peer and tag, in order. Several operations may be active;
 * waiting for one advances all.
 *
 * A wait that lasts longer than the time limit ends with WEFT_ERR_PEER and a message that names the
 * collective, the ranks that have come and those that are missing. After that, or after
 * weft_comm_abort, every operation of the job fails with WEFT_ERR_PEER, so no rank hangs.
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

/* Kinds of transfers between N ranks. Counts are elements. Sums are of F32, F64, BF16, I32 or
 * I64. */
typedef enum weft_transfer_kind {
    WEFT_SEND,           /* sends count elements to rank `peer` */
    WEFT_RECEIVE,        /* receives count elements from rank `peer` */
    WEFT_BROADCAST,      /* count elements of rank `peer` go to `receive` of all ranks */
    WEFT_ALL_REDUCE,     /* receive[i] = sum over the ranks of send[i] */
    WEFT_REDUCE_SCATTER, /* as ALL_REDUCE, but rank r gets only its counts[r] elements */
    WEFT_ALL_GATHER,     /* counts[r] elements of each rank r go to all ranks, in rank order */
    WEFT_GATHER,         /* as ALL_GATHER, but only rank `peer` receives */
    WEFT_ALL_TO_ALL,     /* sends counts[r] elements to rank r, receives receive_counts[r] */
    WEFT_BARRIER         /* ends when all ranks have started it */
} weft_transfer_kind;
/* The name of a kind, "all-reduce"; NULL: there is no such kind. */
WEFT_API const char *weft_transfer_name(weft_transfer_kind kind);

/* The memory that an address is of: the host's, or that of CUDA's cards. */
typedef enum weft_pointer_kind { WEFT_POINTER_HOST = 1, WEFT_POINTER_CUDA } weft_pointer_kind;

/* The description of a transfer on one rank. */
typedef struct weft_transfer {
    weft_transfer_kind kind;
    weft_dtype dtype;
    const char *what; /* name of the data for messages; copied; may be NULL */
    /* The elements to send. The memory must not overlap `receive`, with these exceptions: it may be
     * `receive` in an all-reduce, this rank's part of `receive` in a gather or all-gather, or
     * contain `receive` as this rank's part in a reduce-scatter with one leaf per rank. */
    const void *send;
    void *receive; /* not used by WEFT_SEND, nor by a WEFT_GATHER on other ranks than `peer` */
    /* For SEND, RECEIVE, BROADCAST and ALL_REDUCE; for each rank if counts is NULL. */
    int64_t count;
    /* [N]. counts: for REDUCE_SCATTER, ALL_GATHER, GATHER and ALL_TO_ALL; NULL: `count`, above 0,
     * for each rank. receive_counts: for ALL_TO_ALL. Both are copied. */
    const int64_t *counts, *receive_counts;
    int peer, tag; /* the other rank, or the root; tag of a message, 0 to 30000 */
    /* Sums are added in a fixed binary tree over the ranks, so that their bits do not depend on the
     * engine. leaves: number V of leaves of the tree (virtual workers), at least as many as ranks;
     * 0: one leaf per rank. Rank r has leaves V r / N to V (r + 1) / N - 1. `send` has their sums
     * over the largest subtrees that the rank has alone, one after the other: count elements for
     * each of weft_tree_parts subtrees. */
    int leaves;
    int parts; /* number of subtrees in `send`, as weft_tree_parts gives it; 0 means 1 */
    /* This rank waits without a time limit, for a rank that may itself wait for other processes,
     * has a limit for that, and aborts the job when it gives up. */
    bool unlimited;
    /* All ranks work on between the start and the end of this collective, and ranks that are not in
     * it yet need that work: check mode, which waits for all ranks at the start, leaves it out. */
    bool polled;
    uint64_t room[4]; /* of later versions: 0 */
} weft_transfer;
#ifndef __cplusplus
/* The address of a transfer with these fields, which lives until the end of the block. */
#define WEFT_TRANSFER(...) (&(weft_transfer){__VA_ARGS__})
#endif

/* Opens the communicators of this process's ranks: with the engine threads `ranks` of them,
 * otherwise one; *local becomes their number. ranks 0: one rank, or with mpi as many as there are
 * processes. out has room for WEFT_MAX_RANKS. Collective over the processes. ARGUMENT: no such
 * engine, or a number of ranks that it does not have; UNSUPPORTED: the library was built without
 * the engine; the message says what to install. */
enum { WEFT_MAX_RANKS = 1024 };
WEFT_API WEFT_NODISCARD weft_status weft_comm_open(weft_context *context, const char *engine,
                                                   int ranks, weft_comm **out, int *local);
/* Closes *comm and nulls it. Its operations must have been destroyed before. */
WEFT_API void weft_comm_close(weft_comm **comm);

WEFT_API int weft_comm_rank(const weft_comm *comm);
WEFT_API int weft_comm_size(const weft_comm *comm);
/* The number of ranks of the job on this machine, and the index of this rank among them. */
WEFT_API int weft_comm_local_size(const weft_comm *comm);
WEFT_API int weft_comm_local_rank(const weft_comm *comm);

/* Sets the seconds after which a wait fails; 300 at first. The limit holds for all communicators of
 * the rank: this one, and all that are split from it. */
WEFT_API void weft_comm_set_timeout(weft_comm *comm, double seconds);
/* From now on the rank writes into `note` what it does, so that a supervisor can tell what a dead
 * rank was doing: "in all-reduce of fc1/dw" while it waits or has active transfers, "after ..."
 * when it has none. The caller's memory has WEFT_NOTE_SIZE bytes, may be shared with other
 * processes, and must outlive the communicators of the rank. NULL: the rank stops writing. */
enum { WEFT_NOTE_SIZE = 96 };
WEFT_API void weft_comm_set_note(weft_comm *comm, char *note);
/* Whether ranks compare the kind, type, root and counts of each collective before they run it; a
 * difference fails with PEER. Off at first. The engine threads always compares. */
WEFT_API void weft_comm_set_check(weft_comm *comm, bool check);

/* Collective: makes a communicator of the ranks that give the same color (at least 0), ordered by
 * key, then by rank. A rank with color < 0 gets NULL. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_split(weft_comm *comm, int color, int key,
                                                    weft_comm **out);

/* Prepares an operation; other ranks are not involved. The buffers must outlive the operation.
 * ARGUMENT: negative counts, no such peer, a sum of a type that has none, a buffer that is NULL but
 * has elements, or a wrong number of subtrees in `send`. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_prepare(weft_comm *comm,
                                                      const weft_transfer *transfer,
                                                      weft_operation **out);
WEFT_API void weft_operation_destroy(weft_operation **operation);
/* Starts an operation; its buffers must not be touched until it has ended. */
WEFT_API WEFT_NODISCARD weft_status weft_operation_start(weft_operation *operation);
/* Makes progress without waiting; *done says whether the operation has ended. */
WEFT_API WEFT_NODISCARD weft_status weft_operation_test(weft_operation *operation, bool *done);
/* Waits until the operation has ended. PEER: the time limit has passed, or the job was aborted. */
WEFT_API WEFT_NODISCARD weft_status weft_operation_wait(weft_operation *operation);

/* Prepares, starts, waits for and destroys an operation. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_run(weft_comm *comm, const weft_transfer *transfer);
WEFT_API WEFT_NODISCARD weft_status weft_comm_barrier(weft_comm *comm);

/* Aborts the job: every operation of every rank fails with PEER and this thread's last message.
 * With the engine mpi the processes then skip MPI_Finalize, so that mpirun ends all of them as soon
 * as one exits. */
WEFT_API void weft_comm_abort(weft_comm *comm);

/* Whether the job goes on, for code that waits for something else than an operation. PEER: it was
 * aborted. */
WEFT_API WEFT_NODISCARD weft_status weft_comm_check(weft_comm *comm);
WEFT_API double weft_comm_timeout(const weft_comm *comm);

/* Statistics of one rank, over this communicator and all that are split from it. `bytes` counts
 * those that this rank would send in the best known algorithm. Summed over the ranks, a
 * reduce-scatter or all-gather counts (N - 1) times the whole, an all-reduce twice that, and a
 * gather all that its peer lacks. */
typedef struct weft_comm_stats {
    int64_t operations, bytes;
    /* Seconds between start and end of an operation, summed; an operation that ends within about a
     * microsecond may count as nothing. */
    double seconds;
    double waited;    /* those of `seconds` that were spent in weft_operation_wait */
    uint64_t room[4]; /* of later versions: 0 */
} weft_comm_stats;
WEFT_API weft_comm_stats weft_comm_get_stats(const weft_comm *comm);

/* The communicators of one rank of a mesh (weft_plan_split), owned by the caller. */
enum { WEFT_MESH_MASKS = 8 };
typedef struct weft_comms {
    weft_comm *learner; /* all ranks of the mesh, which are one learner */
    /* For each set of axes, as a mask (1: data, 2: domain, 4: tensor), the ranks that differ from
     * this one only along these axes. NULL: there is no other such rank. */
    weft_comm *axes[WEFT_MESH_MASKS];
} weft_comms;

/* The fixed binary tree over V leaves: an inner node of level l joins the leaves j 2^l to (j + 1)
 * 2^l - 1, as far as they are below V. Returns how many of its largest subtrees make up the leaves
 * `first` to `last` - 1. */
WEFT_API int weft_tree_parts(int leaves, int first, int last);

#ifdef __cplusplus
}
#endif
#endif
