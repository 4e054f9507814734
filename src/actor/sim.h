/* The simulator: a deterministic runtime in virtual time (discrete events), with modelled links,
 * computation times, and faults. All random numbers come from the seed, so a run can be replayed;
 * the results of computations are computed, not modelled.
 *
 * For estimates, actors may share a node, and so its link; the work of their handlers may take
 * time; and each byte of a payload may stand for several, as if there were more parameters. */
#ifndef WEFT_ACTOR_SIM_H
#define WEFT_ACTOR_SIM_H

#include "actor/actor.h"

/* A day: most virtual seconds for which a node may have messages to send, since a link that is
 * slower than what is sent over it would never catch up (unanswered messages are sent again), and
 * most of a step. */
#define WEFT_SIM_LONGEST 86400.0

typedef struct weft_sim weft_sim;

/* A link from one node to another. Every node sends one message at a time and receives one at a
 * time; messages of one link arrive in the order in which they were sent, except for the reordered
 * share. */
typedef struct weft_sim_link {
    double latency;                /* seconds */
    double jitter;                 /* additional random seconds, up to this */
    double bandwidth;              /* bytes a second; 0: unlimited */
    double lost, twice, reordered; /* shares of the messages; twice: duplicated */
    /* Above 0, for estimates: a payload comes later by a random share, up to this, of the seconds
     * that the link takes for it, and messages without one, which are short, pass between the
     * packets of others: no two runs of a network have one order of messages, and a locked one
     * would be a chance. */
    double uneven;
} weft_sim_link;

/* Creates actor `id`; `life` counts how often that actor was created before. */
typedef weft_status (*weft_sim_make_fn)(void *user, weft_actor_id id, int life, weft_actor **out);
/* Length and output parts of a computation. */
typedef struct weft_sim_work {
    double seconds; /* duration in virtual time, without waiting for input */
    /* [part_count]: the shares of `seconds` after which output part 0, 1, ... is ready. The
     * callback owns the array and keeps it until the computation has ended. */
    const double *parts;
    int part_count;
} weft_sim_work;

/* Performs or begins the computation that the actor has requested, and fills in *work, which is
 * zeroed. */
typedef weft_status (*weft_sim_compute_fn)(void *user, weft_actor *actor, int64_t ticket,
                                           weft_sim_work *work);
/* Called when all input of the computation is there: from now on other threads may compute the
 * results. */
typedef weft_status (*weft_sim_supplied_fn)(void *user, weft_actor *actor, int64_t ticket);
/* Called when the computation has ended in virtual time, or its first part is ready: the actor is
 * told next, so the results must be there on return. */
typedef weft_status (*weft_sim_computed_fn)(void *user, weft_actor *actor, int64_t ticket);
/* Returns the link between two actors; called at the first message on it. */
typedef weft_sim_link (*weft_sim_link_fn)(void *user, weft_actor_id from, weft_actor_id to);
/* Whether messages between two actors of one node cross from one process to another; called at the
 * first message. */
typedef bool (*weft_sim_crosses_fn)(void *user, weft_actor_id from, weft_actor_id to);

/* The time that work of a handler takes: of the actor, whose later events wait, and by how much it
 * delays each computation of another actor on its node. */
typedef struct weft_sim_delay {
    double own, others;
} weft_sim_delay;
/* actor, kind, codec, bytes: as in weft_actor_work, with the bytes that a payload stands for.
 * computing: the number of other actors on the node that compute now. */
typedef weft_sim_delay (*weft_sim_work_fn)(void *user, const weft_actor *actor, weft_work_kind kind,
                                           const char *codec, double bytes, int computing);

typedef struct weft_sim_options {
    size_t struct_size; /* sizeof(weft_sim_options) */
    uint64_t seed;
    weft_sim_link link;       /* for all pairs without a link of their own */
    weft_sim_link_fn link_of; /* in place of `link`; may be NULL */
    double scale; /* bytes for which each byte of a payload that is not fixed stands; 0: one */
    weft_sim_work_fn work;       /* NULL: handlers take no time */
    weft_sim_crosses_fn crosses; /* NULL: the actors of a node are in one process */
    weft_sim_make_fn make;
    weft_sim_compute_fn compute; /* may be NULL if no actor computes */
    /* [need_count]: the share of its time after which a computation reads input part 0, 1, ...; it
     * waits there while the part is missing (weft_actor_ops.lacks). NULL: a computation begins when
     * all input parts are there. */
    const double *needs;
    int need_count;
    weft_sim_supplied_fn supplied; /* may be NULL, like the next two */
    weft_sim_computed_fn computed;
    weft_sim_computed_fn ended; /* the whole computation has ended, also if `computed` was called */
    /* Called before each event; if it fails, the run ends with that error. */
    weft_status (*check)(void *user);
    /* Called when an actor has failed, with this thread's error, and was destroyed. NULL: the run
     * fails. */
    weft_status (*failed)(void *user, weft_actor_id id, weft_status status);
    void *user;
} weft_sim_options;

