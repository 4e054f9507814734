/*
 * Load generator for servers that speak the Open Inference Protocol v2 over HTTP/1.1. In an open
 * loop requests are sent at given times, independent of earlier responses, and the latency of each
 * counts from when it was due: a stall of the server delays the requests that are due meanwhile,
 * and is counted in all of them. In a closed loop a constant number of requests is outstanding,
 * which measures the server's capacity.
 *
 * One thread generates all of the load. Times are seconds of the monotonic clock.
 */
#ifndef WEFT_LOAD_H
#define WEFT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/members.h"
#include "weft/options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_load weft_load;

/* Filled by weft_load_table (weft/options.h); strings are owned. */
typedef struct weft_load_options {
    char *rate; /* requests a second: "100,200", "100..800:100", each optionally with "@SECONDS";
                   NULL: 100, or the recorded times of a trace */
    double seconds;      /* duration of a rate without "@SECONDS" */
    int64_t requests;    /* most requests of a rate; 0: unlimited */
    char *arrivals;      /* WEFT_KIND_ARRIVALS */
    int64_t seed;        /* for arrivals and inputs */
    double warmup;       /* seconds before the first rate that are not counted */
    bool no_pause;       /* a rate does not wait for the responses of the previous one */
    char *closed;        /* "1,4,16": numbers of outstanding requests, instead of rates */
    int64_t rows;        /* of a request */
    bool json_tensors;   /* inputs and outputs as JSON instead of binary tensors */
    char *body;          /* a file to send instead of generated inputs */
    char *token;         /* bearer token */
    int64_t connections; /* most connections */
    double timeout;      /* seconds from being due after which a request has failed */
    char *trace_out;     /* CSV file for all requests */
    /* used by the command only */
    char *svg;
    bool json, quiet;
} weft_load_options;

/* The option table, terminated by a NULL name. The context must outlive it. */
WEFT_API const weft_option *weft_load_table(const weft_context *context);

/* Histogram of latencies whose buckets grow by 1.01 from one microsecond on: bucket i has those
 * below 1.01^(i+1) us, and the last one all longer ones. */
enum { WEFT_LOAD_BUCKETS = 2176, WEFT_LOAD_FAILURES = 16 };
typedef struct weft_load_histogram {
    int64_t count, buckets[WEFT_LOAD_BUCKETS];
    double sum, low, high; /* exact, in seconds */
} weft_load_histogram;
/* A quantile (0..1) in seconds, accurate to 1 %; 0 if there are none. */
WEFT_API double weft_load_quantile(const weft_load_histogram *histogram, double quantile);
WEFT_API double weft_load_mean(const weft_load_histogram *histogram);

/* Requests that have failed in the same way. */
typedef struct weft_load_failure {
    int status;       /* HTTP status; 0: no response, or an invalid one */
    const char *what; /* "timeout", "no connection" (all were in use), "connect", "closed",
                         "protocol", "stopped"; "" with a status */
    int64_t count;
    char example[256]; /* of the first one: the server's message, or a description */
} weft_load_failure;

/* Measurements at one rate. sent = ok + failed. */
typedef struct weft_load_result {
    double rate;    /* requested rate; 0: as recorded, or closed loop */
    int64_t closed; /* outstanding requests; 0: open loop */
    double seconds; /* until the last request was due and answered */
    int64_t sent, ok, failed;
    int64_t rows;   /* of a request; 0: unknown */
    int64_t waited; /* requests that found all connections in use */
    int64_t resent; /* requests that were repeated, as the server had closed the connection */
    int64_t opened; /* connections opened */
    double busy;   /* fraction of time in which the load generator was busy: near 1 its own limit is
                      measured */
    bool finished; /* it has ended */
    weft_load_histogram latency,
        send_delay; /* of requests with status 200; delay of sending requests */
    weft_load_failure failures[WEFT_LOAD_FAILURES]; /* the last one counts all that do not fit */
    int failure_kinds;
} weft_load_result;

/* Resolves the targets, queries the model of each, makes the requests, and sends one of them as a
 * test. Targets: "http://HOST[:PORT][/v2/models/NAME[/versions/V]]"; without a model, the server's
 * only one. `options` and `targets` must outlive it; `stop` (may be NULL) interrupts waiting.
 * ARGUMENT: names the option or target; UNSUPPORTED: TLS, or inputs that cannot be made; PEER: a
 * server is unreachable or refuses; FORMAT: a response does not follow the protocol. */
WEFT_API WEFT_NODISCARD weft_status weft_load_open(weft_context *context,
                                                   const weft_load_options *options,
                                                   const char *const *targets, int count,
                                                   const weft_stop *stop, weft_load **out);
/* Generates the load, once. `tick` (may be NULL) is called about ten times a second with the
 * current rate and the seconds since its start. Failed requests are counted and are no failure of
 * the run. INTERRUPTED: it was stopped; the measurements are valid. IO: trace_out. */
typedef void weft_load_tick(void *user, int rate, double seconds);
WEFT_API WEFT_NODISCARD weft_status weft_load_run(weft_load *load, weft_load_tick *tick,
                                                  void *user);
/* The measurements of rate i (before it begins: only its plan) and its planned seconds; NULL past
 * the end. Valid as long as the load. */
WEFT_API const weft_load_result *weft_load_at(const weft_load *load, int i, double *planned);
/* The name of the model of target i, and its URL; NULL past the end. */
WEFT_API const char *weft_load_model(const weft_load *load, int i, const char **where);
WEFT_API void weft_load_close(weft_load **load);

#ifdef __cplusplus
}
#endif
#endif
