/* Internals of the load generator: its connections, and the event loop that sends requests when
 * they are due. */
#ifndef WEFT_LOAD_ENGINE_INTERNAL_H
#define WEFT_LOAD_ENGINE_INTERNAL_H

#include "load/request_set.h"
#include "load/load.h"
#include "load/measure.h"
#include "weft/output.h"

/* A stage of a load test: its planned rate or number of outstanding requests, its time interval,
 * and its measurements. */
typedef struct weft_load_stage {
    weft_load_result result;
    weft_load_rate plan;
    double begin, end;
    bool warmup; /* its requests are neither traced nor limited in number */
} weft_load_stage;

typedef struct weft_scheduled_request {
    double when;
    weft_load_stage *stage;
} weft_scheduled_request;

typedef struct weft_load_connection weft_load_connection;
typedef struct weft_connection_pool weft_connection_pool;

/* A connection, with at most one outstanding request. */
struct weft_load_connection {
    weft_load_stream stream;
    bool busy, connected, wants_write, used, responding, resent;
    int address, tried;
    weft_connection_pool *pool;
    weft_scheduled_request scheduled;
    const weft_raw_request *request;
    size_t sent;
    weft_load_connection *previous, *next;
    weft_http_response response;
    char text[256];
};

typedef struct weft_load_connection_list {
    weft_load_connection *first, *last;
} weft_load_connection_list;

/* A pool: all connections to one target. A request that is due takes an idle connection, or else
 * opens one, or else waits in the pool. */
struct weft_connection_pool {
    weft_request_set *requests;
    weft_load_connection *connections;
    int count;
    /* busy: in the order in which their requests were due */
    weft_load_connection_list idle, busy, closed;
    /* requests without a connection: a ring, whose capacity is a power of two */
    weft_scheduled_request *waiting;
    size_t capacity, head, tail;
    int64_t closed_due; /* closed loop: number of requests that are due from `closed_due_at` on */
    double closed_due_at;
};

typedef struct weft_engine {
    const weft_load_options *options;
    const weft_stop *stop;
    weft_connection_pool *pools;
    int pool_count, epoll;
    char *buffer;
    double begin;
    uint64_t number;        /* requests scheduled so far */
    int64_t outstanding;    /* scheduled requests that have not ended */
    weft_load_stage *stage; /* the stage being measured */
    bool sending;           /* the stage may send further requests */
    weft_output *trace;
    weft_error error;
    weft_load_tick *tick;
    void *user;
    double last_tick;
    double idle_seconds; /* seconds of this stage in which the loop waited for events */
} weft_engine;

/* --- connection.c --- */

/* Sends the request over an idle connection of the pool, or over one that is opened for it; false:
 * all connections are busy. */
bool weft_connection_pool_send(weft_engine *engine, weft_connection_pool *pool,
                               weft_scheduled_request scheduled);
void weft_connection_pool_event(weft_engine *engine, weft_load_connection *c, uint32_t events);
/* Closes a busy connection and counts its request as failed, with the reason `what` and the example
 * `why`. */
void weft_connection_pool_abandon(weft_engine *engine, weft_load_connection *c, const char *what,
                                  const char *why);
weft_status weft_connection_pool_open(weft_connection_pool *pool, weft_request_set *set,
                                      int count) WEFT_NODISCARD;
void weft_connection_pool_close(weft_connection_pool *pool);

/* --- engine.c --- */

/* Counts a request that has ended. Only HTTP status 200 is a success; status 0: there was no valid
 * response, and `what` is the reason. */
void weft_engine_ended(weft_engine *engine, weft_connection_pool *pool,
                       weft_scheduled_request scheduled, int status, const char *what,
                       const char *example);
weft_status weft_engine_open(weft_engine *engine, weft_request_set *sets, int count,
                             int64_t connections) WEFT_NODISCARD;
void weft_engine_close(weft_engine *engine);
/* Generates the load of a stage from the time `begin` on. number: of the stage, for the tick
 * function; wait: returns only when all requests have ended. */
weft_status weft_engine_run_stage(weft_engine *engine, weft_load_stage *stage, int number,
                                  double begin, bool wait, weft_arrivals *arrivals) WEFT_NODISCARD;

#endif
