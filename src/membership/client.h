/* A status client, as an actor: it queries the coordinator for the view and is no member. With
 * `invited` it also requests what a joining member needs; with `other` it requests that this member
 * leaves. */
#ifndef WEFT_MEMBERSHIP_CLIENT_H
#define WEFT_MEMBERSHIP_CLIENT_H

#include "membership/view.h"

typedef struct weft_membership_client_options {
    size_t struct_size;    /* sizeof(weft_membership_client_options) */
    bool invited, learner; /* learner: a slot is reserved for it */
    int wished_slot;       /* requested slot, from 1: its former member has ended; 0: any */
    weft_actor_id other;   /* WEFT_NOBODY: no member is to leave */
    double again;          /* retransmission timeout, in seconds */
} weft_membership_client_options;

/* The client is done when the answer has arrived. PEER: the coordinator rejected the request. */
weft_status weft_membership_client_create(const weft_membership_client_options *options,
                                          weft_actor **out) WEFT_NODISCARD;
/* Queries once more; the last answer stays until there is another. */
weft_status weft_membership_client_query(weft_actor *actor) WEFT_NODISCARD;
/* The view; number 0: the run has not begun. */
const weft_view *weft_membership_client_view(const weft_actor *actor);
/* Invited: the reserved slot of a learner; id and configuration of the run. */
int weft_membership_client_slot(const weft_actor *actor);
uint64_t weft_membership_client_run(const weft_actor *actor);
const weft_buffer *weft_membership_client_run_config(const weft_actor *actor);

#endif
