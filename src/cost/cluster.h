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
    /* Ranks of a machine (above 1 only with times, which know how many compute) and of a learner:
     * with several, a learner is where its first rank is. */
    int each, mesh;
} weft_cluster;

/* Reads the cluster from a file (NULL: defaults). The caller sets *learners to the requested number
 * of learners, or to 1 if the file decides; *learners becomes the number in the file, unless the
 * file has times: then learners (ranks, if the caller sets out->mesh afterwards) fill the machines
 * in the order of the file, equally many on each.
 * ARGUMENT: the file is invalid, or has another number; the message names the line. */
weft_status weft_cluster_open(const char *path, int64_t *learners,
                              weft_cluster *out) WEFT_NODISCARD;
void weft_cluster_free(weft_cluster *cluster);

/* The group of learner i; learners are numbered in the order of the file. */
const weft_machine_group *weft_cluster_group_of(const weft_cluster *cluster, int learner);
/* Draws the seconds that a step with `flops` floating-point operations takes on a learner. */
double weft_cluster_step(const weft_cluster *cluster, int learner, double flops,
                         weft_random *random);
/* Draws how long a step of a learner really takes that takes at least `seconds`. */
double weft_cluster_draw(const weft_cluster *cluster, int learner, double seconds,
                         weft_random *random);
/* The link between two actors, given by their learner numbers; below 0: the actor is no learner.
 * The worse latency, bandwidth and so on of the two ends count; between learners of one machine
 * messages take no time. */
weft_sim_link weft_cluster_link(const weft_cluster *cluster, int from, int to);

#endif
