/* Runs that are compared. */
#ifndef WEFT_CLI_COMPARE_H
#define WEFT_CLI_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/output.h"
#include "weft/train.h"

enum { MOST_RUNS = 64 };

/* The course of a run: the loss of a step, smoothed, when it was done, after so many samples. */
typedef struct point {
    double seconds, samples, loss;
} point;

typedef struct compared_run {
    char *words;       /* its options */
    const char *label; /* the same as it is shown */
    char *subject;     /* its model and data; NULL: not known */
    int learners;
    point *points;
    size_t count, capacity;
    bool failed;    /* the loss became no number */
    double reached; /* when the loss was as low as the target; below 0: never */
    double seconds, samples_per_second, bytes, staleness, utilisation; /* below 0: not known */
    double quality; /* accuracy, or R2, of the last evaluation */
    const char *quality_name;
} compared_run;

/* compare_words.c: whether options may be those of one run among others; it is told if not. */
bool compare_words_fit(const char *words);

/* compare_table.c: prints a row for each; asked: the loss whose time is told, 0: the lowest that
 * all reach. */
void print_comparison(compared_run *all, int count, double asked);

/* plot.c: an SVG of all their losses, against time and against samples. */
weft_status plot_losses(const compared_run *all, int count, bool simulated, weft_output *to);

#endif
