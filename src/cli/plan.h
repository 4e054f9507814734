/* Internals of weft plan. */
#ifndef WEFT_CLI_PLAN_H
#define WEFT_CLI_PLAN_H

#include "weft/estimate.h"

/* plan_table.c: prints a table (json: an array of objects) of the estimated steps of the runs of a
 * list, each with the options of the command line and its own; returns the exit code: 0 if there is
 * an estimate. */
int plan_strategies(weft_context *context, const char *cluster, const char *list, bool json,
                    int argc, char **argv);

/* plan_why.c: prints where the difference between the estimated steps of two runs, "A; B", comes
 * from; returns the exit code. */
int plan_why(weft_context *context, const char *cluster, const char *two, bool json, int argc,
             char **argv);
/* plan_verify.c: estimates the runs of a list (NULL: the one of the command line), makes them for
 * some seconds each, and prints both; returns the exit code: 0 if one has run. cluster NULL: this
 * machine is measured first. */
int plan_verify(weft_context *context, const char *cluster, const char *list, bool quick, bool json,
                int argc, char **argv);

#endif
