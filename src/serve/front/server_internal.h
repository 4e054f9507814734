/* Internals of the front end: the server, its connections, and the HTTP requests in
 * progress.
 *
 * One thread, the loop (event_loop.c), owns the connections, the HTTP library (libmicrohttpd) and
 * all requests. Another thread that works on a request hands it back to the loop with
 * weft_http_request_resume. A field belongs to the loop unless its comment says otherwise. */
#ifndef WEFT_SERVE_FRONT_SERVER_INTERNAL_H
#define WEFT_SERVE_FRONT_SERVER_INTERNAL_H

#include "serve/front/http_internal.h"
#include "serve/front/access_control.h"
#include "serve/front/text_stream.h"

typedef struct weft_http_request weft_http_request;

/* A path is split into at most so many pieces, and the rest is ignored; no valid path has so
 * many. */
enum { WEFT_PIECES = 8 };
/* Connections above the limit that are still accepted, in order to answer them with an error. */
enum { WEFT_SURPLUS = 64 };

/* The state of a connection, on which its timeout depends. The connections of each state are in a
 * list, in the order in which they entered it; with WEFT_CONNECTION_NONE they are in no list. */
typedef enum weft_http_connection_state {
    WEFT_CONNECTION_ARRIVED,   /* given to the library, which has not reported its start */
    WEFT_CONNECTION_IDLE,      /* between two requests, or receiving the headers of one */
    WEFT_CONNECTION_RECEIVING, /* receiving a body */
    WEFT_CONNECTION_SENDING,   /* sending a reply */
    WEFT_CONNECTION_SUSPENDED, /* other threads work on its request */
    /* suspended for so long that the loop watches whether its client disconnects */
    WEFT_CONNECTION_WATCHED,
    WEFT_CONNECTION_STATES,
    WEFT_CONNECTION_NONE = WEFT_CONNECTION_STATES
} weft_http_connection_state;

/* A connection of a client. */
typedef struct weft_http_connection {
    /* the library's object; NULL: the library has not reported it yet */
    struct MHD_Connection *mhd;
    struct weft_http_connection *next, *before;
    weft_http_connection_state state;
    double since;
    int socket;
    weft_token_bucket *bucket;
    bool only_metrics, surplus, probed;
    weft_http_request *request; /* the request in progress, or NULL */
    char address[46];
} weft_http_connection;

typedef struct weft_http_connection_list {
    weft_http_connection *first, *last;
} weft_http_connection_list;

/* A port: its listening socket, and the daemon of the HTTP library that serves its connections. */
typedef struct weft_http_listener {
    int socket, port; /* -1: none */
    struct MHD_Daemon *daemon;
    bool only_metrics, has_events; /* has_events: the daemon must be run */
    double paused_until; /* time until which accepting pauses after an error; 0: no pause */
} weft_http_listener;

struct weft_server {
    weft_service *service;
    size_t body;       /* largest body of a request, in bytes */
    size_t body_bytes; /* of all large buffers of bodies */
    /* limits in seconds: waiting in a batch queue, no progress of a connection, and arrival of a
     * request or reading of a reply */
    double queue_timeout, timeout, receive;
    int64_t connections;
    bool control, tls, shared; /* shared: other processes listen on the port, too */
    weft_history *history;     /* of the status page */
    weft_tls *credentials;     /* NULL: no TLS */
    weft_tokens *tokens;       /* tokens, rate_limiter and access_log may be NULL */
    /* reload.c: files that its thread watches; tokens that it has read and the loop has not taken
     * yet (atomic) */
    weft_watched_files tls_files, token_file;
    weft_tokens *new_tokens;
    pthread_t watcher;
    bool watching, watch_ending; /* watch_ending: guarded by the lock */
    pthread_cond_t watch_wake;
    double next_sample; /* time of the next samples for the status page */
    weft_rate_limiter *rate_limiter;
    weft_access_log *access_log;
    weft_http_listener listeners[2]; /* [1] serves metrics only; without it, its daemon is NULL */
    int epoll, wake_event;           /* epoll instance of the loop; eventfd that wakes it */
    pthread_t thread, self;          /* the loop's thread: for joining it, and as set by itself */
    bool started;
    double now; /* time (weft_seconds) at which this round of the loop began */
    weft_http_connection_list by_state[WEFT_CONNECTION_STATES];
    int64_t connection_count;
    int submitted;            /* inference requests queued in this round */
    bool busy;                /* there is more to do, so the loop does not wait */
    int suspended;            /* requests that other threads work on */
    int generating;           /* generation requests that have not ended; atomic */
    int requests;             /* requests whose headers have arrived and that are not freed yet */
    weft_http_request *ready; /* requests that the loop itself has answered, newest first */
    weft_http_request *spare; /* freed requests that are kept for reuse */
    int spares;
    pthread_mutex_t lock;
    pthread_cond_t drained; /* signalled when a draining server has no request */
    /* requests that other threads have answered, newest first; guarded by the lock */
    weft_http_request *answered;
    /* requests whose large bodies wait for a reader thread, oldest first, the end of this list, and
     * the number of reader threads; guarded by the lock */
    weft_http_request *unread, **unread_end;
    int readers;
    pthread_cond_t readers_ended; /* signalled when there is no reader thread any more */
    bool is_drained;              /* a draining server has no request; guarded by the lock */
    bool draining, ending;        /* atomic */
};

