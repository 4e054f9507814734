/*
 * Dynamic batching: requests that arrive one by one are computed in batches, so that the mean or a
 * percentile of their latencies is minimal for the current load. No network is involved: a program
 * that embeds the library submits a request and gets a callback.
 *
 * A batcher has executors, which are threads that compute one batch at a time each, and batch
 * queues, one for each model. Requests wait in their queue. The policy of the queue
 * (WEFT_KIND_POLICY) decides when a batch starts and how many rows it has. Queues share the
 * executors by weighted fair queueing: the queue whose executor time, divided by its share, is the
 * least is served next.
 *
 *   none                            each request is a batch
 *   fixed[:wait=US][,max=ROWS]      a batch starts when `max` rows wait, or when its oldest request
 *                                   has waited `wait` microseconds
 *   greedy                          a free executor takes all waiting requests up to the limit
 *   adaptive[:goal=mean|p50|p95|p99][,slo=MS]
 *                                   finds the rows and the wait that are best for the measured
 *                                   arrivals: those with the least mean or quantile of latency
 *                                   among the settings that keep p99 at or below `slo`
 *                                   milliseconds; if none does, those with the least p99
 *
 * All functions are thread-safe, and may be called in callbacks unless they say otherwise. Times
 * are seconds of the monotonic clock.
 */
#ifndef WEFT_BATCHER_H
#define WEFT_BATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_batcher weft_batcher;
typedef struct weft_batch_queue weft_batch_queue;

typedef struct weft_batcher_options {
    size_t struct_size; /* sizeof(weft_batcher_options) */
    int executors;      /* executor threads, 1 to 64; default 1 */
    /* Called once in the thread of each executor before its first batch, for example to bind the
     * thread to cores; may be NULL. */
    void (*begin)(void *user, int executor);
    void (*end)(void *user, int executor); /* as `begin`, after the last batch; may be NULL */
    void *user;
} weft_batcher_options;
WEFT_API void weft_batcher_options_init_size(weft_batcher_options *options, size_t size);
#define weft_batcher_options_init(options)                                                         \
    weft_batcher_options_init_size(options, sizeof(*(options)))

/* Creates a batcher without queues and starts its executors. MEMORY, IO: a thread cannot be
 * created. */
WEFT_API WEFT_NODISCARD weft_status weft_batcher_create(weft_context *context,
                                                        const weft_batcher_options *options,
                                                        weft_batcher **out);
/* Removes the remaining queues, refusing their waiting requests (weft_batch_queue_remove), and ends
 * the executors. NULL is allowed. Must not be called from a callback. */
WEFT_API void weft_batcher_destroy(weft_batcher **batcher);

/* Options of a queue. */
typedef struct weft_batch_queue_options {
    size_t struct_size;  /* sizeof(weft_batch_queue_options) */
    const char *policy;  /* default "adaptive" */
    int64_t limit;       /* most rows of a batch; default 64 */
    int64_t max_waiting; /* most rows that may wait; requests beyond them get BUSY; default 4096 */
    double share;        /* weight of the queue against other queues, above 0; default 1 */
    /* Computes a batch of `count` requests, given by their `user` pointers, with `rows` rows in
     * all. The caller is the executor's thread or a thread that takes the executor's place
     * (weft_batcher_run_due); one executor computes one batch at a time. If a batch of several
     * requests fails, the queue runs each of them alone, and only those that fail alone are
     * answered with a failure. */
    weft_status (*run)(void *user, int executor, void *const *requests, int count, int64_t rows);
    void *user;
    /* Earlier measurements of batch times, which are copied: a batch of curve_rows[i] rows that
     * runs alone takes curve_times[i] seconds, for `curve_sizes` sizes; with `busy` concurrent
     * batches each takes slowdown[busy-1] times as long. 0, NULL: the queue learns them from its
     * first batches. */
    const int64_t *curve_rows;
    const double *curve_times;
    int curve_sizes;
    const double *slowdown; /* [executors]; NULL: learned */
    /* `run` uses no other thread than its caller's, so that threads of callers may compute its
     * batches (weft_batcher_run_due). */
    bool run_in_caller;
} weft_batch_queue_options;
WEFT_API void weft_batch_queue_options_init_size(weft_batch_queue_options *options, size_t size);
#define weft_batch_queue_options_init(options)                                                     \
    weft_batch_queue_options_init_size(options, sizeof(*(options)))

/* Adds a queue. ARGUMENT: no policy has that name, or a number is out of range; the message says
 * which. */
WEFT_API WEFT_NODISCARD weft_status weft_batch_queue_add(weft_batcher *batcher,
                                                         const weft_batch_queue_options *options,
                                                         weft_batch_queue **out);
/* Removes a queue. The queue refuses new requests (BUSY). Waiting requests are computed if
 * `finish`, and refused with BUSY otherwise. The call returns when all requests have been answered,
 * and frees and nulls *queue. Must not be called from a callback of this queue. */
WEFT_API void weft_batch_queue_remove(weft_batch_queue **queue, bool finish);

/* How a request has ended. Valid during the call of `done`. */
typedef struct weft_request_result {
    /* OK; LATE: its queue_timeout passed before its batch began; BUSY: the queue was removed; or
     * the failure of `run`. */
    weft_status status;
    const char *message;    /* message of a failure; else "" */
    double queue_seconds;   /* seconds from submission until its batch began */
    double compute_seconds; /* seconds that its batch took */
    int64_t rows;           /* rows of the batch */
    /* `done` may set it for a request that was computed and whose answer is a failure all the same;
     * the statistics then count the request as failed. NULL: the request was not computed. */
    bool *failed;
} weft_request_result;

