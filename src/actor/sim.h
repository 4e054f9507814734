/* The simulator: a deterministic runtime in virtual time (discrete events), with modelled links,
 * computation times, and faults. All random numbers come from the seed, so a run can be replayed;
 * the results of computations are computed, not modelled. */
#ifndef WEFT_ACTOR_SIM_H
#define WEFT_ACTOR_SIM_H

#include "actor/actor.h"

typedef struct weft_sim weft_sim;

/* A link between two nodes. Every node sends one message at a time and receives one at a time;
 * messages of one link arrive in the order in which they were sent, except for the reordered
 * share. */
typedef struct weft_sim_link {
    double latency;                /* seconds */
    double jitter;                 /* up to so many seconds in addition */
    double bandwidth;              /* bytes a second; 0: unlimited */
    double lost, twice, reordered; /* shares of the messages; twice: duplicated */
} weft_sim_link;

/* Creates actor `id`; life counts how often it was created before. */
typedef weft_status (*weft_sim_make_fn)(void *user, weft_actor_id id, int life, weft_actor **out);
/* A computation. */
typedef struct weft_sim_work {
    double seconds;      /* without any waiting */
    const double *parts; /* [part_count]: the shares of that time after which output part 0, 1, ...
                            is ready; the caller's, until the computation has ended */
    int part_count;
} weft_sim_work;

/* Performs or begins the computation that the actor requests; *work is empty. */
typedef weft_status (*weft_sim_compute_fn)(void *user, weft_actor *actor, int64_t ticket,
                                           weft_sim_work *work);
/* All input of the computation is there: other threads may compute what depends on it. */
typedef weft_status (*weft_sim_supplied_fn)(void *user, weft_actor *actor, int64_t ticket);
/* The computation has ended in virtual time, or its first part is ready: the actor is told next, so
 * the results must be there. Until then other threads may compute them. */
typedef weft_status (*weft_sim_computed_fn)(void *user, weft_actor *actor, int64_t ticket);
/* The link between two actors, at the first message on it. */
typedef weft_sim_link (*weft_sim_link_fn)(void *user, weft_actor_id from, weft_actor_id to);

typedef struct weft_sim_options {
    size_t struct_size; /* sizeof(weft_sim_options) */
    uint64_t seed;
    weft_sim_link link;       /* of all pairs without one of their own */
    weft_sim_link_fn link_of; /* in place of `link`; may be NULL */
    weft_sim_make_fn make;
    weft_sim_compute_fn compute; /* may be NULL if no actor computes */
    /* [need_count]: the shares of a computation's time before which it reads input part 0, 1, ...
     * (weft_actor_ops.lacks): it waits there for a missing part. All parts, or NULL: it begins when
     * all of them are there. */
    const double *needs;
    int need_count;
    weft_sim_supplied_fn supplied; /* may be NULL, like the next two */
    weft_sim_computed_fn computed;
    weft_sim_computed_fn ended; /* all of it has ended; also after reports of parts */
    /* Before each event: an error ends the run with it. */
    weft_status (*check)(void *user);
    /* An actor has failed with this thread's error, and is destroyed. NULL: the run fails. */
    weft_status (*failed)(void *user, weft_actor_id id, weft_status status);
    void *user;
} weft_sim_options;

/* Statistics of a run until now. */
typedef struct weft_sim_report {
    double now;     /* virtual time */
    double seconds; /* of the last event of an actor that computes */
    uint64_t events, messages, lost, bytes;
    uint64_t digest;               /* hash of all events of actors, in order */
    size_t waiting, most_waiting;  /* messages in flight, now and at most */
    size_t held_bytes, most_bytes; /* of these */
    double utilisation;            /* share of `seconds` in which the actors that compute did so */
} weft_sim_report;

weft_status weft_sim_create(const weft_sim_options *options, weft_sim **out) WEFT_NODISCARD;
void weft_sim_destroy(weft_sim **sim);

/* Adds an actor that begins at time `at` (from 0). */
weft_status weft_sim_add(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
/* Sets the link of one pair, in one direction. */
weft_status weft_sim_connect(weft_sim *sim, weft_actor_id from, weft_actor_id to,
                             const weft_sim_link *link) WEFT_NODISCARD;

/* Faults, at a given time. A killed actor loses its state, and messages to it are lost; the events
 * of a paused one are delayed; a partition (cut) loses messages sent or in flight between two
 * actors, both ways. */
weft_status weft_sim_kill(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
weft_status weft_sim_restart(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
weft_status weft_sim_pause(weft_sim *sim, weft_actor_id id, double at, double until) WEFT_NODISCARD;
/* Pauses the actor in each period of so many seconds, except for the first `awake` ones. */
weft_status weft_sim_doze(weft_sim *sim, weft_actor_id id, double period,
                          double awake) WEFT_NODISCARD;
weft_status weft_sim_cut(weft_sim *sim, weft_actor_id a, weft_actor_id b, double at,
                         double until) WEFT_NODISCARD;

/* Runs until no event is left, or until that time. Fails with the error of a failed actor, which it
 * names. */
weft_status weft_sim_run(weft_sim *sim, double until) WEFT_NODISCARD;
weft_sim_report weft_sim_stats(const weft_sim *sim);
/* Finished share of the running computation, without waiting times. 0: none runs. */
double weft_sim_progress(const weft_sim *sim, weft_actor_id id);
/* NULL while the actor is dead. */
weft_actor *weft_sim_actor(const weft_sim *sim, weft_actor_id id);

#endif
