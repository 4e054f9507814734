/* What a training step cannot avoid: its oneDNN primitives, each alone and in the layouts it
 * prefers, and one pass of Adam over the parameters. */
#ifndef WEFT_BENCH_FLOOR_H
#define WEFT_BENCH_FLOOR_H

#include "weft/graph.h"

/* Adds up the floor of a graph in seconds, with `threads` threads; each primitive is run until it
 * has run `repeats` times, and its median counts. Prints a line for each if verbose. A negative
 * result: oneDNN refused. */
double floor_of_graph(const weft_graph *graph, int threads, int repeats, int verbose);

double seconds_now(void);
double median(double *values, int count);

#endif
