/*
 * The interface between Weft and the implementations of learning-rate schedules, for programs and
 * plug-ins that add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_RATE whose
 * `ops` is a weft_rate_ops).
 *
 * The `reads` of the entry are the options of a run that it reads, of those that not all schedules
 * read, as in "decay-every,gamma". The function keeps no state, and several threads call it at
 * once.
 */
#ifndef WEFT_RATE_OPS_H
#define WEFT_RATE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The options of a schedule. Steps are those of the schedule. */
typedef struct weft_rate_options {
    double lr, gamma, floor; /* options --lr, --gamma and --lr-floor */
    int64_t warmup, total;   /* steps of the warm-up, and all steps; 0: unknown */
    int64_t every;           /* option --decay-every */
} weft_rate_options;

typedef struct weft_rate_ops {
    size_t struct_size; /* sizeof(weft_rate_ops) */
    bool ends;          /* it needs the number of all steps */
    /* The learning rate, at least 0, at a step (from 0, maybe between two) after the linear
     * warm-up, which the library adds. done: the share of the steps after the warm-up that is done,
     * from 0 to 1; 1 if their number is unknown. */
    double (*rate)(const weft_rate_options *options, double step, double done);
} weft_rate_ops;

#ifdef __cplusplus
}
#endif
#endif
