/*
 * A server of models: a service (weft/service.h) behind HTTP, with the Open Inference Protocol v2
 * (REST), tensors in JSON or binary, and Prometheus metrics.
 */
#ifndef WEFT_SERVER_H
#define WEFT_SERVER_H

#include "weft/job.h"
#include "weft/options.h"
#include "weft/service.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_server weft_server;

/* Options of a server of models, filled through weft_server_table (weft/options.h). The struct owns
 * its strings. Fields without a comment are as in weft_service_options. */
typedef struct weft_server_options {
    size_t struct_size; /* sizeof(weft_server_options) */
    char *device;
    int64_t instances, threads;
    int64_t processes; /* processes that share the port, see weft_server_supervise */
    char *policy;
    int64_t limit, waiting;
    char *share; /* weft_service_options.shares */
    char *mesh;  /* mesh of an instance; NULL: one rank */
    double measure;
    char *times;
    char *models; /* model repository; NULL: none */
    bool all_versions;
    double watch;               /* seconds between scans of `models`; 0: none */
    char *host;                 /* address to listen on; default: loopback */
    int64_t port, metrics_port; /* 0: a free port; metrics_port below 0: metrics on `port` only */
    char *certificate, *key;    /* PEM files of TLS; NULL: no TLS */
    char *tokens;               /* file with lines MODEL TOKEN; NULL: no authorisation */
    char *cors;          /* origins whose pages may ask from browsers; "*": all; NULL: none */
    char *proxies;       /* trusted proxies: addresses and networks; NULL: none */
    char *log;           /* access log: a file; "-": standard output; NULL: none */
    int64_t body;        /* largest body of a request, in MiB */
    int64_t headers;     /* largest headers of a request, in KiB */
    double rate_limit;   /* requests per second from one address; 0: unlimited */
    int64_t connections; /* largest number of open connections */
    double timeout;      /* seconds without progress until a connection is closed */
    /* Seconds within which a request must arrive in full, and within which the client must take a
     * reply, even with steady progress. The head of a request may begin up to `timeout` seconds
     * late. */
    double receive;
    /* Seconds after which a request whose batch has not begun is refused; 0: never. */
    double patience;
    double drain; /* seconds for the requests in progress when the server ends */
    bool control; /* clients may load and unload models */
    bool quiet;   /* the command prints errors only */
    /* For --simulate only (weft/forecast.h). */
    bool simulate;
    double rate;
    char *arrivals;
    char *service; /* batch times in milliseconds, "ROWS=MS,ROWS=MS"; NULL: those of the model */
    int64_t requests, seed;
    char *tune;
} weft_server_options;

/* The option table, ended by a NULL name; the context owns it. */
WEFT_API const weft_option *weft_server_table(const weft_context *context);

/* Listens, and serves in threads of its own from the return of this call on. The service must
 * outlive the server. If `processes` is above 1, other processes of the same user may listen on the
 * same ports. ARGUMENT: an invalid address, or a file with a secret that others may read; FORMAT: a
 * file with invalid contents; IO: a port is in use or a file unreadable. The message says which. */
WEFT_API WEFT_NODISCARD weft_status weft_server_start(weft_service *service,
                                                      const weft_server_options *options,
                                                      weft_server **out);
/* The ports that the server listens on; *metrics is -1 without a separate port. */
WEFT_API void weft_server_ports(const weft_server *server, int *port, int *metrics);
/* Drains the server: from now on it reports that it is not ready, refuses new requests with 503,
 * and closes connections after their replies. Returns when all requests in progress have been
 * answered, or after `seconds`; true: all have been answered. */
WEFT_API bool weft_server_drain(weft_server *server, double seconds);
/* Opens the access log again, which may have been renamed, reads a certificate, its key and tokens
 * that have changed, and loads new and changed versions from the repository of models. Returns at
 * once: a thread of the server does so. Any thread may call it, but no signal handler. */
WEFT_API void weft_server_reload(weft_server *server);
/* Whether the options ask for several processes and this process is none of these, so it must call
 * weft_server_supervise. */
WEFT_API bool weft_server_supervises(const weft_server_options *options);
/* For a process of several (options->processes): limits the threads of the context to the share of
 * the process in the CPU quota of the control groups, which all of them use together. */
WEFT_API WEFT_NODISCARD weft_status weft_server_share_quota(weft_context *context,
                                                            const weft_server_options *options);
/* Runs options->processes servers on one port, as processes of `program` (the command weft) with
 * the same options and models, each on its share of the cores. Returns when all of them have ended.
 *
 * SIGHUP to this process makes the servers reload (weft_server_reload). A first SIGTERM or SIGINT
 * makes them drain and end; a second one kills them, and so does the end of `drain` plus 5 seconds.
 * A server that dies is restarted after a pause, which doubles while the server fails to start
 * (exponential backoff); so is one that has been stopped (SIGSTOP) for ten seconds or was ended by
 * another process. If this process dies, the system tells the servers to end.
 *
 * on_ready (may be NULL) is called once, when all servers serve, with the port and the metrics
 * ports [processes], metrics_port + i for server i; NULL: there are none. on_line gets the messages
 * of the servers and of the supervisor, a line at a time. *code is the exit code: 0 after a drain;
 * otherwise not 0, such as that of a server that could not start, which ends all.
 *
 * The calling thread must not end before this call returns. ARGUMENT: options that need a single
 * process (control), or an invalid address; IO: a port is in use. */
WEFT_API WEFT_NODISCARD weft_status
weft_server_supervise(weft_context *context, const weft_server_options *options,
                      const char *const *models, int model_count, const char *program,
                      void (*on_ready)(void *user, int port, const int *metrics),
                      weft_job_fn on_line, void *user, int *code);
/* Waits for the computations in progress, closes all connections, and frees and nulls *server. NULL
 * is allowed. */
WEFT_API void weft_server_stop(weft_server **server);

#ifdef __cplusplus
}
#endif
#endif
