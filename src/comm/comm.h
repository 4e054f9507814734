/* Declares the interface that an engine (self, threads, mpi) implements, and the heads of its
 * communicators and operations. */
#ifndef WEFT_COMM_COMM_H
#define WEFT_COMM_COMM_H

#include "base/base.h"
#include "weft/comm.h"

/* The progress engine of a rank, shared by all communicators of the rank. A wait for one operation
 * advances all active operations, since another rank may be waiting for this rank's part of another
 * one. */
typedef struct weft_progress {
    int references;
    int local_rank;         /* index among the ranks of this machine */
    double timeout;         /* seconds that a wait may last */
    bool check;             /* see weft_comm_set_check */
    weft_operation *active; /* list of started operations, oldest first */
    char *note;             /* see weft_comm_set_note, or NULL */
    weft_comm_stats stats;
} weft_progress;

/* Buffers of a transfer in memory that only a device accesses. The functions queue work on the
 * device of this rank and never wait for it: while a transfer runs, the host only tells other ranks
 * what it has queued. They may be given the buffers of another rank, whose memory and marks the
 * device reaches. A rank's buffers and marks outlive what other ranks queue with them. */
typedef struct weft_far weft_far;
/* How far the work is that a rank has queued: its operands are there; its part of a sum is; it has
 * read what it needs of other ranks; and they have read what they need of it. */
typedef enum weft_far_mark {
    WEFT_FAR_READY, /* recorded before the transfer starts */
    WEFT_FAR_SUMMED,
    WEFT_FAR_READ,
    WEFT_FAR_DONE,
    WEFT_FAR_MARKS
} weft_far_mark;
typedef struct weft_far_ops {
    weft_status (*mark)(weft_far *far, weft_far_mark mark);
    /* Later work of this rank waits for a mark of another one. */
    weft_status (*follow)(weft_far *far, const weft_far *other, weft_far_mark mark);
    /* Copies `bytes` bytes from offset `at` of what another rank sends (received: of what it
     * receives) to offset `to` of what this rank receives. */
    weft_status (*copy)(weft_far *far, const weft_far *from, bool received, size_t at, size_t to,
                        size_t bytes);
    /* Sums elements [begin, end) of what all ranks send, all[r], to element `to` of what this rank
     * receives, in the order of weft_tree_sum. A transfer has one such sum on each rank. */
    weft_status (*sum)(weft_far *far, const weft_far *const *all, int64_t begin, int64_t end,
                       int64_t to);
    /* Waits for all marks; another thread may call it. */
    void (*settle)(const weft_far *far);
    /* Queues the whole transfer, counts: [2 ranks] as in weft_operation; the communicator takes no
     * part, so any engine's can have it, and of the others `settle` alone is called. NULL: the
     * communicator queues its stages by the functions above. */
    weft_status (*run)(weft_far *far, const weft_transfer *transfer, const int64_t *counts);
} weft_far_ops;
/* The head of such buffers. */
struct weft_far {
    const weft_far_ops *ops;
};

typedef struct weft_comm_ops {
    const char *name;
    /* Ranks are threads of one process, which reach each other's memory of devices if the devices
     * do (weft_comm_prepare_far). */
    bool far;
    /* Whether it reads and writes memory of a device by addresses of this kind; NULL: of none. */
    bool (*reads)(weft_pointer_kind kind);
    void (*close)(weft_comm *comm);
    weft_status (*split)(weft_comm *comm, int color, int key, weft_comm **out);
    /* Plans an operation whose head is filled, and allocates its `state`. */
    weft_status (*prepare)(weft_operation *operation);
    void (*destroy)(weft_operation *operation);
    weft_status (*start)(weft_operation *operation);
    /* Makes progress without waiting; sets operation->done when the operation has ended. */
    weft_status (*advance)(weft_operation *operation);
    /* Appends the waiting and the missing ranks to the message of an operation that exceeded its
     * time limit. */
    void (*describe)(weft_operation *operation, weft_text *text);
    void (*abort)(weft_comm *comm);
    /* The message of the rank that has aborted the job, or NULL if none has. */
    const char *(*aborted)(weft_comm *comm);
} weft_comm_ops;

