/* The model of a cluster: its machines, the times of kernels on them, and its links. The model is
 * read from a YAML file (--cluster), which weft measure writes. In a simulated run each machine has
 * one learner. */
#ifndef WEFT_COST_CLUSTER_H
#define WEFT_COST_CLUSTER_H

#include "actor/sim.h"
#include "base/base.h"

/* A group of equal machines. */
typedef struct weft_machine_group {
    int64_t count;
    int64_t cores;         /* of each */
    double memory;         /* bytes of each; 0: unknown */
    double speed;          /* relative speed; at 1 a step takes the cluster's time of a step */
    double jitter;         /* a step takes up to this fraction longer, uniformly distributed */
    double slow, slowdown; /* this fraction of the steps takes `slowdown` times as long */
    double awake, period;  /* it runs for the fraction `awake` of each period, in seconds */
    weft_sim_link link;    /* the end of each link that is at a machine of this group */
} weft_machine_group;

typedef struct weft_cluster {
    double rate;        /* floating-point operations a second at speed 1 */
    double step;        /* seconds of a step at speed 1; 0: computed from the rate */
    char *times;        /* file of measured times at speed 1; NULL: none */
    weft_sim_link link; /* default of all groups, and the end of servers and the coordinator */
    weft_machine_group *groups;
    int group_count, line; /* line of the file where the groups begin */
} weft_cluster;

/* Reads the cluster from a file (NULL: defaults). The caller sets *learners to the requested number
 * of learners, or to 1 if the file decides; *learners becomes the number in the file, unless the
 * file has times, whose machines may have any number.
 * ARGUMENT: the file is invalid, or has another number; the message names the line. */
weft_status weft_cluster_open(const char *path, int64_t *learners,
                              weft_cluster *out) WEFT_NODISCARD;
void weft_cluster_free(weft_cluster *cluster);

/* The group of machine i, in the order of the file; of learner i, if there are no times. */
const weft_machine_group *weft_cluster_group_of(const weft_cluster *cluster, int learner);
/* Draws the seconds that a step with `flops` floating-point operations takes on a learner, pauses
 * left out. */
double weft_cluster_step(const weft_cluster *cluster, int learner, double flops,
                         weft_random *random);
/* How many times as long a step takes, by two random numbers in [0, 1); draws them. */
double weft_cluster_slowness(const weft_machine_group *g, double longer, double lot);
double weft_cluster_draw(const weft_machine_group *g, weft_random *random);
/* The link between two actors, given by their learner numbers; below 0: the actor is no learner.
 * The worse latency, bandwidth and so on of the two ends count. */
weft_sim_link weft_cluster_link(const weft_cluster *cluster, int from, int to);

#endif
