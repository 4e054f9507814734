/*
 * A server: a service (weft/service.h) over HTTP, in the words of the Open Inference Protocol v2
 * (REST), with tensors in JSON or binary; and what it does, as Prometheus metrics.
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

/* Filled by weft_server_table (weft/options.h), so its strings are owned. */
typedef struct weft_server_options {
    char *device;
    int64_t instances, threads;
    int64_t processes; /* that share the port; see weft_server_supervise */
    char *policy;
    int64_t limit, waiting;
    char *mesh; /* of an instance, or NULL */
    double measure;
    char *times;  /* as weft_service_options */
    char *models; /* a folder of models, or NULL */
    bool all_versions;
    double watch;               /* seconds between looks at it; 0: none */
    char *host;                 /* an address of this machine; loopback unless said otherwise */
    int64_t port, metrics_port; /* 0: one that is free; metrics below 0: on `port` alone */
    char *certificate, *key;    /* PEM files; NULL: without TLS */
    char *tokens;               /* a file of lines MODEL TOKEN; NULL: whoever comes may ask */
    char *log;                  /* a file to which requests are written, "-", or NULL */
    int64_t body;               /* MiB of a request at the most */
    int64_t headers;            /* KiB of a request before its body at the most */
    double rate_limit;          /* requests a second of an address; 0: any */
    int64_t connections;        /* at a time */
    double timeout;             /* seconds without progress until a connection is closed */
    double receive;             /* seconds in which a request must have come, or a reply been taken,
                                   however steadily; its head may begin `timeout` late */
    double patience; /* seconds after which what has not been begun is refused; 0: never */
    double drain;    /* seconds that the end leaves to what is under way */
    bool control;    /* clients may load and unload models */
    bool quiet;
    /* of what is only simulated (weft/forecast.h) */
    bool simulate;
    double rate;
    char *arrivals;
    char *service; /* "ROWS=MS,ROWS=MS" */
    int64_t requests, seed;
} weft_server_options;

/* Its rows; a NULL name ends them. */
WEFT_API const weft_option *weft_server_table(const weft_context *context);

/* Listens and answers, in threads of its own, from when this returns on. The service outlives it.
 * With processes above 1 other processes of the same user may listen on the same ports.
 * ARGUMENT: an address that is none, a secret that others may read; FORMAT: a file that is not
 * what it should be; IO: a port in use, a file that cannot be read; the message says which. */
WEFT_API WEFT_NODISCARD weft_status weft_server_start(weft_service *service,
                                                      const weft_server_options *options,
                                                      weft_server **out);
/* The ports it listens on; *metrics is -1 where it has none of its own. */
WEFT_API void weft_server_ports(const weft_server *server, int *port, int *metrics);
/* Says that it is not ready, refuses new requests with 503, closes connections behind their
 * replies, and returns when what is under way has been answered, or after so many seconds: whether
 * all was.
 */
WEFT_API bool weft_server_drain(weft_server *server, double seconds);
/* Whether the options ask for several processes, and this is none of those. */
WEFT_API bool weft_server_supervises(const weft_server_options *options);
/* Runs options->processes servers on one port, as processes of `program` (the command weft) with
 * the same options and models, each on its share of the cores, and returns when a signal (SIGTERM,
 * SIGINT, SIGHUP) has ended all of them: they answer what is under way, and a second signal kills
 * them. One that dies is started again after a pause, which grows where it does not come up, and
 * so is one that somebody has stopped for ten seconds or told to end. If this process dies, they
 * are told to end.
 *
 * on_ready (may be NULL) is called once, when all serve, with the port and, unless there are none,
 * the ports of the metrics: [processes], one for each, metrics_port + i. on_line gets what they and
 * the supervisor have to say, a line at a time. *code is the exit code: 0 after such an end; that
 * of a process which could not begin, which ends all, where that was the reason.
 *
 * The calling thread must be the one that does not end before. ARGUMENT: options that need one
 * process (control), an address that is none; IO: a port in use. */
WEFT_API WEFT_NODISCARD weft_status
weft_server_supervise(weft_context *context, const weft_server_options *options,
                      const char *const *models, int model_count, const char *program,
                      void (*on_ready)(void *user, int port, const int *metrics),
                      weft_job_fn on_line, void *user, int *code);
/* Waits for what is being computed, closes all connections, and frees *server. NULL is allowed. */
WEFT_API void weft_server_stop(weft_server **server);

#ifdef __cplusplus
}
#endif
#endif
