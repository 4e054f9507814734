/* Declares how the engine mpi represents an operation: as rounds of messages and merges (sums of
 * received chunks). */
#ifndef WEFT_COMM_MPI_H
#define WEFT_COMM_MPI_H

#include <mpi.h>

#include "base/tree_sum.h"
#include "comm/comm.h"

/* The state of MPI in this process; MPI can be initialized once. */
typedef struct mpi_world {
    bool started, aborting;            /* given_up: the job is aborted, and MPI is called no more */
    MPI_Comm control;                  /* for notices of failures (mpi_failure.c) */
    int rank, size, local, local_rank; /* in MPI_COMM_WORLD; local: ranks on this machine */
    int64_t piece;                     /* bytes of the largest message, since MPI counts in int */
    char why[768];                     /* message of the abort */
    MPI_Request
        *notice_requests; /* [size], for notices; allocated early, since memory may run out */
} mpi_world;
extern mpi_world mpi_process;

/* Whether all ranks are on one machine. All ranks get the same answer. */
static inline bool mpi_one_machine(void)
{
    return mpi_process.local == mpi_process.size;
}

typedef struct mpi_comm {
    weft_comm head;
    MPI_Comm comm;        /* for sends and receives */
    MPI_Comm collectives; /* for the messages of collectives */
} mpi_comm;

/* Elements [start, start + size) of a vector; not a range of parameters. */
typedef struct mpi_range {
    int64_t start, size;
} mpi_range;

/* A vector in memory with one or more parts (subtrees of a sum): element i of part k is at base +
 * (k stride + i - origin) elements. */
typedef struct mpi_vector {
    char *base;
    int64_t stride, origin;
    int parts;
} mpi_vector;

/* A message to or from one rank: the elements of some ranges, of all parts of a vector. The message
 * is sent in chunks, of which at most WINDOW are in flight. */
enum { WINDOW = 4 };
typedef struct mpi_message {
    int peer;
    bool out;
    bool second;  /* sent for the second slot of the sender (mpi_hypercube.c) */
    bool merged;  /* in: a merge sums the received elements with others; they are not stored */
    bool bounded; /* the last chunk is short, so that the receiver notices a different length */
    mpi_vector at;
    size_t first_range;
    int ranges;
    int64_t at_most;                        /* most bytes of a chunk; 0: the maximum of MPI */
    int64_t elements;                       /* of all ranges, in one part */
    int64_t each;                           /* elements of a chunk, in one part */
    int64_t chunks, posted, arrived, freed; /* number of chunks: all, and in each state */
    bool roomed;    /* chunks are in the workspace: received to be merged, or packed */
    size_t room_at; /* byte offset in the workspace, of WINDOW chunks */
    MPI_Request requests[WINDOW];
} mpi_message;

/* A source of a merge: the sums over leaves [first, last) of the tree, either local at `at`
 * (message < 0) or received by message number `message` of the operation. */
typedef struct mpi_source {
    int64_t message;
    mpi_vector at;
    int first, last;
} mpi_source;

/* Sums some ranges of all sources, chunk by chunk, and writes the result to `to`. */
typedef struct mpi_merge {
    size_t first_source;
    int sources;
    mpi_vector to;
    size_t first_range;
    int ranges;
    int64_t at_most, elements, each, chunks, done; /* as in mpi_message */
    bool after_sends; /* begins after this round's sends, whose elements it overwrites */
    bool simple;      /* one range of two sources, each of one subtree, to one subtree */
} mpi_merge;

/* A round of messages and merges that are independent of each other. A round begins when the
 * previous one has ended. */
typedef struct mpi_round {
    size_t first_message, first_merge;
    int messages, merges;
} mpi_round;

/* An operation as rounds. The rounds are planned once, and executed each time the operation is
 * started. */
