/* Inside of the front: the server, its clients' connections, and a request on its way through it.
 *
 * One thread, the loop (loop.c), has the connections, the HTTP library and all requests; what
 * others compute comes back to it by weft_call_wake alone. Fields without a remark are the loop's.
 */
#ifndef WEFT_SERVE_FRONT_SERVER_H
#define WEFT_SERVE_FRONT_SERVER_H

#include "serve/front/front.h"
#include "serve/front/guard.h"

typedef struct weft_call weft_call;

/* A path has at most so many pieces, the last of which may have slashes. */
enum { WEFT_PIECES = 8 };
/* So many more connections than may be are let in, to be told so. */
enum { WEFT_SURPLUS = 64 };

/* Where a connection stands, as far as the clock minds: in a list for each of these, in the order
 * in which they came. */
typedef enum weft_stand {
    WEFT_STAND_ARRIVES,  /* the library was given it, and has not begun to read */
    WEFT_STAND_RESTS,    /* a request may come, or its head is coming */
    WEFT_STAND_RECEIVES, /* its body is coming */
    WEFT_STAND_SENDS,    /* its reply is going */
    WEFT_STAND_SLEEPS,   /* others work on it */
    WEFT_STAND_WATCHED,  /* the same, for so long that the client may have gone */
    WEFT_STANDS,
    WEFT_STAND_NONE = WEFT_STANDS
} weft_stand;

/* A client's connection. */
typedef struct weft_client {
    struct MHD_Connection *connection; /* NULL: the library does not have it yet */
    struct weft_client *next, *before;
    weft_stand stand;
    double since;
    int socket;
    weft_bucket *bucket;
    bool only_metrics, surplus, probed;
    weft_call *call; /* that is under way, or NULL */
    char address[46];
} weft_client;

typedef struct weft_clients {
    weft_client *first, *last;
} weft_clients;

/* A port: what listens, and what of the library serves those who come. */
typedef struct weft_door {
    int listening, number; /* socket; port */
    struct MHD_Daemon *daemon;
    bool only_metrics, stirs; /* stirs: something has happened there */
    double deaf;              /* nobody is taken until then; 0: now */
} weft_door;

struct weft_server {
    weft_service *service;
    size_t body;
    double patience, timeout, receive; /* seconds */
    int64_t connections;
    bool control, tls;
    int pictures;          /* atomic: large ones that are being read */
    weft_history *history; /* of the status page */
    weft_secure secure;
    weft_tokens *tokens; /* these three: or NULL */
    weft_rates *rates;
    weft_access *access;
    weft_door doors[2]; /* the second has metrics alone; its daemon is NULL where there is none */
    int epoll, woken;   /* descriptors of the loop; whoever writes to the second wakes it */
    pthread_t thread, self; /* of who starts and stops; the same, as the loop knows itself */
    bool started;
    double now; /* when this round of the loop began */
    weft_clients stands[WEFT_STANDS];
    int64_t clients;
    int asked;        /* questions of this round */
    bool busy;        /* there is more to do at once */
    int waiting;      /* calls that others work on */
    int requests;     /* that have come as a whole, and have no reply yet */
    weft_call *ready; /* that the loop itself has answered */
    weft_call *spare; /* calls for the next requests */
    int spares;
    pthread_mutex_t lock;
    pthread_cond_t quiet;  /* draining, and no requests are left */
    weft_call *answered;   /* by others, newest first; by the lock */
    bool rested;           /* none were left when the loop looked; by the lock */
    bool draining, ending; /* atomic */
};

/* A response of the library that stays with a call: the next one that is as long and has the same
 * head needs its text put into it alone. */
typedef struct weft_saved_reply {
    struct MHD_Response *response; /* NULL: none */
    char *text;
    size_t size, json;
} weft_saved_reply;

/* A request. Its handler is called until there is a reply; while somebody else works on it, its
 * connection sleeps. */
