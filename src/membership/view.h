/* A view: the numbered list of the members of a run, and the servers of each range. The coordinator
 * sends a new view to all members when it changes. */
#ifndef WEFT_MEMBERSHIP_VIEW_H
#define WEFT_MEMBERSHIP_VIEW_H

#include "actor/rpc.h"
#include "base/id_index.h"

/* Peers are members with the role of learners. */
typedef enum weft_member_role {
    WEFT_MEMBER_LEARNER,
    WEFT_MEMBER_SERVER,
    WEFT_MEMBER_ROLES
} weft_member_role;
const char *weft_member_role_name(weft_member_role role);
/* Size of a member's name for people, "learner 2", with its end. */
enum { WEFT_MEMBER_NAME = 40 };

/* The coordinator's id, in all runs. The coordinator hosts no range, so this id also stands for
 * "none" as an owner. */
enum { WEFT_COORDINATOR = 0, WEFT_NOBODY = WEFT_COORDINATOR };
/* Sizes of an address and of a host name, with their ends; bounds on members and ranges of a
 * view. */
enum { WEFT_ADDRESS = 512, WEFT_HOST = 64, WEFT_MOST_MEMBERS = 4096, WEFT_MOST_RANGES = 4096 };

/* Statistics that a member reports. */
typedef struct weft_member_stats {
    int64_t clock;    /* steps that a learner has finished; updates that a server has applied */
    double loss;      /* of a learner's last step */
    double rate;      /* samples a second */
    double staleness; /* mean staleness of a server's updates */
    /* The use of a learner's device with memory of its own, see weft_device_use; 0: unknown. */
    double device_busy;
    uint64_t device_used, device_total;
} weft_member_stats;

typedef struct weft_view_member {
    weft_actor_id id;
    weft_member_role role;
    int slot;                   /* 0, 1, ... within its role; a slot that is free is given again */
    char address[WEFT_ADDRESS]; /* where other members reach it; "": nowhere */
    weft_member_stats figures;  /* when the view was packed */
    double silent;              /* seconds since its last message; only in the answer to a Query */
    bool dismissed;             /* it was asked to leave */
    /* The member has not loaded the checkpoint from which the run continues, or is a peer that has
     * joined a run under way: it takes the state of the run from other members, and must not give
     * its own. */
    bool lacks_state;
    char host[WEFT_HOST]; /* the name of its host; "": not known */
} weft_view_member;

typedef enum weft_member_event_kind {
    WEFT_MEMBER_JOINED,
    WEFT_MEMBER_FINISHED,  /* it has left after its last step */
    WEFT_MEMBER_STOPPED,   /* it has left before its last step on its own */
    WEFT_MEMBER_DISMISSED, /* it has left because it was asked to (weft leave) */
    WEFT_MEMBER_SILENT,    /* its failure timeout has run out */
    WEFT_MEMBER_REPLACED,  /* its process has ended, and another one takes its place */
    WEFT_MEMBER_EVENT_KINDS
} weft_member_event_kind;

/* Records that a member has joined, left, or was lost. Events are only displayed: no decision
 * depends on them. */
typedef struct weft_member_event {
    int64_t number; /* 1 for the first event of a run, then one more for each */
    weft_member_event_kind kind;
    weft_actor_id id;
    weft_member_role role;
    int slot;
    char host[WEFT_HOST];
    double when;   /* by the clock of the actor that has the view */
    double silent; /* of a lost member: seconds since its last message */
} weft_member_event;

/* A description of the run, for people. */
typedef struct weft_run_about {
    char model[64], exchange[128], data[128];
    /* The step after which the run is over, and the one after which it began: that of a checkpoint.
     * 0: not known, and a new run. */
    int64_t steps, begun;
    int64_t reached; /* most steps that a learner has finished, also one that has left */
    int expected[WEFT_MEMBER_ROLES]; /* members with which it begins */
} weft_run_about;

/* The servers of a range. WEFT_NOBODY: none. */
typedef struct weft_range_owner {
    weft_actor_id primary, replica;
    bool in_sync; /* the replica is in sync: it has all that the primary has acknowledged */
} weft_range_owner;

typedef struct weft_view {
    uint64_t run;           /* id of the run, which no other run has */
    int64_t number;         /* 0: no view yet */
    bool running;           /* all expected members have joined */
    bool over;              /* learners have finished, and none has to go on (see leave.c) */
    double failure_timeout; /* seconds without a message before a member is removed */
    char *fault;            /* why the run cannot go on; NULL: it can */
    weft_view_member *members;
    size_t member_count, member_capacity;
    weft_id_index places; /* of `members` by their ids */
    weft_range_owner *ranges;
    int range_count;
    weft_run_about about;
    weft_member_event *events; /* the last events, the oldest first */
    size_t event_count, event_capacity;
    /* A decoded view may have only the changes to another one: the number of that view, and the
     * members of it that are gone. base 0: the view is whole. */
    int64_t base;
    weft_actor_id *removed;
    size_t removed_count;
} weft_view;

void weft_view_free(weft_view *view);
/* The member with this id; NULL: it is not in the view. */
weft_view_member *weft_view_find(const weft_view *view, weft_actor_id id);
/* The role of the sender of a message, by its id in this view. */
weft_rpc_role weft_view_role(const weft_view *view, weft_actor_id id);
/* A member's role as one of a sender or receiver. */
weft_rpc_role weft_member_rpc_role(weft_member_role role);
/* A member's name for people, by its role and slot: "learner 2"; writes and returns `out`. */
const char *weft_member_name(weft_member_role role, int slot, char out[WEFT_MEMBER_NAME]);
/* The name of a member of the view; by its id if it is none. */
const char *weft_view_name(const weft_view *view, weft_actor_id id, char out[WEFT_MEMBER_NAME]);
/* Adds an event with the next number. If there are too many events, the oldest ones are dropped. */
weft_status weft_view_note(weft_view *view, const weft_member_event *event) WEFT_NODISCARD;
/* Adds a member, whose id the view does not have yet. */
weft_status weft_view_add(weft_view *view, const weft_view_member *member) WEFT_NODISCARD;
/* Removes a member, whose place the last one takes; false: it was not in the view. */
bool weft_view_remove(weft_view *view, weft_actor_id id);
/* The number of members that have this role. */
int weft_view_count(const weft_view *view, weft_member_role role);
/* The step that a learner of the run has reached with this clock. The clock of a learner counts
 * from where the run began, and elastic updates after the last step may be counted as more steps.
 */
int64_t weft_view_step(const weft_view *view, int64_t clock);
/* Hash of the set of members, whatever their order; never 0. */
uint64_t weft_view_sum(const weft_view *view);

/* The changes of a view since that with number `base`: the places of members that are new or have
 * changed, and the ids of those that are gone. */
typedef struct weft_view_changes {
    int64_t base;
    const size_t *places;
    size_t place_count;
    const weft_actor_id *removed;
    size_t removed_count;
} weft_view_changes;

/* Encodes a view, or its changes only (NULL: all of it). now: the time by the clock of the actor
 * that has the view. */
weft_status weft_view_pack(const weft_view *view, const weft_view_changes *changes, double now,
                           weft_buffer **out) WEFT_NODISCARD;
/* Decodes a view and frees the old contents of *out. now: the time by the clock of the actor that
 * will have the view. FORMAT: the bytes are no view, or one that is too large; *out is
 * unchanged. */
weft_status weft_view_unpack(const weft_buffer *blob, double now, weft_view *out) WEFT_NODISCARD;

#endif
