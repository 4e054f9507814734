/* Internals of the simulator. */
#ifndef WEFT_ACTOR_SIM_INTERNAL_H
#define WEFT_ACTOR_SIM_INTERNAL_H

#include "actor/sim.h"

typedef enum event_kind {
    EVENT_BEGIN,
    EVENT_ARRIVE, /* a message is at the receiver's node, which may be receiving another one */
    EVENT_MESSAGE,
    EVENT_TIMER,
    EVENT_NEED, /* a computation has come to where it reads an input that may be missing */
    EVENT_PART,
    EVENT_COMPUTED,
    EVENT_KILL,
    EVENT_PAUSE
} event_kind;

/* A message in flight. */
typedef struct parcel {
    weft_message message;
    double sent;
    size_t bytes; /* on the wire */
    char head[];
} parcel;

typedef struct event {
    double at;
    uint64_t order; /* among equal times: planned first */
    event_kind kind;
    weft_actor_id to;
    int life;       /* life of the receiver that it is for */
    uint64_t stamp; /* TIMER: number of the setting */
    int64_t what;   /* TIMER, NEED, PART: which */
    double until;   /* PAUSE */
    parcel *parcel; /* ARRIVE, MESSAGE */
} event;

/* The node of an actor. */
typedef struct machine {
    bool known;
    int life; /* number of actors that began here */
    weft_actor *actor;
    double sends_until, receives_until, paused_until;
    double period,
        awake; /* events are delivered only in the first `awake` seconds of each period */
    uint64_t stamps[WEFT_ACTOR_TIMERS];
    bool computing, computes;
    bool part_reported;  /* a part of the running computation was reported */
    bool begun, stalled; /* it has begun; it waits for an input */
    int64_t ticket;
    weft_sim_work work;
    double share;      /* finished share of it when it last waited or went on, */
    double since;      /* and the time of that */
    double busy, last; /* time of the last event */
} machine;

/* A directed link between two actors; the hash table finds it by both. */
typedef struct way {
    uint64_t key; /* 0: free */
    bool own;     /* `link` is set */
    weft_sim_link link;
    double last; /* arrival of the last message */
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

/* sim_compute.c: starts a computation; goes on with it as far as it can; it has come to where it
 * needs an input part. */
weft_status weft_sim_compute(weft_actor *actor, int64_t ticket) WEFT_NODISCARD;
weft_status weft_sim_work_on(weft_sim *sim, machine *m) WEFT_NODISCARD;
weft_status weft_sim_need(weft_sim *sim, machine *m, int part) WEFT_NODISCARD;

/* sim_link.c */
weft_status weft_sim_send(weft_actor *from, weft_actor_id to,
                          const weft_message *message) WEFT_NODISCARD;
/* The receiver's node receives a message: now, or after the messages that arrived earlier. */
weft_status weft_sim_arrive(weft_sim *sim, event *e, bool *delivered) WEFT_NODISCARD;
/* Frees a message, delivered or lost. */
void weft_sim_forget(weft_sim *sim, parcel **message, bool lost);

#endif