/* Statistics of a run until now. */
typedef struct weft_sim_report {
    double now;     /* virtual time */
    double seconds; /* time of the last event of an actor that computes */
    double arrived; /* time when the last message arrived or was lost */
    uint64_t events, messages, lost;
    double posted;  /* bytes of all messages that were sent, as weft_net_report.bytes_sent counts */
    uint64_t bytes; /* of the messages that have arrived or were lost; those in flight do not count,
                       so bytes over a link never exceed its bandwidth times the time */
    uint64_t digest;               /* hash of all events of actors, in order */
    size_t waiting, most_waiting;  /* messages in flight, now and at most */
    size_t held_bytes, most_bytes; /* bytes of the messages in flight, now and at most */
    double utilisation; /* share of `seconds` for which these actors computed, on average */
} weft_sim_report;

weft_status weft_sim_create(const weft_sim_options *options, weft_sim **out) WEFT_NODISCARD;
void weft_sim_destroy(weft_sim **sim);

/* Adds an actor that begins at time `at` (from 0). */
weft_status weft_sim_add(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
/* Puts an actor on the node of another one: they share its link, and messages between them cross
 * none. By default each actor has a node of its own. */
weft_status weft_sim_share_node(weft_sim *sim, weft_actor_id id, weft_actor_id with) WEFT_NODISCARD;
/* Sets the link of one pair, in one direction. */
weft_status weft_sim_connect(weft_sim *sim, weft_actor_id from, weft_actor_id to,
                             const weft_sim_link *link) WEFT_NODISCARD;

/* These calls plan faults for given times. A killed actor loses its state, and messages to it are
 * lost; a restart creates the actor anew; the events of a paused actor are delayed; a partition
 * (cut) loses messages sent or in flight between two actors, both ways. */
weft_status weft_sim_kill(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
weft_status weft_sim_restart(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
weft_status weft_sim_pause(weft_sim *sim, weft_actor_id id, double at, double until) WEFT_NODISCARD;
/* Pauses the actor, and what it computes, in each period of `period` seconds, except for the
 * period's first `awake` seconds. */
weft_status weft_sim_doze(weft_sim *sim, weft_actor_id id, double period,
                          double awake) WEFT_NODISCARD;
weft_status weft_sim_cut(weft_sim *sim, weft_actor_id a, weft_actor_id b, double at,
                         double until) WEFT_NODISCARD;

/* Runs until no event is left, or until that time. Fails with the error of a failed actor, which it
 * names. */
weft_status weft_sim_run(weft_sim *sim, double until) WEFT_NODISCARD;
/* The time of the next event; INFINITY: there is none. */
double weft_sim_next(const weft_sim *sim);
weft_sim_report weft_sim_stats(const weft_sim *sim);
/* The use of an actor, and of the link of its node, until now: seconds of the work of its handlers;
 * bytes that have left the node, and the seconds for which it has sent, and received, messages;
 * bytes of all messages of the actor, as weft_net_report.bytes_sent counts them. */
typedef struct weft_sim_use {
    double worked, sent_bytes, sending, receiving, posted;
} weft_sim_use;
weft_sim_use weft_sim_used(const weft_sim *sim, weft_actor_id id);
/* Finished share of the running computation, without waiting times. 0: none runs. */
double weft_sim_progress(const weft_sim *sim, weft_actor_id id);
/* When the node of an actor, which exists, will have sent all that the actor has sent so far. */
double weft_sim_sends_until(const weft_sim *sim, weft_actor_id id);
/* The actor with this id; NULL while it is dead. */
weft_actor *weft_sim_actor(const weft_sim *sim, weft_actor_id id);

#endif
