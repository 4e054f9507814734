/* Generates the load: connections, and the event loop that sends requests when they are due. */
#ifndef WEFT_LOAD_ENGINE_INTERNAL_H
#define WEFT_LOAD_ENGINE_INTERNAL_H

#include "load/request_set.h"
#include "load/load.h"
#include "load/measure.h"
#include "weft/output.h"

/* A stage: one rate, its measurements, and its time interval. */
typedef struct weft_load_stage {
    weft_load_result result;
    weft_load_rate plan;
    double begin, end;
} weft_load_stage;

typedef struct weft_scheduled_request {
    double when;
    weft_load_stage *stage;
} weft_scheduled_request;

typedef struct weft_load_connection weft_load_connection;
typedef struct weft_connection_pool weft_connection_pool;

/* A connection, with at most one outstanding request. */
struct weft_load_connection {
    int file; /* -1: closed */
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

/* A pool: all connections to one target. A due request takes an idle connection, or a new one, or
 * waits. */
struct weft_connection_pool {
    weft_request_set *requests;
    weft_load_connection *connections;
    int count;
    weft_load_connection_list idle, busy, closed; /* busy: in the order of their due times */
    weft_scheduled_request *waiting;              /* ring buffer; its capacity is a power of two */
    size_t capacity, head, tail;
    int64_t closed_due; /* closed loop: requests that may be sent from `closed_due_at` on */
    double closed_due_at;
};

typedef struct weft_engine {
    const weft_load_options *options;
    const weft_stop *stop;
    weft_connection_pool *pools;
    int pool_count, epoll;
    char *buffer;
    double begin;
    uint64_t number;        /* requests so far */
    int64_t outstanding;    /* outstanding and waiting requests */
    weft_load_stage *stage; /* the stage being measured */
    bool sending;           /* the stage is not over */
    weft_output *trace;
    weft_error error;
    weft_load_tick *tick;
    void *user;
    double last_tick;
    double idle_seconds; /* idle seconds of the loop in this stage */
} weft_engine;

/* --- connection.c --- */

/* Sends the request over an idle or closed connection of the pool; false: there is none. */
bool weft_connection_pool_send(weft_engine *engine, weft_connection_pool *pool,
                               weft_scheduled_request scheduled);
void weft_connection_pool_event(weft_engine *engine, weft_load_connection *c, uint32_t events);
/* Abandons the request of a connection. */
void weft_connection_pool_abandon(weft_engine *engine, weft_load_connection *c, const char *what,
                                  const char *why);
weft_status weft_connection_pool_open(weft_connection_pool *pool, weft_request_set *set,
                                      int count) WEFT_NODISCARD;
void weft_connection_pool_close(weft_connection_pool *pool);

/* --- engine.c --- */

/* A request has ended; only status 200 is a success. */
void weft_engine_ended(weft_engine *engine, weft_connection_pool *pool,
                       weft_scheduled_request scheduled, int status, const char *what,
                       const char *example);
weft_status weft_engine_open(weft_engine *engine, weft_request_set *sets, int count,
                             int64_t connections) WEFT_NODISCARD;
void weft_engine_close(weft_engine *engine);
/* Generates the load of a stage; `number` is for the tick. wait: until all requests have ended. */
weft_status weft_engine_run_stage(weft_engine *engine, weft_load_stage *stage, int number,
                                  double begin, bool wait, weft_arrivals *arrivals) WEFT_NODISCARD;

#endif
