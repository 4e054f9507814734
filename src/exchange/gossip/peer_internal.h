/* Internals of a peer: its state, and what its files offer each other. */
#ifndef WEFT_EXCHANGE_GOSSIP_PEER_INTERNAL_H
#define WEFT_EXCHANGE_GOSSIP_PEER_INTERNAL_H

#include "exchange/gossip/link.h"
#include "exchange/gossip/gossip.h"
#include "actor/rpc.h"

typedef struct weft_peer weft_peer;

/* Hooks in which the two modes differ. */
typedef struct weft_peer_mode {
    weft_status (*open)(weft_peer *peer);
    void (*close)(weft_peer *peer);
    /* A computation has ended; `change` is the difference that it made to the parameters. */
    weft_status (*computed)(weft_peer *peer, void *change);
    /* An update of another peer, delivered once. On failure it is dropped and not forwarded. NULL:
     * the mode broadcasts no updates. */
    weft_status (*apply)(weft_peer *peer, const weft_buffer *payload);
    /* With `apply`: to += scale * an update that was delivered before. */
    void (*add)(const weft_peer *peer, double scale, const weft_buffer *payload, void *to);
    /* Handlers of messages of other peers. NULL, like the hooks below: the mode has none. */
    const weft_rpc_handler *handlers;
    /* Whether a request is outstanding; and retransmits it. */
    bool (*is_waiting)(const weft_peer *peer);
    weft_status (*resend)(weft_peer *peer);
    /* The view has changed. */
    void (*view_changed)(weft_peer *peer);
} weft_peer_mode;

/* An entry of the version vector: all updates of this origin up to number `applied` have been
 * applied, and whether the last of them was its end. The format on the wire, too, sorted by id. */
typedef struct weft_origin {
    weft_actor_id id;
    uint32_t ended;
    int64_t applied;
} weft_origin;

/* Broadcast state: the links, the version vector and the update log. */
typedef struct weft_broadcast {
    weft_link *links; /* [neighbours] */
    weft_origin *origins;
    size_t origin_count, origin_capacity;
    int64_t sequence; /* of this peer's last update */
    bool halted;      /* a peer requests that all end */
    /* Elastic peers: the last updates with a payload, in the order of arrival, for neighbours that
     * turn out to lack them; `arrived` is the time of arrival. */
    weft_gossip_update *log;
    size_t log_first, log_count, log_capacity, log_bytes;
} weft_broadcast;

/* Record of a peer in the view, from its messages. */
typedef struct weft_peer_record {
    double last_message; /* when the last one arrived */
    bool has_state;      /* its last heartbeat says: it has the state of the run, */
    bool same_view;      /* it has the same view, */
    uint64_t
        version_hash; /* it has every update up to all ends: hash of its version vector, else 0, */
    bool has_mean;    /* and it has the final average */
} weft_peer_record;

/* Tree reduction of the final average: a peer receives the partial sums of its children, sends the
 * sum of them and its own parameters to its parent, and receives the mean from it. */
enum { WEFT_FINAL_AVERAGE_CHILDREN = 13 }; /* 2 to the power of that exceeds WEFT_MOST_MEMBERS */
typedef struct weft_final_average_state {
    int parent; /* index in the peer's `ids`; -1: none */
    int children[WEFT_FINAL_AVERAGE_CHILDREN],
        child_count; /* from the largest subtree to the smallest */
    weft_buffer *partial_sums[WEFT_FINAL_AVERAGE_CHILDREN]; /* partial sums of the children */
    weft_buffer *sum;  /* of them and its own parameters; NULL: one is missing */
    bool acked;        /* acknowledged by the parent */
    weft_buffer *mean; /* the final average, */
    int contributors;  /* and its number of contributors; 0: there is none */
    double sent;
    weft_rto rto;
    int64_t progress; /* counter of progress */
} weft_final_average_state;

