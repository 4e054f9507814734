/* Internals of the front end: the server, its connections, and the HTTP requests in
 * progress.
 *
 * One thread, the loop (event_loop.c), owns the connections and all requests. Another thread that
 * works on a request hands it back to the loop with weft_http_request_resume. A field belongs to
 * the loop unless its comment says otherwise. */
#ifndef WEFT_SERVE_FRONT_SERVER_INTERNAL_H
#define WEFT_SERVE_FRONT_SERVER_INTERNAL_H

#include "serve/front/http_internal.h"
#include "serve/front/access_control.h"
#include "serve/front/text_stream.h"
#include "serve/front/transport.h"
#include "serve/http/http.h"

typedef struct weft_http_request weft_http_request;

/* A path is split into at most so many pieces, and the rest is ignored; no valid path has so
 * many. */
enum { WEFT_PIECES = 8 };
/* Connections above the limit that are still accepted, in order to answer them with an error. */
enum { WEFT_SURPLUS = 64 };
/* Bytes of a refused or too large body, and bytes behind the last reply of a connection, that are
 * read and dropped, so that the client gets the reply and not a broken connection. */
enum { WEFT_FORGOTTEN = 16 << 20 };
/* Bytes that are read from a socket at a time. */
enum { WEFT_RECEIVED = 64 << 10 };

/* The state of a connection, on which its timeout depends. The connections of each state are in a
 * list, in the order in which they entered it; with WEFT_CONNECTION_NONE they are in no list. */
typedef enum weft_http_connection_state {
    WEFT_CONNECTION_IDLE,      /* between two requests, or receiving the head of one */
    WEFT_CONNECTION_RECEIVING, /* receiving a body */
    WEFT_CONNECTION_SENDING,   /* sending a reply */
    WEFT_CONNECTION_SUSPENDED, /* other threads work on its request */
    /* suspended for so long that a client that sends no more may have left */
    WEFT_CONNECTION_WATCHED,
    WEFT_CONNECTION_LINGERING, /* the last reply is sent, and what comes is dropped */
    WEFT_CONNECTION_STATES,
    WEFT_CONNECTION_NONE = WEFT_CONNECTION_STATES
} weft_http_connection_state;

/* The next step of the loop for a connection. */
typedef enum weft_http_phase {
    WEFT_PHASE_HANDSHAKE, /* of TLS */
    WEFT_PHASE_HEAD,      /* reads the head of a request */
    WEFT_PHASE_BODY,      /* reads a body */
    WEFT_PHASE_WORK,      /* nothing: other threads work on the request */
    WEFT_PHASE_SEND,      /* sends a reply */
    WEFT_PHASE_LINGER     /* reads and drops what comes behind the last reply */
} weft_http_phase;

/* A connection of a client. */
typedef struct weft_http_connection {
    weft_transport transport;
    struct weft_http_connection *next, *before;    /* in the list of its state */
    struct weft_http_connection *staler, *fresher; /* in the list of all connections */
    struct weft_http_connection *next_pending;
    weft_http_connection_state state;
    weft_http_phase phase;
    double since, active; /* when it entered its state, and when bytes came or went */
    unsigned events;      /* of the socket that epoll reports */
    weft_token_bucket *bucket;
    bool only_metrics, surplus, probed;
    bool last;        /* it is closed after the reply */
    bool half_closed; /* its client sends no more */
    bool drained;     /* the last read took all that had come */
    bool unread;      /* there are bytes in `in` that were not looked at */
    bool failed;      /* there is no memory for it */
    bool pending;
    weft_http_request *request; /* the request in progress, or NULL */
    weft_text in;               /* received bytes behind those of the request in progress */
    weft_http_scan scan;        /* of the head in `in` */
    int64_t left;               /* bytes of the body that have not come; of what may be dropped */
    weft_http_chunks chunks;
    weft_text out; /* bytes to send, and those of a large body behind them */
    size_t sent;   /* of `out` */
    const char *body;
    size_t body_left;
    char address[46];
} weft_http_connection;

typedef struct weft_http_connection_list {
    weft_http_connection *first, *last;
} weft_http_connection_list;

/* A port. */
typedef struct weft_http_listener {
    int socket, port;    /* -1: none */
    bool only_metrics;   /* it serves the metrics alone */
    double paused_until; /* time until which accepting pauses after an error; 0: no pause */
} weft_http_listener;