/* A response object of the library that a request keeps. If the next reply has the same length,
 * only the text is replaced. */
typedef struct weft_saved_reply {
    struct MHD_Response *response; /* NULL: none */
    char *text;
    size_t size, json;
} weft_saved_reply;

/* An HTTP request in progress. The library calls weft_http_request_handle until there is a reply.
 * The connection is suspended while other threads work on the request. */
struct weft_http_request {
    weft_server *server;
    weft_http_connection
        *connection; /* NULL: the connection was closed while other threads worked on the request */
    struct MHD_Connection *mhd;
    weft_http_request *next;  /* in the list of the server that the request is in */
    const char *method, *url; /* owned by the library */
    char *path;               /* owned; `piece` points into it */
    char *piece[WEFT_PIECES];
    int pieces;
    char path_room[256];
    double began; /* time of its start (weft_seconds), only set with an access log */
    size_t sent;  /* bytes of the reply */
    char *data;   /* the body as far as it has been received */
    size_t size, capacity;
    bool too_large, no_memory, modern; /* modern: HTTP/1.1 */
    enum {
        WEFT_HTTP_RECEIVING,
        /* other threads work on it; the connection is suspended at the library's next call */
        WEFT_HTTP_SUSPENDING,
        WEFT_HTTP_SUSPENDED,
        WEFT_HTTP_ANSWERED,
        WEFT_HTTP_REPLIED
    } state;
    bool counted;
    bool reading;   /* its body is large, and waits for a reader thread or is being read by one */
    double arrived; /* time at which a large body had arrived; 0: the body is small */
    bool given_up;  /* its client left while the body was large and not yet read */
    bool cancelled; /* before its batch began, so there is no reply */
    const char *model;       /* the name of its model, a piece of the path; NULL: none */
    weft_servable *servable; /* held until the reply is written; `about` describes it */
    weft_servable_info about;
    int64_t json; /* bytes of JSON at the beginning of the body; below 0: all of it */
    weft_inference inference;
    uint64_t ticket; /* of its inference request in the batch queue, for weft_servable_cancel */
    bool is_queued;  /* an inference request was queued for it */
    weft_text_stream stream; /* of a generation request */
    weft_status status;      /* result of the work of other threads; `message` explains a failure */
    char message[2048];
    weft_plain_body plain;
    enum {
        WEFT_HTTP_OTHER,
        WEFT_HTTP_INFER,
        WEFT_HTTP_LOAD,
        WEFT_HTTP_PREDICT,
        WEFT_HTTP_GENERATE
    } kind;
    char *name; /* of the model to load or unload */
    bool unloads;
    weft_reply reply;
    weft_saved_reply kept;
};

/* route.c: splits the path at slashes into `piece`. */
void weft_http_request_split_path(weft_http_request *request);
/* Starts answering: writes a reply, or hands the request to other threads and suspends it.
 * only_metrics: the request came to the metrics port. */
void weft_http_request_route(weft_http_request *request, bool only_metrics);
/* Writes the reply after other threads have handed the request back. */
void weft_http_request_finish(weft_http_request *request);
/* Queues the parsed inference request of a suspended HTTP request. Call it in the loop. */
void weft_http_request_submit(weft_http_request *request);
/* Any thread calls this when an inference request has ended: stores the result and hands the HTTP
 * request back to the loop. Afterwards the HTTP request may have been freed. */
void weft_http_request_answered(void *user, const weft_request_result *a);
void weft_http_request_refused(weft_http_request *request, weft_status status);
/* Writes a reply with code 503, and counts an inference request as refused. */
void weft_http_request_reject(weft_http_request *request, const char *sentence);
/* body_reader.c: starts answering an inference request, or a plain prediction request. */
void weft_http_request_infer(weft_http_request *request);
void weft_http_request_predict(weft_http_request *request);
/* The loop calls this when a reader thread has handed the request back. true: its inference request
 * is queued; false: the HTTP request has failed or was given up. */
