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

/* Sums over runs of the timeline, each with a weight. */
typedef struct weft_step_totals {
    double weight, seconds, computed, transferred, waited, bytes, most_bytes, busy;
} weft_step_totals;

/* A step of the learners of a run without an exchange. All exchanges of actors have the same one,
 * if the exchange makes the update with all of them or with none. */
typedef struct weft_own_steps {
    double *seconds; /* [learners] of each */
    weft_step_totals sum;
    double by[WEFT_ESTIMATES], errors[WEFT_ESTIMATES], rest; /* of weft_tracks */
    double sent, programs;                                   /* bytes, as of weft_step_estimate */
} weft_own_steps;

/* ARGUMENT, FORMAT, IO: as weft_estimate_step. */
weft_status weft_site_open(const char *cluster, weft_site *out) WEFT_NODISCARD;
void weft_site_close(weft_site *site);
/* As weft_estimate_step, without the memory. own: of a run with the same options but for exchange,
 * codec and servers, which spares making the programs of one with actors. own and end may be NULL.
 */
weft_status weft_site_estimate(const weft_site *site, weft_context *context,
                               const weft_train_options *options, const weft_own_steps *own,
                               weft_estimate_end *end, weft_step_estimate *out) WEFT_NODISCARD;
/* Sets *out, whose seconds[learners] are the caller's, to each learner's own step, without a
 * meeting. INTERNAL: the run has another number of learners. */
weft_status weft_site_learners(const weft_site *site, weft_context *context,
                               const weft_train_options *options, const weft_estimate_end *end,
                               int learners, weft_own_steps *out) WEFT_NODISCARD;

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
