/* The model of a simulated cluster: how long steps and messages take in virtual time. The model is
 * read from a YAML file (--cluster). */
#ifndef WEFT_TRAIN_SIM_CLUSTER_H
#define WEFT_TRAIN_SIM_CLUSTER_H

#include "actor/sim.h"
#include "base/base.h"

/* A group of equal learners. */
typedef struct weft_sim_cluster_group {
    int64_t count;
    double speed;          /* relative speed; at 1 a step takes the cluster's time of a step */
    double jitter;         /* a step takes up to this fraction longer, uniformly distributed */
    double slow, slowdown; /* this fraction of the steps takes `slowdown` times as long */
    double awake, period;  /* it runs for the fraction `awake` of each period, in seconds */
    weft_sim_link link;    /* the end of each link that is at a learner of this group */
} weft_sim_cluster_group;

typedef struct weft_sim_cluster {
    double rate;        /* floating-point operations a second at speed 1 */
    double step;        /* seconds of a step at speed 1; 0: computed from the rate */
    weft_sim_link link; /* default of all groups, and the end of servers and the coordinator */
    weft_sim_cluster_group *groups;
    int group_count, line; /* line of the file where the groups begin */
} weft_sim_cluster;

/* Reads the cluster from a file (NULL: defaults). The caller sets *learners to the requested number
 * of learners, or to 1 if the file decides; *learners becomes the number in the file. ARGUMENT: the
 * file is invalid, or has another number; the message names the line. */
weft_status weft_sim_cluster_open(const char *path, int64_t *learners,
                                  weft_sim_cluster *out) WEFT_NODISCARD;
void weft_sim_cluster_free(weft_sim_cluster *cluster);

/* The group of learner i; learners are numbered in the order of the file. */
const weft_sim_cluster_group *weft_sim_cluster_group_of(const weft_sim_cluster *cluster,
                                                        int learner);
/* Draws the seconds that a step with `flops` floating-point operations takes on a learner. */
double weft_sim_cluster_step(const weft_sim_cluster *cluster, int learner, double flops,
                             weft_random *random);
/* The link between two actors, given by their learner numbers; below 0: the actor is no learner. Of
 * the two ends, the worse latency, bandwidth and so on count. */
weft_sim_link weft_sim_cluster_link(const weft_sim_cluster *cluster, int from, int to);

#endif
