/* Internals of a gossip peer: its state, and the functions that its files share. */
#ifndef WEFT_EXCHANGE_GOSSIP_PEER_INTERNAL_H
#define WEFT_EXCHANGE_GOSSIP_PEER_INTERNAL_H

#include "exchange/gossip/link.h"
#include "exchange/exchange.h"
#include "exchange/gossip/gossip.h"
#include "actor/rpc.h"

typedef struct weft_peer weft_peer;

struct weft_peer_mode {
    const char *name; /* as in "gossip:mode=NAME" */
    bool pairs; /* two neighbours at a time exchange whole parameters; else updates go to all */
    weft_handled least; /* the work of a peer's own step, see weft_exchange_least */
    weft_status (*open)(weft_peer *peer);
    void (*close)(weft_peer *peer);
    /* A computation has ended; `change` is the difference that it made to the parameters. */
    weft_status (*computed)(weft_peer *peer, void *change);
    /* Applies an update of another peer, which is delivered once. If that fails, the update is
     * dropped and not forwarded. NULL: the mode broadcasts no updates. */
    weft_status (*apply)(weft_peer *peer, const weft_buffer *payload);
    /* Goes with `apply`: to += scale * update, for an update that was applied before; a snapshot
     * subtracts updates with scale -1. */
    void (*add)(const weft_peer *peer, double scale, const weft_buffer *payload, void *to);
    /* Handlers of the mode's own messages. These and the hooks below may be NULL. */
    const weft_rpc_handler *handlers;
    /* Whether a request to another peer is outstanding; `resend` retransmits that request. */
    bool (*is_waiting)(const weft_peer *peer);
    weft_status (*resend)(weft_peer *peer);
    /* Called after a view change: drops what the mode keeps about peers that are gone. */
    void (*view_changed)(weft_peer *peer);
};

/* An entry of the version vector: this peer has applied all updates of origin `id` up to number
 * `applied`; `ended` is 1 if the last of them was the end of the origin. A version vector is an
 * array of entries, sorted by id, and has this form on the wire, too. */
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
    int64_t sequence; /* number of this peer's last update */
    bool halted;      /* another peer has requested that all end */
    /* Elastic peers: the update log holds the recent updates with a payload, in the order of their
     * arrival (time `arrived`), for neighbours that turn out to lack them. */
    weft_gossip_update *log;
    size_t log_first, log_count, log_capacity, log_bytes;
} weft_broadcast;

/* The record of another peer of the view, as its messages describe it. */
typedef struct weft_peer_record {
    double last_message; /* time when this peer last received a message from the other */
    bool has_state;      /* by its last heartbeat: it has the state of the run */
    bool same_view;      /* by its last heartbeat: its view is this peer's */
    /* Hash of its version vector if it has every update up to all ends; else 0, and 0 if its view
     * is another one. */
    uint64_t version_hash;
    bool has_mean; /* by its last heartbeat: it has the final average */
} weft_peer_record;

/* Most children of a peer in the tree over at most WEFT_MOST_MEMBERS (4,096) peers. */
enum { WEFT_FINAL_AVERAGE_CHILDREN = 13 };
/* State of the final average, a tree reduction: a peer receives the partial sums of its children,
 * sends their sum with its own parameters to its parent, and later receives the mean from its
 * parent. */
typedef struct weft_final_average_state {
    int parent; /* index in the peer's `ids`; -1: this peer is the root */
    int children[WEFT_FINAL_AVERAGE_CHILDREN],
        child_count; /* indices, from the largest subtree to the smallest */
    /* Sums received from the children; NULL: not received yet. */
    weft_buffer *partial_sums[WEFT_FINAL_AVERAGE_CHILDREN];
    /* The partial sums and the own parameters, added up; NULL: a partial sum is missing. */
    weft_buffer *sum;
    bool acked;        /* the parent has acknowledged `sum` */
    weft_buffer *mean; /* the final average; NULL: not received yet */
    int contributors;  /* peers in the final average; 0: there is none yet */
    double sent;
    weft_rto rto;
    int64_t progress; /* counts steps of the reduction, here and of other peers */
} weft_final_average_state;

struct weft_peer {
    weft_actor head;
    const weft_peer_mode *mode;
    weft_peer_options options;
    size_t bytes;     /* size of the parameters */
    void *current;    /* the present parameters */
    void *step_start; /* the parameters with which the running computation began */
    int64_t clock;
    bool computing, timer_armed; /* the retransmission timer is set */
    bool ended;                  /* this peer has broadcast its end */
    /* The actor ids of the view's peers in the order of their slots; `me` is the index of this
     * peer. */
    weft_actor_id *ids;
    int peers, me;
    const weft_topology *topology;
    const int *neighbours; /* part of the topology */
    int neighbour_count;
    weft_broadcast broadcast;
    void *state; /* private state of the mode */
    /* The fields below are for elastic peers. */
    weft_member *member; /* NULL: the peers are fixed */
    weft_member_stats stats;
    weft_topology own_topology;
    weft_peer_record *records; /* [peers] */
    uint64_t members;          /* hash of the members of the view */

