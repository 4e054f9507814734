/* The estimates of weft plan --scale. */
#ifndef WEFT_CLI_PLAN_SCALE_H
#define WEFT_CLI_PLAN_SCALE_H

#include "weft/estimate.h"
#include "weft/output.h"

enum { MOST_CURVES = 32, MOST_SIZES = 16, REASON = 400 };

typedef struct scale_cell {
    weft_step_estimate step;
    char reason[REASON]; /* why there is no estimate; "": there is one */
} scale_cell;

typedef struct scale {
    weft_context *context;
    const char *cluster;
    char *words[MOST_CURVES];
    int machines[MOST_SIZES];
    int strategies, sizes;
    scale_cell *cells; /* [strategies, sizes] */
} scale;

static inline scale_cell *scale_at(const scale *s, int strategy, int size)
{
    return &s->cells[strategy * s->sizes + size];
}

/* The rate over that of the fastest strategy on the fewest machines, times the machines. */
double scale_efficiency(const scale *s, int strategy, int size);

/* plan_scale_chart.c: draws the estimates as curves. subject: the title. */
weft_status scale_plot(const scale *s, const char *subject, weft_output *to);

#endif
