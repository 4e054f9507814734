/* Internals of weft plan. */
#ifndef WEFT_CLI_PLAN_H
#define WEFT_CLI_PLAN_H

#include <stdbool.h>

#include "plan_target.h"
#include "weft/strategies.h"

/* The options of the command beside those of weft train. dump, passes: the ranks whose graph and
 * program, or whose graphs after each pass, are printed; -1: none. Files and lists are NULL if they
 * are not given. */
typedef struct plan_options {
    int64_t dump, passes, top, pick;
    double seconds;      /* of --auto */
    double memory_bytes; /* of --memory; 0: not given */
    char *cluster, *memory, *strategies, *why, *output, *scale, *plot, *trace, *measured;
    bool verify, quick, timeline, json, searches, exhaustive, one_learner;
    target_choice target;
    char *given; /* names of options of weft train that are given, separated by commas */
    bool keeps_ranks;
} plan_options;
/* plan_options.c */
extern const weft_option plan_table[];

/* plan_estimate.c: prints an estimated step. Its parts are means over the ranks, which do not all
 * end together. */
void print_estimate(const char *cluster, const weft_step_estimate *p);

/* A row of a table: a run, with its estimate or the reason why there is none or why it does not
 * fit. */
typedef struct plan_row {
    const char *label, *words; /* as displayed, and as in a list of strategies */
    weft_step_estimate step;
    char *reason; /* allocated; NULL: none */
} plan_row;
/* plan_table.c: print rows as a table, and as a JSON array. */
void print_plan_rows(const plan_row *rows, int count);
void print_plan_objects(const plan_row *rows, int count);

/* plan_list.c: prints the rows of a list of strategies, each with the options of the command line
 * and its own; returns the exit code: 0 if one fits. */
int plan_strategies(weft_context *context, const plan_options *plan, int argc, char **argv);
/* Sets *machines to their number in the file of a cluster with times. false: it cannot be read or
 * has none, as the last message says. */
bool plan_machines(const char *cluster, int64_t *machines);

/* plan_given.c: sets plan->given, which the caller frees, and plan->keeps_ranks. */
weft_status find_given(const weft_context *context, int argc, char **argv, plan_options *plan);

/* plan_auto.c: searches for strategies and prints them; returns the exit code: 0 if one fits. */
int plan_search(weft_context *context, const plan_options *plan, const weft_train_options *options);
/* Searches, and sets *list, which the caller frees, to the list of what fits, the finalists of
 * --target; NULL: nothing fits, which is printed, as is any failure. Returns the exit code. */
int plan_finalists(weft_context *context, const plan_options *plan,
                   const weft_train_options *options, char **list);
/* Writes the run file of plan->output: the options with the words of a strategy. found: its
 * figures. */
weft_status write_found(weft_context *context, const plan_options *plan,
                        const weft_train_options *options, const char *words, const char *found);

/* plan_output.c: likewise, unless there is a file by now; prints errors and returns the exit code.
 */
int save_found(weft_context *context, const plan_options *plan, const weft_train_options *options,
               const char *words, const char *found);

/* plan_output.c: whether all files that the options name can be written, which is found before long
 * work; prints an error and sets *code if not. */
bool plan_outputs_fit(const plan_options *plan, int *code);
/* Writes options, those that differ from their defaults, as a run file. about: lines of comments.
 */
weft_status write_run_file(const weft_context *context, const weft_train_options *options,
                           const char *about, const char *path);

/* plan_scale.c: prints the estimated steps of the strategies of a list on more and more machines,
 * `sizes` as LOW..HIGH, and draws them as curves (plot NULL: not); returns the exit code. */
typedef struct plan_scale_options {
    const char *cluster, *strategies, *sizes, *plot;
    const char *subject; /* "MODEL on DATA", the title of the picture */
    bool json;
} plan_scale_options;
int plan_scale(weft_context *context, const plan_scale_options *options, int argc, char **argv);
/* plan_why.c: prints where the difference between the estimated steps of two runs, "A; B", comes
 * from; returns the exit code. */
int plan_why(weft_context *context, const char *cluster, const char *two, bool json, int argc,
             char **argv);
/* plan_verify.c: estimates the runs of a list (NULL: the one of the command line), makes them for
 * some seconds each, and prints both; returns the exit code: 0 if one has run. cluster NULL: this
 * machine is measured first. */
int plan_verify(weft_context *context, const char *cluster, const char *list, bool quick, bool json,
                int argc, char **argv);

/* plan_memory.c: prints the memory of the run's ranks and processes, and whether the machines of
 * the cluster (NULL: one machine of `limit` bytes; 0: not known) have it. Returns the bytes that
 * are missing; 0: none, or not known. */
double plan_memory(weft_context *context, const weft_train_options *options, const char *cluster,
                   double limit, const weft_memory_estimate *m);
/* By how much a run does not fit into the machines of the cluster, as plan_memory prints it, and
 * options that would help; allocated. */
char *plan_memory_lack(weft_context *context, const weft_train_options *options,
                       const char *cluster, const weft_step_estimate *step);
/* Reads the bytes of --memory, as 16GB; prints what is wrong. */
weft_status plan_memory_size(const char *text, double *out);

#endif
