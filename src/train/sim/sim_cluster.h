/* Models of simulated clusters: how long computations and messages take in virtual time. */
#ifndef WEFT_TRAIN_SIM_CLUSTER_H
#define WEFT_TRAIN_SIM_CLUSTER_H

#include "actor/sim.h"
#include "base/base.h"

/* A group of equal learners. */
typedef struct weft_sim_cluster_group {
    int64_t count;
    double speed;          /* relative to speed 1 */
    double jitter;         /* a step takes up to this fraction longer, uniformly distributed */
    double slow, slowdown; /* this fraction of the steps takes `slowdown` times as long */
    double awake, period;  /* it runs for the fraction `awake` of each period, in seconds */
    weft_sim_link link;    /* of its learners */
} weft_sim_cluster_group;

typedef struct weft_sim_cluster {
    double rate; /* floating-point operations a second at speed 1 */
    double step; /* or seconds of a step; 0: computed from the rate */
    weft_sim_link link;
    weft_sim_cluster_group *groups;
    int group_count, line; /* line of the file where the groups begin */
} weft_sim_cluster;

/* Reads the cluster from a file (NULL: defaults). *learners is the requested number of learners,
 * where 1 leaves it to the file; it becomes the number in the file. ARGUMENT: the message names the
 * line. */
weft_status weft_sim_cluster_open(const char *path, int64_t *learners,
                                  weft_sim_cluster *out) WEFT_NODISCARD;
void weft_sim_cluster_free(weft_sim_cluster *cluster);

/* The group of learner i; learners are numbered in the order of the file. */
const weft_sim_cluster_group *weft_sim_cluster_group_of(const weft_sim_cluster *cluster,
                                                        int learner);
/* Draws the seconds of a step with so many floating-point operations. */
double weft_sim_cluster_step(const weft_sim_cluster *cluster, int learner, double flops,
                             weft_random *random);
/* The link between two actors; below 0: no learner. It has the worse value of both ends in each
 * respect. */
weft_sim_link weft_sim_cluster_link(const weft_sim_cluster *cluster, int from, int to);

#endif
