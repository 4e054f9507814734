/* Declares a forecast: the estimate of a step while it is made. */
#ifndef WEFT_TRAIN_ESTIMATE_FORECAST_H
#define WEFT_TRAIN_ESTIMATE_FORECAST_H

#include "train/estimate/memory.h"
#include "train/estimate/parts.h"

typedef struct weft_forecast {
    weft_trainer *t;
    weft_cluster cluster; /* of a site, which has it and the times */
    const weft_times *times;
    weft_hosts hosts;
    weft_tracks tracks;
    int64_t period; /* steps from one meeting of the learners to the next; 0: none within the run */
    bool whole;     /* the mean step of the run, at whose end learners meet in any case */
    weft_step_part_fn fn;   /* gets the parts of the step; NULL: nobody wants them */
    weft_estimate_end *end; /* may be NULL */
    weft_span_fn on_span;   /* gets its spans; NULL: nobody wants them */
    void *user;
    const weft_own_steps *own; /* of actors: stands for the programs; NULL: they are made */
    weft_parts parts;
    weft_memory_run *memory; /* NULL: nobody wants the memory */
    weft_plan_told *plan;    /* NULL: nobody wants it; it has the memory, too */
    bool apart, actors;      /* learners do not wait for all others; of an exchange of actors */
    double posted;           /* bytes of messages of the exchange in a step of a learner */
    double handled, longer;  /* seconds of handlers, and what else a step takes longer by that */
} weft_forecast;

/* --- estimate.c --- */
/* Checks the options and places the ranks. */
weft_status weft_forecast_open(weft_forecast *f, weft_context *context,
                               const weft_train_options *options) WEFT_NODISCARD;
void weft_forecast_close(weft_forecast *f);
/* Sets seconds[learners], which are zero, to the end of each learner in the last run of the
 * timeline. */
void weft_forecast_ends(const weft_forecast *f, double *seconds);
/* Bytes that the ranks of a learner send in a step, in the mean over those with and without a
 * meeting; bytes of the programs of the fullest machine. */
double weft_forecast_sent(const weft_forecast *f);
double weft_forecast_programs(const weft_forecast *f);

/* --- forecast_steps.c: runs of the timeline --- */
/* The share of steps that end with a meeting of the learners. */
double weft_forecast_meetings(const weft_forecast *f);
/* Adds a step: one of each period ends with a meeting of the learners. slow NULL: ranks take as
 * long as estimated. *seconds: its mean time. */
weft_status weft_forecast_step(weft_forecast *f, const weft_slowness *slow, weft_step_totals *sum,
                               double *seconds) WEFT_NODISCARD;
/* Adds steps of machines that take longer at random, of which nine of ten lie between out->low and
 * out->high. */
weft_status weft_forecast_draw(weft_forecast *f, weft_step_totals *sum,
                               weft_step_estimate *out) WEFT_NODISCARD;

#endif
