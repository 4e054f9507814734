/* Internals of weft compare: the results of the compared runs, their table and their plot. */
#ifndef WEFT_CLI_COMPARE_H
#define WEFT_CLI_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/output.h"
#include "weft/simulate.h"
#include "weft/train.h"

enum { MOST_RUNS = 64 };

/* A point of a run's curve: the smoothed loss after so many seconds and samples. */
typedef struct point {
    double seconds, samples, loss;
} point;

typedef struct compared_run {
    char *words;       /* the options of this run alone */
    const char *label; /* the same as displayed: without a leading "exchange=" */
    char *subject;     /* "MODEL on DATA"; NULL: unknown */
    int learners;
    point *points;
    size_t count, capacity;
    bool failed;    /* the run ended because its loss was not finite */
    double reached; /* time when the loss reached the target; below 0: never */
    double seconds, samples_per_second, bytes, staleness, utilisation; /* last two < 0: unknown */
    double quality; /* accuracy or R2 of the last evaluation */
    const char *quality_name;
} compared_run;

/* compare_check.c: whether these options are allowed for one run of a comparison; prints an error
 * if not. */
bool compare_words_fit(const char *words);
/* compare_check.c: whether the command line gives the runs of a comparison once; prints an error if
 * not. */
bool compare_given_once(int argc, char *const *argv);

/* sweep.c: sets *out, which the caller frees, to the list of runs that take the values of a sweep,
 * each with every strategy; false: the sweep is none, and an error was printed. */
bool sweep_runs(const weft_option *table, const weft_compare_options *o, char **out);

/* compare_table.c: prints a row for each run. asked: the target loss; 0: the lowest loss that all
 * runs reach. */
void print_comparison(compared_run *all, int count, double asked);

/* plot.c: replaces each loss by the mean of the last losses up to it, over a fortieth of the run.
 */
void smooth_losses(compared_run *c);
/* Draws all losses against time and against samples, as SVG. */
weft_status plot_losses(const compared_run *all, int count, bool simulated, weft_output *to);

#endif
