/* The member's side of membership, a part of every server, learner and peer: it joins the run,
 * sends heartbeats to the coordinator, and installs views.
 *
 * The actor passes its messages and its timer on; the member handles its own. The last view is kept
 * while the coordinator is unreachable. */
#ifndef WEFT_MEMBERSHIP_MEMBER_H
#define WEFT_MEMBERSHIP_MEMBER_H

#include <stdatomic.h>

#include "membership/coordinator.h"

typedef struct weft_member weft_member;

/* Tells the host of a learner that the others have removed it. */
typedef struct weft_removal {
    atomic_bool removed;
    atomic_bool taken;              /* another learner has its slot, so it has not joined */
    _Atomic double failure_timeout; /* seconds without its heartbeats; 0: not known */
    atomic_ullong run;              /* id of the run */
} weft_removal;

/* The member's timer among those of its actor. */
enum { WEFT_MEMBER_TIMER = WEFT_ACTOR_TIMERS - 1 };

typedef struct weft_member_options {
    size_t struct_size; /* sizeof(weft_member_options) */
    weft_member_role role;
    uint64_t key; /* nonce: no other actor of the run has it */
    int wish;     /* requested slot; below 0: any */
    weft_fingerprint fingerprint;
    double heartbeat_interval; /* seconds between two heartbeats */
    weft_removal *removal;     /* set when the member is removed; may be NULL */
    /* The coordinator has admitted the member; may be NULL. `slot`: among its role. configuration:
     * the run configuration, valid during the call. */
    weft_status (*welcome)(void *user, int slot, const void *configuration, size_t bytes);
    void *user;
} weft_member_options;

/* Copies the texts of the fingerprint. */
weft_status weft_member_create(const weft_member_options *options,
                               weft_member **out) WEFT_NODISCARD;
void weft_member_destroy(weft_member **member);

/* Sends Join requests from this actor, which has begun. */
weft_status weft_member_begin(weft_member *member, weft_actor *actor) WEFT_NODISCARD;
/* Result of a message. */
typedef enum weft_member_news {
    WEFT_NEWS_NONE,    /* not for the member: the actor handles it */
    WEFT_NEWS_HANDLED, /* it was for the member */
    WEFT_NEWS_VIEW     /* and a new view is installed */
} weft_member_news;
/* PEER: the coordinator has rejected or removed the member, and says why. The actor handles a fault
 * or the end of the run in a view. */
weft_status weft_member_message(weft_member *member, const weft_message *message,
                                weft_member_news *news) WEFT_NODISCARD;
/* The timer has run out: sends a heartbeat, Join or Leave. PEER: no message has arrived for some
 * hundred heartbeats. */
weft_status weft_member_timer(weft_member *member) WEFT_NODISCARD;

/* Statistics for its next heartbeats. */
void weft_member_set_stats(weft_member *member, const weft_member_stats *figures);
/* Sends Leave until the coordinator has acknowledged it; done: the member has finished its
 * steps. */
weft_status weft_member_leave(weft_member *member, bool done) WEFT_NODISCARD;
/* The leave is acknowledged, or the coordinator does not answer it, or other members have removed
 * this one. */
bool weft_member_has_left(const weft_member *member);
/* Reports to the coordinator that the replica of a range is in sync. */
weft_status weft_member_report_in_sync(weft_member *member, int range,
                                       weft_actor_id replica) WEFT_NODISCARD;
/* Reports to the coordinator that no member has the state of the run, or the one that it begins
 * with. */
weft_status weft_member_report_state_lost(const weft_member *member, bool stepped) WEFT_NODISCARD;

/* The last view; its number is 0 before the first. */
const weft_view *weft_member_view(const weft_member *member);
/* -1: not admitted yet. */
int weft_member_slot(const weft_member *member);
/* Lists members that are missing before the run begins; NULL: none, or not known. */
const char *weft_member_waits_for(const weft_member *member);
/* The coordinator has asked it to leave. */
bool weft_member_dismissed(const weft_member *member);
/* Records that other members, not the coordinator, have removed this one. */
void weft_member_note_removed(const weft_member *member);

/* Members send each other views, and go on with them while the coordinator is unreachable.
 * `_send_view` sends the installed view. `_receive_view` installs a newer view of another member;
 * without a coordinator it merges views: of two under one number the intersection, with a member
 * never seen the union. PEER: this member was removed. `_coordinator_unreachable`: two failure
 * timeouts without a message of the coordinator; `_remove` then removes a silent member;
 * `_was_removed`: it was in a view once, and is not in this one. */
weft_status weft_member_send_view(const weft_member *member, weft_actor_id to) WEFT_NODISCARD;
weft_status weft_member_receive_view(weft_member *member, const weft_message *message,
                                     weft_member_news *news) WEFT_NODISCARD;
bool weft_member_coordinator_unreachable(const weft_member *member);
bool weft_member_was_removed(const weft_member *member, weft_actor_id id);
bool weft_member_remove(weft_member *member, weft_actor_id id);

/* PEER: fails with the reason why the run has not begun for so many seconds. */
weft_status weft_member_timeout_error(const weft_member *member, double seconds) WEFT_NODISCARD;
/* INTERRUPTED: fails with the step after which a learner has stopped and the members for which it
 * waited, or with the reason why the run has not begun. */
weft_status weft_member_stopped_error(const weft_member *member, int64_t step,
                                      const char *awaited) WEFT_NODISCARD;
/* For error messages: seconds since the coordinator's last message (below 0: none), and the slowest
 * learner by its last HeartbeatAck. */
typedef struct weft_coordinator_status {
    double silent;
    weft_actor_id slowest; /* WEFT_NOBODY: none */
    int64_t slowest_clock;
    double slowest_silent;
} weft_coordinator_status;
weft_coordinator_status weft_member_coordinator_status(const weft_member *member);

#endif
