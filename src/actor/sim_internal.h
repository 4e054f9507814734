/* The inside of the simulator. */
#ifndef WEFT_ACTOR_SIM_INTERNAL_H
#define WEFT_ACTOR_SIM_INTERNAL_H

#include "actor/sim.h"

typedef enum event_kind {
    EVENT_BEGIN,
    EVENT_ARRIVE, /* a message is at the receiver's machine, which may be receiving another one */
    EVENT_MESSAGE,
    EVENT_TIMER,
    EVENT_NEED, /* a computation has come to where it reads something that may not be there */
    EVENT_PART,
    EVENT_COMPUTED,
    EVENT_KILL,
    EVENT_PAUSE
} event_kind;

/* A message under way. */
typedef struct parcel {
    weft_message message;
    double sent;
    size_t bytes; /* on the wire */
    char head[];
} parcel;

typedef struct event {
    double at;
    uint64_t order; /* of equal times the one that was planned first */
    event_kind kind;
    weft_actor_id to;
    int life;       /* of the receiver for which it is */
    uint64_t stamp; /* TIMER: which setting of it */
    int64_t what;   /* TIMER, NEED, PART: which */
    double until;   /* PAUSE */
    parcel *parcel; /* ARRIVE, MESSAGE */
} event;

/* Where an actor lives. */
typedef struct machine {
    bool known;
    int life; /* how often an actor began here */
    weft_actor *actor;
    double sends_until, receives_until, paused_until;
    double period,
        awake; /* it is told something only in the first `awake` seconds of each period */
    uint64_t stamps[WEFT_ACTOR_TIMERS];
    bool computing, computes;
    bool told;           /* of the computation that goes on, at least a part */
    bool begun, stalled; /* has that been; it waits for something that it reads */
    int64_t ticket;
    weft_sim_work work;
    double share;      /* of it that is done, where it last waited or looked, */
    double since;      /* and when that was */
    double busy, last; /* when it was told something */
} machine;

/* From one to another; the table finds it by both. */
typedef struct way {
    uint64_t key; /* 0: free */
    bool own;     /* `link` is set */
    weft_sim_link link;
    double last; /* when the last message arrives */
} way;

typedef struct cut {
    weft_actor_id a, b;
    double at, until;
} cut;

struct weft_sim {
    weft_runtime host;
    weft_sim_options options;
    double now;
    uint64_t order;
    weft_random random;
    machine *machines; /* by id */
    size_t machine_count, machine_capacity;
    event *heap;
    size_t heap_count, heap_capacity;
    way *ways;
    size_t way_count, way_capacity;
    cut *cuts;
    size_t cut_count, cut_capacity;
    weft_sim_report report;
};

/* sim.c */
weft_status weft_sim_plan(weft_sim *sim, event e) WEFT_NODISCARD;
machine *weft_sim_machine(const weft_sim *sim, weft_actor_id id);

/* sim_compute.c: the host's compute; a computation goes on, if it can; it has come to where it
 * needs that.
 */
weft_status weft_sim_compute(weft_actor *actor, int64_t ticket) WEFT_NODISCARD;
weft_status weft_sim_work_on(weft_sim *sim, machine *m) WEFT_NODISCARD;
weft_status weft_sim_need(weft_sim *sim, machine *m, int part) WEFT_NODISCARD;

/* sim_link.c */
weft_status weft_sim_send(weft_actor *from, weft_actor_id to,
                          const weft_message *message) WEFT_NODISCARD;
/* The receiver's machine takes it: now, or when it has received what came before. */
weft_status weft_sim_arrive(weft_sim *sim, event *e, bool *delivered) WEFT_NODISCARD;
/* It will be given to nobody any more. */
void weft_sim_forget(weft_sim *sim, parcel **message, bool lost);

#endif
