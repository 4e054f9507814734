/* Internals of the front end: the server, its connections, and the HTTP requests in
 * progress.
 *
 * One thread, the loop (event_loop.c), owns the connections, the HTTP library and all requests;
 * other threads return a request to it by weft_http_request_resume alone. Fields without a remark
 * belong to the loop. */
#ifndef WEFT_SERVE_FRONT_SERVER_INTERNAL_H
#define WEFT_SERVE_FRONT_SERVER_INTERNAL_H

#include "serve/front/http_internal.h"
#include "serve/front/access_control.h"

typedef struct weft_http_request weft_http_request;

/* A path has at most so many pieces; the last one may contain slashes. */
enum { WEFT_PIECES = 8 };
/* Connections beyond the limit that are accepted in order to send them an error. */
enum { WEFT_SURPLUS = 64 };

/* The state of a connection with respect to timeouts; each state has a list in order of entry. */
typedef enum weft_http_connection_state {
    WEFT_CONNECTION_ARRIVED,   /* given to the library, which has not begun to read it */
    WEFT_CONNECTION_IDLE,      /* between requests, or receiving a head */
    WEFT_CONNECTION_RECEIVING, /* receiving a body */
    WEFT_CONNECTION_SENDING,   /* sending a reply */
    WEFT_CONNECTION_SUSPENDED, /* other threads work on its request */
    WEFT_CONNECTION_WATCHED,   /* asleep for so long that its client is checked for disconnection */
    WEFT_CONNECTION_STATES,
    WEFT_CONNECTION_NONE = WEFT_CONNECTION_STATES
} weft_http_connection_state;

/* A client's connection. */
typedef struct weft_http_connection {
    struct MHD_Connection *mhd; /* NULL: not known to the library yet */
    struct weft_http_connection *next, *before;
    weft_http_connection_state state;
    double since;
    int socket;
    weft_token_bucket *bucket;
    bool only_metrics, surplus, probed;
    weft_http_request *request; /* in progress, or NULL */
    char address[46];
} weft_http_connection;

typedef struct weft_http_connection_list {
    weft_http_connection *first, *last;
} weft_http_connection_list;

/* A port: its listening socket, and the daemon of the library that serves its connections. */
typedef struct weft_http_listener {
    int socket, port; /* socket; port */
    struct MHD_Daemon *daemon;
    bool only_metrics, has_events; /* stirs: the daemon has events */
    double paused_until;           /* time until which accepting pauses; 0: it does not */
} weft_http_listener;

struct weft_server {
    weft_service *service;
    size_t body;
    double queue_timeout, timeout, receive; /* in seconds */
    int64_t connections;
    bool control, tls;
    int pictures;          /* atomic: large pictures being decoded */
    weft_history *history; /* of the status page */
    weft_tls_files tls_files;
    weft_tokens *tokens; /* these three may be NULL */
    weft_rate_limiter *rate_limiter;
    weft_access_log *access_log;
    weft_http_listener
        listeners[2];       /* the second one serves metrics only; without it its daemon is NULL */
    int epoll, wake_event;  /* epoll: of the loop; woken: eventfd that wakes the loop */
    pthread_t thread, self; /* the loop, as its creator and as itself knows it */
    bool started;
    double now; /* start time of this round of the loop */
    weft_http_connection_list by_state[WEFT_CONNECTION_STATES];
    int64_t connection_count;
    int submitted;            /* requests queued in this round */
    bool busy;                /* the next round starts at once */
    int suspended;            /* requests that other threads work on */
    int requests;             /* received requests without a reply */
    weft_http_request *ready; /* answered by the loop itself */
    weft_http_request *spare; /* free requests */
    int spares;
    pthread_mutex_t lock;
    pthread_cond_t drained;      /* signalled when no request is left while draining */
    weft_http_request *answered; /* by other threads, newest first; guarded by the lock */
    bool is_drained;             /* no request is left; guarded by the lock */
    bool draining, ending;       /* atomic */
};

/* A response that is kept with a request: for the next reply of the same length and head only the
 * text is replaced. */
typedef struct weft_saved_reply {
    struct MHD_Response *response; /* NULL: none */
    char *text;
    size_t size, json;
} weft_saved_reply;

/* An HTTP request in progress. The library calls its handler until there is a reply, and its
 * connection is suspended while other threads work on it. */
