/* Interface of gossip peers, which train without a server. Each peer is an actor that holds all
 * parameters.
 *
 * Mode `updates` (Strom 2015): the change of a step is encoded, and every peer, the sender too,
 * adds the decoded update exactly once; updates are forwarded over spanning trees. The replicas
 * differ only by the updates in flight and, when all updates have arrived, by the order of
 * additions. Mode `average` (AD-PSGD, Lian et al. 2018): a peer adds its change in full, and after
 * a step averages with a random neighbour while both go on computing. In both modes a peer
 * broadcasts its end. No peer waits for another before the end: updates that wait for a slow
 * neighbour are summed, so that memory is bounded (link.h). */
#ifndef WEFT_EXCHANGE_GOSSIP_GOSSIP_H
#define WEFT_EXCHANGE_GOSSIP_GOSSIP_H

#include "actor/actor.h"
#include "compress/compress.h"
#include "membership/member.h"
#include "weft/exchange_ops.h"

/* --- topology --- */

typedef struct weft_topology {
    int peers;
    int *first; /* [peers + 1]: index in `list` of each peer's first neighbour */
    int *list;
    bool *active; /* [peers]: the half whose peers request averages; the other half only replies */
    /* [peers][peers]: [o][p]: neighbour that sends origin o's updates to p; -1 for o. */
    int *parent;
} weft_topology;

/* Makes the list of neighbours of each peer and, for each origin, a spanning tree of shortest paths
 * over which the broadcast carries the origin's updates.
 *
 * `name` is all, ring, torus (rows and columns as equal as possible) or random (a ring and about as
 * many random edges more, drawn by the seed). Every graph is connected, and no peer is its own
 * neighbour. `bipartite`: only edges between the two halves (even and odd peers; in a torus the two
 * colours of a chessboard) remain, so that no peers can wait for each other in a cycle. ARGUMENT:
 * there is no such topology, or fewer than two peers. */
weft_status weft_topology_make(const char *name, int peers, bool bipartite, uint64_t seed,
                               weft_topology *out) WEFT_NODISCARD;
void weft_topology_free(weft_topology *topology);

/* --- peers --- */

struct weft_sim_exchange_options;
struct weft_sim_exchange;

/* A mode says how peers exchange what they learn; it is a file and a line of the table in
 * options.c. */
typedef struct weft_peer_mode weft_peer_mode;
extern const weft_peer_mode weft_peer_updates, weft_peer_average;

/* options.c: parses the arguments after "gossip:". The caller frees *topology, also after a
 * failure. */
weft_status weft_gossip_parse(const char *arguments, char **topology,
                              const weft_peer_mode **mode) WEFT_NODISCARD;
/* Chooses the codec of the updates: `given`, or "none" if that is NULL or empty. ARGUMENT: a codec
 * is given with a mode that sends whole parameters. */
weft_status weft_gossip_codec(const weft_peer_mode *mode, const char *given,
                              const char **out) WEFT_NODISCARD;
/* host_sim.c: opens the gossip exchange of a simulated run. */
weft_status weft_gossip_simulate(const char *arguments,
                                 const struct weft_sim_exchange_options *options,
                                 struct weft_sim_exchange **out) WEFT_NODISCARD;

typedef struct weft_peer_options {
    size_t struct_size;         /* sizeof(weft_peer_options) */
    const weft_peer_mode *mode; /* NULL: updates */
    /* Fixed peers: `me` is the index of this peer, and peer k is actor `first` + k. The caller owns
     * the topology and keeps it until the peer is destroyed. */
    int me;
    weft_actor_id first;
    const weft_topology *topology;
    /* Elastic peers: a coordinator maintains the view, and the peers of each view get the topology
     * of this name. NULL: the peers are fixed. weft_peer_create sets the role in `member`. */
    const char *topology_name;
    weft_member_options member;
    bool job;  /* all peers belong to one job: slot 0 leaves first, after weft_peer_release_hold */
    bool late; /* the run had taken steps before this peer joined: it never begins at step 0 */
    uint64_t seed; /* for the choice of partners (mode average), and for random topologies */
    weft_dtype dtype;
    int64_t count;
    /* [count]: the peer copies its parameters here before each computation, and the computation (a
     * training step) changes them in place. */
    void *parameters;
    weft_codec *codec; /* encodes updates; owned by the caller; NULL: the mode sends none */
    const bool *empty; /* whether the last computation had no samples; NULL: none had none */
    int64_t steps;
    double min_rto; /* least retransmission timeout, in seconds */
    /* Mode updates: limit in bytes, for each link, on the updates in flight, and again on the
     * waiting ones; beyond it waiting updates of one origin are summed. 0: eight times the
     * parameters, at least 1 MiB. */
    size_t backlog;
} weft_peer_options;

/* Creates the actor of a peer. Its computation t is training step t: the peer puts the parameters
 * in place when it requests the computation, and takes their change when the computation has ended.
 * All peers begin with the same parameters: the elastic peers of a new run receive those of the
 * first slot, and a peer that joins later receives parameters and clock by a state transfer. An
 * elastic peer is done when its member has left. Its handlers fail with PEER if the coordinator has
 * rejected or removed it, or the other peers have removed it. */
weft_status weft_peer_create(const weft_peer_options *options, weft_actor **out) WEFT_NODISCARD;
/* Ends the peer after its last finished step: it begins no further computation, and discards the
 * result of a running one. halt: asks all other peers to end, too; a fixed peer that has ended
 * without it may be ended again with it. */
weft_status weft_peer_finish(weft_actor *actor, bool halt) WEFT_NODISCARD;
/* After the end: frees the log of updates. All peers have them, or have given up. */
void weft_peer_forget_updates(weft_actor *actor);
/* Called for slot 0 of a job when the result of the run is saved: lets this peer leave. */
weft_status weft_peer_release_hold(weft_actor *actor) WEFT_NODISCARD;
/* Number of peers whose parameters are in the final average. 0: this peer has no final average,
 * since another peer did not answer or the peers are fixed. */
int weft_peer_mean_contributors(const weft_actor *actor);
/* Elastic peers: the peer leaves early, when its neighbours have acknowledged its updates; the
 * other peers go on without it. */
weft_status weft_peer_leave_now(weft_actor *actor) WEFT_NODISCARD;
/* Whether the peer was asked to leave or is leaving, so that it begins no further computation. */
bool weft_peer_is_leaving(const weft_actor *actor);
/* Sets the loss and the rate that the peer reports to the coordinator in its next heartbeats. */
void weft_peer_set_stats(weft_actor *actor, const weft_step_result *result);
/* Always fails with PEER; the message says for what the peer has waited for this many seconds. */
weft_status weft_peer_timeout_error(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* The peer's part in the membership of the run. NULL: the peers are fixed. */
const weft_member *weft_peer_member(const weft_actor *actor);
/* Whether another peer has ended and requested that all peers end. The caller must then stop the
 * learner and finish this peer. */
bool weft_peer_halted(const weft_actor *actor);
/* Whether the peer has requested a computation that has not ended: the learner is to take a
 * step. */
bool weft_peer_is_computing(const weft_actor *actor);
/* Number of steps that the peer has finished. */
int64_t weft_peer_clock(const weft_actor *actor);
/* Whether a fixed peer has taken its last step and has all updates of the other peers up to their
 * ends, or an elastic peer is leaving. Slot 0 of a job has also finished when every peer has the
 * final average. */
bool weft_peer_finished(const weft_actor *actor);
/* The present parameters. */
const void *weft_peer_parameters(const weft_actor *actor);

#endif
