/* The learning rate as a function of the step of its schedule. The optimizer's node and the
 * messages of a resumed run compute it alike. */
#ifndef WEFT_BASE_LEARNING_RATE_H
#define WEFT_BASE_LEARNING_RATE_H

#include "weft/context.h"
#include "weft/rate_ops.h"

/* The fields of weft_optimizer_options, with which they agree. */
typedef struct weft_learning_rate {
    const weft_rate_ops *schedule;
    weft_rate_options of;
    int64_t step;    /* of the run, which is step `at` of the schedule */
    double at, pace; /* pace: steps of the schedule in a step of the run */
} weft_learning_rate;

/* The built-in schedules; the first one is constant. */
typedef struct weft_rate_schedule {
    const char *name, *summary;
    const char *reads; /* options of a run that it reads, see weft_entry */
    const char *form;  /* with its keys; NULL: it has none */
    weft_rate_ops ops;
    const char *text; /* the formula, see RATE in learning_rate.c; NULL: it has a state */
} weft_rate_schedule;
extern const weft_rate_schedule weft_rate_schedules[];
extern const int weft_rate_schedule_count;

/* Schedule i of a context, the built-in ones first; NULL: there is none. */
const weft_rate_ops *weft_rate_schedule_at(const weft_context *context, int i);
/* The formula of schedule i of a context, for devices that compile it; NULL: only its function is
 * known. */
const char *weft_rate_text(const weft_context *context, int i);

/* The step of the schedule at a step of the run. Sums of a pace that is no whole number are
 * rounded, and may miss a whole number by that much. */
double weft_learning_rate_step(const weft_learning_rate *r, int64_t step);
double weft_learning_rate_at(const weft_learning_rate *r, int64_t step);

#endif
