/*
 * The simulator: actors in virtual time, with links and computations that take as long as a model
 * says, and faults. Everything that is random comes from the seed, so a run is the same every time;
 * what actors compute is computed, not modelled.
 */
#ifndef WEFT_ACTOR_SIM_H
#define WEFT_ACTOR_SIM_H

#include "actor/actor.h"

typedef struct weft_sim weft_sim;

/* The link between two machines. Every machine sends one message at a time and receives one at a
 * time; messages of one link arrive in the order in which they were sent, unless it is said that
 * they do not. */
typedef struct weft_sim_link {
    double latency;                /* seconds */
    double jitter;                 /* up to so many seconds more */
    double bandwidth;              /* bytes a second; 0: as many as there are */
    double lost, twice, reordered; /* shares of the messages */
} weft_sim_link;

/* Makes the actor `id`; life counts how often it was made before. */
typedef weft_status (*weft_sim_make_fn)(void *user, weft_actor_id id, int life, weft_actor **out);
/* A computation. */
typedef struct weft_sim_work {
    double seconds;      /* that it takes, if it never waits */
    const double *parts; /* [part_count]: the shares of that time after which part 0, 1, ... of what
                          * it makes is there; the caller's, until it has ended */
    int part_count;
} weft_sim_work;

/* Does what the actor asks for, or begins it; *work is empty. */
typedef weft_status (*weft_sim_compute_fn)(void *user, weft_actor *actor, int64_t ticket,
                                           weft_sim_work *work);
/* All that it reads is there: what reads it may be computed from now on, by other threads. */
typedef weft_status (*weft_sim_supplied_fn)(void *user, weft_actor *actor, int64_t ticket);
/* What has been asked for has come to its end, or its first part has: the actor is told next. So
 * what it computes may be computed meanwhile, by other threads. */
typedef weft_status (*weft_sim_computed_fn)(void *user, weft_actor *actor, int64_t ticket);
/* The link from one to the other, when the first message goes that way. */
typedef weft_sim_link (*weft_sim_link_fn)(void *user, weft_actor_id from, weft_actor_id to);

typedef struct weft_sim_options {
    size_t struct_size; /* sizeof(weft_sim_options) */
    uint64_t seed;
    weft_sim_link link;       /* of all pairs without one of their own */
    weft_sim_link_fn link_of; /* says it in the place of `link`; may be NULL */
    weft_sim_make_fn make;
    weft_sim_compute_fn compute; /* may be NULL where nobody computes */
    /* [need_count]: the shares of a computation's time before which it reads part 0, 1, ... of what
     * actors get from elsewhere (weft_actor_ops.lacks): it waits there for what has not come. All
     * of their parts, or NULL: it begins when all of them are there. */
    const double *needs;
    int need_count;
    weft_sim_supplied_fn supplied; /* may be NULL, as this may */
    weft_sim_computed_fn computed;
    weft_sim_computed_fn ended; /* all of it has; also when parts were told of before */
    /* An actor has failed, as this thread's message says, and is gone. NULL: so does the run. */
    weft_status (*failed)(void *user, weft_actor_id id, weft_status status);
    void *user;
} weft_sim_options;

/* What has happened until now. */
typedef struct weft_sim_report {
    double now;     /* virtual time */
    double seconds; /* of it, until the last that somebody was told who computes */
    uint64_t events, messages, lost, bytes;
    uint64_t digest;               /* of all that actors were told, in order */
    size_t waiting, most_waiting;  /* messages under way, now and at most */
    size_t held_bytes, most_bytes; /* of them */
    double utilisation;            /* share of the time in which actors that compute did */
} weft_sim_report;

weft_status weft_sim_create(const weft_sim_options *options, weft_sim **out) WEFT_NODISCARD;
void weft_sim_destroy(weft_sim **sim);

/* Adds an actor that begins `at` so many seconds (from 0). */
weft_status weft_sim_add(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
/* A link of its own, from one to the other. */
weft_status weft_sim_connect(weft_sim *sim, weft_actor_id from, weft_actor_id to,
                             const weft_sim_link *link) WEFT_NODISCARD;

/* Faults, planned for a time. A killed actor forgets everything, and what was sent to it is lost; a
 * paused one is told later; a cut loses what is sent or under way between two, both ways. */
weft_status weft_sim_kill(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
weft_status weft_sim_restart(weft_sim *sim, weft_actor_id id, double at) WEFT_NODISCARD;
weft_status weft_sim_pause(weft_sim *sim, weft_actor_id id, double at, double until) WEFT_NODISCARD;
/* It is paused in each period of so many seconds, but for the first ones. */
weft_status weft_sim_doze(weft_sim *sim, weft_actor_id id, double period,
                          double awake) WEFT_NODISCARD;
weft_status weft_sim_cut(weft_sim *sim, weft_actor_id a, weft_actor_id b, double at,
                         double until) WEFT_NODISCARD;

/* Runs until nothing is left to be done, or that time has come. Fails as an actor fails that does;
 * the message names it. */
weft_status weft_sim_run(weft_sim *sim, double until) WEFT_NODISCARD;
weft_sim_report weft_sim_stats(const weft_sim *sim);
/* Which share of what an actor computes now is done; what it waits for is not. 0: it computes
 * nothing. */
double weft_sim_progress(const weft_sim *sim, weft_actor_id id);
/* The actor, or NULL while it is dead. */
weft_actor *weft_sim_actor(const weft_sim *sim, weft_actor_id id);

#endif