struct weft_peer {
    weft_actor head;
    const weft_peer_mode *mode;
    weft_peer_options options;
    size_t bytes;     /* of the parameters */
    void *current;    /* the present parameters */
    void *step_start; /* the parameters with which the running computation began */
    int64_t clock;
    bool computing, timer_armed; /* the retransmission timer is set */
    bool ended;                  /* it has broadcast its end */
    /* The peers of the view in the order of their slots, and the index of this one. */
    weft_actor_id *ids;
    int peers, me;
    const weft_topology *topology;
    const int *neighbours; /* part of the topology */
    int neighbour_count;
    weft_broadcast broadcast;
    void *state; /* of the mode */
    /* Elastic peers. */
    weft_member *member; /* NULL: the peers are fixed */
    weft_member_stats stats;
    weft_topology own_topology;
    weft_peer_record *records; /* [peers] */
    uint64_t members;          /* hash of the members of the view */

    bool paused;           /* paused for longer than the failure timeout, without a message since */
    double last_tick;      /* time of the last tick of the failure detector, */
    double leave_progress; /* of the last progress of its leave; below 0: it does not leave */
    int64_t leave_acks;    /* acknowledgements of neighbours by then */
    int64_t sync_epoch;    /* epoch of its last SyncRequest */
    bool has_state;        /* it has the state of the run */
    uint64_t
        version_hash; /* hash of its version vector if it has every update up to all ends; else 0 */
    bool leaves_now, leaving; /* it leaves before the end; it is leaving */
    bool requests_halt;       /* it requests that all peers end with it */
    bool hold_released;       /* see weft_peer_release_hold */
    weft_final_average_state final_average;
    weft_actor_id donor; /* donor of a snapshot; WEFT_NOBODY: no request is outstanding */
    int64_t state_request;
    int state_tries;
    int next_donor;            /* round robin over donors */
    double state_requested_at; /* time of the last state request */
};

extern const weft_peer_mode weft_peer_updates, weft_peer_average;

/* Arms the retransmission timer, unless it is armed. */
weft_status weft_peer_arm_timer(weft_peer *peer) WEFT_NODISCARD;
/* Begins the next computation if there is one, or leaves. */
weft_status weft_peer_advance(weft_peer *peer) WEFT_NODISCARD;
/* Tells all peers that this one has taken its last step; halt: all are to stop. */
weft_status weft_peer_broadcast_end(weft_peer *p, bool halt) WEFT_NODISCARD;
/* All peers have ended, and this one waits for no update of theirs. */
bool weft_peer_has_all_updates(const weft_peer *p);
/* The peer has the state of the run, at this clock, and takes part. */
weft_status weft_peer_start_at(weft_peer *peer, int64_t clock) WEFT_NODISCARD;
/* Index of a peer in the view; -1: not in it. */
int weft_peer_index(const weft_peer *peer, weft_actor_id id);
/* NULL: not a neighbour. */
weft_link *weft_peer_link(const weft_peer *peer, weft_actor_id id);

/* broadcast.c */
void weft_broadcast_close(weft_peer *peer);
/* The view has changed: drops links to former neighbours, and closes the others of an elastic
 * peer. */
weft_status weft_broadcast_arrange(weft_peer *peer) WEFT_NODISCARD;
/* Broadcasts an update; payload NULL: the end of this peer, and with `halt` of all others. */
weft_status weft_broadcast_send(weft_peer *peer, weft_buffer *payload, bool halt) WEFT_NODISCARD;
/* Handlers of messages of a link: a new update is applied and forwarded. */
weft_rpc_handle weft_broadcast_take_update, weft_broadcast_take_ack;
/* Retransmits unacknowledged updates; *more: there are some. */
weft_status weft_broadcast_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
/* The ends of all peers in the view have arrived. */
bool weft_broadcast_all_ended(const weft_peer *peer);
/* Hash of the version vector; never 0. */
uint64_t weft_broadcast_version_hash(const weft_peer *peer);
/* Every neighbour has acknowledged every update, and neither side lacks any. */
bool weft_broadcast_all_acked(const weft_peer *peer);
/* A number that changes when neighbours have acknowledged more. */
int64_t weft_broadcast_progress(const weft_peer *peer);

