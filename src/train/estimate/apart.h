/* Estimates the steps of learners that do not wait for each other in each step: those of an
 * exchange of actors, and those that share memory. */
#ifndef WEFT_TRAIN_ESTIMATE_APART_H
#define WEFT_TRAIN_ESTIMATE_APART_H

#include "train/estimate/placed_learners.h"
#include "train/estimate/play.h"

typedef struct weft_apart {
    weft_trainer *job;
    weft_placed_learners *at;
    weft_estimate_end *end; /* may be NULL */
    int machines;
    bool actors;
    double *sending; /* of weft_play_options */
} weft_apart;

/* INTERRUPTED: as `end` says. ARGUMENT: learners share memory, and are on several machines. Others
 * as weft_play_actors. */
weft_status weft_apart_estimate(const weft_apart *a, weft_played *out) WEFT_NODISCARD;

#endif
