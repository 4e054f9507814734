/* What commands about members of a run have in common. */
#ifndef WEFT_CLI_ELASTIC_H
#define WEFT_CLI_ELASTIC_H

#include "cli.h"

/* Reads the options of one, and `most` other words, of which all but a coordinator's are needed.
 * Returns the exit code of a mistake, or 0. The options are freed in any case. */
int member_begin(weft_context *context, weft_cluster_kind kind, const char *name, int argc,
                 char **argv, const char **words, int most, weft_cluster_options *o);
/* Frees the options and says what was wrong, if something was. Returns the exit code. */
int member_end(weft_context *context, weft_cluster_options *o, weft_status status);
/* By a clock that nobody sets. */
double seconds_now(void);
/* "1 of 2 learners, 1 server", into `out`, which it returns: how many are there, and how many a run
 * that has not begun waits for; servers only where the run has any. */
const char *count_members(const weft_cluster_status *status, char *out, size_t size);
/* Two lines: the run's number, model, exchange, steps and data. */
void print_run(const weft_cluster_status *status);

#endif
