/* Who takes part in a run, and who keeps which range of the parameters: what a coordinator tells
 * all members when it changes. */
#ifndef WEFT_EXCHANGE_CLUSTER_VIEW_H
#define WEFT_EXCHANGE_CLUSTER_VIEW_H

#include "actor/actor.h"

typedef enum weft_member_role {
    WEFT_MEMBER_LEARNER,
    WEFT_MEMBER_SERVER,
    WEFT_MEMBER_PEER,
    WEFT_MEMBER_ROLES
} weft_member_role;
const char *weft_member_role_name(weft_member_role role);

/* The coordinator's number, in all clusters. It keeps no range and does no work: where a number
 * says who does, this one says that nobody does. */
enum { WEFT_COORDINATOR = 0, WEFT_NOBODY = WEFT_COORDINATOR };
/* Bytes of an address, with its end; members and ranges that a view may have. */
enum { WEFT_ADDRESS = 512, WEFT_MOST_MEMBERS = 4096, WEFT_MOST_RANGES = 4096 };

/* What a member says of its work. */
typedef struct weft_member_figures {
    int64_t clock;    /* steps that a learner has finished; updates that a server has made */
    double loss;      /* the last one of a learner */
    double rate;      /* samples a second */
    double staleness; /* mean, of a server's updates */
} weft_member_figures;

typedef struct weft_view_member {
    weft_actor_id id;
    weft_member_role role;
    int slot; /* 0, 1, ... among those of its role; slots of who has gone are given again */
    char address[WEFT_ADDRESS];  /* where others reach it; "": nowhere */
    weft_member_figures figures; /* when the view was made */
    double silent;               /* seconds since it was heard of, then */
    bool dismissed;              /* it is to leave */
    bool lacks_state; /* the run goes on from a checkpoint that this member has not loaded, so it
                         takes the run's state from others and gives none */
} weft_view_member;

/* Who keeps a range. WEFT_NOBODY: nobody. */
typedef struct weft_keeper {
    weft_actor_id primary, replica;
    bool ready; /* the replica has all that the primary has acknowledged */
} weft_keeper;

typedef struct weft_view {
    uint64_t run;   /* which one: two runs are never of the same number */
    int64_t number; /* 0: none has come yet */
    bool running;   /* all that were expected have come */
    bool over;      /* all learners have done what they were to do */
    double silence; /* seconds after which a member that is not heard of counts as gone */
    char *fault;    /* why the run cannot go on; NULL: it can */
    weft_view_member *members;
    size_t member_count, member_capacity;
    weft_keeper *ranges;
    int range_count;
} weft_view;

void weft_view_free(weft_view *view);
/* NULL: it is none of them. */
weft_view_member *weft_view_find(const weft_view *view, weft_actor_id id);
/* Takes a member out; false: it was none. */
bool weft_view_remove(weft_view *view, weft_actor_id id);
/* How many members have this role. */
int weft_view_count(const weft_view *view, weft_member_role role);
/* A sum over who they are, in whatever order; never 0. */
uint64_t weft_view_sum(const weft_view *view);

weft_status weft_view_pack(const weft_view *view, weft_blob **out) WEFT_NODISCARD;
/* FORMAT: it is none, or larger than one may be; *out stays as it was. Otherwise its old contents
 * are freed. */
weft_status weft_view_unpack(const weft_blob *blob, weft_view *out) WEFT_NODISCARD;

#endif
