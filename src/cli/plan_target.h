/* Internals of weft plan --target and --budget: which of several runs is the first to reach a
 * metric. */
#ifndef WEFT_CLI_PLAN_TARGET_H
#define WEFT_CLI_PLAN_TARGET_H

#include "cli.h"
#include "weft/output.h"
#include "weft/time_to_target.h"

/* The options of the search; NULL or 0: not given. */
typedef struct target_choice {
    char *target, *budget, *sweep, *lr_rule, *plot;
    int64_t seeds;
} target_choice;

/* A search, and its results. */
typedef struct target_search {
    weft_context *context;
    const target_choice *choice;
    const char *cluster;
    char metric[64]; /* "": none */
    double value, budget;
    weft_train_options *options; /* [count] */
    weft_finalist *finalists;    /* [count], whose names are the words of the strategies */
    char **words;                /* [count] */
    char *subject;               /* "MODEL on DATA" */
    int count;
    double batch;                /* for which learning rates are meant that are not a run's own */
    weft_target_result *results; /* [count], the best first */
} target_search;

/* Whether these options ask for a search. */
bool target_asked(const target_choice *choice);
/* Whether options are given that only a search has. */
bool target_details(const target_choice *choice);
/* Searches among the runs of a list (NULL: the one of the command line), and prints what is found;
 * returns the exit code: 0 if the target was reached, or there is none. *winner, which the caller
 * frees, is set to the words of the best run with its learning rate (NULL: none). */
int plan_target(weft_context *context, const target_choice *choice, const char *cluster,
                const char *list, bool json, int argc, char **argv, char **winner);

/* plan_target_table.c: prints the results; subject NULL: they are of no model. */
void target_print(const target_search *s);
void target_print_json(const target_search *s);
/* The best value of the metric that any of the runs had; NaN: none. */
double target_best(const target_search *s);
/* plan_target_chart.c: the curves of the losses on a terminal, and as SVG. */
void target_print_chart(const target_search *s);
weft_status target_plot(const target_search *s, weft_output *to);

#endif