    /* This process was paused for longer than the failure timeout, and no message of a peer has
     * come since. */
    bool paused;
    double last_tick; /* time of the failure detector's last tick */
    /* Time of the last progress while this peer waits to leave; below 0: it does not wait. */
    double leave_progress;
    int64_t leave_acks; /* value of the progress counters at `leave_progress` */
    int64_t sync_epoch; /* epoch of its last SyncRequest */
    bool has_state;     /* this peer has the state of the run */
    /* Hash of this peer's version vector if it has every update up to all ends; else 0. */
    uint64_t version_hash;
    bool leaves_now, leaving; /* it leaves before the end of the run; it has sent Leave */
    bool requests_halt;       /* its end asks all other peers to end */
    bool hold_released;       /* weft_peer_release_hold was called */
    weft_final_average_state final_average;
    /* Donor that was asked for a snapshot; WEFT_NOBODY: no StateRequest is outstanding. */
    weft_actor_id donor;
    int64_t state_request;
    int state_tries;
    int next_donor;            /* index for choosing donors in turn */
    double state_requested_at; /* time of the last StateRequest */
};

/* Arms the retransmission timer, unless it is armed. */
weft_status weft_peer_arm_timer(weft_peer *peer) WEFT_NODISCARD;
/* Called after each event: begins the next computation if a step is left and none runs, or leaves
 * the run if nothing holds the peer. */
weft_status weft_peer_advance(weft_peer *peer) WEFT_NODISCARD;
/* Broadcasts that this peer has taken its last step; halt: asks all other peers to stop, too. */
weft_status weft_peer_broadcast_end(weft_peer *p, bool halt) WEFT_NODISCARD;
/* Whether the ends of all peers have arrived, and with them all updates, and this peer waits for no
 * AverageReply. */
bool weft_peer_has_all_updates(const weft_peer *p);
/* Called when the peer has the parameters of the run after `clock` steps: it tells the other peers,
 * synchronizes with its neighbours, and begins to compute. */
weft_status weft_peer_start_at(weft_peer *peer, int64_t clock) WEFT_NODISCARD;
/* Index of a peer in the view; -1: not in it. */
int weft_peer_index(const weft_peer *peer, weft_actor_id id);
/* The link to a peer; NULL: that peer is no neighbour. */
weft_link *weft_peer_link(const weft_peer *peer, weft_actor_id id);

/* broadcast.c */
void weft_broadcast_close(weft_peer *peer);
/* Called after a view change: makes a link to each neighbour of the new topology and drops links to
 * former neighbours. A link of an elastic peer then stays closed until the neighbour's SyncRequest
 * arrives. */
weft_status weft_broadcast_arrange(weft_peer *peer) WEFT_NODISCARD;
/* Broadcasts an update of this peer. payload NULL: broadcasts its end; halt: asks all other peers
 * to end, too. */
weft_status weft_broadcast_send(weft_peer *peer, weft_buffer *payload, bool halt) WEFT_NODISCARD;
/* Handlers of Update, which applies and forwards a new update, and of UpdateAck. */
weft_rpc_handle weft_broadcast_take_update, weft_broadcast_take_ack;
/* Retransmits updates whose acknowledgement is overdue. *more: updates are still unacknowledged or
 * waiting, so the timer is needed again. */
weft_status weft_broadcast_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
/* Whether the ends of all peers in the view have arrived. */
bool weft_broadcast_all_ended(const weft_peer *peer);
/* Hash of this peer's version vector; never 0. Peers that have applied the same updates have equal
 * hashes. */
uint64_t weft_broadcast_version_hash(const weft_peer *peer);
/* Whether every link is open, the neighbours have acknowledged every update, and neither side needs
 * updates that the other's log no longer has. */
bool weft_broadcast_all_acked(const weft_peer *peer);
/* A number that changes when neighbours have acknowledged more. */
int64_t weft_broadcast_progress(const weft_peer *peer);

/* update_log.c: version vector and log. */
/* The version vector's entry of an origin; NULL: no update of this origin has arrived. */
weft_origin *weft_origin_find(const weft_broadcast *u, weft_actor_id id);
/* The entry of an origin, which is added if it is new. *out is NULL if the vector is full. */
weft_status weft_origin_of(weft_broadcast *u, weft_actor_id id, weft_origin **out) WEFT_NODISCARD;
/* Adds an update to the log of an elastic peer; ends are not logged. */
weft_status weft_update_log_append(weft_peer *peer,
                                   const weft_gossip_update *update) WEFT_NODISCARD;
