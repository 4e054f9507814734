/* The learning rate as a function of the step of its schedule. The optimizer's node and the
 * messages of a resumed run compute it alike. */
#ifndef WEFT_BASE_LEARNING_RATE_H
#define WEFT_BASE_LEARNING_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* The fields of weft_optimizer_options, with which they agree. */
typedef struct weft_learning_rate {
    int kind; /* index in weft_rate_schedules */
    double base, gamma, floor;
    int64_t warmup, total, every;
    int64_t step;    /* of the run, which is step `at` of the schedule */
    double at, pace; /* pace: steps of the schedule in a step of the run */
} weft_learning_rate;

/* A schedule. `rate` is the learning rate at a step from the end of the linear warm-up on; done:
 * the share of the steps after the warm-up that is done, from 0 to 1, of a schedule that ends. */
typedef struct weft_rate_schedule {
    const char *name, *summary;
    const char *reads; /* options of a run that it reads, see weft_entry */
    bool ends;         /* it needs the number of all steps */
    double (*rate)(const weft_learning_rate *r, double step, double done);
} weft_rate_schedule;

/* In the order of weft_schedule_kind. */
extern const weft_rate_schedule weft_rate_schedules[];
extern const int weft_rate_schedule_count;

/* The step of the schedule at a step of the run. Sums of a pace that is no whole number are
 * rounded, and may miss a whole number by that much. */
double weft_learning_rate_step(const weft_learning_rate *r, int64_t step);
double weft_learning_rate_at(const weft_learning_rate *r, int64_t step);

#endif
