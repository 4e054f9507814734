/* Internals of the simulator: its state, and the functions that its files share. */
#ifndef WEFT_ACTOR_SIM_INTERNAL_H
#define WEFT_ACTOR_SIM_INTERNAL_H

#include "actor/sim.h"

typedef enum event_kind {
    EVENT_BEGIN,
    EVENT_ARRIVE,   /* a message is at the receiver's node, which may be receiving another one */
    EVENT_RECEIVED, /* the node has received a message that had to wait there */
    EVENT_MESSAGE,
    EVENT_TIMER,
    EVENT_NEED, /* a computation has reached the point where it reads an input part */
    EVENT_PART,
    EVENT_COMPUTED,
    EVENT_KILL,
    EVENT_PAUSE,
    EVENT_WAKE /* the actor has done its work, and takes the events that wait */
} event_kind;

/* A message in flight. */
typedef struct parcel {
    weft_message message;
    double sent;
    size_t bytes; /* on the wire */
    bool lost;    /* the link loses it, or its receiver is dead */
    bool here;    /* both actors are on one node, so it crosses no link */
    bool crosses; /* from one process to another, of the node or of two */
    bool copy;    /* of a duplicated message, which crosses only the receiver's link twice */
    char head[];
} parcel;

typedef struct event {
    double at;
    uint64_t order; /* of events at one time, the lower order, planned first, comes first */
    event_kind kind;
    weft_actor_id to;
    int life;       /* life of the receiver: an event for an earlier life is dropped */
    uint64_t stamp; /* TIMER: number of the timer's setting; outdated ones are ignored */
    int64_t what;   /* TIMER: the timer; NEED, PART: the part */
    double delay;   /* NEED, PART, COMPUTED: the machine's `delay` that `at` includes */
    double until;   /* PAUSE: end of the pause */
    parcel *parcel; /* ARRIVE, RECEIVED, MESSAGE */
} event;

/* An actor and, if it is the first one there, its node. Times are in virtual seconds. */
typedef struct machine {
    bool known;
    weft_actor_id node, next; /* the first actor of its node; the next one there, in a ring */
    int life;                 /* how often the actor began */
    weft_actor *actor;
    double sends_until, receives_until, paused_until;
    double short_until, short_received; /* the same for messages without payloads */
    double sending, receiving; /* seconds that its transfers out and in have taken so far */
    double given,
        given_bytes; /* seconds and bytes that it has been given to send; since the start */
    double posted;   /* bytes of the messages that the actor has sent so far, with envelopes */
    double rate, rate_busy; /* bytes, and seconds of transfers, a second until `sends_until` */
    double working;         /* seconds of work of the running handler */
    double works_until;     /* of the handlers before */
    struct event
        *waiting; /* [waiting_capacity, a power of two] events that wait for that, a ring */
    size_t first, waiting_count, waiting_capacity;
    bool wakes;    /* EVENT_WAKE is planned */
    double worked; /* of all handlers */
    double delay;  /* by which handlers have delayed its computations so far */
    double period,
        awake; /* events are delivered only in the first `awake` seconds of each period */
    uint64_t stamps[WEFT_ACTOR_TIMERS];
    bool computing, computes;
    bool part_reported;  /* a part of the running computation was reported */
    bool begun, stalled; /* the computation has begun; it waits for an input part */
    int64_t ticket;
    weft_sim_work work;
    double share;      /* finished share of the computation at time `since` */
    double since;      /* when the computation last waited or went on */
    double busy, last; /* total computation time; time of the last event */
} machine;

/* A directed link between two actors, in a hash table; `key` is made of both ids. */
typedef struct way {
    uint64_t key; /* 0: free */
    bool own;     /* `link` is set */
    bool used;    /* a message was sent; `crosses` is set */
    bool crosses; /* as of a parcel */
    weft_sim_link link;
    double leaves, received; /* when the last message has left, and is received */
    double last;             /* arrival time of the last message that was not reordered */
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

/* sim.c: the seconds for which an actor that pauses in each period has been awake until a time, and
 * the time at which it has been awake for so many seconds more. */
double weft_sim_awake(const machine *m, double time);
double weft_sim_awake_after(const machine *m, double time, double seconds);
/* `_attend` delivers an event to an actor. The event is dropped if the actor is dead, done
 * or restarted, and delayed while it is paused. */
weft_status weft_sim_attend(weft_sim *sim, machine *m, event *e) WEFT_NODISCARD;
weft_status weft_sim_plan(weft_sim *sim, event e) WEFT_NODISCARD;
machine *weft_sim_machine(const weft_sim *sim, weft_actor_id id);
/* sim_node.c: the machine that has the link of an actor's node. */
machine *weft_sim_node(const weft_sim *sim, const machine *m);
/* The bytes of parameters, or the seconds of their work, that so many bytes stand for. */
static inline double weft_sim_scaled(const weft_sim *sim, double bytes)
{
    return sim->options.scale > 0 ? bytes * sim->options.scale : bytes;
}
/* `_charge` counts work of the running handler; `_end_work` is called after a handler.
 * `_is_delayed`: handlers have delayed the computation since the event was planned; the event then
 * happens at its new time. */
void weft_sim_charge(weft_actor *actor, weft_work_kind kind, const char *codec, double bytes);
void weft_sim_end_work(weft_sim *sim, machine *m);
/* `_wait`: an event of an actor that works waits for its turn (*waits), in the order of arrival;
 * `_wake` handles EVENT_WAKE. */
weft_status weft_sim_wait(weft_sim *sim, machine *m, event *e, bool *waits) WEFT_NODISCARD;
weft_status weft_sim_wake(weft_sim *sim, machine *m, weft_actor_id id) WEFT_NODISCARD;
void weft_sim_forget_waiting(weft_sim *sim, machine *m);
bool weft_sim_is_delayed(const machine *m, event *e);

/* sim_compute.c: weft_sim_compute starts a computation; _work_on runs it until an input part is
 * missing; _need handles EVENT_NEED, when the computation has reached an input part. */
weft_status weft_sim_compute(weft_actor *actor, int64_t ticket) WEFT_NODISCARD;
weft_status weft_sim_work_on(weft_sim *sim, machine *m) WEFT_NODISCARD;
weft_status weft_sim_need(weft_sim *sim, machine *m, int part) WEFT_NODISCARD;

/* sim_link.c */
weft_status weft_sim_send(weft_actor *from, weft_actor_id to,
                          const weft_message *message) WEFT_NODISCARD;
/* Handles EVENT_ARRIVE: the receiver's node receives the message now (*delivered), or after the
 * messages that arrived earlier, for which EVENT_RECEIVED is planned. A cut link loses the
 * message. */
weft_status weft_sim_arrive(weft_sim *sim, event *e, bool *delivered) WEFT_NODISCARD;
/* Handles the end of a message's reception: counts its transfer, and turns the event into
 * EVENT_MESSAGE. */
weft_status weft_sim_received(weft_sim *sim, event *e) WEFT_NODISCARD;
/* Frees a message, delivered or lost. */
void weft_sim_forget(weft_sim *sim, parcel **message, bool lost);

#endif