/* update_log.c: version vector and log. */
/* NULL: no update of it has arrived. */
weft_origin *weft_origin_find(const weft_broadcast *u, weft_actor_id id);
/* Adds the origin if it is new; *out is NULL where there are too many. */
weft_status weft_origin_of(weft_broadcast *u, weft_actor_id id, weft_origin **out) WEFT_NODISCARD;
/* Adds an update to the log of an elastic peer. */
weft_status weft_update_log_append(weft_peer *peer,
                                   const weft_gossip_update *update) WEFT_NODISCARD;
void weft_update_log_free(weft_broadcast *u);
/* Drops the log's entries of an origin, whose count in the version vector then changes. */
void weft_update_log_forget(weft_broadcast *u, weft_actor_id origin);
/* The version vector in a payload from byte `at` on; false: invalid. */
bool weft_origins_read(const weft_buffer *payload, size_t at, const weft_origin **out,
                       size_t *count);
/* Whether the log can supply all updates that a peer with vector `theirs` lacks and other peers may
 * not be able to supply: those of this peer, and of origins outside the view. */
weft_status weft_update_log_covers(const weft_peer *peer, const weft_origin *theirs, size_t count,
                                   bool *out) WEFT_NODISCARD;
/* Subtracts from a copy of the parameters and version vector the updates that a neighbour has not
 * acknowledged: if this peer fails, the holder of the copy cannot forward single updates. */
void weft_update_log_roll_back(const weft_peer *peer, void *numbers, weft_origin *origins);
/* The parameters are now those of a peer with vector `theirs`: adds the log's updates, and sets
 * origins that the log cannot supply back to `theirs`, so that others send them again. */
weft_status weft_update_log_replay(weft_peer *peer, const weft_origin *theirs,
                                   size_t count) WEFT_NODISCARD;
/* Sends over a link the log's updates that its peer, with vector `theirs`, lacks. */
weft_status weft_update_log_send(weft_peer *peer, weft_link *link, const weft_origin *theirs,
                                 size_t count) WEFT_NODISCARD;

/* anti_entropy.c: neighbours in a view exchange version vectors. */
weft_status weft_sync_request_all(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_sync_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
weft_rpc_handle weft_sync_take_request, weft_sync_take_reply;
/* state_transfer.c: a snapshot for a peer that joins, or was cut off for too long. */
weft_status weft_state_request_from(weft_peer *peer, weft_actor_id donor) WEFT_NODISCARD;
weft_status weft_state_request_resend(weft_peer *peer) WEFT_NODISCARD;
weft_rpc_handle weft_state_take_request, weft_state_take_reply;
/* final_average.c: the mean of all peers' parameters at the end. `_arrange`: the view has changed;
 * `_advance`: goes on if it can; `_resend`: retransmits unacknowledged messages, *more: there are
 * some. */
void weft_final_average_close(weft_peer *peer);
void weft_final_average_arrange(weft_peer *peer);
weft_status weft_final_average_advance(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_final_average_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
weft_rpc_handle weft_final_average_take_sum, weft_final_average_take_ack,
    weft_final_average_take_mean;
/* All peers in the view have the mean. */
bool weft_final_average_all_have(const weft_peer *peer);
/* peer_membership.c: views, heartbeats, failure detector. */
weft_status weft_peer_membership_view(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_peer_membership_tick(weft_peer *peer) WEFT_NODISCARD;
/* Sends a heartbeat to all peers in the view. */
weft_status weft_peer_send_heartbeat(weft_peer *peer) WEFT_NODISCARD;
/* All peers in the view have every update up to all ends, with equal version vectors. */
bool weft_peer_all_converged(const weft_peer *peer);
weft_rpc_handle weft_peer_take_heartbeat, weft_peer_take_view, weft_peer_take_view_request;
/* Whether the sender of this view number and hash has the same view; if not, the side that is
 * behind is brought up to date. */
weft_status weft_peer_same_view(weft_peer *peer, weft_actor_id sender, int64_t view,
                                uint64_t members, bool *same) WEFT_NODISCARD;

/* to += scale * (a - b); b NULL: zeros. */
void weft_peer_add_scaled(const weft_peer *peer, void *to, double scale, const void *a,
                          const void *b);

#endif
