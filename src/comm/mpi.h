/* Internals of the engine mpi. */
#ifndef WEFT_COMM_MPI_H
#define WEFT_COMM_MPI_H

#include <mpi.h>

#include "base/tree_sum.h"
#include "comm/comm.h"

/* State of the process, of which MPI has one. */
typedef struct mpi_world {
    bool started, given_up;
    MPI_Comm control;
    int rank, size, local, local_rank;
    int64_t piece; /* bytes of the largest message, since MPI counts in int */
    char why[768];
    MPI_Request *told; /* [size], for notices at the end, when memory may be exhausted */
} mpi_world;
extern mpi_world mpi_process;

/* Whether all ranks are on one machine: a round then costs little, and the bytes moved and added
 * dominate earlier. Equal on all ranks. */
static inline bool mpi_one_machine(void)
{
    return mpi_process.local == mpi_process.size;
}

typedef struct mpi_comm {
    weft_comm head;
    MPI_Comm comm;        /* for sends and receives */
    MPI_Comm collectives; /* for the messages of collectives */
} mpi_comm;

/* Elements [start, start + size) of a vector. */
typedef struct mpi_range {
    int64_t start, size;
} mpi_range;

/* A vector in memory: element i of part k at base + (k stride + i - origin) elements. */
typedef struct mpi_vector {
    char *base;
    int64_t stride, origin;
    int parts;
} mpi_vector;

/* The elements of some ranges, of all parts, to or from one rank. Sent in chunks, of which at most
 * WINDOW are in flight. */
enum { WINDOW = 4 };
typedef struct mpi_message {
    int peer;
    bool out;
    bool second;  /* from the sender's second slot (mpi_hypercube.c) */
    bool merged;  /* in: the received elements are summed with others, and not stored */
    bool bounded; /* the last chunk is short, so that the receiver notices a different length */
    mpi_vector at;
    size_t first_range;
    int ranges;
    int64_t at_most;  /* bytes of a chunk; 0: the maximum of MPI */
    int64_t elements; /* of all ranges */
    int64_t each;     /* of a chunk */
    int64_t chunks, posted, arrived, freed;
    bool roomed;    /* chunks are in the workspace: received to be merged, or packed */
    size_t room_at; /* WINDOW chunks */
    MPI_Request requests[WINDOW];
} mpi_message;

/* Leaves [first, last) of the tree: local (message < 0), or received by a message. */
typedef struct mpi_source {
    int64_t message;
    mpi_vector at;
    int first, last;
} mpi_source;

/* Sums some ranges of the sources, and writes the result. */
typedef struct mpi_merge {
    size_t first_source;
    int sources;
    mpi_vector to;
    size_t first_range;
    int ranges;
    int64_t at_most, elements, each, chunks, done; /* as in its messages */
    bool after_sends; /* it overwrites elements that this round sends */
    bool simple;      /* one range of two sources, each of one subtree, to one subtree */
} mpi_merge;

/* Independent messages. A round begins when the one before has ended. */
typedef struct mpi_round {
    size_t first_message, first_merge;
    int messages, merges;
} mpi_round;

/* An operation as rounds, planned once. */
typedef struct mpi_pending {
    mpi_round *rounds;
    mpi_message *messages;
    mpi_merge *merges;
    mpi_source *sources;
    mpi_range *ranges;
    size_t round_count, message_count, merge_count, source_count, range_count;
    size_t round_room, message_room, merge_room, source_room, range_room;
    size_t round; /* the running one */
    bool begun;
    char *room; /* shared by the rounds, of which one runs at a time */
    size_t room_bytes;
    /* For merges: received subtrees, results, and workspace; NULL: no merge. */
    weft_subtree *brought, *made;
    void *merge_work;
    char *kept[2]; /* partial sums: of this rank's slot, and of its second one */
    const void *copy_from;
    void *copy_to; /* part that stays on this rank */
    int64_t copy_bytes;
    bool fetches; /* receives messages that MPI may fetch from the sender's memory */
} mpi_pending;

weft_status mpi_failed(const char *call, int code) WEFT_NODISCARD;
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        int mpi_try_code = (call);                                                                 \
        if (mpi_try_code != MPI_SUCCESS) return mpi_failed(#call, mpi_try_code);                   \
    } while (0)

/* mpi_rounds.c: plans rounds, and executes them. A range without elements needs no message. */
weft_status mpi_add_round(mpi_pending *p) WEFT_NODISCARD;
weft_status mpi_add_range(mpi_pending *p, int64_t start, int64_t size) WEFT_NODISCARD;
/* Uses the ranges from `first_range` on. */
weft_status mpi_add_message(weft_operation *o, mpi_message like) WEFT_NODISCARD;
weft_status mpi_add_merge(weft_operation *o, mpi_merge like, const mpi_source *sources,
                          int count) WEFT_NODISCARD;
weft_status mpi_end_rounds(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_start_rounds(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_advance_rounds(weft_operation *o) WEFT_NODISCARD;
/* Cancels receives; whether no message is active any more. */
bool mpi_stop_rounds(weft_operation *o);

/* mpi_chunk.c: workspace for all merges of an operation. */
weft_status mpi_merge_rooms(weft_operation *o) WEFT_NODISCARD;
/* Sums chunk c of a merge; packs a chunk of a message into the workspace. */
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

/* mpi_hypercube.c: the ranks as corners of a hypercube. N ranks represent P = 2^levels slots; a
 * slot without a rank of its own belongs to a rank of the lower half, too. */
typedef struct mpi_slots {
    int levels, slots, ranks, me;
    int mine[2], count; /* the slots of this rank */
} mpi_slots;
mpi_slots mpi_slots_of(const weft_operation *o);
int mpi_slot_owner(const mpi_slots *s, int slot);
/* Ranks [*begin, *end) of the block of 2^level slots around a slot; false: none. */
bool mpi_slot_block(const mpi_slots *s, int slot, int level, int *begin, int *end);

/* Planners of operations. */
weft_status mpi_plan_sum(weft_operation *o) WEFT_NODISCARD; /* mpi_reduce.c */
weft_status
mpi_plan_move(weft_operation *o) WEFT_NODISCARD; /* mpi_collectives.c: everything else */

/* mpi_failure.c: mismatched collectives, aborts, missing ranks. */
weft_status mpi_check_alike(const weft_operation *o) WEFT_NODISCARD;
const char *mpi_aborted(weft_comm *comm);
void mpi_abort(weft_comm *comm);
void mpi_describe(weft_operation *o, weft_text *text);

#endif
