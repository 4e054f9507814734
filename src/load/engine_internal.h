/* Generates the load: connections, and the event loop that sends requests when they are due. */
#ifndef WEFT_LOAD_ENGINE_INTERNAL_H
#define WEFT_LOAD_ENGINE_INTERNAL_H

#include "load/request_set.h"
#include "load/load.h"
#include "load/measure.h"
#include "weft/output.h"

/* A row of the result: one rate, its measurements, and its time interval. */
typedef struct weft_row {
    weft_load_figures figures;
    weft_rate plan;
    double begin, end;
} weft_row;

typedef struct weft_due {
    double when;
    weft_row *row;
} weft_due;

typedef struct weft_wire weft_wire;
typedef struct weft_lane weft_lane;

/* A connection, with at most one outstanding request. */
struct weft_wire {
    int file; /* -1: closed */
    bool busy, connected, writes, used, heard, again;
    int address, tried;
    weft_lane *lane;
    weft_due now;
    const weft_asked *asked;
    size_t sent;
    weft_wire *before, *after;
    weft_heard answer;
    char text[256];
};

typedef struct weft_chain {
    weft_wire *first, *last;
} weft_chain;

/* A lane: all connections to one target. A due request takes an idle connection, or a new one, or
 * waits. */
struct weft_lane {
    weft_asking *asking;
    weft_wire *all;
    int count;
    weft_chain idle, busy, closed; /* busy: in the order of their due times */
    weft_due *waiting;             /* ring buffer; its capacity is a power of two */
    size_t capacity, head, tail;
    int64_t owed; /* closed loop: requests that may be sent from `owed_at` on */
    double owed_at;
};

typedef struct weft_engine {
    const weft_load_options *options;
    const weft_stop *stop;
    weft_lane *lanes;
    int lane_count, epoll;
    char *buffer;
    double begin;
    uint64_t number;   /* requests so far */
    int64_t under_way; /* outstanding and waiting requests */
    weft_row *row;     /* the row being measured */
    bool making;       /* the row is not over */
    weft_output *trace;
    weft_error error;
    weft_load_tick *tick;
    void *user;
    double ticked;
    double slept; /* idle seconds of the loop in this row */
} weft_engine;

/* --- connection.c --- */

/* Sends the request over an idle or closed connection of the lane; false: there is none. */
bool weft_lane_ask(weft_engine *engine, weft_lane *lane, weft_due due);
void weft_lane_event(weft_engine *engine, weft_wire *c, uint32_t events);
/* Abandons the request of a connection. */
void weft_lane_give_up(weft_engine *engine, weft_wire *c, const char *what, const char *why);
weft_status weft_lane_open(weft_lane *lane, weft_asking *asking, int count) WEFT_NODISCARD;
void weft_lane_close(weft_lane *lane);

/* --- engine.c --- */

/* A request has ended; only status 200 is a success. */
void weft_engine_ended(weft_engine *engine, weft_lane *lane, weft_due due, int status,
                       const char *what, const char *example);
weft_status weft_engine_open(weft_engine *engine, weft_asking *askings, int count,
                             int64_t connections) WEFT_NODISCARD;
void weft_engine_close(weft_engine *engine);
/* Generates the load of a row; `number` is for the tick. wait: until all requests have ended. */
weft_status weft_engine_row(weft_engine *engine, weft_row *row, int number, double begin, bool wait,
                            weft_arrivals *arrivals) WEFT_NODISCARD;

#endif
