/* Internals of the coordinator: its state, and the functions that its files share. */
#ifndef WEFT_MEMBERSHIP_COORDINATOR_INTERNAL_H
#define WEFT_MEMBERSHIP_COORDINATOR_INTERNAL_H

#include "membership.pb-c.h"
#include "membership/coordinator.h"
#include "membership/range_assignment.h"
#include "actor/rpc.h"

/* Number of tombstones: the coordinator keeps the ids of the members that it removed last, since
 * messages of theirs may still be in flight. */
enum { GONE = 1024 };
/* Bound on slot reservations; one keeps a learner's slot free for a client that may soon join. */
enum { MOST_RESERVATIONS = 256 };
typedef struct slot_reservation {
    weft_actor_id client;
    int slot;
    double until; /* end of the reservation; 0: the entry is free */
} slot_reservation;

/* The coordinator's record of member i of its view. */
typedef struct member_record {
    bool keyed; /* `key` is known; false: a former coordinator admitted the member */
    uint64_t key;
    int64_t starts;      /* processes of its slot that had been started when it joined */
    double last_message; /* time of its last message, moved by the time this process slept */
    double heard;        /* time of its last message */
    /* Time of the first request that this server leaves, since it may: it leaves as soon as each
     * server with a copy of its ranges was heard after that. 0: there is no such request. */
    double leave_requested;
    bool asks_leave; /* this server has requested to leave, granted or not */
    /* Its flags in the last view to all, as member_flags has them; 0: it was not in that view. */
    uint8_t said;
} member_record;

/* A member's report from its heartbeat or Leave, which arrives before the view is recovered. */
typedef struct recovery_report {
    weft_actor_id id;
    weft_member_stats figures;
    bool left, done; /* it has sent Leave; after its last step */
} recovery_report;

typedef struct coordinator_state {
    weft_actor head;
    weft_coordinator_options options;
    char *texts[3]; /* version, model and data of the fingerprint */
    char *advice;   /* how to go on after a fault */
    weft_buffer *configuration;
    weft_view view;
    member_record *records; /* [view.member_count] */
    size_t record_capacity;
    weft_actor_id gone[GONE];
    size_t gone_count; /* members removed so far; `gone` is a ring of the last ones */
    slot_reservation reservations[MOST_RESERVATIONS];
    bool stopping;       /* see weft_coordinator_stop */
    double left_at;      /* when a member left last */
    bool some_done;      /* a learner (of a job: that of slot 0) has finished */
    bool stepped;        /* a member has reported a step, so the run has a state that can be lost */
    double idle;         /* time since which the run has no learner; below 0: it has one */
    double heard;        /* time of the last message of any member */
    bool given_up;       /* no member was heard for too long: the coordinator ends */
    double emptied;      /* when the run was over and the last member had left; below 0: not yet */
    double ticked;       /* time of the failure detector's last check */
    double said;         /* time when the view was last sent to all members */
    int64_t said_number; /* of that view; 0: there is none */
    size_t *changed;     /* room for the places of members that it lacks */
    size_t changed_capacity;
    weft_actor_id *removed; /* members of that view that were removed since */
    size_t removed_count, removed_capacity;
    bool unsaid;     /* the view has changed since; timer SAY will send it */
    bool recovering; /* recovery is under way: the coordinator waits for views of members */
    bool called;     /* recovery: a member has sent a heartbeat */
    bool sought;     /* recovery: a former member has asked for its run */
    double recovering_until;
    weft_view best; /* recovery: the newest view received */
    uint64_t
        refused_run; /* recovery: a run that is behind this coordinator's checkpoint; 0: none */
    weft_buffer *members_configuration; /* recovery: a member's run configuration */
    recovery_report *reports; /* [report_count]: one for each member that has sent something */
    size_t report_count, report_capacity;
} coordinator_state;

/* coordinator.c */
weft_status weft_coordinator_send_view(coordinator_state *c, weft_actor_id to,
                                       const weft_view *view) WEFT_NODISCARD;
