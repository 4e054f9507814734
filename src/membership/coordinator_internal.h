/* Internals of the coordinator. */
#ifndef WEFT_MEMBERSHIP_COORDINATOR_INTERNAL_H
#define WEFT_MEMBERSHIP_COORDINATOR_INTERNAL_H

#include "membership.pb-c.h"
#include "membership/coordinator.h"
#include "membership/range_assignment.h"
#include "actor/rpc.h"

/* Number of tombstones: removed members whose messages may still be in flight. */
enum { GONE = 1024 };
/* Clients that have a learner's slot reserved for a while. */
enum { MOST_RESERVATIONS = 256 };
typedef struct slot_reservation {
    weft_actor_id client;
    int slot;
    double until; /* 0: none */
} slot_reservation;

/* The coordinator's record of member i of its view. */
typedef struct member_record {
    bool keyed; /* false: admitted by a former coordinator */
    uint64_t key;
    double last_message; /* time of its last message */
} member_record;

/* Heartbeat or leave of a member, before the view is recovered. */
typedef struct recovery_report {
    weft_actor_id id;
    weft_member_stats figures;
    bool left, done; /* it has left meanwhile; after its last step */
} recovery_report;

typedef struct coordinator_state {
    weft_actor head;
    weft_coordinator_options options;
    char *texts[3]; /* of the fingerprint */
    char *advice;   /* how to go on after a fault */
    weft_buffer *configuration;
    weft_view view;
    member_record *records; /* [view.member_count] */
    size_t record_capacity;
    weft_actor_id gone[GONE];
    size_t gone_count; /* of all; the last GONE are kept */
    slot_reservation reservations[MOST_RESERVATIONS];
    bool some_done;  /* a learner (of a job: the first) has finished */
    bool stepped;    /* a member has done a step */
    double idle;     /* since when the run has no learner; below 0: it has */
    double emptied;  /* when the run was over and the last member had left; below 0: not yet */
    double ticked;   /* last check of the failure detector */
    double said;     /* last time that a view was sent to all */
    bool unsaid;     /* it has changed since, and will be sent */
    bool recovering; /* view recovery: it waits for views of members, */
    bool called;     /* one of which has sent a heartbeat */
    double recovering_until;
    weft_view best;                     /* the newest view received */
    weft_buffer *members_configuration; /* the members' run configuration */
    recovery_report *reports;           /* one for each of them */
    size_t report_count, report_capacity;
} coordinator_state;

/* coordinator.c */
weft_status weft_coordinator_send_view(coordinator_state *c, weft_actor_id to,
                                       const weft_view *view) WEFT_NODISCARD;
/* Gives the view the next number, and sends it to all members. */
weft_status weft_coordinator_changed(coordinator_state *c) WEFT_NODISCARD;

/* leave.c */
bool weft_coordinator_has_removed(const coordinator_state *c, weft_actor_id id);
/* Whether the run has a learner. */
bool weft_coordinator_has_work(const coordinator_state *c);
weft_status weft_coordinator_note(coordinator_state *c, const weft_view_member *member,
                                  weft_member_event_kind kind, double silent) WEFT_NODISCARD;
weft_rpc_handle weft_coordinator_leave;
/* A client replaces the member of that role and slot, if there is one. */
weft_status weft_coordinator_replace(coordinator_state *c, weft_actor_id client,
                                     weft_member_role role, int slot) WEFT_NODISCARD;
/* Removes a member that leaves; done: after its last step. */
weft_status weft_coordinator_take_out(coordinator_state *c, weft_actor_id id,
                                      bool done) WEFT_NODISCARD;
weft_status weft_coordinator_drop_silent(coordinator_state *c, double now) WEFT_NODISCARD;

/* join.c */
weft_rpc_handle weft_coordinator_join;
/* Sends a client the run configuration for joining; wish: the requested slot, below 0: any. */
weft_status weft_coordinator_invite(coordinator_state *c, weft_actor_id client, bool learner,
                                    int wish) WEFT_NODISCARD;

weft_member_stats weft_coordinator_stats_of(const Weft__Heartbeat *m);

/* recovery.c: requests the view of a member; takes it, or the member's Reject, with which the
 * coordinator fails; installs the newest view when the time is over. */
weft_status weft_coordinator_request_view(coordinator_state *c, weft_actor_id who,
                                          const Weft__Heartbeat *m) WEFT_NODISCARD;
weft_rpc_handle weft_coordinator_take_view, weft_coordinator_take_options,
    weft_coordinator_rejected;
/* A member of the run has left before the view is recovered. */
weft_status weft_coordinator_note_left(coordinator_state *c, weft_actor_id who,
                                       bool done) WEFT_NODISCARD;
weft_status weft_coordinator_adopt(coordinator_state *c) WEFT_NODISCARD;
/* A member has a view of that number that is not the coordinator's: overrides it. */
weft_status weft_coordinator_overrule(coordinator_state *c, int64_t number) WEFT_NODISCARD;

#endif
