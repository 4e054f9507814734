/*
 * Servers and the learners that train with them, as actors.
 *
 * The flat parameters are cut into ranges; each has its server, and a server may have several. A
 * learner pushes the update of a range as soon as its gradients are there, and pulls the newest
 * parameters when its step is over; the policy says when it gets them. Whatever is not answered is
 * sent again, and each update counts once.
 */
#ifndef WEFT_EXCHANGE_SERVER_SERVER_H
#define WEFT_EXCHANGE_SERVER_SERVER_H

#include <sys/uio.h>

#include "compress/compress.h"
#include "exchange/server/range.h"

/* Takes the ranges (with their numbers among all), which it destroys with itself. */
typedef struct weft_served {
    int number;
    weft_range *range;
    /* What its update keeps, to be sent with the parameters to whoever asks for it; the caller's.
     */
    const struct iovec *states;
    int state_count;
} weft_served;
weft_status weft_server_create(const weft_served *ranges, int count,
                               weft_actor **out) WEFT_NODISCARD;

/* Its range of that number, or NULL; the server's. */
weft_range *weft_server_range_of(const weft_actor *actor, int number);

/* A range as a learner sees it. */
typedef struct weft_server_range {
    weft_actor_id server;
    int64_t begin, count; /* in the flat parameters */
    weft_codec *codec;    /* of its updates; stays the caller's */
} weft_server_range;

typedef struct weft_server_learner_options {
    size_t struct_size; /* sizeof(weft_server_learner_options) */
    weft_dtype dtype;
    const weft_server_range *ranges;
    int range_count;
    int64_t steps;         /* to be done */
    void *parameters;      /* flat; what a computation reads. Written between computations only */
    const void *gradients; /* flat; what it makes */
    double patience;       /* seconds after which something is sent again, at first */
    /* Gradients of so many steps are added up before they are pushed, and parameters are pulled
     * after so many steps; 0: one. Both also after the last step. */
    int64_t push, fetch;
    /* After a step that parameters are not pulled after: what it makes of the learner's own. NULL:
     * nothing. */
    weft_status (*descend)(void *user, int64_t step);
    /* Is given the state of range number `range`, where it was asked for. FORMAT: it cannot be. */
    weft_status (*take_state)(void *user, int range, const void *data, size_t bytes);
    void *user;
} weft_server_learner_options;

/* Computation number t is step t. Its part k is the gradient of range k; parts that were not told
 * of are there when it has ended. The actor is done when it has the parameters after its last step.
 * It fails where a server does not know it or finds its updates damaged. */
weft_status weft_server_learner_create(const weft_server_learner_options *options,
                                       weft_actor **out) WEFT_NODISCARD;
/* Whether it waits for servers: it can compute nothing then. */
bool weft_server_learner_waits(const weft_actor *actor);
/* Asks for what the servers have, with the state of their updates; between computations. */
weft_status weft_server_learner_fetch(weft_actor *actor) WEFT_NODISCARD;
/* It begins no other step, and is done when it has the parameters that all learners have come to,
 * once they have left, too. halt: they are to do so now. whole: with the state. */
weft_status weft_server_learner_leave(weft_actor *actor, bool halt, bool whole) WEFT_NODISCARD;
/* PEER: fails with what it has waited for so many seconds. */
weft_status weft_server_learner_explain(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* Somebody has said that all are to leave. */
bool weft_server_learner_halted(const weft_actor *actor);
/* Steps it has finished. */
int64_t weft_server_learner_clock(const weft_actor *actor);

#endif
