/* Declares the cluster of a file with its times, which is read once for several estimates. */
#ifndef WEFT_TRAIN_ESTIMATE_SITE_H
#define WEFT_TRAIN_ESTIMATE_SITE_H

#include "train/estimate/tracks.h"
#include "weft/estimate.h"

typedef struct weft_site {
    weft_cluster cluster;
    weft_times *times;
    double own; /* bytes of both */
} weft_site;

/* ARGUMENT, FORMAT, IO: as weft_estimate_step. */
weft_status weft_site_open(const char *cluster, weft_site *out) WEFT_NODISCARD;
void weft_site_close(weft_site *site);
/* As weft_estimate_step, without the memory. end may be NULL. */
weft_status weft_site_estimate(const weft_site *site, weft_context *context,
                               const weft_train_options *options, weft_estimate_end *end,
                               weft_step_estimate *out) WEFT_NODISCARD;
/* Sets seconds[learners] to those of each learner's own step, without a meeting. INTERNAL: the run
 * has another number of learners. */
weft_status weft_site_learners(const weft_site *site, weft_context *context,
                               const weft_train_options *options, const weft_estimate_end *end,
                               int learners, double *seconds) WEFT_NODISCARD;

/* Sets the memory of the fullest machine, with all of its processes, and its limit; limited_by if
 * the run does not fit. */
weft_status weft_site_memory(const weft_site *site, weft_context *context,
                             const weft_train_options *options,
                             weft_step_estimate *out) WEFT_NODISCARD;

/* Whether steps of its machines take longer at random. */
bool weft_cluster_varies(const weft_cluster *cluster);
/* weft_step_estimate.limited_by, from the other members. */
const char *weft_estimate_limit(const weft_trainer *trainer, const weft_cluster *cluster,
                                const weft_step_estimate *out);
/* weft_step_estimate.learners_left. */
int weft_estimate_left(const weft_trainer *trainer, const weft_hosts *hosts);

#endif
