/* The member is the part of every server, learner and peer that joins the run, sends heartbeats to
 * the coordinator, and installs views.
 *
 * The actor passes all messages and its timer to the member, which handles the messages of
 * membership. The last view is kept while the coordinator is unreachable. */
#ifndef WEFT_MEMBERSHIP_MEMBER_H
#define WEFT_MEMBERSHIP_MEMBER_H

#include <stdatomic.h>

#include "membership/coordinator.h"

typedef struct weft_member weft_member;

/* Tells the thread that runs a member that the member has been removed from the run, so that it can
 * join again (--rejoin), or has not joined and may ask the coordinator for another invitation. */
typedef struct weft_removal {
    atomic_bool removed;
    /* The member has not joined: another one has its slot, or the coordinator of another run has
     * taken the place of the one that invited it. */
    atomic_bool ask_again;
    _Atomic double failure_timeout; /* seconds for which it sent no heartbeat; 0: not known */
    atomic_ullong run; /* id of the run from which it was removed; 0: the run had not begun */
} weft_removal;

/* The number of the member's timer among the timers of its actor. */
enum { WEFT_MEMBER_TIMER = WEFT_ACTOR_TIMERS - 1 };

typedef struct weft_member_options {
    size_t struct_size; /* sizeof(weft_member_options) */
    weft_member_role role;
    uint64_t key;       /* nonce, by which a repeated Join is recognized */
    int requested_slot; /* requested slot; below 0: any */
    uint64_t run;       /* id of the run whose configuration the member has; 0: it joins any run */
    weft_fingerprint fingerprint;
    double heartbeat_interval; /* seconds between two heartbeats */
    weft_removal *removal;     /* filled in when the member is removed; may be NULL */
    /* Called when the coordinator has admitted the member; may be NULL. `slot`: among the members
     * of its role. configuration: the run configuration, valid during the call. */
    weft_status (*welcome)(void *user, int slot, const void *configuration, size_t bytes);
    void *user;
} weft_member_options;

/* Copies the texts of the fingerprint. */
weft_status weft_member_create(const weft_member_options *options,
                               weft_member **out) WEFT_NODISCARD;
void weft_member_destroy(weft_member **member);

/* Called when the actor begins: sends Join until the member is admitted. */
weft_status weft_member_begin(weft_member *member, weft_actor *actor) WEFT_NODISCARD;
/* How weft_member_message has handled a message. */
typedef enum weft_member_news {
    WEFT_NEWS_NONE,    /* not for the member: the actor handles it */
    WEFT_NEWS_HANDLED, /* it was for the member */
    WEFT_NEWS_VIEW     /* it was for the member, which has installed a new view */
} weft_member_news;
/* Handles the messages of the coordinator, and drops messages that their sender's role does not
 * send to this one (weft_rpc_may_send). PEER: the coordinator has rejected or removed the
 * member; the error says why. ARGUMENT: it has rejected the member's fingerprint, and would do so
 * again. A fault or the end of the run in a new view is left to the actor. */
weft_status weft_member_message(weft_member *member, const weft_message *message,
                                weft_member_news *news) WEFT_NODISCARD;
/* Called when the member's timer has run out: sends a heartbeat, Join or Leave. PEER: no message
 * has arrived from anyone for 300 heartbeats. */
weft_status weft_member_timer(weft_member *member) WEFT_NODISCARD;

/* Sets the statistics that the next heartbeats carry. */
void weft_member_set_stats(weft_member *member, const weft_member_stats *figures);
/* Sends Leave until the coordinator has acknowledged it; done: the member has finished its
 * steps. */
weft_status weft_member_leave(weft_member *member, bool done) WEFT_NODISCARD;
/* For a server that goes on serving meanwhile: requests its removal, again with each heartbeat
 * until the coordinator removes it. The coordinator refuses while the server has the last copy of a
 * range. */
weft_status weft_member_leave_if_safe(weft_member *member) WEFT_NODISCARD;
/* Why the process of such a server must not end before the coordinator has removed the server: the
 * server may have the last copy of a range. NULL: the process may end. */
const char *weft_member_must_stay(const weft_member *member);
/* Whether the member has left: the coordinator has acknowledged Leave or has not answered it for 60
 * heartbeats, or other members have already removed the leaving member. */
bool weft_member_has_left(const weft_member *member);
/* Reports to the coordinator that the replica of a range is in sync. */
weft_status weft_member_report_in_sync(weft_member *member, int range,
                                       weft_actor_id replica) WEFT_NODISCARD;
/* Reports to the coordinator that no member has the state of the run (from a peer), or the
 * checkpoint from which the run continues (from a server). stepped: the run had taken steps. */
weft_status weft_member_report_state_lost(const weft_member *member, bool stepped) WEFT_NODISCARD;

/* The view that the member has installed last; number 0: none yet. */
const weft_view *weft_member_view(const weft_member *member);
/* The member's slot; -1: not admitted yet. */
int weft_member_slot(const weft_member *member);
/* Describes which members must still join before the run begins; NULL: none, or not known. */
const char *weft_member_waits_for(const weft_member *member);
/* Whether the coordinator has asked this member to leave. */
bool weft_member_dismissed(const weft_member *member);
/* Records in `options.removal` that this member was removed from the run. */
void weft_member_note_removed(const weft_member *member);

/* Members send each other views, and go on with them while the coordinator is unreachable
 * (view_merge.c). `_send_view` sends the installed view. `_receive_view` handles the view of
 * another member. As long as the coordinator can be reached a view that only adds members is
 * installed, and for any other newer one the coordinator is asked. While it is unreachable a newer
 * view is installed, two views with the same number are merged to their intersection, and a view of
 * an unknown sender to the union; whether the run is over or has a fault is taken from the
 * coordinator alone. PEER: the others have removed this member. `_coordinator_unreachable`: no
 * message of the coordinator has come for two failure timeouts. `_remove` removes a silent member
 * from the view; false: it was not in the view.
 * `_was_removed`: the id was in a former view, and is not in the present one. */
weft_status weft_member_send_view(const weft_member *member, weft_actor_id to) WEFT_NODISCARD;
weft_status weft_member_receive_view(weft_member *member, const weft_message *message,
                                     weft_member_news *news) WEFT_NODISCARD;
bool weft_member_coordinator_unreachable(const weft_member *member);
bool weft_member_was_removed(const weft_member *member, weft_actor_id id);
bool weft_member_remove(weft_member *member, weft_actor_id id);

/* Always fails with PEER; the message says why the run has not begun for so many seconds. */
weft_status weft_member_timeout_error(const weft_member *member, double seconds) WEFT_NODISCARD;
/* Always fails with INTERRUPTED; the message has the step after which a learner has stopped and the
 * members for which it waited, or with the reason why the run has not begun. */
weft_status weft_member_stopped_error(const weft_member *member,
                                      const char *awaited) WEFT_NODISCARD;
/* The step of the run that this learner has reached, for messages. */
int64_t weft_member_step(const weft_member *member);
/* For error messages: `silent` is the seconds since the coordinator's last message (below 0: there
 * was none); its last HeartbeatAck named the slowest learner, that learner's steps, and the seconds
 * since its last message. */
typedef struct weft_coordinator_status {
    double silent;
    weft_actor_id slowest; /* WEFT_NOBODY: none */
    int64_t slowest_clock;
    double slowest_silent;
} weft_coordinator_status;
weft_coordinator_status weft_member_coordinator_status(const weft_member *member);

#endif
