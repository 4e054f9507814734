/*
 * Load for servers that speak the Open Inference Protocol v2 over HTTP/1.1: requests are made at
 * given times, whatever becomes of those before them (an open loop), and the latency of each counts
 * from when it was due. A server that stalls cannot hide that: what was due meanwhile is late, and
 * is counted so. Or so many requests are always under way (a closed loop), which finds out how much
 * a server can do.
 *
 * One thread makes all of it. Seconds are those of the monotonic clock.
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

/* Filled by weft_load_table (weft/options.h), so its strings are owned. */
typedef struct weft_load_options {
    char *rate; /* requests a second: "100,200", "100..800:100", each perhaps "@SECONDS"; NULL: 100,
                   or a trace as it was recorded */
    double seconds;      /* of a rate that does not say */
    int64_t requests;    /* of a rate at the most; 0: any number */
    char *arrivals;      /* WEFT_KIND_ARRIVALS */
    int64_t seed;        /* of arrivals and inputs */
    double warmup;       /* seconds before the first rate that do not count */
    bool no_pause;       /* a rate does not wait for the answers of the one before */
    char *closed;        /* "1,4,16": so many requests always under way, in place of rates */
    int64_t rows;        /* of a request */
    bool json_tensors;   /* inputs and outputs as JSON, not as binary tensors */
    char *body;          /* a file that is sent in place of inputs that are made */
    char *token;         /* bearer */
    int64_t connections; /* at the most */
    double timeout;      /* seconds from being due after which a request has failed */
    char *trace_out;     /* a CSV file of all requests */
    /* what only the command uses */
    char *svg;
    bool json, quiet;
} weft_load_options;

/* Its rows; NULL name at the end. The context must outlive it. */
WEFT_API const weft_option *weft_load_table(const weft_context *context);

/* Latencies by powers of 1.01 from a microsecond on: cell i has what is below 1.01^(i+1) us, and
 * the last all that is longer. */
enum { WEFT_LOAD_CELLS = 2176, WEFT_LOAD_FAILURES = 16 };
typedef struct weft_load_cells {
    int64_t count, at[WEFT_LOAD_CELLS];
    double sum, low, high; /* seconds, exactly */
} weft_load_cells;
/* A quantile (0..1), in seconds, to 1 %; 0 where there are none. */
WEFT_API double weft_load_quantile(const weft_load_cells *cells, double quantile);
WEFT_API double weft_load_mean(const weft_load_cells *cells);

/* Requests that have failed in one way. */
typedef struct weft_load_failure {
    int status;       /* of HTTP; 0: there was no answer, or none that could be read */
    const char *what; /* "timeout", "no connection" (that was free in time), "connect", "closed",
                         "protocol", "stopped"; "" with a status */
    int64_t count;
    char example[256]; /* of the first one: what the server said, or a sentence */
} weft_load_failure;

/* What was measured at one rate. sent = ok + those of all failures. */
typedef struct weft_load_figures {
    double rate;    /* as asked; 0: as recorded, or a closed loop */
    int64_t closed; /* requests always under way; 0: an open loop */
    double seconds; /* until its last request was due and answered */
    int64_t sent, ok, failed;
    int64_t rows;   /* of a request; 0: not known */
    int64_t waited; /* requests that found all connections in use */
    int64_t again;  /* that were sent once more, over a connection that the server had closed */
    int64_t opened; /* connections */
    double busy; /* share of the time in which the load had work, rather than waited: near 1 it is
                    the load's own limit that is measured */
    bool over;   /* it has ended */
    weft_load_cells latency, late; /* of requests with status 200; how late the load itself was */
    weft_load_failure failures[WEFT_LOAD_FAILURES]; /* the last has all that do not fit */
    int kinds;
} weft_load_figures;

/* Finds the targets, asks each for its model, makes the requests, and asks one question to see that
 * it is answered. Targets: "http://HOST[:PORT][/v2/models/NAME[/versions/V]]"; without a model, the
 * only one there is. `options` and `targets` must outlive it; `stop` (may be NULL) ends waiting.
 * ARGUMENT: an option or a target, and which; UNSUPPORTED: TLS, or inputs that cannot be made;
 * PEER: a server cannot be reached or says that it will not do; FORMAT: what it says is not the
 * protocol. */
WEFT_API WEFT_NODISCARD weft_status weft_load_open(weft_context *context,
                                                   const weft_load_options *options,
                                                   const char *const *targets, int count,
                                                   const weft_stop *stop, weft_load **out);
/* Makes the load, once. `tick` (may be NULL) is called ten times a second or so with the rate that
 * is under way, the seconds of it so far, and how many there are in all. What fails is counted, and
 * no failure of the run. INTERRUPTED: it was stopped; what was measured stands. IO: trace_out. */
typedef void weft_load_tick(void *user, int rate, double seconds);
WEFT_API WEFT_NODISCARD weft_status weft_load_run(weft_load *load, weft_load_tick *tick,
                                                  void *user);
/* What rate i has come to (its plan before it has begun), and the seconds that it is to last; NULL
 * past the end. It stays as long as the load. */
WEFT_API const weft_load_figures *weft_load_at(const weft_load *load, int i, double *planned);
/* The model of target i as it calls itself, and where it is; NULL past the end. */
WEFT_API const char *weft_load_model(const weft_load *load, int i, const char **where);
WEFT_API void weft_load_close(weft_load **load);

#ifdef __cplusplus
}
#endif
#endif
