/* Inside of the engine mpi. */
#ifndef WEFT_COMM_MPI_H
#define WEFT_COMM_MPI_H

#include <mpi.h>

#include "base/tree_sum.h"
#include "comm/comm.h"

/* What is there once for a process, as MPI is. */
typedef struct mpi_world {
    bool started, given_up;
    MPI_Comm control;
    int rank, size, local, local_rank;
    int64_t piece; /* bytes of the largest message, since MPI counts in int */
    char why[768];
    MPI_Request *told; /* [size], for words to all at the end, when there may be no memory left */
} mpi_world;
extern mpi_world mpi_process;

/* Whether messages go through memory: a round then costs little, the bytes that are moved and added
 * count sooner. The same on all ranks. */
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

/* A vector as it lies: element i of part k at base + (k stride + i - origin) elements. */
typedef struct mpi_vector {
    char *base;
    int64_t stride, origin;
    int parts;
} mpi_vector;

/* The elements of some ranges, of all parts, on their way to or from one rank. They go in chunks,
 * of which at most WINDOW are under way. */
enum { WINDOW = 4 };
typedef struct mpi_message {
    int peer;
    bool out;
    bool second;  /* of the sender's second slot (mpi_hypercube.c) */
    bool merged;  /* in: what arrives is added up with what others have, and not kept */
    bool bounded; /* the last chunk is short, so that the receiver notices another length */
    mpi_vector at;
    size_t first_range;
    int ranges;
    int64_t at_most;  /* bytes of a chunk; 0: as many as MPI can count */
    int64_t elements; /* of all ranges */
    int64_t each;     /* of a chunk */
    int64_t chunks, posted, arrived, freed;
    bool roomed;    /* chunks lie in the room: what is received to be merged, or was packed */
    size_t room_at; /* WINDOW chunks */
    MPI_Request requests[WINDOW];
} mpi_message;

/* Leaves [first, last) of the tree: here (message < 0), or in what a message brings. */
typedef struct mpi_source {
    int64_t message;
    mpi_vector at;
    int first, last;
} mpi_source;

/* What sources have of some ranges is added up, and written where it belongs. */
typedef struct mpi_merge {
    size_t first_source;
    int sources;
    mpi_vector to;
    size_t first_range;
    int ranges;
    int64_t at_most, elements, each, chunks, done; /* as in its messages */
    bool after_sends;                              /* it overwrites what this round sends */
    bool simple; /* one range of two sources, each of one subtree, to one */
} mpi_merge;

/* Messages that need nothing of each other. A round begins when the one before has ended. */
typedef struct mpi_round {
    size_t first_message, first_merge;
    int messages, merges;
} mpi_round;

/* An operation as rounds, made once. */
typedef struct mpi_pending {
    mpi_round *rounds;
    mpi_message *messages;
    mpi_merge *merges;
    mpi_source *sources;
    mpi_range *ranges;
    size_t round_count, message_count, merge_count, source_count, range_count;
    size_t round_room, message_room, merge_room, source_room, range_room;
    size_t round; /* that is under way */
    bool begun;
    char *room; /* shared by the rounds, of which one is under way */
    size_t room_bytes;
    /* To add up in: what sources bring, what comes of it, and room beside; NULL: nothing is. */
    weft_subtree *brought, *made;
    void *merge_work;
    char *kept[2]; /* partial sums: of this rank, and of the one it stands in for */
    const void *copy_from;
    void *copy_to; /* what stays on this rank */
    int64_t copy_bytes;
    bool fetches; /* receives messages that may be fetched from where the sender has them */
} mpi_pending;

weft_status mpi_failed(const char *call, int code) WEFT_NODISCARD;
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        int mpi_try_code = (call);                                                                 \
        if (mpi_try_code != MPI_SUCCESS) return mpi_failed(#call, mpi_try_code);                   \
    } while (0)

/* mpi_rounds.c: making rounds, and doing them. A range of no elements needs no message. */
weft_status mpi_add_round(mpi_pending *p) WEFT_NODISCARD;
weft_status mpi_add_range(mpi_pending *p, int64_t start, int64_t size) WEFT_NODISCARD;
/* Takes the ranges from `first_range` on. */
weft_status mpi_add_message(weft_operation *o, mpi_message like) WEFT_NODISCARD;
weft_status mpi_add_merge(weft_operation *o, mpi_merge like, const mpi_source *sources,
                          int count) WEFT_NODISCARD;
weft_status mpi_end_rounds(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_start_rounds(weft_operation *o) WEFT_NODISCARD;
weft_status mpi_advance_rounds(weft_operation *o) WEFT_NODISCARD;
/* Whether nothing is left to come or go; what can be taken back is. */
bool mpi_stop_rounds(weft_operation *o);

/* mpi_chunk.c: room for all merges of an operation. */
weft_status mpi_merge_rooms(weft_operation *o) WEFT_NODISCARD;
/* Chunk c of a merge is added up; a chunk of a message is packed into the room. */
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

/* mpi_hypercube.c: the ranks as corners of a cube. N ranks stand for P = 2^levels slots; a slot
 * without a rank of its own is stood in for by a rank of the lower half. */
typedef struct mpi_slots {
    int levels, slots, ranks, me;
    int mine[2], count; /* the slots of this rank */
} mpi_slots;
mpi_slots mpi_slots_of(const weft_operation *o);
int mpi_slot_owner(const mpi_slots *s, int slot);
/* Ranks [*begin, *end) of the block of 2^level slots around a slot; whether there is one. */
bool mpi_slot_block(const mpi_slots *s, int slot, int level, int *begin, int *end);

/* How operations become rounds. */
weft_status mpi_plan_sum(weft_operation *o) WEFT_NODISCARD; /* mpi_reduce.c */
weft_status
mpi_plan_move(weft_operation *o) WEFT_NODISCARD; /* mpi_collectives.c: everything else */

/* mpi_failure.c: collectives that do not match, ranks that give up, ranks that are missing. */
weft_status mpi_check_alike(const weft_operation *o) WEFT_NODISCARD;
const char *mpi_aborted(weft_comm *comm);
void mpi_abort(weft_comm *comm);
void mpi_describe(weft_operation *o, weft_text *text);

#endif
