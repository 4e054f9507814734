/* Internals of communicators: the interface that an engine implements. */
#ifndef WEFT_COMM_COMM_H
#define WEFT_COMM_COMM_H

#include "base/base.h"
#include "weft/comm.h"

/* The progress engine of a rank, shared by its communicators. All active operations are advanced
 * together, since a rank that waits for one of them may owe another its part. */
typedef struct weft_progress {
    int references;
    int local_rank; /* among the ranks of this machine */
    double timeout;
    bool check;
    weft_operation *active; /* list */
    char *note;             /* see weft_comm_set_note, or NULL */
    weft_comm_stats stats;
} weft_progress;

typedef struct weft_comm_ops {
    const char *name;
    void (*close)(weft_comm *comm);
    weft_status (*split)(weft_comm *comm, int color, int key, weft_comm **out);
    /* Allocates the engine's state of an operation, whose head is filled. */
    weft_status (*prepare)(weft_operation *operation);
    void (*destroy)(weft_operation *operation);
    weft_status (*start)(weft_operation *operation);
    /* Makes progress without waiting; sets operation->done at the end. */
    weft_status (*advance)(weft_operation *operation);
    /* Lists missing ranks, after the time limit. */
    void (*describe)(weft_operation *operation, weft_text *text);
    void (*abort)(weft_comm *comm);
    /* The message of an abort, or NULL. */
    const char *(*aborted)(weft_comm *comm);
} weft_comm_ops;

/* The head of every communicator. */
struct weft_comm {
    const weft_comm_ops *ops;
    weft_context *context;
    weft_progress *member;
    int rank, size, local_size;
    int64_t sequence; /* collectives started so far */
};

/* The head of every operation. */
struct weft_operation {
    weft_comm *comm;
    weft_transfer t;
    char *what;
    char note[2][WEFT_NOTE_SIZE]; /* for the progress engine's note: active, done */
    int64_t *counts;              /* [2 N]: counts, then receive_counts */
    int64_t bytes;                /* sent by this rank */
    int64_t sequence;
    bool started, done;
    double began, ended;
    weft_operation *next;
    void *state; /* of the engine */
};

typedef struct weft_engine {
    const char *name;
    const char *summary;
    weft_status (*open)(weft_context *context, int ranks, weft_comm **out, int *local);
    bool implied; /* by the number of ranks */
} weft_engine;

extern const weft_engine weft_engine_self, weft_engine_threads, weft_engine_mpi,
    weft_engine_processes;

/* Registers the built-in engines with a context. */
weft_status weft_engines_register(weft_context *context) WEFT_NODISCARD;

/* For tests: the largest message of the engine mpi, otherwise 2^30 bytes. MPI counts in int, so
 * longer transfers take several. */
void weft_mpi_set_piece(int64_t bytes);

weft_status weft_progress_new(weft_progress **out) WEFT_NODISCARD;
/* PEER: another rank has ended the job, "before" or "in" this operation. Such messages begin alike,
 * unlike those of ranks that have found a failure themselves. */
#define WEFT_ENDED "the job was ended"
weft_status weft_operation_ended(const weft_operation *o, const char *when,
                                 const char *why) WEFT_NODISCARD;
void weft_progress_release(weft_progress *member);

/* transfer.c: checks the arguments of a transfer; and the number of elements that this rank sends,
 * for weft_comm_stats. */
weft_status weft_transfer_check(const weft_comm *comm,
                                const weft_transfer *transfer) WEFT_NODISCARD;
int64_t weft_transfer_sends(const weft_operation *operation);

/* Elements of the ranks before rank r, in an operation with counts; r may be the size. */
int64_t weft_counts_before(const int64_t *counts, int r);

/* collective_check.c: whether rank r's collective (a transfer and its counts) matches `o`. */
bool weft_transfer_alike(const weft_operation *o, int r, const weft_transfer *t,
                         const int64_t *counts);
/* "all-gather of fc1/weight (30 f32 = 10 + 20)" */
enum { WEFT_TRANSFER_TEXT = 192 };
void weft_transfer_describe(const weft_transfer *t, const char *what, const int64_t *counts, int n,
                            char *out);

static inline bool weft_is_collective(weft_transfer_kind kind)
{
    return kind != WEFT_SEND && kind != WEFT_RECEIVE;
}

/* Collectives with a root, the peer. */
static inline bool weft_has_root(weft_transfer_kind kind)
{
    return kind == WEFT_BROADCAST || kind == WEFT_GATHER;
}

static inline bool weft_is_sum(weft_transfer_kind kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER;
}

/* Collectives in which all ranks know the counts of all. */
static inline bool weft_has_counts(weft_transfer_kind kind)
{
    return kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER || kind == WEFT_GATHER;
}

#endif
