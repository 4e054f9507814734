/* Declares the parts of a step: its time by causes, layers and transfers. */
#ifndef WEFT_TRAIN_ESTIMATE_PARTS_H
#define WEFT_TRAIN_ESTIMATE_PARTS_H

#include "train/estimate/tracks.h"
#include "weft/estimate.h"

/* How many times as long ranks take: each of the run, and each of the timeline, which stands for
 * several and takes as long as the slowest of them. */
typedef struct weft_slowness {
    double *rank, *line;
} weft_slowness;

/* Sums over runs of the timeline, each with a weight; the weights have the sum 1 in the end. */
typedef struct weft_parts {
    double *track;                    /* [tracks] seconds for each second of speed 1 */
    double *worked, *linked, *waited; /* [names] */
    double *busy;                     /* [machines] of the links */
    double last, unequal;             /* waits for the last rank; for slower ones of equal work */
    double *count;                    /* [ranks of the timeline] ranks that each stands for */
    int *track_of;                    /* [ranks of the timeline] */
    double weight;
} weft_parts;

weft_status weft_parts_new(const weft_tracks *tracks, const weft_trainer *t,
                           const weft_hosts *hosts, weft_parts *out) WEFT_NODISCARD;
void weft_parts_free(weft_parts *parts);
/* Adds the last run of the timeline, which has taken `end` seconds. slow NULL: as estimated. */
void weft_parts_add(weft_parts *parts, const weft_tracks *tracks, const weft_trainer *t,
                    const weft_hosts *hosts, const weft_slowness *slow, double end, double weight);
/* Calls fn with each part that takes time. */
void weft_parts_tell(const weft_parts *parts, const weft_tracks *tracks, const weft_hosts *hosts,
                     weft_step_part_fn fn, void *user);

#endif
