/*
 * Load generator for servers that speak the Open Inference Protocol v2 over HTTP/1.1.
 *
 * In an open loop requests are sent at given times, independent of earlier responses. The latency
 * of a request counts from the time when it was due; so a stall of the server counts in all
 * requests that are due meanwhile (no coordinated omission). In a closed loop a constant number of
 * requests is outstanding, which measures the server's capacity.
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

/* Options of a load, filled through weft_load_table (weft/options.h). The struct owns its
 * strings. */
typedef struct weft_load_options {
    size_t struct_size; /* sizeof(weft_load_options) */
    /* Requests per second: a list of rates, "100,200" or "100..800:100", each optionally with
     * "@SECONDS". NULL: 100, or the recorded times of a trace. */
    char *rate;
    double seconds;   /* duration of a rate without "@SECONDS" */
    int64_t requests; /* most requests at a rate; 0: unlimited */
    char *arrivals;   /* arrival process at rates (WEFT_KIND_ARRIVALS); NULL: "poisson" */
    int64_t seed;     /* seed of arrivals and of generated inputs */
    double warmup;    /* seconds of load at the first rate that are not counted */
    bool no_pause;    /* a rate begins before the last one's responses have come */
    /* Closed loop instead of rates: numbers of outstanding requests, "1,4,16". */
    char *closed;
    int64_t rows;      /* rows of a request */
    bool json_tensors; /* inputs and outputs are JSON, not binary tensors */
    char *body;        /* file that is sent as each request's body; NULL: generated inputs */
    char *token;       /* bearer token of the requests; NULL: none */
    char *token_file;  /* file with it, readable by its owner alone, in place of `token` */
    char *ca; /* file of certificates that may sign those of https targets; NULL: the system's */
    bool insecure;       /* accept any certificate */
    int64_t connections; /* most connections to all targets together */
    /* Seconds after its due time when a request without a response has failed. */
    double timeout;
    char *trace_out; /* CSV file with a line for each request; NULL: none */
    /* Used by the command weft load only. */
    char *svg;
    bool json, quiet;
} weft_load_options;

/* The option table, ended by a NULL name. The context owns it. */
WEFT_API const weft_option *weft_load_table(const weft_context *context);

/* Histogram of latencies. Bucket i has latencies from 1.01^i to 1.01^(i+1) microseconds, the first
 * one all shorter ones, and the last one all longer ones. */
enum { WEFT_LOAD_BUCKETS = 2176, WEFT_LOAD_FAILURES = 16 };
typedef struct weft_load_histogram {
    int64_t count, buckets[WEFT_LOAD_BUCKETS];
    double sum, low, high; /* sum, least and largest latency, exact, in seconds */
} weft_load_histogram;
/* A quantile (0..1) of the latencies in seconds, accurate to 1 %; 0 if there are none. */
WEFT_API double weft_load_quantile(const weft_load_histogram *histogram, double quantile);
/* The mean of the latencies in seconds; 0 if there are none. */
WEFT_API double weft_load_mean(const weft_load_histogram *histogram);

/* A kind of failure: all requests at a rate that failed in the same way. */
typedef struct weft_load_failure {
    int status; /* HTTP status; 0: no response, or none that is HTTP */
    /* With status 0: "timeout", "no connection" (all were in use), "connect", "closed", "protocol",
     * "stopped", or "others" for all kinds that do not fit; else "". */
    const char *what;
    int64_t count;
    char example[256]; /* about the first such request: the server's message, or a description */
} weft_load_failure;

/* Measurements at one rate, or of one closed loop. sent = ok + failed. */
typedef struct weft_load_result {
    double rate;    /* requested rate per second; 0: as recorded, or a closed loop */
    int64_t closed; /* outstanding requests of a closed loop; 0: open loop */
    /* From the begin to the last response, and at least the planned time unless `requests` or a
     * stop cut the rate short. */
    double seconds;
    int64_t sent, ok, failed;
    int64_t rows;   /* rows of a request; 0: unknown */
    int64_t waited; /* requests that waited, as all connections were in use */
    int64_t resent; /* requests sent again, as the server had closed the connection */
    int64_t opened; /* connections that were opened */
    /* Fraction of the time in which the load generator itself was busy; near 1 its own limit is
     * measured. */
    double busy;
    bool finished; /* the rate has ended */
    /* Latency of requests with status 200; time by which the load generator made requests after
     * they were due. */
    weft_load_histogram latency, send_delay;
    weft_load_failure failures[WEFT_LOAD_FAILURES]; /* the last one also counts all further kinds */
    int failure_kinds;
    uint64_t room[8]; /* of later versions: 0 */
} weft_load_result;

/* Opens a load: resolves the targets, queries the model of each, makes its requests, and sends one
 * of them as a test. A target is "http[s]://HOST[:PORT][/v2/models/NAME[/versions/V]]"; without a
 * model, the server's only one. There are 1 to 1024 targets. `options` and `targets` must outlive
 * the load; setting `stop` (may be NULL) ends a wait and the load. ARGUMENT: an option or target is
 * invalid; the message names it; UNSUPPORTED: inputs that cannot be made; PEER: a server is
 * unreachable or refuses; FORMAT: a response does not follow the protocol. */
WEFT_API WEFT_NODISCARD weft_status weft_load_open(weft_context *context,
                                                   const weft_load_options *options,
                                                   const char *const *targets, int count,
                                                   const weft_stop *stop, weft_load **out);
/* Generates the load, once. `tick` (may be NULL) is called about ten times a second with the number
 * of the current rate (-1: warm-up) and the seconds since its start. Failed requests are counted;
 * they are no failure of the call. INTERRUPTED: the load was stopped; the measurements are valid.
 * IO: trace_out cannot be written. */
typedef void weft_load_tick(void *user, int rate, double seconds);
WEFT_API WEFT_NODISCARD weft_status weft_load_run(weft_load *load, weft_load_tick *tick,
                                                  void *user);
/* The measurements of rate i, and in *planned (may be NULL) its planned seconds; NULL past the end.
 * Before the rate begins there is only its plan. Valid as long as the load. */
WEFT_API const weft_load_result *weft_load_at(const weft_load *load, int i, double *planned);
/* The name of the model of target i, and in *where (may be NULL) its URL; NULL past the end. */
WEFT_API const char *weft_load_model(const weft_load *load, int i, const char **where);
WEFT_API void weft_load_close(weft_load **load);

#ifdef __cplusplus
}
#endif
#endif
