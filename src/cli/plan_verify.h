/* Internals of weft plan --verify. */
#ifndef WEFT_CLI_PLAN_VERIFY_H
#define WEFT_CLI_PLAN_VERIFY_H

#include <stdbool.h>

#include "weft/estimate.h"

enum { VERIFY_REASON = 400 };

/* A run whose estimate is compared with the run itself. */
/* MOST_TURNS: runs of a strategy. */
enum { MOST_TURNS = 3 };

typedef struct verified {
    char *words;
    weft_step_estimate step;
    double seconds;             /* of a step, measured: the shortest of the turns */
    double turns[MOST_TURNS];   /* of a step, in each turn; 0: it was not made */
    double sent;                /* bytes that a learner sent in a step, in the mean */
    double exchanged;           /* by the exchange in the run, as its metrics say */
    int steps;                  /* of the run */
    double process;             /* bytes of the fullest process, estimated */
    double planned;             /* bytes of the programs of all ranks */
    double peak;                /* of the process of rank 0, in bytes */
    double others;              /* share of the cores that other programs took meanwhile */
    double apart;               /* by so much the next shortest turn took longer, as a share */
    char reason[VERIFY_REASON]; /* why there is no measurement; "": there is one */
} verified;

enum { MOST_RUNS = 256 };
/* The figures that are compared. */
enum { TIME, MEMORY, BYTES, FIGURES };

typedef struct verification {
    weft_context *context;
    int argc;
    char **argv; /* options of all runs */
    char *cluster, *processor;
    char own[200]; /* the cluster file that was measured here; "": the user's */
    bool quick, json;
    double others; /* share of the cores that other programs took while all was measured */
    double spread; /* per cent by which two runs of a kernel differ; 0: not known */
    long cores;
    verified rows[MOST_RUNS];
    int count, known;
    double median[FIGURES], greatest[FIGURES]; /* errors; NaN: not known */
    double correlation;                        /* of the times; NaN: not known */
} verification;

/* plan_verify_table.c: the error of an estimated figure, as a share; prints. */
/* Whether others took the cores, or the shortest two turns differ, by so much that the times say
 * nothing. */
bool verify_disturbed(const verified *row);
double verify_error(const verified *row, int figure);
const char *verify_label(const verified *row);
void verify_print_head(const verification *v);
void verify_print_rows(const verification *v);
void verify_print_json(const verification *v);

/* plan_verify_run.c: runs weft with these words, which end with NULL. `line` gets its lines, and
 * error[VERIFY_REASON] the first that is none of metrics. Returns the exit code;
 * below 0: it could not be started. */
typedef void verify_line_fn(void *user, const char *line);
int verify_run(char *const *words, verify_line_fn *line, void *user, char *error);
/* Trains for about so many seconds in a process of its own with the options of the command line and
 * those of v->words, and fills in the figures, or the reason. batch: of a learner. before: a run
 * of fewer steps; from it to this one the bytes grow that the exchange sends, which leaves out
 * those of their begin and end. NULL: there is none. */
void verify_train(verified *v, const verified *before, double seconds, double batch, int argc,
                  char **argv);

#endif
