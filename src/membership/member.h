/*
 * What servers, learners and peers have in common: a part of an actor that joins the cluster, tells
 * the coordinator that it lives, and hears who else is there.
 *
 * The actor gives it its messages and its timer; it answers those that are its own. It goes on with
 * the last view when the coordinator is gone.
 */
#ifndef WEFT_MEMBERSHIP_MEMBER_H
#define WEFT_MEMBERSHIP_MEMBER_H

#include <stdatomic.h>

#include "membership/coordinator.h"

typedef struct weft_member weft_member;

/* A learner learns here that the others have gone on without it. */
typedef struct weft_removal {
    atomic_bool lost;
    atomic_bool taken;              /* another learner has its slot, so it has not joined at all */
    _Atomic double failure_timeout; /* seconds that it was not heard of; 0: not known */
    atomic_ullong run;              /* which run, as its coordinator calls it */
} weft_removal;

/* The timer of an actor that is its member's. */
enum { WEFT_MEMBER_TIMER = WEFT_ACTOR_TIMERS - 1 };

typedef struct weft_member_options {
    size_t struct_size; /* sizeof(weft_member_options) */
    weft_member_role role;
    uint64_t key; /* drawn by the host: no other actor of the cluster has it */
    int wish;     /* for a slot; below 0: any */
    weft_fingerprint fingerprint;
    double beat;           /* seconds between two beats */
    weft_removal *removal; /* set where the member is removed; NULL: nobody asks */
    /* The coordinator takes it; may be NULL. `slot`: which of its role it is. configuration: what
     * the coordinator was given for joiners, during the call. */
    weft_status (*welcome)(void *user, int slot, const void *configuration, size_t bytes);
    void *user;
} weft_member_options;

/* Texts of the fingerprint are copied. */
weft_status weft_member_create(const weft_member_options *options,
                               weft_member **out) WEFT_NODISCARD;
void weft_member_destroy(weft_member **member);

/* Asks to be taken, as this actor, which its host has begun. */
weft_status weft_member_begin(weft_member *member, weft_actor *actor) WEFT_NODISCARD;
/* What a message was. */
typedef enum weft_member_news {
    WEFT_NEWS_NONE,  /* none of the member's: the actor looks at it */
    WEFT_NEWS_HEARD, /* it was the member's */
    WEFT_NEWS_VIEW   /* and there is another view now */
} weft_member_news;
/* PEER: the coordinator has refused or dropped it, and says why. What a view says of a fault or an
 * end is for the actor to see. */
weft_status weft_member_message(weft_member *member, const weft_message *message,
                                weft_member_news *news) WEFT_NODISCARD;
/* WEFT_MEMBER_TIMER has run out. PEER: nobody at all has written for some hundred beats. */
weft_status weft_member_timer(weft_member *member) WEFT_NODISCARD;

/* What its next beats say. */
void weft_member_set_stats(weft_member *member, const weft_member_stats *figures);
/* Says that it goes, until the coordinator has heard it; done: it has done all its steps. */
weft_status weft_member_leave(weft_member *member, bool done) WEFT_NODISCARD;
/* The coordinator knows that it has gone, or is gone itself. */
bool weft_member_has_left(const weft_member *member);
/* Tells the coordinator that the replica of a range has all of it. */
weft_status weft_member_report_in_sync(weft_member *member, int range,
                                       weft_actor_id replica) WEFT_NODISCARD;
/* Tells the coordinator that nobody there has what the run had come to, or is to begin with. */
weft_status weft_member_report_state_lost(const weft_member *member, bool stepped) WEFT_NODISCARD;

/* The last view; its number is 0 before the first. */
const weft_view *weft_member_view(const weft_member *member);
/* -1: it has not been taken yet. */
int weft_member_slot(const weft_member *member);
/* What the run waits for before it begins, in words; NULL: for nothing, or it is not known. */
const char *weft_member_waits_for(const weft_member *member);
/* It has been told to go. */
bool weft_member_dismissed(const weft_member *member);
/* The others have gone on without it, as somebody else than the coordinator has said. */
void weft_member_is_lost(const weft_member *member);

/* Members that speak to each other tell each other of views, too, and go on with them when the
 * coordinator is gone: `_show` sends the last one to somebody. `_hear`: a view from another member,
 * which counts where it is newer, or, without a coordinator, where somebody is missing in it. PEER:
 * this one is. Who is in no view of this one's, and has never been, came while the coordinator was
 * not heard here: its view counts too. `_is_left_alone`: nothing has come from the coordinator for
 * so long that it is gone;
 * `_lose` then takes a member out that is silent; `_has_lost`: it was in a view, and is in none
 * now. */
weft_status weft_member_send_view(const weft_member *member, weft_actor_id to) WEFT_NODISCARD;
weft_status weft_member_receive_view(weft_member *member, const weft_message *message,
                                     weft_member_news *news) WEFT_NODISCARD;
bool weft_member_coordinator_unreachable(const weft_member *member);
bool weft_member_was_removed(const weft_member *member, weft_actor_id id);
bool weft_member_remove(weft_member *member, weft_actor_id id);

/* PEER: fails with why it is in no run after so many seconds. */
weft_status weft_member_timeout_error(const weft_member *member, double seconds) WEFT_NODISCARD;
/* For explaining why nobody answers: seconds since the coordinator was heard of (below 0: never),
 * and the slowest learner as it said then. */
typedef struct weft_coordinator_status {
    double silent;
    weft_actor_id slowest; /* WEFT_NOBODY: there was none */
    int64_t slowest_clock;
    double slowest_silent;
} weft_coordinator_status;
weft_coordinator_status weft_member_coordinator_status(const weft_member *member);

#endif
