/* Declares learners, and the actors of their exchange, on the machines of a cluster, for estimates
 * and simulations alike: actors are in the processes that a job gives them. */
#ifndef WEFT_TRAIN_ESTIMATE_PLACED_LEARNERS_H
#define WEFT_TRAIN_ESTIMATE_PLACED_LEARNERS_H

#include "exchange/simulated.h"
#include "train/estimate/tracks.h"

/* --- the time of steps and of handlers --- */

/* The seconds of work of one kind and size, which comes again in each step. */
typedef struct weft_charge {
    weft_work_kind kind;
    const char *codec;
    double bytes, seconds;
} weft_charge;
enum { WEFT_CHARGES = 32 };

typedef struct weft_placed_learners {
    const weft_cluster *cluster; /* with as many ranks on a machine as on a machine of its own */
    const weft_times *times;
    int learners, mesh, each;
    double *seconds;      /* [learners] of a step of each alone, at the speed of its machines */
    int *machine, *links; /* [learners]: of its first rank, and of its processes; the machines over
                             which its ranks exchange their shards */
    const weft_machine_group **group; /* [ranks] */
    weft_random *random;              /* [learners] for how long steps take */
    int64_t *taken;                   /* [learners] steps that were drawn */
    uint64_t seed;
    double factors, steps; /* sum of what was drawn, and their number */
    double cores, threads; /* of a machine; of the ranks of a learner there */
    bool processes;        /* learners are processes, not threads of one */
    bool hosted;           /* as of weft_train_engine */
    bool ipc;              /* messages go over ipc sockets, as one machine has all processes */
    weft_charge charges[WEFT_CHARGES];
    int charge_count, next;
} weft_placed_learners;

/* The cluster and the times stay the caller's; seconds are zero. The caller closes *out, also after
 * a failure. */
weft_status weft_placed_learners_open(const weft_trainer *t, const weft_cluster *cluster,
                                      const weft_times *times, const weft_hosts *hosts,
                                      weft_placed_learners *out) WEFT_NODISCARD;
void weft_placed_learners_close(weft_placed_learners *p);
/* Draws the seconds of the next step of a learner, whose ranks wait for the slowest of them. Each
 * interval of the random numbers has its share in forty steps of all learners. */
double weft_placed_step(weft_placed_learners *p, int learner);
/* The time of work of an actor in the process of a learner, as weft_sim_work_fn. */
weft_sim_delay weft_placed_work(weft_placed_learners *p, int learner, weft_work_kind kind,
                                const char *codec, double bytes, int computing);

/* --- the places of actors --- */

typedef struct weft_placed_actors {
    const weft_cluster *cluster;
    const weft_sim_exchange *exchange;
    /* [learners] as of weft_placed_learners. NULL: each actor has a machine of its own, and learner
     * i is machine i. */
    const int *machine, *links;
    int learners;
    bool processes; /* with `machine`: learners are processes, not threads of one */
    bool hosted;    /* and servers are threads of theirs, as of weft_train_engine */
} weft_placed_actors;

/* The learner that the actor is; below 0: none. */
int weft_placed_learner(const weft_placed_actors *p, weft_actor_id id);
/* The learner whose process runs the actor. */
int weft_placed_host(const weft_placed_actors *p, weft_actor_id id);
weft_sim_link weft_placed_link(const weft_placed_actors *p, weft_actor_id from, weft_actor_id to);
/* Whether two actors of a machine are in different processes. */
bool weft_placed_crosses(const weft_placed_actors *p, weft_actor_id from, weft_actor_id to);
/* Adds all actors to a simulation; those of a machine share the node of its first learner. node:
 * [actors], may be NULL, gets the first actor of the node of each. */
weft_status weft_placed_add(const weft_placed_actors *p, weft_sim *sim,
                            weft_actor_id *node) WEFT_NODISCARD;

#endif
