/*
 * Batching: requests that arrive one by one are computed in batches, so that the mean or a
 * percentile of their latencies is minimal for the current load. No network is involved: a program
 * that embeds the library submits a request and gets a callback.
 *
 * A batcher has executors, threads that compute one batch at a time each, and queues, one for each
 * model. Requests wait in their queue; its policy (WEFT_KIND_POLICY) says when how many of them are
 * a batch. Lines share the executors: the one that has used them least, for its share, is next.
 *
 *   none                            each request is a batch
 *   fixed:wait=US,max=ROWS          a batch starts with so many rows, or after so long a wait
 *   greedy                          a free executor takes all waiting requests
 *   adaptive[:goal=mean|p50|p95|p99][,slo=MS]
 *                                   finds the limit and wait that are best for the measured
 *                                   arrivals: minimises the mean or a quantile of latency, among
 *                                   the settings that keep p99 at or below slo milliseconds if
 *                                   there are any, else minimises p99
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
    int executors;      /* batches computed at a time; at least 1, default 1 */
    /* Called once in each executor's thread before its first batch, for example to bind it to
     * cores; may be NULL. */
    void (*begin)(void *user, int executor);
    void (*end)(void *user, int executor); /* once after the last batch; may be NULL */
    void *user;
} weft_batcher_options;
WEFT_API void weft_batcher_options_init(weft_batcher_options *options);

/* Starts the executors. MEMORY, IO: a thread cannot be created. */
WEFT_API WEFT_NODISCARD weft_status weft_batcher_create(weft_context *context,
                                                        const weft_batcher_options *options,
                                                        weft_batcher **out);
/* Ends the queues that are left as weft_batch_queue_remove does, then the executors. NULL is
 * allowed. Not from a callback. */
WEFT_API void weft_batcher_destroy(weft_batcher **batcher);

/* Options of a queue. */
typedef struct weft_batch_queue_options {
    size_t struct_size;  /* sizeof(weft_batch_queue_options) */
    const char *policy;  /* "adaptive" */
    int64_t limit;       /* rows of a batch at the most; 64 */
    int64_t max_waiting; /* rows that may wait; what would be more is refused with BUSY. 4096 */
    double share;        /* of the executors' time, against other queues; 1 */
    /* Computes a batch: rows in all of `count` requests (their `user`s), in the thread of this
     * executor, or in the thread that lends itself in its place; never two at a time for the same
     * executor. A failure is what every request of the batch is answered; for one of several
     * requests the queue tries each of them alone first, so that only those fail that fail alone.
     */
    weft_status (*run)(void *user, int executor, void *const *requests, int count, int64_t rows);
    void *user;
    /* Earlier measurements of batch times, which are copied: `sizes` rows[] and times[] in seconds
     * for a batch that runs alone, and the slowdown slower[busy - 1] of `busy` concurrent batches.
     * 0, NULL: learned from the first batches. */
    const int64_t *curve_rows;
    const double *curve_times;
    int curve_sizes;
    const double *slowdown; /* [executors], or NULL */
    bool run_in_caller; /* its runs use only the thread that calls `run`, so another thread may lend
                        itself to it */
} weft_batch_queue_options;
WEFT_API void weft_batch_queue_options_init(weft_batch_queue_options *options);

/* Adds a queue. ARGUMENT: a policy that there is not, or a number out of its bounds; the message
 * says which. */
WEFT_API WEFT_NODISCARD weft_status weft_batch_queue_add(weft_batcher *batcher,
                                                         const weft_batch_queue_options *options,
                                                         weft_batch_queue **out);
/* Takes no more requests (BUSY), and returns when those that wait have been answered: computed if
 * `finish`, else refused with BUSY. Frees *queue and nulls it. Not from a callback of this queue.
 */
WEFT_API void weft_batch_queue_remove(weft_batch_queue **queue, bool finish);

