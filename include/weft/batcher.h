/*
 * Batching: requests that arrive one by one are computed in batches, so that the mean or a
 * percentile of their latencies is minimal for the current load. No network is involved: a program
 * that embeds the library submits a request and gets a callback.
 *
 * A batcher has executors, threads that compute one batch at a time each, and lines, one for each
 * model. A line is a queue of requests with a policy (WEFT_KIND_POLICY), which decides when a batch
 * starts and how many rows it has. Lines share the executors by weighted fair queueing: the line
 * that has used least executor time for its share is next.
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
typedef struct weft_line weft_line;

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
/* Removes the remaining lines (see weft_line_remove) and ends the executors. NULL is allowed. Not
 * to be called in a callback. */
WEFT_API void weft_batcher_destroy(weft_batcher **batcher);

/* Options of a line. */
typedef struct weft_line_options {
    size_t struct_size; /* sizeof(weft_line_options) */
    const char *policy; /* default "adaptive" */
    int64_t limit;      /* most rows of a batch; default 64 */
    int64_t waiting; /* most waiting rows; further requests are refused with BUSY. Default 4096 */
    double share;    /* weight for sharing the executors' time with other lines; default 1 */
    /* Computes a batch of `rows` rows in `count` requests (given by their `user`), in the
     * executor's thread or in a caller thread that takes its place; at most one call at a time for
     * each executor. If a batch of several requests fails, each request is run alone, so that only
     * those that fail alone are answered with the failure. */
    weft_status (*run)(void *user, int executor, void *const *requests, int count, int64_t rows);
    void *user;
    /* Earlier measurements of batch times, which are copied: `sizes` rows[] and times[] in seconds
     * for a batch that runs alone, and the slowdown slower[busy - 1] of `busy` concurrent batches.
     * 0, NULL: learned from the first batches. */
    const int64_t *curve_rows;
    const double *curve_times;
    int curve_sizes;
    const double *slower; /* [executors], or NULL */
    bool short_runs;      /* runs use only the calling thread, so a caller thread may run them */
} weft_line_options;
WEFT_API void weft_line_options_init(weft_line_options *options);

/* Adds a line. ARGUMENT: names the unknown policy or the number out of range. */
WEFT_API WEFT_NODISCARD weft_status weft_line_add(weft_batcher *batcher,
                                                  const weft_line_options *options,
                                                  weft_line **out);
/* Refuses further requests (BUSY), and returns when those that wait have been answered: computed if
 * `finish`, else refused with BUSY. Frees *line and sets it to NULL. Not to be called in a callback
 * of this line. */
WEFT_API void weft_line_remove(weft_line **line, bool finish);

/* The result of a request. Valid during the call. */
typedef struct weft_answered {
    weft_status status;  /* OK; LATE: its deadline passed before it was computed; BUSY: the line was
                            removed; or the failure of run */
    const char *message; /* of a failure; else "" */
    double queued;       /* seconds from submission to the start of its batch */
    double computed;     /* seconds of the batch */
    int64_t rows;        /* of the batch */
} weft_answered;

typedef struct weft_request {
    size_t struct_size; /* sizeof(weft_request) */
    int64_t rows;       /* from 1 to the line's limit */
    uint64_t like;      /* only requests with equal values share a batch */
    double patience;    /* deadline for the start in seconds from submission; 0: none */
    int priority; /* higher ones are computed first, equal ones in order of arrival; default 0 */
    bool quiet;   /* wakes no executor, since the caller calls weft_batcher_lend */
    void *user;
    /* Called once for each submitted request that is not cancelled, in the thread that computed it
     * or found it late. Must not block. */
    void (*done)(void *user, const weft_answered *answered);
} weft_request;
WEFT_API void weft_request_init(weft_request *request);

/* Submits a request; *ticket (may be NULL) identifies it for weft_line_cancel. ARGUMENT: invalid
 * rows; BUSY: too many rows wait, or the line is being removed. */
WEFT_API WEFT_NODISCARD weft_status weft_line_submit(weft_line *line, const weft_request *request,
                                                     uint64_t *ticket);
/* Cancels a request. true: it was waiting, and `done` will not be called; false: it is being
 * computed or has been answered. */
WEFT_API bool weft_line_cancel(weft_line *line, uint64_t ticket);

/* For an event loop without other work: computes due batches of lines with short_runs in the
 * calling thread, in place of idle executors, until none is due or `seconds` have passed. Wakes
 * executors for the remaining ones. Returns the number of batches it computed. */
WEFT_API int weft_batcher_lend(weft_batcher *batcher, double seconds);

/* --- statistics of a line --- */

/* Cells of the histogram of latencies grow by 2^(1/4) from one microsecond on; the last one has all
 * longer latencies. */
enum { WEFT_LATENCY_CELLS = 120, WEFT_BATCH_CELLS = 32 };
typedef struct weft_line_stats {
    int64_t requests, rows;                   /* answered with OK */
    int64_t failed, late, refused, cancelled; /* number of requests */
    int64_t batches;
    int64_t waiting, waiting_rows,
        running; /* current state: requests and rows in the queue, batches in progress */
    double queued, computed;             /* seconds, summed over requests answered with OK */
    int64_t latency[WEFT_LATENCY_CELLS]; /* requests answered with OK, by latency from submission */
    int64_t batch[WEFT_BATCH_CELLS];     /* batches by rows: cell i has (2^(i-1), 2^i] */
    double rate;                         /* estimated requests a second; 0: unknown */
    double burstiness; /* squared coefficient of variation of the inter-arrival times; 1 for Poisson
                          arrivals */
    double wait;       /* current setting of the policy: seconds, and rows to wait for */
    int64_t need, limit;
    double predicted;  /* seconds: the policy's prediction for its goal; 0: none */
    int64_t decisions; /* number of decisions of the policy */
} weft_line_stats;
WEFT_API void weft_line_describe(weft_line *line, weft_line_stats *out);
/* A quantile (0..1) of a histogram like `latency`, in seconds; 0 if it is empty. */
WEFT_API double weft_latency_quantile(const int64_t *cells, double quantile);

/* The estimated time of a batch in seconds, with `busy` busy executors (1 .. executors). 0:
 * unknown. */
WEFT_API double weft_line_time(weft_line *line, int64_t rows, int busy);

#ifdef __cplusplus
}
#endif
#endif