typedef struct weft_request {
    size_t struct_size;   /* sizeof(weft_request) */
    int64_t rows;         /* rows of the request, 1 to the queue's limit */
    uint64_t batch_key;   /* only requests with equal keys share a batch */
    double queue_timeout; /* seconds within which its batch must begin; 0: unlimited */
    int priority;         /* higher ones go first; equal ones in order of arrival; default 0 */
    bool no_wake;         /* wakes no executor, since the caller will call weft_batcher_run_due */
    void *user;
    /* Called once for each request that was submitted and not cancelled, in the thread that
     * computed it or found that it was late. Must not wait. */
    void (*done)(void *user, const weft_request_result *result);
} weft_request;
WEFT_API void weft_request_init_size(weft_request *request, size_t size);
#define weft_request_init(request) weft_request_init_size(request, sizeof(*(request)))

/* Submits a request, which is copied; *ticket (may be NULL) names it to weft_batch_queue_cancel.
 * ARGUMENT: a number of rows that the queue does not accept; BUSY: too many rows wait, or the queue
 * is being removed; LATE: with the batch times that the queue knows, the requests before it take
 * longer than its queue_timeout. */
WEFT_API WEFT_NODISCARD weft_status weft_batch_queue_submit(weft_batch_queue *queue,
                                                            const weft_request *request,
                                                            uint64_t *ticket);
/* Cancels a request. true: the request was waiting, and `done` will not be called; false: it is
 * being computed or has been answered, so `done` is called or was. */
WEFT_API bool weft_batch_queue_cancel(weft_batch_queue *queue, uint64_t ticket);

/* Counts a request that ended before it was submitted, as refused, or as cancelled. */
WEFT_API void weft_batch_queue_count(weft_batch_queue *queue, bool refused);

/* For a thread with an event loop that has nothing else to do: takes the place of an idle executor
 * and computes due batches of queues with run_in_caller in the calling thread, until none is due or
 * `seconds` are over. Computes nothing if all executors are busy. Then wakes an executor if
 * requests wait. Returns the number of batches that it computed. */
WEFT_API int weft_batcher_run_due(weft_batcher *batcher, double seconds);

/* --- statistics of a queue --- */

/* Cells of the histogram of latencies: cell 0 has latencies up to a microsecond, the bound of each
 * further cell is 2^(1/4) times that of the one before, and the last cell has all longer
 * latencies. */
enum { WEFT_LATENCY_CELLS = 120, WEFT_BATCH_CELLS = 32 };
/* Why a batch began. */
typedef enum weft_batch_reason {
    WEFT_BATCH_FULL,    /* as many rows waited as a batch may have */
    WEFT_BATCH_ENOUGH,  /* as many waited as the policy waits for, such as 1 with greedy */
    WEFT_BATCH_WAITED,  /* a request had waited as long as the policy lets it */
    WEFT_BATCH_NO_MORE, /* none could come: all clients of a closed loop wait, or the queue is full
                           or is being removed */
    WEFT_BATCH_REASONS
} weft_batch_reason;
/* Statistics of a queue since it was added, and the present setting of its policy. */
typedef struct weft_batch_queue_stats {
    int64_t requests, rows;                      /* that were answered with OK */
    int64_t failed, expired, refused, cancelled; /* requests, by how they ended: LATE is expired */
    int64_t batches;                             /* computed batches */
    int64_t reasons[WEFT_BATCH_REASONS];         /* the same, by why they began */
    int64_t waiting, waiting_rows,
        running; /* now: requests and rows that wait, batches in progress */
    double queue_seconds, compute_seconds; /* seconds, summed over requests answered with OK */
    /* Requests answered with OK, by seconds from submission to answer. */
    int64_t latency[WEFT_LATENCY_CELLS];
    /* Batches by rows: cell i has 2^(i-1) + 1 to 2^i rows; the last also more. */
    int64_t batch[WEFT_BATCH_CELLS];
    double rate; /* requests per second, as estimated now; 0: unknown */
    /* Squared coefficient of variation of the gaps between requests; 1: independent (Poisson). */
    double burstiness;
    /* The policy's setting now: wait in seconds, rows that it waits for, most rows. */
    double max_delay;
    int64_t min_rows, max_rows;
    double predicted;  /* seconds: the value of its goal that the policy expects; 0: unknown */
    int64_t decisions; /* how often the policy has chosen a setting */
    uint64_t room[8];  /* of later versions: 0 */
} weft_batch_queue_stats;
WEFT_API void weft_batch_queue_describe(weft_batch_queue *queue, weft_batch_queue_stats *out);
/* A quantile (0..1) of a histogram like `latency`, in seconds; 0 if it is empty. */
WEFT_API double weft_latency_quantile(const int64_t *cells, double quantile);

/* The estimated seconds of a batch of so many rows, while `busy` executors (1 to all) compute. 0:
 * unknown. */
WEFT_API double weft_batch_queue_batch_time(weft_batch_queue *queue, int64_t rows, int busy);

#ifdef __cplusplus
}
#endif
#endif