void weft_update_log_free(weft_broadcast *u);
/* The most bytes of a log of updates of so many bytes of parameters. */
size_t weft_update_log_most(size_t parameter_bytes);
/* Drops all log entries of an origin, before the caller changes the origin's number in the version
 * vector. */
void weft_update_log_forget(weft_broadcast *u, weft_actor_id origin);
/* Reads the version vector that begins at byte `at` of a payload; false: it is invalid. */
bool weft_origins_read(const weft_buffer *payload, size_t at, const weft_origin **out,
                       size_t *count);
/* *out: this peer may install a snapshot with vector `theirs`, since its log has all updates that
 * `theirs` lacks and that no other peer may be able to supply: those of this peer, and those of
 * origins outside the view. */
weft_status weft_update_log_covers(const weft_peer *peer, const weft_origin *theirs, size_t count,
                                   bool *out) WEFT_NODISCARD;
/* Prepares a snapshot: finds the first logged update that some neighbour has not acknowledged, and
 * subtracts it and all later ones from copies of the parameters and of the version vector. The
 * receiver of the snapshot could not forward these updates one by one, so they would be lost for
 * other peers if this peer failed. */
void weft_update_log_roll_back(const weft_peer *peer, void *numbers, weft_origin *origins);
/* Called when the parameters have been replaced by those of a peer with vector `theirs`: applies
 * the logged updates that `theirs` lacks. If the log lacks some of an origin, the origin's number
 * is set back to that in `theirs`, so that other peers send these updates again. */
weft_status weft_update_log_replay(weft_peer *peer, const weft_origin *theirs,
                                   size_t count) WEFT_NODISCARD;
/* Sends over a link all logged updates, and ends, that the neighbour with vector `theirs` lacks.
 * Sets `needs_snapshot` of the link if the log no longer has all of them. */
weft_status weft_update_log_send(weft_peer *peer, weft_link *link, const weft_origin *theirs,
                                 size_t count) WEFT_NODISCARD;

/* anti_entropy.c: neighbours of a new view exchange version vectors and send missing updates. */
weft_status weft_sync_request_all(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_sync_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
weft_rpc_handle weft_sync_take_request, weft_sync_take_reply;
/* state_transfer.c: a donor sends a snapshot to a peer that joins, or was cut off for too long. */
weft_status weft_state_request_from(weft_peer *peer, weft_actor_id donor) WEFT_NODISCARD;
weft_status weft_state_request_resend(weft_peer *peer) WEFT_NODISCARD;
weft_rpc_handle weft_state_take_request, weft_state_take_reply;
/* final_average.c: the mean of all peers' parameters at the end of the run. `_arrange` restarts the
 * reduction after a view change; `_advance` does the next step for which all input is there;
 * `_resend` retransmits unacknowledged messages, and *more says whether there are some. */
void weft_final_average_close(weft_peer *peer);
void weft_final_average_arrange(weft_peer *peer);
weft_status weft_final_average_advance(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_final_average_resend(weft_peer *peer, bool *more) WEFT_NODISCARD;
weft_rpc_handle weft_final_average_take_sum, weft_final_average_take_ack,
    weft_final_average_take_mean;
/* Whether all peers in the view have the final average. */
bool weft_final_average_all_have(const weft_peer *peer);
/* peer_membership.c: views, heartbeats, failure detector. */
weft_status weft_peer_membership_view(weft_peer *peer) WEFT_NODISCARD;
weft_status weft_peer_membership_tick(weft_peer *peer) WEFT_NODISCARD;
/* Sends a heartbeat to all peers in the view. */
weft_status weft_peer_send_heartbeat(weft_peer *peer) WEFT_NODISCARD;
/* Whether all peers in the view have every update up to all ends, with equal version vectors. */
bool weft_peer_all_converged(const weft_peer *peer);
weft_rpc_handle weft_peer_take_heartbeat, weft_peer_take_view, weft_peer_take_view_request;
/* *same: the sender, whose view has this number and hash of members, has the view of this peer. If
 * not, sends the newer view, or a message that makes the sender send or request it. */
weft_status weft_peer_same_view(weft_peer *peer, weft_actor_id sender, int64_t view,
                                uint64_t members, bool *same) WEFT_NODISCARD;

/* Reports passes over the parameters in memory: so many times their bytes are read and written. */
static inline void weft_peer_passes(weft_peer *p, double times)
{
    weft_actor_work(&p->head, WEFT_WORK_PASS, NULL, times * (double)p->bytes);
}
/* to += scale * (a - b); b NULL: zeros. */
void weft_peer_add_scaled(const weft_peer *peer, void *to, double scale, const void *a,
                          const void *b);

#endif
