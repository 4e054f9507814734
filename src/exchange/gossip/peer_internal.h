/* The inside of a peer. */
#ifndef WEFT_EXCHANGE_GOSSIP_PEER_INTERNAL_H
#define WEFT_EXCHANGE_GOSSIP_PEER_INTERNAL_H

#include "exchange/gossip/link.h"
#include "exchange/gossip/gossip.h"

typedef struct weft_peer weft_peer;

/* What the two modes do in their own ways. */
typedef struct weft_peer_mode {
    weft_status (*open)(weft_peer *peer);
    void (*close)(weft_peer *peer);
    /* A computation has ended; `change` is what it made of the parameters. */
    weft_status (*computed)(weft_peer *peer, void *change);
    /* What another peer has said to all, once. Where it fails that goes no further, as if nothing
     * had been said. NULL: nobody says anything. */
    weft_status (*heard)(weft_peer *peer, const weft_buffer *payload);
    /* With `heard`: to += scale * what was said, which was heard before. */
    void (*add)(const weft_peer *peer, double scale, const weft_buffer *payload, void *to);
    /* What a neighbour has said to this one. NULL, as those that follow: nothing is said so. */
    weft_status (*message)(weft_peer *peer, const weft_message *message);
    /* Whether it waits for an answer; and asks again. */
    bool (*waits)(const weft_peer *peer);
    weft_status (*repeat)(weft_peer *peer);
    /* Others are there now. */
    void (*view)(weft_peer *peer);
} weft_peer_mode;

/* Of what one peer says all up to number `come` is here, and whether that was its end. As it is
 * sent, too: in order of their numbers. */
typedef struct weft_origin {
    weft_actor_id id;
    uint32_t ended;
    int64_t come;
} weft_origin;

/* Rumours: what a peer says to all others, passed on along the edges. */
typedef struct weft_broadcast {
    weft_link *edges; /* [neighbours] */
    weft_origin *origins;
    size_t origin_count, origin_capacity;
    int64_t sequence; /* of one's own */
    bool halted;      /* somebody wants all to end */
    /* Where peers come and go: the last ones that have a payload, in the order in which they came,
     * for neighbours that turn out to lack them; `began` is when that was. */
    weft_gossip_update *log;
    size_t log_first, log_count, log_capacity, log_bytes;
} weft_broadcast;

/* What is known of somebody who is there. */
typedef struct weft_seat {
    double heard; /* when it last was */
    bool has;     /* what the run has come to, as it said, */
    bool says;    /* having this view, */
    uint64_t all; /* and to have all that anybody there has said: a sum over that, */
    bool settled; /* and the mean of what all have ended with */
} weft_seat;

/* How peers that have ended come to their mean: each gets sums of those whose turn it is to add up,
 * and gives the sum of them and its own to its parent, which gives it the mean in the end. */
enum { WEFT_SETTLE_CHILDREN = 13 }; /* two to that is more than WEFT_MOST_MEMBERS */
typedef struct weft_final_average_state {
    int parent;                                      /* as in the peer's `ids`; -1: none */
    int children[WEFT_SETTLE_CHILDREN], child_count; /* from the largest subtree to the smallest */
    weft_buffer *shares[WEFT_SETTLE_CHILDREN];       /* of the children */
    weft_buffer *sum;                                /* of them and its own; NULL: one is missing */
    bool heard;                                      /* by the parent */
    weft_buffer *mean;                               /* what all have come to, */
    int of; /* and of how many it is the mean; 0: it has none */
    double sent;
    weft_rto trip;
    int64_t moves; /* another number when it has gone on */
} weft_final_average_state;

struct weft_peer {
    weft_actor head;
    const weft_peer_mode *mode;
    weft_peer_options options;
    size_t bytes; /* of the parameters */
    void *now;    /* what it has */
    void *before; /* what the computation that goes on began with */
    int64_t clock;
    bool computing, listens; /* the timer is set */
    bool ended;              /* it has said that it has */
    /* Who is there, in the order of their slots, and which of them this one is. */
    weft_actor_id *ids;
    int peers, me;
    const weft_topology *topology;
    const int *neighbours; /* the topology's */
    int neighbour_count;
    weft_broadcast rumours;
    void *state; /* the mode's */
    /* Where peers come and go. */
    weft_member *member; /* NULL: they do not */
    weft_member_stats figures;
    weft_topology own;
    weft_seat *seats; /* [peers] */
    uint64_t members; /* a sum over who is there */

    bool overslept;   /* it was stopped for longer than the silence, and has heard of none since */
    double ticked;    /* it last looked at them, */
    double closing;   /* and it wanted to go; below 0: it does not */
    int64_t heard;    /* what its neighbours had of it then */
    int64_t round;    /* of its greetings */
    bool in;          /* it has what the run has come to */
    uint64_t all;     /* what it has, if that is all there is; 0: it is not */
    bool quits, gone; /* it goes before the others; it takes its leave */
    bool halts;       /* and all others are to end with it */
    bool released;    /* see weft_peer_release_hold */
    weft_final_average_state settling;
    weft_actor_id giver; /* of a snapshot; WEFT_NOBODY: it asks for none */
    int64_t request;
    int tries;
    int turn;     /* of whom it asks if one alone cannot help */
    double asked; /* when */
};

extern const weft_peer_mode weft_peer_updates, weft_peer_average;

