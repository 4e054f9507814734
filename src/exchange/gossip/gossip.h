/* Peers train without a server; each is an actor that holds all parameters.
 *
 * Mode `updates` (Strom 2015): the change of a step is encoded, and every peer, the sender too,
 * adds the decoded message exactly once; messages are forwarded over spanning trees. Replicas
 * differ only by messages in flight, and by the order of additions when all have arrived. Mode
 * `average` (AD-PSGD, Lian et al. 2018): a peer adds its change in full, and after a step averages
 * with a random neighbour while both go on computing. In both modes the end of a peer is broadcast.
 * No peer waits for another before the end: updates that wait for a slow neighbour are summed, so
 * that memory is bounded (link.h). */
#ifndef WEFT_EXCHANGE_GOSSIP_GOSSIP_H
#define WEFT_EXCHANGE_GOSSIP_GOSSIP_H

#include "actor/actor.h"
#include "compress/compress.h"
#include "membership/member.h"

/* --- topology --- */

typedef struct weft_topology {
    int peers;
    int *first; /* [peers + 1]: index in `list` of each peer's first neighbour */
    int *list;
    bool *active; /* [peers]: the half whose peers request averages (bipartite graph) */
    int *parent;  /* [peers][peers]: [o][p]: the neighbour that sends o's updates to p; -1 for o */
} weft_topology;

/* Neighbours of each peer, and for each origin a spanning tree of shortest paths over which its
 * updates go.
 *
 * all, ring, torus (rows and columns as equal as possible) or random (a ring, and as many edges
 * more, by the seed). Connected, without loops. `bipartite`: only edges between even and odd peers
 * (in a torus: fields of a chessboard) remain; the bipartite graph excludes cycles of waiting
 * peers. ARGUMENT: no such topology, or too few peers. */
weft_status weft_topology_make(const char *name, int peers, bool bipartite, uint64_t seed,
                               weft_topology *out) WEFT_NODISCARD;
void weft_topology_free(weft_topology *topology);

/* --- peers --- */

struct weft_sim_exchange_options;
struct weft_sim_exchange;

typedef enum weft_gossip_mode { WEFT_GOSSIP_UPDATES, WEFT_GOSSIP_AVERAGE } weft_gossip_mode;

/* options.c: the arguments after "gossip:"; *topology is the caller's, also on failure. */
weft_status weft_gossip_parse(const char *arguments, char **topology,
                              weft_gossip_mode *mode) WEFT_NODISCARD;
/* Codec of the updates: `given`, or "none" where that is NULL or empty. ARGUMENT: a codec with mode
 * average, which encodes nothing. */
weft_status weft_gossip_codec(weft_gossip_mode mode, const char *given,
                              const char **out) WEFT_NODISCARD;
/* host_sim.c */
weft_status weft_gossip_simulate(const char *arguments,
                                 const struct weft_sim_exchange_options *options,
                                 struct weft_sim_exchange **out) WEFT_NODISCARD;

typedef struct weft_peer_options {
    size_t struct_size; /* sizeof(weft_peer_options) */
    weft_gossip_mode mode;
    /* Fixed peers: the index of this one, peer k is actor first + k, and the topology, which stays
     * the caller's and outlives the peer. */
    int me;
    weft_actor_id first;
    const weft_topology *topology;
    /* Elastic peers: a coordinator maintains the view; the topology has this name. NULL: the peers
     * are fixed. The role of the member is filled in. */
    const char *topology_name;
    weft_member_options member;
    bool job;  /* the peers are those of one job: slot 0 leaves first, when its hold is released */
    bool late; /* the run had taken steps before this peer joined: it must not begin anew */
    uint64_t seed; /* of the choice of partners (AVERAGE), and of topologies */
    weft_dtype dtype;
    int64_t count;
    void *parameters;  /* input of a computation, which changes them as its own update would */
    weft_codec *codec; /* UPDATES; stays the caller's */
    int64_t steps;
    double min_rto; /* least retransmission timeout, in seconds */
    /* UPDATES: bytes of updates that may wait for a slow neighbour before those of one origin are
     * summed, and that may be in flight. 0: eight times the parameters, at least 1 MiB. */
    size_t backlog;
} weft_peer_options;

/* Computation t is step t. The parameters are in place when it is requested, and their change is
 * taken when it has ended. All peers begin with the same parameters: elastic peers with those of
 * the first slot, and a later one with a state transfer and its clock. An elastic peer is done when
 * its member has left; PEER: the coordinator has rejected or removed it, or the other peers have
 * removed it. */
weft_status weft_peer_create(const weft_peer_options *options, weft_actor **out) WEFT_NODISCARD;
/* The peer begins no further computation, and a running one does not count. halt: all other peers
 * are to end, too. */
weft_status weft_peer_finish(weft_actor *actor, bool halt) WEFT_NODISCARD;
/* Slot 0 of a job: the peer may leave, as the result of the run is saved. */
weft_status weft_peer_release_hold(weft_actor *actor) WEFT_NODISCARD;
/* Number of peers in the final average that every remaining peer has; 0: the peer has no average,
 * since a peer did not answer or the peers are fixed. */
int weft_peer_mean_contributors(const weft_actor *actor);
/* Elastic peers: the peer leaves when its neighbours have acknowledged its updates; the others go
 * on without it. */
weft_status weft_peer_leave_now(weft_actor *actor) WEFT_NODISCARD;
/* The peer was asked to leave, or is leaving: it begins no further computation. */
bool weft_peer_is_leaving(const weft_actor *actor);
/* Loss and rate that its next heartbeats carry besides its clock. */
void weft_peer_set_stats(weft_actor *actor, double loss, double rate);
/* PEER: fails with the reason why the peer has waited for this many seconds. */
weft_status weft_peer_timeout_error(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* NULL: the peers are fixed. */
const weft_member *weft_peer_member(const weft_actor *actor);
/* A peer has ended and requested that all end. The caller acts on it. */
bool weft_peer_halted(const weft_actor *actor);
/* A requested computation has not ended, so the learner may take a step. */
bool weft_peer_is_computing(const weft_actor *actor);
/* Finished steps; and whether a fixed peer has all updates of the others up to their ends, or an
 * elastic peer is leaving (slot 0 of a job: or every peer has the final average). */
int64_t weft_peer_clock(const weft_actor *actor);
bool weft_peer_finished(const weft_actor *actor);
/* The present parameters. */
const void *weft_peer_parameters(const weft_actor *actor);

#endif
