/*
 * Peers that train without a server, as actors.
 *
 * Every peer has all parameters. What its computations make of them is not put there as it is:
 * `updates`: it is encoded, and what the message says is what every peer adds, this one too, once
 * each; messages are passed on along the edges (Strom 2015). So replicas differ only by what is
 * under way, and are alike when all has come. `average`: it is added in full, and now and then a
 * peer and one of its neighbours meet in the middle, while both go on computing (AD-PSGD, Lian et
 * al. 2018). That a peer has ended goes to all in both modes. Nobody waits for anybody before
 * the end: what a neighbour who is slow has not heard yet is added up, so that it takes no more
 * memory the longer it takes (link.h).
 */
#ifndef WEFT_EXCHANGE_GOSSIP_GOSSIP_H
#define WEFT_EXCHANGE_GOSSIP_GOSSIP_H

#include "actor/actor.h"
#include "compress/compress.h"
#include "membership/member.h"

/* --- who is next to whom --- */

typedef struct weft_topology {
    int peers;
    int *first; /* [peers + 1]: of each peer's neighbours in the list */
    int *list;
    bool *asks; /* [peers]: of the first half, whose peers ask those of the other */
    int *from; /* [peers][peers]: [o][p]: from which neighbour p has what o says; -1 for o itself */
} weft_topology;

/* What a peer says goes over a tree of shortest ways, so that everybody has it once.
 *
 * all, ring, torus (rows and columns as near to each other as they can be) or random (a ring, and
 * as many edges more, by the seed). Connected, without loops. `halves`: only edges between even and
 * odd peers (in a torus: fields of a chessboard) remain, so that no circle of peers can wait.
 * ARGUMENT: no such topology, or too few peers. */
weft_status weft_topology_make(const char *name, int peers, bool halves, uint64_t seed,
                               weft_topology *out) WEFT_NODISCARD;
void weft_topology_free(weft_topology *topology);

/* --- peers --- */

struct weft_sim_exchange_options;
struct weft_sim_exchange;

typedef enum weft_gossip_mode { WEFT_GOSSIP_UPDATES, WEFT_GOSSIP_AVERAGE } weft_gossip_mode;

/* spec.c: what stands behind "gossip:"; *topology is the caller's, also if this fails. */
weft_status weft_gossip_parse(const char *arguments, char **topology,
                              weft_gossip_mode *mode) WEFT_NODISCARD;
/* Of the updates, as `given` (NULL or empty: nothing is). ARGUMENT: nothing is encoded. */
weft_status weft_gossip_codec(weft_gossip_mode mode, const char *given,
                              const char **out) WEFT_NODISCARD;
/* cast.c */
weft_status weft_gossip_cast(const char *arguments, const struct weft_sim_exchange_options *scene,
                             struct weft_sim_exchange **out) WEFT_NODISCARD;

typedef struct weft_peer_options {
    size_t struct_size; /* sizeof(weft_peer_options) */
    weft_gossip_mode mode;
    /* Peers that are always the same: which one it is, peer k is actor first + k, and who is next
     * to whom, which stays the caller's and outlives the peer. */
    int me;
    weft_actor_id first;
    const weft_topology *topology;
    /* Peers that come and go: who is there says a coordinator, and who is next to whom the topology
     * of this name. NULL: they are always the same. The role of the member is filled in. */
    const char *shape;
    weft_member_options member;
    bool job;      /* all are of one job: the one of slot 0 goes first, when it is released */
    bool late;     /* the run had taken steps before this one came: it is not to begin anew */
    uint64_t seed; /* of whom it asks (AVERAGE), and of topologies */
    weft_dtype dtype;
    int64_t count;
    void *parameters;  /* what a computation reads, and changes as its own update would */
    weft_codec *codec; /* UPDATES; stays the caller's */
    int64_t steps;
    double patience; /* seconds after which something is sent again */
    /* UPDATES: so many bytes of updates wait for a neighbour who is slow before those of one origin
     * are added up, and as many are under way. 0: eight times the parameters, at least 1 MiB. */
    size_t backlog;
} weft_peer_options;

/* Computation number t is step t. The parameters are in place when it is asked for; what it has
 * made of them is taken when it has ended. All peers begin with the same ones: where they come and
 * go with those of the first slot, and who comes later with what the run has come to, and with its
 * clock. Those are done when the coordinator knows that they have gone; PEER: it has refused or
 * dropped this one, or so have the others. */
weft_status weft_peer_create(const weft_peer_options *options, weft_actor **out) WEFT_NODISCARD;
/* It begins no other computation, and one that goes on does not count. halt: all others are to end,
 * too. */
weft_status weft_peer_finish(weft_actor *actor, bool halt) WEFT_NODISCARD;
/* Of peers of one job the first: it is not needed any more for what all have come to. */
weft_status weft_peer_release_hold(weft_actor *actor) WEFT_NODISCARD;
/* Of how many peers it has the mean, that all have who were there at the end; 0: it has none, as
 * some did not answer, or peers are always the same. */
int weft_peer_mean_contributors(const weft_actor *actor);
/* It ends, and the others go on without it: it goes when its neighbours have what it has said. Of
 * peers that come and go. */
weft_status weft_peer_leave_now(weft_actor *actor) WEFT_NODISCARD;
/* It was told to go, or goes: it begins no other computation. */
bool weft_peer_is_leaving(const weft_actor *actor);
/* What its next beats say besides its clock. */
void weft_peer_set_stats(weft_actor *actor, double loss, double rate);
/* PEER: fails with what it has waited for so many seconds. */
weft_status weft_peer_timeout_error(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* As a member; NULL where peers are always the same. */
const weft_member *weft_peer_member(const weft_actor *actor);
/* Some peer has ended and said that all are to. What comes of it is the caller's. */
bool weft_peer_halted(const weft_actor *actor);
/* Whether it has been asked for a computation that has not ended: there is room for another. */
bool weft_peer_is_computing(const weft_actor *actor);
/* Steps it has finished, and whether it has all that the others have said, up to their ends; where
 * peers come and go, whether it takes its leave. */
int64_t weft_peer_clock(const weft_actor *actor);
bool weft_peer_finished(const weft_actor *actor);
/* What it has now. */
const void *weft_peer_parameters(const weft_actor *actor);

#endif
