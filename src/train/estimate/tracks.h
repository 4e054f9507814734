/* Declares what the ranks of a learner do in a step, as a timeline whose durations are estimated
 * from measured times. */
#ifndef WEFT_TRAIN_ESTIMATE_TRACKS_H
#define WEFT_TRAIN_ESTIMATE_TRACKS_H

#include "cost/cluster.h"
#include "cost/timeline.h"
#include "cost/times.h"
#include "train/trainer.h"

/* The machines of a run. */
typedef struct weft_hosts {
    int machines, each; /* each: most ranks of a machine */
    int threads;        /* of a rank */
    int *machine;       /* [ranks] */
    double *speed;      /* [ranks] of its machine */
    double *bytes;      /* [machines] of the programs of their ranks; weft_tracks_make adds them */
} weft_hosts;

/* Seconds of kernels by the way of their estimates, and the sum of seconds times error. */
typedef struct weft_tracks {
    weft_timeline *line;
    double by[WEFT_ESTIMATES], errors[WEFT_ESTIMATES];
    double rest; /* mean over the ranks: what a step does beside its program */
    /* Set by the caller: learners add up their parameters, and the state of optimizers. */
    bool meets, with_state;
} weft_tracks;

/* Makes the programs of the ranks of a learner, one after the other, and adds a step of the ranks
 * of all learners to the timeline; what learners do when they meet comes behind a mark. The trainer
 * is one of weft_trainer_prepare. UNSUPPORTED: a device with memory of its own. */
weft_status weft_tracks_make(weft_trainer *t, const weft_times *times, const weft_hosts *hosts,
                             weft_tracks *out) WEFT_NODISCARD;

/* The kind of a transfer in tables of times: its name and the engine, as "all-reduce threads". */
enum { WEFT_TRANSFER_KIND = 64 };
void weft_transfer_timed(weft_transfer_kind kind, const char *engine, char out[WEFT_TRANSFER_KIND]);
/* The kind of what a step does beside its program; its operations are the instructions, its bytes
 * those of the inputs. */
#define WEFT_STEP_TIMED "step"

#endif
