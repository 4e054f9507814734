/* Internals of weft compare: the results of the compared runs, their table and their plot. */
#ifndef WEFT_CLI_COMPARE_H
#define WEFT_CLI_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/output.h"
#include "weft/report.h"
#include "weft/simulate.h"
#include "weft/train.h"

enum { MOST_RUNS = 64, MOST_METRICS = 16 };

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

/* A metric of an evaluation, with its name and its title, as "r2" and "R2". */
typedef struct compared_metric {
    char name[32], title[32];
    double value;
} compared_metric;

/* An evaluation: its loss (NaN: there is none), and the metrics that the table shows, the first of
 * which has a curve. best: it is the best one so far, by --keep-best or --patience. */
typedef struct evaluation {
    double loss;
    compared_metric metric[MOST_METRICS];
    int metrics;
    bool best;
} evaluation;

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
    /* The split by which runs choose, that of validation where there is one ("": no evaluation),
     * and the evaluation of it that counts: the best one, or else the last one. */
    char part[16];
    evaluation held_out;
} compared_run;

/* compare_runs.c: a run that has no figures yet. */
compared_run compared_run_of(char *words, const char *label);
void compared_run_free(compared_run *c);
/* Adds a point to a curve; without memory the curve lacks it. */
void add_point(course *c, point p);
/* Adds an evaluation, if it is of the split that was evaluated first, as during the run. */
void add_evaluation(compared_run *c, const char *part, const evaluation *e, point at);
/* Adds a figure to an evaluation, if `asked`, names with commas between them, has it (NULL: if it
 * is the first), or if it is `best`. */
void add_metric(evaluation *e, const char *asked, const char *best, const weft_figure *f);
/* Whether the run of a file has all metrics of a list, that of its loss apart; prints an error if
 * not. */
bool has_metrics(const compared_run *c, const char *path, const char *names, const char *loss);
/* NULL: the run has no such metric. */
const compared_metric *find_metric(const compared_run *c, const char *name);
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

/* Gives the options of all runs the outputs of the command line alone, where they are refused: a
 * run file of weft train may have some. The metrics, and when they are evaluated, stay;
 * events tell which evaluation is the best by --keep-best. */
void compare_leave_outputs(weft_compare_options *all, weft_compare_options *words);

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

/* A value of a course that runs are to reach, where their curves then end; text: as accuracy=0.9.
 */
typedef struct plot_goal {
    int row;
    double value;
    const char *text;
} plot_goal;
/* plot.c: draws the curves of all runs against time and against samples, as SVG. goal: with a line
 * there, and a mark where a run has reached it (`reached`); NULL: none. */
weft_status plot_runs(const compared_run *all, int count, run_source source, const plot_goal *goal,
                      weft_output *to);

#endif
