/* Internals of weft plan --verify. */
#ifndef WEFT_CLI_PLAN_VERIFY_H
#define WEFT_CLI_PLAN_VERIFY_H

#include "weft/estimate.h"

enum { VERIFY_REASON = 400 };

/* A run whose estimate is compared with the run itself. */
typedef struct verified {
    char *words;
    weft_step_estimate step;
    double seconds;             /* of a step, measured */
    double sent;                /* bytes that the ranks of a learner sent in a step, in the mean */
    double planned;             /* bytes of the programs of all ranks */
    double peak;                /* of the process of rank 0, in bytes */
    double others;              /* share of the cores that other programs took meanwhile */
    double apart;               /* by so much the longer of two runs took longer, as a share */
    char reason[VERIFY_REASON]; /* why there is no measurement; "": there is one */
} verified;

/* plan_verify_run.c: runs weft with these words, which end with NULL. `line` gets its lines, and
 * error[VERIFY_REASON] the first that is none of metrics. Returns the exit code;
 * below 0: it could not be started. */
typedef void verify_line_fn(void *user, const char *line);
int verify_run(char *const *words, verify_line_fn *line, void *user, char *error);
/* Trains for about so many seconds in a process of its own with the options of the command line and
 * those of v->words, and fills in the figures, or the reason. batch: of a learner. */
void verify_train(verified *v, double seconds, double batch, int argc, char **argv);

#endif
