/* Internals of the front end: the server, its connections, and its calls (HTTP requests in
 * progress).
 *
 * One thread, the loop (event_loop.c), owns the connections, the HTTP library and all calls; other
 * threads return a call to it by weft_call_wake alone. Fields without a remark belong to the
 * loop. */
#ifndef WEFT_SERVE_FRONT_SERVER_INTERNAL_H
#define WEFT_SERVE_FRONT_SERVER_INTERNAL_H

#include "serve/front/http_internal.h"
#include "serve/front/access_control.h"

typedef struct weft_call weft_call;

/* A path has at most so many pieces; the last one may contain slashes. */
enum { WEFT_PIECES = 8 };
/* Connections beyond the limit that are accepted in order to send them an error. */
enum { WEFT_SURPLUS = 64 };

/* The state of a connection with respect to timeouts; each state has a list in order of entry. */
typedef enum weft_stand {
    WEFT_STAND_ARRIVES,  /* given to the library, which has not begun to read it */
    WEFT_STAND_RESTS,    /* between requests, or receiving a head */
    WEFT_STAND_RECEIVES, /* receiving a body */
    WEFT_STAND_SENDS,    /* sending a reply */
    WEFT_STAND_SLEEPS,   /* other threads work on its call */
    WEFT_STAND_WATCHED,  /* asleep for so long that its client is checked for disconnection */
    WEFT_STANDS,
    WEFT_STAND_NONE = WEFT_STANDS
} weft_stand;

/* A client's connection. */
typedef struct weft_client {
    struct MHD_Connection *connection; /* NULL: not known to the library yet */
    struct weft_client *next, *before;
    weft_stand stand;
    double since;
    int socket;
    weft_bucket *bucket;
    bool only_metrics, surplus, probed;
    weft_call *call; /* in progress, or NULL */
    char address[46];
} weft_client;

typedef struct weft_clients {
    weft_client *first, *last;
} weft_clients;

/* A port: its listening socket, and the daemon of the library that serves its connections. */
typedef struct weft_door {
    int listening, number; /* socket; port */
    struct MHD_Daemon *daemon;
    bool only_metrics, stirs; /* stirs: the daemon has events */
    double deaf;              /* time until which accepting pauses; 0: it does not */
} weft_door;

struct weft_server {
    weft_service *service;
    size_t body;
    double patience, timeout, receive; /* in seconds */
    int64_t connections;
    bool control, tls;
    int pictures;          /* atomic: large pictures being decoded */
    weft_history *history; /* of the status page */
    weft_secure secure;
    weft_tokens *tokens; /* these three may be NULL */
    weft_rates *rates;
    weft_access *access;
    weft_door doors[2];     /* the second one serves metrics only; without it its daemon is NULL */
    int epoll, woken;       /* epoll: of the loop; woken: eventfd that wakes the loop */
    pthread_t thread, self; /* the loop, as its creator and as itself knows it */
    bool started;
    double now; /* start time of this round of the loop */
    weft_clients stands[WEFT_STANDS];
    int64_t clients;
    int asked;        /* requests queued in this round */
    bool busy;        /* the next round starts at once */
    int waiting;      /* calls that other threads work on */
    int requests;     /* received requests without a reply */
    weft_call *ready; /* answered by the loop itself */
    weft_call *spare; /* free calls */
    int spares;
    pthread_mutex_t lock;
    pthread_cond_t quiet;  /* signalled when no request is left while draining */
    weft_call *answered;   /* by other threads, newest first; guarded by the lock */
    bool rested;           /* no request is left; guarded by the lock */
    bool draining, ending; /* atomic */
};

/* A response that is kept with a call: for the next reply of the same length and head only the text
 * is replaced. */
typedef struct weft_saved_reply {
    struct MHD_Response *response; /* NULL: none */
    char *text;
    size_t size, json;
} weft_saved_reply;

/* An HTTP request in progress. The library calls its handler until there is a reply, and its
 * connection is suspended while other threads work on it. */
struct weft_call {
    weft_server *server;
    weft_client *client; /* NULL: its connection was closed while other threads worked on it */
    struct MHD_Connection *connection;
    weft_call *next;          /* in the list that it belongs to */
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
        WEFT_CALL_COMES,
        WEFT_CALL_WAITS, /* other threads work on it; the library will call the handler again */
        WEFT_CALL_SLEEPS,
        WEFT_CALL_ANSWERED,
        WEFT_CALL_REPLIED
    } state;
    bool counted;
    bool given_up; /* its client has disconnected */
    weft_served *served;
    weft_served_about about;
    weft_inference inference;
    uint64_t ticket;    /* of its queued request, for cancelling it */
    bool in_line;       /* it has a queued request */
    weft_status status; /* result of the work of another thread, with its message */
    char message[2048];
    weft_plain_body plain;
    enum { WEFT_CALL_PLAIN, WEFT_CALL_INFERS, WEFT_CALL_LOADS, WEFT_CALL_PREDICTS } kind;
    char *name; /* of the model to load or unload */
    bool unloads;
    weft_reply reply;
    weft_saved_reply kept;
};

/* route.c: splits the path at slashes. */
void weft_call_cut(weft_call *call);
/* Starts answering: sets a reply, or suspends the connection. only_metrics: the request came to the
 * metrics port. */
void weft_call_route(weft_call *call, bool only_metrics);
/* Completes the answer after the connection was resumed. */
void weft_call_finish(weft_call *call);
/* Queues the parsed request; called in the loop. */
void weft_call_ask(weft_call *call);
/* Called in any thread when the work is done; the call may have been freed afterwards. */
void weft_call_answered(void *user, const weft_request_result *a);
void weft_call_refused(weft_call *call, weft_status status);
/* predict_request.c: starts answering a plain prediction request. */
void weft_call_predict(weft_call *call);
/* Between these two calls another thread works on the call. wake: from any thread; the call may
 * have been freed afterwards. */
void weft_call_sleep(weft_call *call);
void weft_call_wake(weft_call *call);
bool weft_server_is_draining(weft_server *server);
/* The HTTP status code for a status. */
unsigned weft_call_code(weft_status status);

/* http_request.c: callbacks of the library. */
enum MHD_Result weft_call_handle(void *user, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **state);
void weft_call_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code);
/* Cancels its queued request; returns whether it is answered by that. */
bool weft_call_give_up(weft_call *call);
/* Ends a call whose connection was closed while it slept. */
void weft_call_end(weft_call *call);
void weft_calls_free(weft_server *server);

/* connections.c: opens, times out and closes connections. */
void weft_client_notify(void *user, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code);
weft_client *weft_client_of(struct MHD_Connection *connection);
void weft_client_stand(weft_server *server, weft_client *client, weft_stand stand);
void weft_clients_accept(weft_server *server, weft_door *door);
/* Frees the clients that the library has not begun to read; the library has been stopped. */
void weft_clients_forget(weft_server *server);
/* Closes connections that are too slow, and starts to check those that sleep. */
void weft_clients_look(weft_server *server);
/* A watched connection was closed, or half closed, by its client. */
void weft_client_hears(weft_server *server, weft_client *client, unsigned events);

/* event_loop.c */
weft_status weft_loop_start(weft_server *server) WEFT_NODISCARD;
/* Returns when no other thread works on a call. */
void weft_loop_end(weft_server *server);
/* From any thread: wakes the loop. */
void weft_loop_wake(weft_server *server);

#endif