/* Sends again, some time from now, unless nothing is open then. */
weft_status weft_peer_arm_timer(weft_peer *peer) WEFT_NODISCARD;
/* Begins the next computation if there is one, or takes its leave. */
weft_status weft_peer_advance(weft_peer *peer) WEFT_NODISCARD;
/* It has what the run has come to, at this clock. */
weft_status weft_peer_start_at(weft_peer *peer, int64_t clock) WEFT_NODISCARD;
/* Which one this is of those who are there; -1: it is none. */
int weft_peer_index(const weft_peer *peer, weft_actor_id id);
/* NULL: it is no neighbour. */
weft_link *weft_peer_link(const weft_peer *peer, weft_actor_id id);

/* broadcast.c */
void weft_broadcast_close(weft_peer *peer);
/* Neighbours are others now: edges to those who have gone are dropped, and all are closed. */
weft_status weft_broadcast_arrange(weft_peer *peer) WEFT_NODISCARD;
/* To all; payload NULL: this peer has ended, and with `halt` all others are to. */
weft_status weft_broadcast_send(weft_peer *peer, weft_buffer *payload, bool halt) WEFT_NODISCARD;
/* A message over an edge: what is new is heard and passed on. */
weft_status weft_broadcast_message(weft_peer *peer, const weft_message *message) WEFT_NODISCARD;
/* Sends again what has not been heard; whether there was something. */
weft_status weft_broadcast_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
/* All peers have ended, as far as this one knows; all neighbours have heard all. */
bool weft_broadcast_all_ended(const weft_peer *peer);
/* Of what has come from whom; never 0. */
uint64_t weft_broadcast_sum(const weft_peer *peer);
bool weft_broadcast_all_heard(const weft_peer *peer);
/* A number that is another one when they have heard more. */
int64_t weft_broadcast_progress(const weft_peer *peer);

/* update_log.c: what has come from whom. */
/* NULL: nothing. */
weft_origin *weft_origin_find(const weft_broadcast *u, weft_actor_id id);
/* Adds it where there was nothing; *out is NULL where there are too many. */
weft_status weft_origin_of(weft_broadcast *u, weft_actor_id id, weft_origin **out) WEFT_NODISCARD;
/* Keeps a rumour for a while. */
weft_status weft_update_log_append(weft_peer *peer,
                                   const weft_gossip_update *rumour) WEFT_NODISCARD;
void weft_update_log_free(weft_broadcast *u);
/* What is kept of an origin, which has come to more than follows on it. */
void weft_update_log_forget(weft_broadcast *u, weft_actor_id origin);
/* The origins in a payload, from byte `at` on, where they are as they must be. */
bool weft_origins_read(const weft_buffer *payload, size_t at, const weft_origin **out,
                       size_t *count);
/* Whether all is kept that this one has, who has those origins has not, and nobody else may be able
 * to tell: what it has said itself, and what those have who are gone. */
weft_status weft_update_log_covers(const weft_peer *peer, const weft_origin *theirs, size_t count,
                                   bool *out) WEFT_NODISCARD;
/* Takes back, of a copy of the parameters and origins, what not all neighbours have heard yet: as
 * part of a sum nobody could be told of it by who has the copy, if this one is gone. */
void weft_update_log_roll_back(const weft_peer *peer, void *numbers, weft_origin *origins);
/* The parameters are now those of somebody who has these origins: adds what is kept, and of other
 * origins goes back to what these have, so that it is told again. `_tell`: tells it over an edge.
 */
weft_status weft_update_log_replay(weft_peer *peer, const weft_origin *theirs,
                                   size_t count) WEFT_NODISCARD;
weft_status weft_update_log_send(weft_peer *peer, weft_link *edge, const weft_origin *theirs,
                                 size_t count) WEFT_NODISCARD;

/* anti_entropy.c: neighbours of a view tell each other what they have. */
weft_status weft_sync_request_all(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_sync_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
weft_status weft_sync_message(weft_peer *peer, const weft_message *message) WEFT_NODISCARD;
/* state_transfer.c: all there is, for who comes, or was away for too long. */
weft_status weft_state_request_from(weft_peer *peer, weft_actor_id giver) WEFT_NODISCARD;
weft_status weft_state_request_resend(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_state_message(weft_peer *peer, const weft_message *message) WEFT_NODISCARD;
/* final_average.c: the mean of what all have ended with. `_arrange`: others are there now; `_go`:
 * goes on where it can; `_again`: sends again what has not been heard; whether there was something.
 */
void weft_final_average_close(weft_peer *peer);
void weft_final_average_arrange(weft_peer *peer);
weft_status weft_final_average_advance(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_final_average_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
weft_status weft_final_average_message(weft_peer *peer, const weft_message *message) WEFT_NODISCARD;
/* All who are there have the mean. */
bool weft_final_average_all_have(const weft_peer *peer);
/* peer_membership.c: who is there. */
weft_status weft_peer_membership_view(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_peer_membership_tick(weft_peer *peer) WEFT_NODISCARD;
/* Says to all that it is there. */
weft_status weft_peer_send_heartbeat(weft_peer *peer) WEFT_NODISCARD;
/* All who are there have the same, and all there is. */
bool weft_peer_all_converged(const weft_peer *peer);
weft_status weft_peer_membership_message(weft_peer *peer,
                                         const weft_message *message) WEFT_NODISCARD;
/* Whether somebody who says so of his view has the same; if not, whoever is behind is helped. */
weft_status weft_peer_same_view(weft_peer *peer, weft_actor_id who, int64_t view, uint64_t members,
                                bool *same) WEFT_NODISCARD;

/* to += scale * (a - b); b NULL: zeros. */
void weft_peer_add_scaled(const weft_peer *peer, void *to, double scale, const void *a,
                          const void *b);

#endif
