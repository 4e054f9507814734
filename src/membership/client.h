/* A membership client is an actor that queries the coordinator for the view and is no member. With
 * `invited` it also requests the run configuration that a joining process needs; with `other` it
 * requests that this member leaves. */
#ifndef WEFT_MEMBERSHIP_CLIENT_H
#define WEFT_MEMBERSHIP_CLIENT_H

#include "membership/view.h"

typedef struct weft_membership_client_options {
    size_t struct_size;    /* sizeof(weft_membership_client_options) */
    bool invited, learner; /* learner: the coordinator reserves a slot for it */
    /* Requested slot + 1: the coordinator removes the slot's former member, as its process has
     * ended. 0: any slot. */
    int wished_slot;
    weft_actor_id other;   /* member that is to leave; WEFT_NOBODY: none */
    uint64_t run;          /* id of the run that the client was a member of; 0: none */
    double resend_timeout; /* retransmission timeout, in seconds */
} weft_membership_client_options;

/* Creates a client, which sends its requests until they are answered; then the actor is done. PEER:
 * the coordinator has rejected the request. */
weft_status weft_membership_client_create(const weft_membership_client_options *options,
                                          weft_actor **out) WEFT_NODISCARD;
/* The last view that has arrived; number 0: the run has not begun. */
const weft_view *weft_membership_client_view(const weft_actor *actor);
/* With `invited`: the slot reserved for a learner, the run id, and the run configuration. */
int weft_membership_client_slot(const weft_actor *actor);
uint64_t weft_membership_client_run(const weft_actor *actor);
const weft_buffer *weft_membership_client_run_config(const weft_actor *actor);

#endif