struct weft_http_request {
    weft_server *server;
    weft_http_connection
        *connection; /* NULL: its connection was closed while other threads worked on it */
    struct MHD_Connection *mhd;
    weft_http_request *next;  /* in the list that it belongs to */
    const char *method, *url; /* owned by the library */
    char *path;               /* owned; `piece` points into it */
    char *piece[WEFT_PIECES];
    int pieces;
    char path_room[256];
    double began; /* set only with an access log */
    size_t sent;  /* bytes of the reply */
    char *data;   /* body received so far */
    size_t size, capacity;
    bool too_large, no_memory, modern; /* modern: HTTP/1.1 */
    enum {
        WEFT_HTTP_RECEIVING,
        WEFT_HTTP_SUSPENDING, /* other threads work on it; the library will call the handler again
                               */
        WEFT_HTTP_SUSPENDED,
        WEFT_HTTP_ANSWERED,
        WEFT_HTTP_REPLIED
    } state;
    bool counted;
    bool cancelled; /* its client has disconnected */
    weft_servable *servable;
    weft_servable_info about;
    weft_inference inference;
    uint64_t ticket;    /* of its queued request, for cancelling it */
    bool is_queued;     /* it has a queued request */
    weft_status status; /* result of the work of another thread, with its message */
    char message[2048];
    weft_plain_body plain;
    enum { WEFT_HTTP_OTHER, WEFT_HTTP_INFER, WEFT_HTTP_LOAD, WEFT_HTTP_PREDICT } kind;
    char *name; /* of the model to load or unload */
    bool unloads;
    weft_reply reply;
    weft_saved_reply kept;
};

/* route.c: splits the path at slashes. */
void weft_http_request_split_path(weft_http_request *request);
/* Starts answering: sets a reply, or suspends the connection. only_metrics: the request came to the
 * metrics port. */
void weft_http_request_route(weft_http_request *request, bool only_metrics);
/* Completes the answer after the connection was resumed. */
void weft_http_request_finish(weft_http_request *request);
/* Queues the parsed request; called in the loop. */
void weft_http_request_submit(weft_http_request *request);
/* Called in any thread when the work is done; the request may have been freed afterwards. */
void weft_http_request_answered(void *user, const weft_request_result *a);
void weft_http_request_refused(weft_http_request *request, weft_status status);
/* predict_request.c: starts answering a plain prediction request. */
void weft_http_request_predict(weft_http_request *request);
/* Between these two calls another thread works on the request. resume: from any thread; the request
 * may have been freed afterwards. */
void weft_http_request_suspend(weft_http_request *request);
void weft_http_request_resume(weft_http_request *request);
bool weft_server_is_draining(weft_server *server);
/* The HTTP status code for a status. */
unsigned weft_http_status_of(weft_status status);

/* http_request.c: callbacks of the library. */
enum MHD_Result weft_http_request_handle(void *user, struct MHD_Connection *connection,
                                         const char *url, const char *method, const char *version,
                                         const char *data, size_t *size, void **state);
void weft_http_request_completed(void *user, struct MHD_Connection *connection, void **state,
                                 enum MHD_RequestTerminationCode code);
/* Cancels its queued request; returns whether it is answered by that. */
bool weft_http_request_cancel(weft_http_request *request);
/* Frees a request whose connection was closed while it was suspended. */
void weft_http_request_free(weft_http_request *request);
void weft_http_requests_free(weft_server *server);

/* connections.c: opens, times out and closes connections. */
void weft_http_connection_notify(void *user, struct MHD_Connection *connection, void **context,
                                 enum MHD_ConnectionNotificationCode code);
weft_http_connection *weft_http_connection_of(struct MHD_Connection *connection);
void weft_http_connection_set_state(weft_server *server, weft_http_connection *connection,
                                    weft_http_connection_state state);
void weft_http_connections_accept(weft_server *server, weft_http_listener *listener);
/* Frees the clients that the library has not begun to read; the library has been stopped. */
void weft_http_connections_free(weft_server *server);
/* Closes connections that are too slow, and starts to check those that sleep. */
void weft_http_connections_check(weft_server *server);
/* A watched connection was closed, or half closed, by its client. */
void weft_http_connection_event(weft_server *server, weft_http_connection *connection,
                                unsigned events);

/* event_loop.c */
weft_status weft_loop_start(weft_server *server) WEFT_NODISCARD;
/* Returns when no other thread works on a request. */
void weft_loop_end(weft_server *server);
/* From any thread: wakes the loop. */
void weft_loop_wake(weft_server *server);

#endif