struct weft_call {
    weft_server *server;
    weft_client *client; /* NULL: its connection has ended while it was worked on */
    struct MHD_Connection *connection;
    weft_call *next;          /* in the list that it is in */
    const char *method, *url; /* the library's */
    char *path;               /* its own; into it point */
    char *piece[WEFT_PIECES];
    int pieces;
    char path_room[256];
    double began; /* where there is a log of it */
    size_t sent;  /* bytes of its reply */
    char *data;   /* the body so far */
    size_t size, capacity;
    bool too_large, no_memory, modern; /* modern: HTTP/1.1 */
    enum {
        WEFT_CALL_COMES,
        WEFT_CALL_WAITS, /* others work on it, and the library asks again */
        WEFT_CALL_SLEEPS,
        WEFT_CALL_ANSWERED,
        WEFT_CALL_REPLIED
    } state;
    bool counted;
    bool given_up; /* since nobody is there to hear of it */
    weft_served *served;
    weft_served_about about;
    weft_inference inference;
    uint64_t ticket;    /* of its question, with which it can be taken back */
    bool in_line;       /* it has one */
    weft_status status; /* of what somebody else did, with its sentence */
    char message[2048];
    weft_plain_body plain;
    enum { WEFT_CALL_PLAIN, WEFT_CALL_INFERS, WEFT_CALL_LOADS, WEFT_CALL_PREDICTS } kind;
    char *name; /* of a model that is loaded or unloaded */
    bool unloads;
    weft_reply reply;
    weft_saved_reply kept;
};

/* route.c: cuts the path at slashes. */
void weft_call_cut(weft_call *call);
/* Begins the answer: a reply, or the connection sleeps. only_metrics: of the port that has
 * nothing else. */
void weft_call_route(weft_call *call, bool only_metrics);
/* The same when it has woken up. */
void weft_call_finish(weft_call *call);
/* Asks what has been read, from the loop. */
void weft_call_ask(weft_call *call);
/* What others say when they are done, from any thread; the call may be gone then. */
void weft_call_answered(void *user, const weft_answered *a);
void weft_call_refused(weft_call *call, weft_status status);
/* predict_call.c: begins the answer to a plain question. */
void weft_call_predict(weft_call *call);
/* From here on somebody else works on a call, until he wakes it, from any thread; the call may be
 * gone then. */
void weft_call_sleep(weft_call *call);
void weft_call_wake(weft_call *call);
bool weft_server_is_draining(weft_server *server);
/* The code of HTTP for a status. */
unsigned weft_call_code(weft_status status);

/* call.c: what the library calls. */
enum MHD_Result weft_call_handle(void *user, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **state);
void weft_call_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code);
/* Gives up what it asked, if that has not been begun: whether it is answered herewith. */
bool weft_call_give_up(weft_call *call);
/* Ends one that has woken up without a connection. */
void weft_call_end(weft_call *call);
void weft_calls_free(weft_server *server);

/* clients.c: connections as they come, dawdle and go. */
void weft_client_notify(void *user, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code);
weft_client *weft_client_of(struct MHD_Connection *connection);
void weft_client_stand(weft_server *server, weft_client *client, weft_stand stand);
void weft_clients_accept(weft_server *server, weft_door *door);
/* Clients that the library has not begun to read; it is gone. */
void weft_clients_forget(weft_server *server);
/* Closes those that take too long, and has an eye on those that sleep. */
void weft_clients_look(weft_server *server);
/* The other side of one that is watched has gone, or does not want to say more. */
void weft_client_hears(weft_server *server, weft_client *client, unsigned events);

/* loop.c */
weft_status weft_loop_start(weft_server *server) WEFT_NODISCARD;
/* Returns when nobody works on a call any more. */
void weft_loop_end(weft_server *server);
/* From any thread: the loop has something to see to. */
void weft_loop_wake(weft_server *server);

#endif
