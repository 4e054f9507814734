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

/* A point of a curve: a figure after so many seconds and samples, or steps, of which metrics
 * files tell. */
typedef struct point {
    double seconds, samples, value;
} point;

typedef struct course {
    point *points;
    size_t count, capacity;
} course;

/* The curves of a run: its training loss (print_comparison and plot_runs expect it smoothed), and
 * the loss and the metric of its evaluations. */
enum { TRAINING, HELD_OUT_LOSS, HELD_OUT_METRIC, COURSES };

/* The origin of runs. */
typedef enum run_source { RUNS_MEASURED, RUNS_SIMULATED, RUNS_OF_FILES } run_source;

typedef struct compared_run {
    char *words;       /* the options of this run alone, or its file */
    const char *label; /* the same as displayed: without a leading "exchange=" */
    char *subject;     /* "MODEL on DATA"; NULL: unknown */
    int learners;      /* 0: unknown */
    course courses[COURSES];
    bool failed;    /* the run ended because its loss was not finite */
    double reached; /* time when the loss reached the target; below 0: never */
    /* Below 0: unknown. */
    double seconds, samples_per_second, bytes, staleness, utilisation;
    /* The last evaluation: its split, its loss, and accuracy or R2, with the name and the title of
     * that metric, as "r2" and "R2". "" and NaN: there is none. curve_part: of the curves. */
    char part[16], curve_part[16], quality_name[32], quality_title[32];
    double held_out_loss, quality;
} compared_run;

/* compare_runs.c: a run that has no figures yet. */
compared_run compared_run_of(char *words, const char *label);
void compared_run_free(compared_run *c);
/* Adds a point to a curve; without memory the curve lacks it. */
void add_point(course *c, point p);
/* Adds an evaluation. The curves have those of the split that was evaluated first, as during the
 * run; the figures are those of the last one. */
void add_evaluation(compared_run *c, const char *part, double loss, double quality, point at);
/* Replaces each value by the mean of the last values up to it, over a fortieth of the curve. */
void smooth_course(course *c);

/* compare_check.c: whether these options are allowed for one run of a comparison; prints an error
 * if not. */
bool compare_words_fit(const char *words);
/* compare_check.c: whether the command line gives the runs of a comparison once; prints an error if
 * not. */
bool compare_given_once(int argc, char *const *argv);
/* Whether only options of the comparison of files are given; prints an error if not. */
bool compare_files_fit(const weft_option *table, const weft_compare_options *given,
                       const weft_compare_options *usual);

/* sweep.c: sets *out, which the caller frees, to the list of runs that take the values of a sweep,
 * each with every strategy of a list; false: the sweep is none, and an error was printed. */
bool sweep_runs(const weft_option *table, const char *sweep, const char *strategies,
                const char *command_name, bool quiet, char **out);

/* compare_files.c: compares the runs of metrics files, if the command line names some. Returns the
 * exit code; -1: it names none. */
int compare_files(weft_context *context, bool json, int argc, char **argv);

/* compare_table.c: prints a row for each run. asked: the target loss; 0: the lowest loss that all
 * runs reach. */
void print_comparison(compared_run *all, int count, double asked);
/* Prints them as a JSON array. */
void print_comparison_json(compared_run *all, int count, double asked);

/* plot.c: draws the curves of all runs against time and against samples, as SVG. */
weft_status plot_runs(const compared_run *all, int count, run_source source, weft_output *to);

#endif
