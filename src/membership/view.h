/* Who takes part in a run, and who keeps which range of the parameters: what a coordinator tells
 * all members when it changes. */
#ifndef WEFT_MEMBERSHIP_VIEW_H
#define WEFT_MEMBERSHIP_VIEW_H

#include "actor/actor.h"

typedef enum weft_member_role {
    WEFT_MEMBER_LEARNER,
    WEFT_MEMBER_SERVER,
    WEFT_MEMBER_PEER,
    WEFT_MEMBER_ROLES
} weft_member_role;
const char *weft_member_role_name(weft_member_role role);
/* Bytes of a member's name as people read it, "learner 2", with its end. */
enum { WEFT_MEMBER_NAME = 40 };

/* The coordinator's number, in all clusters. It keeps no range and does no work: where a number
 * says who does, this one says that nobody does. */
enum { WEFT_COORDINATOR = 0, WEFT_NOBODY = WEFT_COORDINATOR };
/* Bytes of an address and of a machine's name, with their ends; members and ranges that a view may
 * have. */
enum { WEFT_ADDRESS = 512, WEFT_HOST = 64, WEFT_MOST_MEMBERS = 4096, WEFT_MOST_RANGES = 4096 };

/* What a member says of its work. */
typedef struct weft_member_stats {
    int64_t clock;    /* steps that a learner has finished; updates that a server has made */
    double loss;      /* the last one of a learner */
    double rate;      /* samples a second */
    double staleness; /* mean, of a server's updates */
} weft_member_stats;

typedef struct weft_view_member {
    weft_actor_id id;
    weft_member_role role;
    int slot; /* 0, 1, ... among those of its role; slots of who has gone are given again */
    char address[WEFT_ADDRESS]; /* where others reach it; "": nowhere */
    weft_member_stats figures;  /* when the view was made */
    double silent;              /* seconds since it was heard of, then */
    bool dismissed;             /* it is to leave */
    bool lacks_state; /* the run goes on from a checkpoint that this member has not loaded, so it
                         takes the run's state from others and gives none */
    char host[WEFT_HOST]; /* the name of its machine; "": not known */
} weft_view_member;

typedef enum weft_member_event_kind {
    WEFT_MEMBER_JOINED,
    WEFT_MEMBER_FINISHED,  /* it has left after its last step */
    WEFT_MEMBER_STOPPED,   /* it has left before its last step by itself */
    WEFT_MEMBER_DISMISSED, /* it has left since somebody has asked for that */
    WEFT_MEMBER_SILENT,    /* it was not heard of for too long */
    WEFT_MEMBER_REPLACED,  /* its process has ended, and another one comes in its place */
    WEFT_MEMBER_EVENT_KINDS
} weft_member_event_kind;

/* A member has joined, left, or was lost; for people, since nothing is decided by it. */
typedef struct weft_member_event {
    int64_t number; /* of a run's first event 1, then one more for each */
    weft_member_event_kind kind;
    weft_actor_id id;
    weft_member_role role;
    int slot;
    char host[WEFT_HOST];
    double when;   /* by the clock of the actor that has the view */
    double silent; /* of one that was lost: seconds since it had been heard of */
} weft_member_event;

/* A description of the run, for people. */
typedef struct weft_run_about {
    char model[64], exchange[128], data[128];
    int64_t steps;                   /* of each learner, in all; 0: not known */
    int expected[WEFT_MEMBER_ROLES]; /* members with which it begins */
} weft_run_about;

/* Who keeps a range. WEFT_NOBODY: nobody. */
typedef struct weft_range_owner {
    weft_actor_id primary, replica;
    bool ready; /* the replica has all that the primary has acknowledged */
} weft_range_owner;

typedef struct weft_view {
    uint64_t run;           /* which one: two runs are never of the same number */
    int64_t number;         /* 0: none has come yet */
    bool running;           /* all that were expected have come */
    bool over;              /* all learners have done what they were to do */
    double failure_timeout; /* seconds after which a member that is not heard of counts as gone */
    char *fault;            /* why the run cannot go on; NULL: it can */
    weft_view_member *members;
    size_t member_count, member_capacity;
    weft_range_owner *ranges;
    int range_count;
    weft_run_about about;
    weft_member_event *events; /* the last ones, the oldest first */
    size_t event_count, event_capacity;
} weft_view;

void weft_view_free(weft_view *view);
/* NULL: it is none of them. */
weft_view_member *weft_view_find(const weft_view *view, weft_actor_id id);
/* How people know a member, by its role and slot: "learner 2"; into `out`, which it returns. */
const char *weft_member_name(weft_member_role role, int slot, char out[WEFT_MEMBER_NAME]);
/* The same of a member of the view; by its number where it is none any more. */
const char *weft_view_name(const weft_view *view, weft_actor_id id, char out[WEFT_MEMBER_NAME]);
/* Adds an event with the next number; the oldest ones are forgotten. */
weft_status weft_view_note(weft_view *view, const weft_member_event *event) WEFT_NODISCARD;
/* Takes a member out; false: it was none. */
bool weft_view_remove(weft_view *view, weft_actor_id id);
/* How many members have this role. */
int weft_view_count(const weft_view *view, weft_member_role role);
/* A sum over who they are, in whatever order; never 0. */
uint64_t weft_view_sum(const weft_view *view);

/* now: by the clock of the actor that has the view, or will have it. */
weft_status weft_view_pack(const weft_view *view, double now, weft_buffer **out) WEFT_NODISCARD;
/* FORMAT: it is none, or larger than one may be; *out stays as it was. Otherwise its old contents
 * are freed. */
weft_status weft_view_unpack(const weft_buffer *blob, double now, weft_view *out) WEFT_NODISCARD;

#endif
