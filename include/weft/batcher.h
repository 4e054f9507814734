/*
 * Batching: requests that come one by one are computed together, so that the mean of their
 * latencies, or a percentile, is the least that can be had at the load of the moment. There is no
 * network in this: a program that embeds the library submits a request and is called back.
 *
 * A batcher has executors, threads that compute one batch at a time each, and lines, one for each
 * model. Requests wait in their line; its policy (WEFT_KIND_POLICY) says when how many of them are
 * a batch. Lines share the executors: the one that has used them least, for its share, is next.
 *
 *   none                            each request by itself
 *   fixed:wait=US,max=ROWS          as soon as there are so many rows, or one has waited so long
 *   greedy                          whatever waits when an executor is free
 *   adaptive[:goal=mean|p50|p95|p99][,slo=MS]
 *                                   limit and wait that are best for what arrives, found by
 *                                   measurement: the least mean or quantile of latency; of the
 *                                   settings that keep p99 at or below slo milliseconds, if there
 *                                   are such, and else the one with the least p99
 *
 * All functions may be called by any thread, also in callbacks, except where they say otherwise.
 * Seconds are those of the monotonic clock.
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
    int executors;      /* batches computed at a time; at least 1, 1 at first */
    /* Called once in each executor's thread before its first batch, such as to bind it to its
     * cores; may be NULL. */
    void (*begin)(void *user, int executor);
    void (*end)(void *user, int executor); /* once after its last one; may be NULL */
    void *user;
} weft_batcher_options;
WEFT_API void weft_batcher_options_init(weft_batcher_options *options);

/* Starts the executors. MEMORY, IO: a thread cannot be had. */
WEFT_API WEFT_NODISCARD weft_status weft_batcher_create(weft_context *context,
                                                        const weft_batcher_options *options,
                                                        weft_batcher **out);
/* Ends the lines that are left as weft_line_remove does, then the executors. NULL is allowed. Not
 * from a callback. */
WEFT_API void weft_batcher_destroy(weft_batcher **batcher);

/* What a line is made from. */
typedef struct weft_line_options {
    size_t struct_size; /* sizeof(weft_line_options) */
    const char *policy; /* "adaptive" */
    int64_t limit;      /* rows of a batch at the most; 64 */
    int64_t waiting;    /* rows that may wait; what would be more is refused with BUSY. 4096 */
    double share;       /* of the executors' time, against other lines; 1 */
    /* Computes a batch: rows in all of `count` requests (their `user`s), in the thread of this
     * executor, or in the thread that lends itself in its place; never two at a time for the same
     * executor. A failure is what every request of the batch is answered; for one of several
     * requests the line tries each of them alone first, so that only those fail that fail alone. */
    weft_status (*run)(void *user, int executor, void *const *requests, int count, int64_t rows);
    void *user;
    /* What a batch of rows takes where `busy` executors compute, in seconds, as measured before:
     * `sizes` rows[], times[] for one that is alone, and the factor by which `busy` of them slow
     * each other down, slower[busy - 1]. Copied. 0, NULL: learned from the first batches on. */
    const int64_t *curve_rows;
    const double *curve_times;
    int curve_sizes;
    const double *slower; /* [executors], or NULL */
    bool short_runs; /* its runs use only the thread that calls `run`, so another thread may lend
                        itself to it */
} weft_line_options;
WEFT_API void weft_line_options_init(weft_line_options *options);

/* Adds a line. ARGUMENT: a policy that there is not, or a number out of its bounds; the message
 * says which. */
WEFT_API WEFT_NODISCARD weft_status weft_line_add(weft_batcher *batcher,
                                                  const weft_line_options *options,
                                                  weft_line **out);
/* Takes no more requests (BUSY), and returns when those that wait have been answered: computed if
 * `finish`, else refused with BUSY. Frees *line and nulls it. Not from a callback of this line. */
WEFT_API void weft_line_remove(weft_line **line, bool finish);

/* How a request has ended. Valid during the call. */
typedef struct weft_answered {
    weft_status status;  /* OK; LATE: its time was over before it was computed; BUSY: the line has
                            ended; or what run failed with */
    const char *message; /* of a failure; else "" */
    double queued;       /* seconds from being submitted until its batch began */
    double computed;     /* seconds of the batch */
    int64_t rows;        /* of the batch */
} weft_answered;

typedef struct weft_request {
    size_t struct_size; /* sizeof(weft_request) */
    int64_t rows;       /* at least 1 and at most the line's limit */
    uint64_t like;      /* only requests that are alike in this share a batch */
    double patience;    /* seconds in which it must have been begun; 0: any */
    int priority;       /* higher ones are taken first, of the same those that came first; 0 */
    bool quiet;         /* wakes no executor: the caller goes on to weft_batcher_lend */
    void *user;
    /* Called once for each request that was taken and not cancelled, in the thread that computed
     * it or found it late. Must not wait. */
    void (*done)(void *user, const weft_answered *answered);
} weft_request;
WEFT_API void weft_request_init(weft_request *request);

/* Takes a request; *ticket (may be NULL) names it to weft_line_cancel. ARGUMENT: its rows; BUSY:
 * too many wait, or the line is being removed. */
WEFT_API WEFT_NODISCARD weft_status weft_line_submit(weft_line *line, const weft_request *request,
                                                     uint64_t *ticket);
/* Gives up a request. true: it waited, and `done` will not be called; false: it is being computed
 * or has been. */
WEFT_API bool weft_line_cancel(weft_line *line, uint64_t ticket);

/* For a thread with an event loop that has nothing else to do: computes in the calling thread what
 * is due now in lines of short_runs, while an executor is idle in whose place it may, until nothing
 * is due or `seconds` are over. Wakes executors for what is left. How many batches it computed. */
WEFT_API int weft_batcher_lend(weft_batcher *batcher, double seconds);

/* --- what a line has done and decided --- */

/* Latencies, by powers of 2^(1/4) from a microsecond on; the last has all that are longer. */
enum { WEFT_LATENCY_CELLS = 120, WEFT_BATCH_CELLS = 32 };
typedef struct weft_line_stats {
    int64_t requests, rows;                   /* answered with OK */
    int64_t failed, late, refused, cancelled; /* requests */
    int64_t batches;
    int64_t waiting, waiting_rows,
        running;                         /* now: requests and rows in the line, batches under way */
    double queued, computed;             /* seconds, summed over requests answered with OK */
    int64_t latency[WEFT_LATENCY_CELLS]; /* requests answered with OK, by latency from being
                                            submitted */
    int64_t batch[WEFT_BATCH_CELLS];     /* batches by rows: cell i has (2^(i-1), 2^i] */
    double rate;                         /* requests a second, as estimated now; 0: not known */
    double burstiness; /* squared coefficient of variation of the gaps between them: 1 for
                          independent ones */
    double wait;       /* seconds, and rows that are waited for, as the policy has them now */
    int64_t need, limit;
    double predicted;  /* seconds: what the policy expects of its goal; 0: it does not say */
    int64_t decisions; /* how often it has chosen anew */
} weft_line_stats;
WEFT_API void weft_line_describe(weft_line *line, weft_line_stats *out);
/* A quantile (0..1) of counts as in `latency`, in seconds; 0 where there are none. */
WEFT_API double weft_latency_quantile(const int64_t *cells, double quantile);

/* What a batch of rows takes, as is known now: seconds with `busy` executors computing (1 ..
 * executors). 0: not known. */
WEFT_API double weft_line_time(weft_line *line, int64_t rows, int busy);

#ifdef __cplusplus
}
#endif
#endif
