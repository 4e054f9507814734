/*
 * The interface between Weft and the implementations of learning-rate schedules, for programs and
 * plug-ins that add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_RATE whose
 * `ops` is a weft_rate_ops).
 *
 * The `reads` of the entry are the options of a run that it reads, of those that not all schedules
 * read, as in "decay-every,gamma"; its `form` is its name with its keys. The functions keep no
 * state of their own, and several threads call them at once.
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
    const double *keys;      /* of the schedule's keys, in their order */
    const double *measured;  /* [measures]: its state; NULL: nothing is measured yet */
} weft_rate_options;

/* A number that a schedule takes as NAME:key=value. */
typedef struct weft_rate_key {
    const char *name; /* NULL ends the list */
    double initial;   /* the default */
    double low, high; /* inclusive bounds */
    bool integer;     /* the number must be whole */
} weft_rate_key;

enum { WEFT_MOST_RATE_KEYS = 4, WEFT_MOST_MEASURES = 64 };

typedef struct weft_rate_ops {
    size_t struct_size; /* sizeof(weft_rate_ops) */
    bool ends;          /* it needs the number of all steps */
    /* The learning rate, at least 0, at a step (from 0, maybe between two) after the linear
     * warm-up, which the library adds. done: the share of the steps after the warm-up that is done,
     * from 0 to 1; 1 if their number is unknown. */
    double (*rate)(const weft_rate_options *options, double step, double done);
    const weft_rate_key *keys; /* at most WEFT_MOST_RATE_KEYS; NULL: none */
    /* A schedule that follows the loss has a state of so many numbers, which begins at zero and
     * which checkpoints have, and a function that takes the loss of an epoch into it. 0 and NULL:
     * the rate follows from the step alone. */
    int measures;
    void (*measure)(const weft_rate_options *options, double loss, double *state);
    bool rises; /* it begins with a rise of its own, so that a warm-up is refused */
} weft_rate_ops;

#ifdef __cplusplus
}
#endif
#endif
