/*
 * A server: a service (weft/service.h) over HTTP, by the Open Inference Protocol v2 (REST) with
 * tensors in JSON or binary, and with Prometheus metrics.
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

/* Filled by weft_server_table (weft/options.h); strings are owned. */
typedef struct weft_server_options {
    char *device;
    int64_t instances, threads;
    int64_t processes; /* processes that share the port; see weft_server_supervise */
    char *policy;
    int64_t limit, waiting;
    char *mesh; /* of an instance, or NULL */
    double measure;
    char *times;  /* as in weft_service_options */
    char *models; /* a folder of models, or NULL */
    bool all_versions;
    double watch;               /* seconds between scans of the folder; 0: none */
    char *host;                 /* an address of this machine; default: loopback */
    int64_t port, metrics_port; /* 0: a free port; metrics below 0: on `port` only */
    char *certificate, *key;    /* PEM files; NULL: without TLS */
    char *tokens;               /* file of lines MODEL TOKEN; NULL: no authorisation */
    char *log;                  /* access log: a file, "-", or NULL */
    int64_t body;               /* most MiB of a request's body */
    int64_t headers;            /* most KiB of a request's headers */
    double rate_limit;          /* requests a second of an address; 0: unlimited */
    int64_t connections;        /* most connections at a time */
    double timeout;             /* seconds without progress until a connection is closed */
    double receive;  /* seconds within which a request must be received, or a reply taken, even with
  steady progress; its head may begin `timeout` late */
    double patience; /* seconds after which a request that was not started is refused; 0: never */
    double drain;    /* seconds for requests in progress when the server ends */
    bool control;    /* clients may load and unload models */
    bool quiet;
    /* for simulation only (weft/forecast.h) */
    bool simulate;
    double rate;
    char *arrivals;
    char *service; /* batch times, "ROWS=MS,ROWS=MS" */
    int64_t requests, seed;
} weft_server_options;

/* The option table, terminated by a NULL name. */
WEFT_API const weft_option *weft_server_table(const weft_context *context);

/* Listens and serves in its own threads from the return of this call on. The service must outlive
 * it. With processes above 1 other processes of the same user may listen on the same ports.
 * ARGUMENT: an invalid address, a secret that others may read; FORMAT: a file with invalid
 * contents; IO: a port in use, an unreadable file; the message says which. */
WEFT_API WEFT_NODISCARD weft_status weft_server_start(weft_service *service,
                                                      const weft_server_options *options,
                                                      weft_server **out);
/* The ports it listens on; *metrics is -1 without a separate port. */
WEFT_API void weft_server_ports(const weft_server *server, int *port, int *metrics);
/* Reports itself as not ready, refuses new requests with 503, closes connections after their
 * replies, and returns when all requests in progress have been answered, or after so many seconds.
 * Returns whether all were. */
WEFT_API bool weft_server_drain(weft_server *server, double seconds);
/* Whether the options request several processes, and this process is none of them. */
WEFT_API bool weft_server_supervises(const weft_server_options *options);
/* Runs options->processes servers on one port, as processes of `program` (the command weft) with
 * the same options and models, each on its share of the cores, and returns when a signal (SIGTERM,
 * SIGINT, SIGHUP) has ended all of them: they answer the requests in progress, and a second signal
 * kills them. A process that dies is restarted after a pause, which doubles while it fails to start
 * (exponential backoff), and so is one that has been stopped (SIGSTOP) for ten seconds or was ended
 * by another process. If this process dies, they are told to end.
 *
 * on_ready (may be NULL) is called once, when all processes serve, with the port and, unless there
 * are none, the metrics ports: [processes], metrics_port + i for process i. on_line gets the
 * messages of the processes and of the supervisor, a line at a time. *code is the exit code: 0
 * after such an end, or that of a process that could not start, which ends all.
 *
 * The calling thread must not end before this returns. ARGUMENT: options that need a single process
 * (control), or an invalid address; IO: a port in use. */
WEFT_API WEFT_NODISCARD weft_status
weft_server_supervise(weft_context *context, const weft_server_options *options,
                      const char *const *models, int model_count, const char *program,
                      void (*on_ready)(void *user, int port, const int *metrics),
                      weft_job_fn on_line, void *user, int *code);
/* Waits for computations in progress, closes all connections, and frees *server. NULL is
 * allowed. */
WEFT_API void weft_server_stop(weft_server **server);

#ifdef __cplusplus
}
#endif
#endif