/* Called after a change of the view: gives it the next number, and sends it to all members. */
weft_status weft_coordinator_changed(coordinator_state *c) WEFT_NODISCARD;

/* leave.c */
/* Called when a message of a member has come. */
void weft_coordinator_note_heard(coordinator_state *c);
/* Whether no member of a running run was heard for half a failure timeout. Then this coordinator
 * suspects its own network, and takes no member for lost. */
bool weft_coordinator_is_cut_off(const coordinator_state *c);
bool weft_coordinator_has_removed(const coordinator_state *c, weft_actor_id id);
/* Whether the run has a learner. */
bool weft_coordinator_has_work(const coordinator_state *c);
weft_status weft_coordinator_note(coordinator_state *c, const weft_view_member *member,
                                  weft_member_event_kind kind, double silent) WEFT_NODISCARD;
weft_rpc_handle weft_coordinator_leave;
/* Removes the member of that role and slot, if there is one and its process has ended: a client is
 * about to replace it. *waits: the member of a job stays, so the client cannot take the place yet.
 */
weft_status weft_coordinator_replace(coordinator_state *c, weft_member_role role, int slot,
                                     bool *waits) WEFT_NODISCARD;
/* Processes that were started for a slot so far; 0: nobody knows. */
int64_t weft_coordinator_starts(const coordinator_state *c, weft_member_role role, int slot);
/* Tells the runtime's log that a request of this sender about another member is refused. */
void weft_coordinator_refuse(coordinator_state *c, weft_actor_id from, const char *request);
/* Removes a member that has sent Leave; done: after its last step. */
weft_status weft_coordinator_take_out(coordinator_state *c, weft_actor_id id,
                                      bool done) WEFT_NODISCARD;
weft_status weft_coordinator_drop_silent(coordinator_state *c, double now) WEFT_NODISCARD;

/* join.c */
weft_rpc_handle weft_coordinator_join;
/* Sends a client, which may join later, a JoinAck with the run configuration and, for a learner, a
 * reserved slot; requested_slot: the requested slot, below 0: any. */
weft_status weft_coordinator_invite(coordinator_state *c, weft_actor_id client, bool learner,
                                    int requested_slot) WEFT_NODISCARD;

/* heartbeat.c */
weft_rpc_handle weft_coordinator_take_heartbeat, weft_coordinator_take_in_sync,
    weft_coordinator_take_state_lost, weft_coordinator_answer_query;
weft_member_stats weft_coordinator_stats_of(const Weft__Stats *figures);
/* Takes the statistics that a member has reported; the step of the run does not fall. */
void weft_coordinator_take_stats(coordinator_state *c, weft_view_member *member,
                                 weft_member_stats stats);

/* recovery.c, view recovery: _request_view asks a member, which has sent its statistics (may be
 * NULL), for its view; _take_view and _take_options take the view and the run configuration of a
 * member; _rejected fails the coordinator, since a member has another run configuration. */
weft_status weft_coordinator_request_view(coordinator_state *c, weft_actor_id who,
                                          const Weft__Stats *figures) WEFT_NODISCARD;
weft_rpc_handle weft_coordinator_take_view, weft_coordinator_take_options,
    weft_coordinator_rejected;
/* Called when a process asks that was a member of this run (0: of none). A coordinator whose run
 * has not begun may be a restarted one, to which no member has sent a heartbeat yet; it begins a
 * recovery then, once. */
void weft_coordinator_seek(coordinator_state *c, uint64_t run);
/* Called when a member of the run has sent Leave before the view is recovered. */
weft_status weft_coordinator_note_left(coordinator_state *c, weft_actor_id who,
                                       const Weft__Leave *m) WEFT_NODISCARD;
/* Called when the time for recovery is over: installs the newest view of the members. */
weft_status weft_coordinator_adopt(coordinator_state *c) WEFT_NODISCARD;
/* Called when members have made a view of this number themselves: publishes the coordinator's view
 * under a higher number. */
weft_status weft_coordinator_overrule(coordinator_state *c, int64_t number) WEFT_NODISCARD;

#endif
