/* Common code of the commands for members and clients of an elastic run. */
#ifndef WEFT_CLI_ELASTIC_H
#define WEFT_CLI_ELASTIC_H

#include "cli.h"

/* Reads the options of a command and its `most` arguments, all of which are required (a coordinator
 * has none). Returns 0, or the exit code after printing an error. The options must be freed in any
 * case. */
int member_begin(weft_context *context, weft_cluster_kind kind, const char *name, int argc,
                 char **argv, const char **words, int most, weft_cluster_options *o);
/* Frees the options, prints the error, if any, and returns the exit code. */
int member_end(weft_context *context, weft_cluster_options *o, weft_status status);
/* Seconds of a monotonic clock. */
double seconds_now(void);
/* Writes the numbers of learners and servers to `out` and returns it: "2 learners, 1 server", or "1
 * of 2 learners, 1 of 1 server" while the run waits for members; servers only if the run has any.
 */
const char *count_members(const weft_cluster_status *status, char *out, size_t size);
/* Prints two lines: the run's id, model, exchange, steps and data. */
void print_run(const weft_cluster_status *status);

#endif