/* The head of every communicator. */
struct weft_comm {
    const weft_comm_ops *ops;
    weft_context *context;
    weft_progress *member;
    int rank, size, local_size;
    int64_t sequence; /* collectives started on this communicator so far */
};

/* The head of every operation. */
struct weft_operation {
    weft_comm *comm;
    weft_transfer t;
    char *what;
    char note[2][WEFT_NOTE_SIZE]; /* written to weft_progress.note when active, done */
    int64_t *counts;              /* [2 N] of each rank: counts, then receive_counts */
    weft_far *far;                /* buffers in memory of a device; NULL: host memory */
    int64_t bytes;                /* sent by this rank */
    int64_t sequence;             /* of a collective: its number on the communicator */
    bool by_address; /* set before it starts: its addresses may be of a device's memory */
    bool started, done;
    double began, ended; /* weft_seconds; 0: not measured */
    weft_operation *next;
    void *state; /* of the engine */
};

/* An engine, which says what ranks are. `open` stores the communicators of this process's ranks in
 * out[0 .. *local - 1]. */
typedef struct weft_engine {
    const char *name;
    const char *summary;
    weft_status (*open)(const struct weft_engine *engine, weft_context *context, int ranks,
                        weft_comm **out, int *local);
    bool implied; /* chosen by the number of ranks, and not offered by options */
    /* The bytes that a rank takes for a communicator of `size` ranks; NULL: few. */
    size_t (*share)(int size);
    /* The bytes that a rank takes for an operation, whose head is filled and that is not prepared;
     * NULL: few. */
    size_t (*room)(weft_operation *operation);
    /* The bytes that the engine takes in a process beside both; NULL: few. */
    size_t (*process)(void);
} weft_engine;
/* The bytes that a rank takes for an operation between `size` ranks by the engine, beside the
 * caller's buffers, whose addresses only have to be there; 0: few, or not known. */
size_t weft_comm_room_bytes(const weft_context *context, const char *engine, const weft_transfer *t,
                            int size);
/* The bytes that a rank takes for a communicator of the engine; 0: few, or not known. */
size_t weft_comm_share_bytes(const weft_context *context, const char *engine, int size);
/* The bytes that the engine takes in a process of a run, which are measured in this one, where some
 * of them stay; 0: few, not known, or this process has them already. */
size_t weft_comm_process_bytes(const weft_context *context, const char *engine);

extern const weft_engine weft_engine_self, weft_engine_threads, weft_engine_mpi,
    weft_engine_processes;

/* added_comm.c: engines that programs and plug-ins add. */
extern const struct weft_extension weft_engines_extension;
/* Registers the built-in engines with a context. */
weft_status weft_engines_register(weft_context *context) WEFT_NODISCARD;

/* Whether ranks of this communicator can read each other's memory of devices. */
bool weft_comm_is_far(const weft_comm *comm);
/* As weft_comm_prepare, for buffers in memory of a device, which outlive the operation. `send` and
 * `receive` are not accessed: any address that is not NULL. All ranks of a collective, or both of a
 * message, must do so. */
weft_status weft_comm_prepare_far(weft_comm *comm, const weft_transfer *transfer, weft_far *far,
                                  weft_operation **out) WEFT_NODISCARD;

/* mpi.c: fails with UNSUPPORTED where the build has no MPI, and says so. */
weft_status weft_mpi_built(void) WEFT_NODISCARD;
/* For tests: sets the size in bytes of the largest MPI message, which is 2^30 otherwise. MPI counts
 * in int, so longer transfers take several messages. */
void weft_mpi_set_piece(int64_t bytes);

