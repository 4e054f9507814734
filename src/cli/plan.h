/* Internals of weft plan. */
#ifndef WEFT_CLI_PLAN_H
#define WEFT_CLI_PLAN_H

#include "weft/estimate.h"

/* plan_table.c: prints a table (json: an array of objects) of the estimated steps of the runs of a
 * list, each with the options of the command line and its own; returns the exit code: 0 if there is
 * an estimate. */
int plan_strategies(weft_context *context, const char *cluster, const char *list, bool json,
                    int argc, char **argv);

#endif
