/* Declares the inside of the table of measured times. */
#ifndef WEFT_COST_TIMES_INTERNAL_H
#define WEFT_COST_TIMES_INTERNAL_H

#include "cost/times.h"

/* A measurement. The texts point into `own`. */
typedef struct time_line {
    char *own;
    const char *kind, *group;
    uint64_t kind_hash, operator_hash, group_hash; /* the operator: the first word of the kind */
    uint64_t form_hash;   /* of the kind without its operators: types and implementation */
    uint64_t family_hash; /* of the group up to its '-'; 0: it has none */
    int threads, ranks;
    double flops, bytes, seconds;
} time_line;

/* A way to use the cores of the machine: so many ranks of so many threads. */
typedef struct time_setting {
    int threads, ranks;
    size_t begin, end;   /* its lines */
    double flops, bytes; /* rates of a rank: operations and bytes per second */
} time_setting;

struct weft_times {
    char *processor;
    time_line *lines; /* after weft_times_index: sorted by setting, kind and group */
    size_t count, capacity;
    time_setting *settings;
    size_t setting_count, setting_capacity;
    double errors[WEFT_ESTIMATES]; /* relative errors of each way, in the median */
    bool indexed;
};

/* Seconds before a kernel works: a call, and where there are threads, their start and end. */
static const double start_seconds = 5e-7;

static inline double roofline(const time_setting *s, double flops, double bytes)
{
    return start_seconds + WEFT_MAX(flops / s->flops, bytes / s->bytes);
}

/* The hash of the first operator of a kind such as "conv+bias f32 direct". */
uint64_t weft_times_operator(const char *kind);
uint64_t weft_times_form(const char *kind);
uint64_t weft_times_family(const char *group);

#endif
