/* The inside of the coordinator. */
#ifndef WEFT_MEMBERSHIP_COORDINATOR_INTERNAL_H
#define WEFT_MEMBERSHIP_COORDINATOR_INTERNAL_H

#include "membership.pb-c.h"
#include "membership/coordinator.h"
#include "membership/range_assignment.h"
#include "actor/rpc.h"

/* So many who have gone are remembered, whose last messages may still be under way. */
enum { GONE = 1024 };
/* Guests who have been told of a slot of a learner, which is kept free for them for a while. */
enum { MOST_RESERVATIONS = 256 };
typedef struct slot_reservation {
    weft_actor_id client;
    int slot;
    double until; /* 0: there is none */
} slot_reservation;

/* What the coordinator alone knows of member i of its view. */
typedef struct member_record {
    bool keyed; /* false: it was taken by the coordinator before this one */
    uint64_t key;
    double heard; /* when */
} member_record;

/* What a beat said that came before it was known who is here. */
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
    size_t gone_count; /* of all; the last ones are known */
    slot_reservation reservations[MOST_RESERVATIONS];
    bool some_done; /* a learner has done all its steps */
    bool stepped;   /* a member has done a step */
    double idle;    /* since when nobody trains, in a run that has begun; below 0: somebody does */
    double emptied; /* when it was over and the last one had gone; below 0: not yet */
    double ticked;  /* when it last looked at the time */
    double said;    /* when all were told of a view */
    bool unsaid;    /* it has changed since, and they will be */
    bool recalls;   /* it waits for members of a run that began before it, */
    bool called;    /* one of which has come */
    double recalled_until;
    weft_view best;                     /* of theirs the newest */
    weft_buffer *members_configuration; /* with which they have begun */
    recovery_report *reports;           /* of each of them the last beat */
    size_t report_count, report_capacity;
} coordinator_state;

/* coordinator.c */
weft_status weft_coordinator_send_view(coordinator_state *c, weft_actor_id to,
                                       const weft_view *view) WEFT_NODISCARD;
/* The view gets another number, and all are told. */
weft_status weft_coordinator_changed(coordinator_state *c) WEFT_NODISCARD;

/* leave.c */
bool weft_coordinator_has_removed(const coordinator_state *c, weft_actor_id id);
/* Whether some role is there without which nothing is left to be done. */
bool weft_coordinator_has_work(const coordinator_state *c);
weft_status weft_coordinator_note(coordinator_state *c, const weft_view_member *member,
                                  weft_member_event_kind kind, double silent) WEFT_NODISCARD;
weft_status weft_coordinator_leave(coordinator_state *c, const weft_message *message,
                                   const Weft__Leave *m) WEFT_NODISCARD;
/* A client comes in the place of the member of that role and slot, if there is one. */
weft_status weft_coordinator_replace(coordinator_state *c, weft_actor_id client,
                                     weft_member_role role, int slot) WEFT_NODISCARD;
/* A member has left; done: after its last step. */
weft_status weft_coordinator_take_out(coordinator_state *c, weft_actor_id id,
                                      bool done) WEFT_NODISCARD;
weft_status weft_coordinator_drop_silent(coordinator_state *c, double now) WEFT_NODISCARD;

/* join.c */
weft_status weft_coordinator_join(coordinator_state *c, const weft_message *message,
                                  const Weft__Join *m) WEFT_NODISCARD;

/* What somebody needs to know before he joins; wish: the slot that he is to have, below 0: any. */
weft_status weft_coordinator_invite(coordinator_state *c, weft_actor_id client, bool learner,
                                    int wish) WEFT_NODISCARD;

weft_member_stats weft_coordinator_stats_of(const Weft__Heartbeat *m);

/* recovery.c: somebody has a view, this one has none; the answer; or that the run is another one
 * than this one is told of, with which it fails; and time is over. */
weft_status weft_coordinator_request_view(coordinator_state *c, weft_actor_id who,
                                          const Weft__Heartbeat *m) WEFT_NODISCARD;
weft_status weft_coordinator_take_view(coordinator_state *c,
                                       const weft_message *message) WEFT_NODISCARD;
weft_status weft_coordinator_take_options(coordinator_state *c,
                                          const weft_message *message) WEFT_NODISCARD;
/* A member of the run has left before it is known who is here. */
weft_status weft_coordinator_note_left(coordinator_state *c, weft_actor_id who,
                                       bool done) WEFT_NODISCARD;
weft_status weft_coordinator_rejected(const coordinator_state *c,
                                      const Weft__Reject *m) WEFT_NODISCARD;
weft_status weft_coordinator_adopt(coordinator_state *c) WEFT_NODISCARD;
/* A member has a view of that number that is not this one's. */
weft_status weft_coordinator_overrule(coordinator_state *c, int64_t number) WEFT_NODISCARD;

#endif
