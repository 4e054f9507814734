/* Estimates the steps of learners that do not wait for each other in each step: those of an
 * exchange of actors, and those that share memory. */
#ifndef WEFT_TRAIN_ESTIMATE_APART_H
#define WEFT_TRAIN_ESTIMATE_APART_H

#include "train/estimate/play.h"
#include "train/estimate/tracks.h"

typedef struct weft_apart {
    weft_trainer *job;
    const weft_cluster *cluster;
    const weft_times *times;
    const weft_hosts *hosts;
    weft_estimate_end *end; /* may be NULL */
    bool actors;
    double *sending; /* of weft_play_options */
    double *seconds; /* [learners] of a step of each alone, at the speed of its machines */
} weft_apart;

/* INTERRUPTED: as `end` says. ARGUMENT: learners share memory, and are on several machines. Others
 * as weft_play_actors. */
weft_status weft_apart_estimate(const weft_apart *a, weft_played *out) WEFT_NODISCARD;

#endif
