/* The inside of the coordinator. */
#ifndef WEFT_EXCHANGE_CLUSTER_CIRCLE_H
#define WEFT_EXCHANGE_CLUSTER_CIRCLE_H

#include "membership.pb-c.h"
#include "membership/coordinator.h"
#include "membership/range_assignment.h"
#include "actor/rpc.h"

/* So many who have gone are remembered, whose last messages may still be under way. */
enum { GONE = 1024 };
/* Guests who have been told of a slot of a learner, which is kept free for them for a while. */
enum { PROMISES = 256 };
typedef struct promise {
    weft_actor_id guest;
    int slot;
    double until; /* 0: there is none */
} promise;

/* What the coordinator alone knows of member i of its view. */
typedef struct seat {
    bool keyed; /* false: it was taken by the coordinator before this one */
    uint64_t key;
    double heard; /* when */
} seat;

/* What a beat said that came before it was known who is here. */
typedef struct early {
    weft_actor_id id;
    weft_member_figures figures;
    bool left, done; /* it has left meanwhile; after its last step */
} early;

typedef struct circle {
    weft_actor head;
    weft_coordinator_options options;
    char *texts[3]; /* of the fingerprint */
    char *advice;   /* how to go on after a fault */
    weft_blob *configuration;
    weft_view view;
    seat *seats; /* [view.member_count] */
    size_t seat_capacity;
    weft_actor_id gone[GONE];
    size_t gone_count; /* of all; the last ones are known */
    promise promises[PROMISES];
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
    weft_view best;                   /* of theirs the newest */
    weft_blob *members_configuration; /* with which they have begun */
    early *early;                     /* of each of them the last beat */
    size_t early_count, early_capacity;
} circle;

/* coordinator.c */
weft_status weft_circle_show(circle *c, weft_actor_id to, const weft_view *view) WEFT_NODISCARD;
/* The view gets another number, and all are told. */
weft_status weft_circle_changed(circle *c) WEFT_NODISCARD;

/* leave.c */
bool weft_circle_has_gone(const circle *c, weft_actor_id id);
/* Whether some role is there without which nothing is left to be done. */
bool weft_circle_work_is_left(const circle *c);
weft_status weft_circle_note(circle *c, const weft_view_member *member, weft_member_event_kind kind,
                             double silent) WEFT_NODISCARD;
weft_status weft_circle_take_leave(circle *c, const weft_message *message,
                                   const Weft__Leave *m) WEFT_NODISCARD;
/* A guest comes in the place of the member of that role and slot, if there is one. */
weft_status weft_circle_replace(circle *c, weft_actor_id guest, weft_member_role role,
                                int slot) WEFT_NODISCARD;
/* A member has left; done: after its last step. */
weft_status weft_circle_has_left(circle *c, weft_actor_id id, bool done) WEFT_NODISCARD;
weft_status weft_circle_drop_silent(circle *c, double now) WEFT_NODISCARD;

/* join.c */
weft_status weft_circle_join(circle *c, const weft_message *message,
                             const Weft__Join *m) WEFT_NODISCARD;

/* What somebody needs to know before he joins; wish: the slot that he is to have, below 0: any. */
weft_status weft_circle_invite(circle *c, weft_actor_id guest, bool learner,
                               int wish) WEFT_NODISCARD;

weft_member_figures weft_circle_figures(const Weft__Beat *m);

/* recovery.c: somebody has a view, this one has none; the answer; or that the run is another one
 * than this one is told of, with which it fails; and time is over. */
weft_status weft_circle_recall(circle *c, weft_actor_id who, const Weft__Beat *m) WEFT_NODISCARD;
weft_status weft_circle_remember(circle *c, const weft_message *message) WEFT_NODISCARD;
weft_status weft_circle_remember_options(circle *c, const weft_message *message) WEFT_NODISCARD;
/* A member of the run has left before it is known who is here. */
weft_status weft_circle_note_left(circle *c, weft_actor_id who, bool done) WEFT_NODISCARD;
weft_status weft_circle_refused(const circle *c, const Weft__Refused *m) WEFT_NODISCARD;
weft_status weft_circle_adopt(circle *c) WEFT_NODISCARD;
/* A member has a view of that number that is not this one's. */
weft_status weft_circle_overrule(circle *c, int64_t number) WEFT_NODISCARD;

#endif