typedef struct mpi_pending {
    mpi_round *rounds;
    mpi_message *messages;
    mpi_merge *merges;
    mpi_source *sources;
    mpi_range *ranges;
    size_t round_count, message_count, merge_count, source_count, range_count;
    size_t round_room, message_room, merge_room, source_room, range_room;
    size_t round; /* index of the running round */
    bool begun;
    char *room; /* workspace for chunks, used by one round at a time */
    size_t room_bytes;
    /* For merges that are not simple: lists of source subtrees and of results, and workspace of
     * weft_tree_join. NULL: there are none. */
    weft_subtree *brought, *made;
    void *merge_work;
    char *kept[2];         /* partial sums of this rank's first and second slot */
    const void *copy_from; /* the part that stays on this rank is copied at the start */
    void *copy_to;
    int64_t copy_bytes;
    size_t bytes; /* of all workspace and partial sums */
    bool fetches; /* receives messages that MPI may fetch from the sender's memory */
} mpi_pending;

/* mpi.c: allocates memory of an operation, and counts it. */
weft_status mpi_new(mpi_pending *p, size_t bytes, void *out) WEFT_NODISCARD;
weft_status mpi_failed(const char *call, int code) WEFT_NODISCARD;
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        int mpi_try_code = (call);                                                                 \
        if (mpi_try_code != MPI_SUCCESS) return mpi_failed(#call, mpi_try_code);                   \
    } while (0)

/* mpi_rounds.c: plans rounds, and executes them. mpi_add_range leaves out a range without elements,
 * which needs no message. */
weft_status mpi_add_round(mpi_pending *p) WEFT_NODISCARD;
weft_status mpi_add_range(mpi_pending *p, int64_t start, int64_t size) WEFT_NODISCARD;
/* Adds a message or a merge to the last round. Its ranges are those that were added from
 * `first_range` on. */
weft_status mpi_add_message(weft_operation *o, mpi_message like) WEFT_NODISCARD;
weft_status mpi_add_merge(weft_operation *o, mpi_merge like, const mpi_source *sources,
                          int count) WEFT_NODISCARD;
weft_status mpi_end_rounds(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_start_rounds(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_advance_rounds(weft_operation *o) WEFT_NODISCARD;
/* Cancels the receives of the running round; true if none of its messages is active any more. */
bool mpi_stop_rounds(weft_operation *o);

/* mpi_chunk.c: allocates the workspace for all merges of an operation. */
weft_status mpi_merge_rooms(weft_operation *o) WEFT_NODISCARD;
/* mpi_merge_chunk sums chunk c of a merge; mpi_pack copies chunk c of a message into the
 * workspace. */
void mpi_merge_chunk(const weft_operation *o, const mpi_merge *g, int64_t c);
void mpi_pack(const weft_operation *o, const mpi_message *m, int64_t c);
static inline int64_t mpi_chunk_size(int64_t elements, int64_t each, int64_t c)
{
    return WEFT_MIN(each, elements - c * each);
}
static inline char *mpi_room(const weft_operation *o, const mpi_message *m, int64_t c)
{
    const mpi_pending *p = o->state;
    return p->room + m->room_at +
           (size_t)((c % WINDOW) * m->each * m->at.parts) * weft_dtype_size(o->t.dtype);
}

/* mpi_hypercube.c: the ranks as corners of a hypercube of P = 2^levels slots. A slot without a rank
 * of its own is the second slot of a rank of the lower half. */
typedef struct mpi_slots {
    int levels, slots, ranks, me;
    int mine[2], count; /* the slots of this rank */
} mpi_slots;
mpi_slots mpi_slots_of(const weft_operation *o);
int mpi_slot_owner(const mpi_slots *s, int slot);
/* The ranks [*begin, *end) of the block of 2^level slots that contains `slot`; false: no slot of
 * the block has a rank of its own. */
bool mpi_slot_block(const mpi_slots *s, int slot, int level, int *begin, int *end);

/* Plan the rounds of an operation. */
weft_status mpi_plan_sum(weft_operation *o) WEFT_NODISCARD; /* mpi_reduce.c */
weft_status
mpi_plan_move(weft_operation *o) WEFT_NODISCARD; /* mpi_collectives.c: everything else */

/* mpi_failure.c: mismatched collectives, aborts, missing ranks. */
weft_status mpi_check_alike(const weft_operation *o) WEFT_NODISCARD;
const char *mpi_aborted(weft_comm *comm);
void mpi_abort(weft_comm *comm);
void mpi_describe(weft_operation *o, weft_text *text);

#endif
