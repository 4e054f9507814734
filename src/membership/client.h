/*
 * A client, as an actor: asks the coordinator of a run who is there, and is no member. With
 * `invited` it asks for what a joiner needs to know, too; with `other` it asks that this one goes.
 */
#ifndef WEFT_MEMBERSHIP_CLIENT_H
#define WEFT_MEMBERSHIP_CLIENT_H

#include "membership/view.h"

typedef struct weft_membership_client_options {
    size_t struct_size;    /* sizeof(weft_membership_client_options) */
    bool invited, learner; /* learner: a slot is kept free for it */
    int place;           /* the slot that it is to have, from 1: whoever had it has ended; 0: any */
    weft_actor_id other; /* WEFT_NOBODY: nobody is to go */
    double again;        /* seconds after which it asks again */
} weft_membership_client_options;

/* Done when it has its answer; PEER: that was no. */
weft_status weft_membership_client_create(const weft_membership_client_options *options,
                                          weft_actor **out) WEFT_NODISCARD;
/* Asks once more; the last answer stays until there is another one. */
weft_status weft_membership_client_query(weft_actor *actor) WEFT_NODISCARD;
/* Who was there; number 0: before the run has begun. */
const weft_view *weft_membership_client_view(const weft_actor *actor);
/* Invited: the slot of a learner that nobody has; and what the run is. */
int weft_membership_client_slot(const weft_actor *actor);
uint64_t weft_membership_client_run(const weft_actor *actor);
const weft_buffer *weft_membership_client_run_config(const weft_actor *actor);

#endif