/* How a request has ended. Valid during the call. */
typedef struct weft_request_result {
    weft_status status;   /* OK; LATE: its time was over before it was computed; BUSY: the queue has
                             ended; or what run failed with */
    const char *message;  /* of a failure; else "" */
    double queue_seconds; /* seconds from being submitted until its batch began */
    double compute_seconds; /* seconds of the batch */
    int64_t rows;           /* of the batch */
} weft_request_result;

typedef struct weft_request {
    size_t struct_size;   /* sizeof(weft_request) */
    int64_t rows;         /* at least 1 and at most the queue's limit */
    uint64_t batch_key;   /* only requests that are alike in this share a batch */
    double queue_timeout; /* seconds in which it must have been begun; 0: any */
    int priority;         /* higher ones are taken first, of the same those that came first; 0 */
    bool no_wake;         /* wakes no executor: the caller goes on to weft_batcher_run_due */
    void *user;
    /* Called once for each request that was taken and not cancelled, in the thread that computed
     * it or found it late. Must not wait. */
    void (*done)(void *user, const weft_request_result *result);
} weft_request;
WEFT_API void weft_request_init(weft_request *request);

/* Takes a request; *ticket (may be NULL) names it to weft_batch_queue_cancel. ARGUMENT: its rows;
 * BUSY: too many wait, or the queue is being removed. */
WEFT_API WEFT_NODISCARD weft_status weft_batch_queue_submit(weft_batch_queue *queue,
                                                            const weft_request *request,
                                                            uint64_t *ticket);
/* Gives up a request. true: it waited, and `done` will not be called; false: it is being computed
 * or has been. */
WEFT_API bool weft_batch_queue_cancel(weft_batch_queue *queue, uint64_t ticket);

/* For a thread with an event loop that has nothing else to do: computes in the calling thread what
 * is due now in queues with run_in_caller, while an executor is idle in whose place it may, until
 * nothing is due or `seconds` are over. Wakes executors for what is left. How many batches it
 * computed. */
WEFT_API int weft_batcher_run_due(weft_batcher *batcher, double seconds);

/* --- what a queue has done and decided --- */

/* Cells of the histogram of latencies grow by 2^(1/4) from one microsecond on; the last one has all
 * longer latencies. */
enum { WEFT_LATENCY_CELLS = 120, WEFT_BATCH_CELLS = 32 };
typedef struct weft_batch_queue_stats {
    int64_t requests, rows;                      /* answered with OK */
    int64_t failed, expired, refused, cancelled; /* requests */
    int64_t batches;
    int64_t waiting, waiting_rows,
        running; /* now: requests and rows in the queue, batches under way */
    double queue_seconds, compute_seconds; /* seconds, summed over requests answered with OK */
    int64_t latency[WEFT_LATENCY_CELLS];   /* requests answered with OK, by latency from being
                                              submitted */
    int64_t batch[WEFT_BATCH_CELLS];       /* batches by rows: cell i has (2^(i-1), 2^i] */
    double rate;                           /* requests a second, as estimated now; 0: not known */
    double burstiness; /* squared coefficient of variation of the gaps between them: 1 for
                          independent ones */
    double max_delay;  /* seconds, and rows that are waited for, as the policy has them now */
    int64_t min_rows, max_rows;
    double predicted;  /* seconds: what the policy expects of its goal; 0: it does not say */
    int64_t decisions; /* how often it has chosen anew */
} weft_batch_queue_stats;
WEFT_API void weft_batch_queue_describe(weft_batch_queue *queue, weft_batch_queue_stats *out);
/* A quantile (0..1) of counts as in `latency`, in seconds; 0 where there are none. */
WEFT_API double weft_latency_quantile(const int64_t *cells, double quantile);

/* The estimated time of a batch, by its rows: seconds with `busy` executors computing (1 ..
 * executors). 0: not known. */
WEFT_API double weft_batch_queue_batch_time(weft_batch_queue *queue, int64_t rows, int busy);

#ifdef __cplusplus
}
#endif
#endif
