/* Clusters that are not there: how long computations and messages take in a simulation. */
#ifndef WEFT_TRAIN_SIM_CLUSTER_H
#define WEFT_TRAIN_SIM_CLUSTER_H

#include "actor/sim.h"
#include "base/base.h"

/* Learners that are alike. */
typedef struct weft_sim_cluster_group {
    int64_t count;
    double speed;          /* times as fast as others of speed 1 */
    double jitter;         /* a step takes up to this share longer, evenly drawn */
    double slow, slowdown; /* this share of the steps takes so many times as long */
    double awake, period;  /* it runs for this share of each period of so many seconds */
    weft_sim_link link;    /* between them and whoever has none of his own */
} weft_sim_cluster_group;

typedef struct weft_sim_cluster {
    double rate; /* floating point operations a second at speed 1 */
    double step; /* or seconds of a step; 0: it goes by the rate */
    weft_sim_link link;
    weft_sim_cluster_group *groups;
    int group_count, line; /* of the file, where they begin */
} weft_sim_cluster;

/* The cluster that a file describes (NULL: all is as usual). *learners is how many there are to be,
 * and becomes how many the file has; 1 leaves it to the file. ARGUMENT: the message names the line.
 */
weft_status weft_sim_cluster_open(const char *path, int64_t *learners,
                                  weft_sim_cluster *out) WEFT_NODISCARD;
void weft_cluster_free(weft_sim_cluster *cluster);

/* The group of learner i, from 0 on in the order of the file. */
const weft_sim_cluster_group *weft_sim_cluster_group_of(const weft_sim_cluster *cluster,
                                                        int learner);
/* How long a step of so many operations takes this time. */
double weft_sim_cluster_step(const weft_sim_cluster *cluster, int learner, double flops,
                             weft_random *random);
/* Between two learners, or one and somebody else (below 0): the worse of both in every respect. */
weft_sim_link weft_sim_cluster_link(const weft_sim_cluster *cluster, int from, int to);

#endif