bool weft_http_request_was_read(weft_http_request *request);
/* Takes the request out of the list for the reader threads; false: it is not in the list. */
bool weft_http_request_leave_unread(weft_http_request *request);
/* Waits until all reader threads have ended; no request may be in their list. */
void weft_body_readers_wait(weft_server *server);
/* Between suspend and resume another thread works on the request. Any thread may call resume, which
 * hands the request back to the loop; afterwards the request may have been freed. */
void weft_http_request_suspend(weft_http_request *request);
void weft_http_request_resume(weft_http_request *request);
bool weft_server_is_draining(weft_server *server);
/* The HTTP status code for a status, such as 503 for BUSY. */
unsigned weft_http_status_of(weft_status status);

/* generate.c: begins to generate. streams: each token is sent when it is there. */
void weft_http_request_generate(weft_http_request *request, bool streams);
/* Writes the reply, or of a stream its code, when the text or its first token is there. */
void weft_http_stream_finish(weft_http_request *request);
/* The response that sends a stream. */
struct MHD_Response *weft_http_stream_response(weft_http_request *request);
/* Whether texts are being generated, whose executors use requests of this server. */
bool weft_http_streams_open(weft_server *server);
/* Called when the connection is gone: whether the request must stay until it is generated no more,
 * and is handed back then. */
bool weft_http_stream_outlives(weft_http_request *request);
void weft_http_stream_free(weft_http_request *request);

/* http_request.c: the functions that the HTTP library calls. */
enum MHD_Result weft_http_request_handle(void *user, struct MHD_Connection *connection,
                                         const char *url, const char *method, const char *version,
                                         const char *data, size_t *size, void **state);
void weft_http_request_completed(void *user, struct MHD_Connection *connection, void **state,
                                 enum MHD_RequestTerminationCode code);
/* Cancels the request if its large body or its inference request still waits. true: there will be
 * no answer, so the caller must resume the HTTP request. */
bool weft_http_request_cancel(weft_http_request *request);
/* Frees the body if it is large. */
void weft_http_request_drop_large(weft_http_request *request);
/* Frees a request whose connection was closed while it was suspended. */
void weft_http_request_free(weft_http_request *request);
void weft_http_requests_free(weft_server *server);

/* connections.c: accepts connections, enforces their timeouts, and closes them. */
void weft_http_connection_notify(void *user, struct MHD_Connection *connection, void **context,
                                 enum MHD_ConnectionNotificationCode code);
weft_http_connection *weft_http_connection_of(struct MHD_Connection *connection);
void weft_http_connection_set_state(weft_server *server, weft_http_connection *connection,
                                    weft_http_connection_state state);
/* Accepts waiting connections; returns whether more may be waiting. */
bool weft_http_connections_accept(weft_server *server, weft_http_listener *listener);
/* Frees the connections that the library has not reported. Call it after the library was
 * stopped. */
void weft_http_connections_free(weft_server *server);
/* Closes connections that have exceeded a timeout, and starts to watch those that have been
 * suspended for a while. */
void weft_http_connections_check(weft_server *server);
/* Handles an event of a watched connection: its client has closed it, or has finished sending. */
void weft_http_connection_event(weft_server *server, weft_http_connection *connection,
                                unsigned events);

/* reload.c: remembers the path, or two, and the present state of files that are about to be
 * read. */
weft_status weft_watched_files_set(weft_watched_files *files, const char *first,
                                   const char *second) WEFT_NODISCARD;
void weft_watched_files_free(weft_watched_files *files);
/* Starts the thread that looks once a second and reads the certificate, its key and the tokens
 * again if their files have changed. A file that is not valid leaves what was read before in use;
 * the log says so. */
weft_status weft_server_watch_start(weft_server *server) WEFT_NODISCARD;
void weft_server_watch_end(weft_server *server);
/* The loop calls this in each round: newly read tokens take the place of the present ones. */
void weft_server_take_tokens(weft_server *server);

/* event_loop.c: starts the loop's thread. */
weft_status weft_loop_start(weft_server *server) WEFT_NODISCARD;
/* Stops the loop's thread; returns when no other thread works on a request. */
void weft_loop_end(weft_server *server);
/* Wakes the loop; any thread may call it. */
void weft_loop_wake(weft_server *server);

#endif