struct weft_server {
    weft_service *service;
    size_t head;        /* largest head of a request, in bytes */
    size_t body;        /* largest body of a request, in bytes */
    size_t body_bytes;  /* of all large buffers of bodies */
    size_t reply_bytes; /* of all large replies that are being sent */
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
    bool look_now;               /* guarded by the lock */
    pthread_cond_t watch_wake;
    double next_sample; /* time of the next samples for the status page */
    weft_rate_limiter *rate_limiter;
    weft_access_log *access_log;
    char *cors;                      /* list of origins; NULL: none */
    weft_proxies *proxies;           /* NULL: none is trusted */
    uint64_t id_key, ids;            /* of the ids of requests that came without one */
    weft_http_listener listeners[2]; /* [1] serves the metrics, if its socket is not -1 */
    int epoll, wake_event;           /* epoll instance of the loop; eventfd that wakes it */
    pthread_t thread, self;          /* the loop's thread: for joining it, and as set by itself */
    bool started;
    double now; /* time (weft_seconds) at which this round of the loop began */
    weft_http_connection_list by_state[WEFT_CONNECTION_STATES];
    /* all connections, in the order in which bytes last came or went */
    weft_http_connection *stalest, *freshest;
    weft_http_connection *pending; /* connections that go on in the next round */
    char *received;                /* room for bytes that a connection reads */
    weft_text spare_out;           /* memory of a reply that was sent, for the next one */
    int64_t date_second;           /* of the text that Date fields have */
    char date[40];
    int64_t connection_count;
    int submitted;            /* inference requests queued in this round */
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

/* An HTTP request in progress. The connection is suspended while other threads work on it. */
struct weft_http_request {
    weft_server *server;
    weft_http_connection
        *connection; /* NULL: the connection was closed while other threads worked on the request */
    weft_http_request *next;  /* in the list of the server that the request is in */
    const char *method, *url; /* url: the path as it came; both are in `text` */
    char *piece[WEFT_PIECES]; /* of the path, decoded; in `text` */
    int pieces;
    double began;       /* time of its start (weft_seconds), only set with an access log */
    size_t sent;        /* bytes of the reply */
    size_t reply_bytes; /* of them, those that count among the server's */
    char *data;         /* the body as far as it has been received */
    size_t size, capacity;
    bool too_large, no_memory;
    enum {
        WEFT_HTTP_RECEIVING,
        WEFT_HTTP_SUSPENDED, /* other threads work on it */
        WEFT_HTTP_ANSWERED,
        WEFT_HTTP_REPLIED
    } state;
    bool counted;
    bool reading;   /* its body is large, and waits for a reader thread or is being read by one */
    double arrived; /* time at which a large body had arrived; 0: the body is small */
    bool gzip;      /* its body is gzip data */
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
    char client[46], id[129]; /* id: "" is none */
    weft_reply reply;
    weft_http_head head; /* its texts are in `text`, which is kept for the next request */
    char *text;
    size_t text_capacity;
};

/* route.c: splits the path at slashes into `piece`, decoded, in `room`, which has the size of the
 * path. false: it has a NUL. */
bool weft_http_request_split_path(weft_http_request *request, char *room);
/* Starts answering: writes a reply, or hands the request to other threads and suspends it.
 * only_metrics: the request came to the metrics port. */
void weft_http_request_route(weft_http_request *request, bool only_metrics);
/* Writes the reply after other threads have handed the request back. */
void weft_http_request_write_reply(weft_http_request *request);
/* Queues the parsed inference request of a suspended HTTP request. Call it in the loop. */
void weft_http_request_submit(weft_http_request *request);
/* Any thread calls this when an inference request has ended: stores the result and hands the HTTP
 * request back to the loop. Afterwards the HTTP request may have been freed. */
void weft_http_request_on_inference(void *user, const weft_request_result *a);
void weft_http_request_fail_inference(weft_http_request *request, weft_status status);
/* Writes a reply with code 503, and counts an inference request as refused. */
void weft_http_request_reply_unavailable(weft_http_request *request, const char *sentence);
/* body_reader.c: starts answering an inference request, or a plain prediction request. */
void weft_http_request_infer(weft_http_request *request);
/* Inflates a small body of gzip data in place, to at most so many bytes. false: there is a reply.
 */
bool weft_http_request_inflate(weft_http_request *request, size_t most);
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
/* Gives the next bytes of a stream, *size of them. */
typedef enum weft_http_more {
    WEFT_STREAM_BYTES,
    WEFT_STREAM_SLEEPS, /* the connection waits until an executor wakes it */
    WEFT_STREAM_OVER,
    WEFT_STREAM_BROKEN /* it is not whole, and must not look like it */
} weft_http_more;
weft_http_more weft_http_stream_next(weft_http_request *request, const char **data, size_t *size);
/* Whether texts are being generated, whose executors use requests of this server. */
bool weft_http_streams_open(weft_server *server);
/* Whether its text has ended early, since its client has left. */
bool weft_http_stream_is_abandoned(weft_http_request *request);
/* Called when the connection is gone: whether the request must stay until it is generated no more,
 * and is handed back then. */
bool weft_http_stream_outlives(weft_http_request *request);
void weft_http_stream_free(weft_http_request *request);

/* http_request.c: begins a request with the bytes of its head, which are copied. NULL: there is no
 * memory. If there is a reply afterwards, the body need not be read. */
weft_http_request *weft_http_request_begin(weft_server *server, weft_http_connection *connection,
                                           const char *head, size_t size);
/* Begins a request that is no valid HTTP, and writes the reply. NULL: there is no memory. */
weft_http_request *weft_http_request_reply_malformed(weft_server *server,
                                                     weft_http_connection *connection,
                                                     const weft_http_fault *fault);
/* Adds bytes to its body. false: so much was dropped that the connection must be closed. */
bool weft_http_request_add(weft_http_request *request, const char *data, size_t size);
/* Its body has arrived: replies, or suspends it. */
void weft_http_request_on_body(weft_http_request *c);
/* Replies when other threads have handed it back. false: it was abandoned, and its connection must
 * be closed without a reply. */
bool weft_http_request_complete_suspended(weft_http_request *request);
/* Hands the reply to the connection. */
void weft_http_request_queue_reply(weft_http_request *c);
/* The request has ended. whole: all of its reply was sent. */
void weft_http_request_end(weft_http_request *c, bool whole);
/* Cancels the request if its large body or its inference request still waits. true: there will be
 * no answer, so the caller must resume the HTTP request. */
bool weft_http_request_cancel(weft_http_request *request);
/* Frees the body if it is large. */
void weft_http_request_drop_large(weft_http_request *request);
/* Frees a request whose connection was closed while it was suspended. */
void weft_http_request_free(weft_http_request *request);
void weft_http_requests_free(weft_server *server);

/* connections.c: accepts connections, enforces their timeouts, and closes them. */
void weft_http_connection_set_state(weft_server *server, weft_http_connection *connection,
                                    weft_http_connection_state state);
/* Notes that bytes came or went. */
void weft_http_connection_touch(weft_server *server, weft_http_connection *connection);
/* Sets the events of the socket that are reported. */
void weft_http_connection_watch(weft_server *server, weft_http_connection *connection,
                                unsigned events);
/* Makes the loop go on with the connection in its next round. */
void weft_http_connection_postpone(weft_server *server, weft_http_connection *connection);
void weft_http_connection_close(weft_server *server, weft_http_connection *connection);
/* Accepts waiting connections; returns whether more may be waiting. */
bool weft_http_connections_accept(weft_server *server, weft_http_listener *listener);
void weft_http_connections_close(weft_server *server);
/* Closes connections that have exceeded a timeout, and starts to watch those that have been
 * suspended for a while. */
void weft_http_connections_check(weft_server *server);
/* Handles events of a connection's socket. */
void weft_http_connection_event(weft_server *server, weft_http_connection *connection,
                                unsigned events);

/* connection_io.c: goes on with a connection as far as it can without waiting. The connection may
 * be closed afterwards. */
void weft_http_connection_run(weft_server *server, weft_http_connection *connection);
/* Replies with an error to what the client has sent so far, and closes the connection then. */
void weft_http_connection_refuse(weft_server *server, weft_http_connection *connection,
                                 const weft_http_fault *fault);
/* reply_head.c: the status line and the fields of a reply. */
void weft_http_reply_head(weft_http_request *request, weft_text *out);
/* cors.c: whether a page in a browser may send this request: one of a listed origin, or of this
 * server itself, by an address or a name that no other machine can take. A page may send much
 * without asking first, and only its reading of the answer is left to the browser. true: the
 * request is from no page (it has no Origin). */
bool weft_cors_may_ask(const weft_http_request *request);
void weft_cors_refuse(weft_http_request *request);
/* Checks the list of origins. ARGUMENT: an item is no origin. */
weft_status weft_cors_check(const char *origins) WEFT_NODISCARD;
/* The origin of the page for which a browser asks, if it is one of the list; NULL: there is none.
 */
const char *weft_cors_origin(const weft_http_request *request);
/* Whether a browser asks what a page may ask (preflight). */
bool weft_cors_is_preflight(const weft_http_request *request);
/* Adds the fields for the browser. */
void weft_cors_add_fields(const weft_http_request *request, weft_text *out);

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
/* Makes the thread look at once, read what has changed, and scan the repository of models. */
void weft_server_look_now(weft_server *server);
/* The loop calls this in each round: newly read tokens take the place of the present ones. */
void weft_server_take_tokens(weft_server *server);

/* event_loop.c: starts the loop's thread. */
weft_status weft_loop_start(weft_server *server) WEFT_NODISCARD;
/* Stops the loop's thread; returns when no other thread works on a request. */
void weft_loop_end(weft_server *server);
/* Wakes the loop; any thread may call it. */
void weft_loop_wake(weft_server *server);

#endif