weft_status weft_progress_new(weft_progress **out) WEFT_NODISCARD;
/* Fails with PEER: another rank has ended the job "before" or "in" (`when`) this operation. The
 * message begins with WEFT_ENDED, which tells it from messages of ranks that have found the failure
 * themselves. */
#define WEFT_ENDED "the job was ended"
weft_status weft_operation_ended(const weft_operation *o, const char *when,
                                 const char *why) WEFT_NODISCARD;
void weft_progress_release(weft_progress *member);

/* transfer.c: weft_transfer_check checks the arguments of a transfer; weft_transfer_sends returns
 * the number of elements that this rank sends, as weft_comm_stats counts them. */
weft_status weft_transfer_check(const weft_comm *comm,
                                const weft_transfer *transfer) WEFT_NODISCARD;
int64_t weft_transfer_sends(const weft_operation *operation);

/* rounds.c: how ranks that send messages sum. In round l of doubling and halving, ranks exchange
 * data with those whose number differs in bit l; the other ways are explained in mpi_reduce.c. */
typedef enum weft_sum_way { WEFT_SUM_DOUBLING, WEFT_SUM_HALVING, WEFT_SUM_DIRECT } weft_sum_way;
enum { WEFT_DIRECT_RANKS = 16 }; /* most ranks that sum directly */
/* scatters: a reduce-scatter, no all-reduce; bytes: of the whole vector; near: all ranks of the job
 * are on one machine. */
weft_sum_way weft_sum_way_of(bool scatters, int ranks, int64_t bytes, bool near);
/* The logarithm of the next power of two. */
int weft_comm_levels(int ranks);
/* The rounds of a transfer in which messages cross machines, one after the other, where each
 * machine has `each` consecutive ranks; bytes: of the whole vector of a sum. 0: all ranks are on
 * one. */
int weft_comm_rounds(weft_transfer_kind kind, int ranks, int each, int64_t bytes);

/* The rank that `me` gets among the ranks of its color. `splits` holds the color and key of each
 * rank. *size: the number of ranks of the color; *first: the one that becomes rank 0. */
int weft_split_place(const int32_t *splits, int n, int me, int *size, int *first);

/* The sum of the counts of the ranks before rank r; r may be the number of ranks. */
int64_t weft_counts_before(const int64_t *counts, int r);

/* collective_check.c: whether the collective `o` of this rank matches the collective that rank r
 * has started (its transfer and counts). */
bool weft_transfer_alike(const weft_operation *o, int r, const weft_transfer *t,
                         const int64_t *counts);
/* Writes a collective as text, such as "all-gather of fc1/weight (30 f32 = 10 + 20)". */
enum { WEFT_TRANSFER_TEXT = 192 };
void weft_transfer_describe(const weft_transfer *t, const char *what, const int64_t *counts, int n,
                            char *out);

/* Describes the ranks that an operation waits for: the other rank of a message, or the ranks of a
 * collective that have arrived, and those that are missing. world: [size] their ranks in the job.
 */
void weft_describe_ranks(const weft_operation *o, const int *world,
                         bool (*arrived)(const weft_operation *o, int rank), weft_text *text);

/* Whether the device runs the whole operation, without the communicator. */
static inline bool weft_runs_on_device(const weft_operation *o)
{
    return o->far && o->far->ops->run;
}

static inline bool weft_is_collective(weft_transfer_kind kind)
{
    return kind != WEFT_SEND && kind != WEFT_RECEIVE;
}

/* Collectives with a root rank, which is weft_transfer.peer. */
static inline bool weft_has_root(weft_transfer_kind kind)
{
    return kind == WEFT_BROADCAST || kind == WEFT_GATHER;
}

static inline bool weft_is_sum(weft_transfer_kind kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER;
}

/* Collectives in which each rank has the same counts, one for each rank. */
static inline bool weft_has_counts(weft_transfer_kind kind)
{
    return kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER || kind == WEFT_GATHER;
}

#endif
