/* The floor of a training step, the work that it cannot avoid: its oneDNN primitives, each alone
 * and in the layouts it prefers, and one pass of Adam over the parameters. */
#ifndef WEFT_BENCH_FLOOR_H
#define WEFT_BENCH_FLOOR_H

#include "weft/graph.h"

/* Returns the floor of a training graph in seconds, with `threads` threads: the sum over its
 * primitives and Adam of the median time of `repeats` runs, at most 200, after three warm-up runs.
 * verbose: prints a line for each. A primitive that oneDNN refuses is reported and counts as 0.
 * Returns -1 if oneDNN has no engine. */
double floor_of_graph(const weft_graph *graph, int threads, int repeats, int verbose);

/* Returns the seconds by `clock` of a product of two square matrices by oneDNN on one thread, after
 * three warm-up runs; -1: oneDNN has none. */
double floor_of_product(int64_t size, bool bf16, double (*clock)(void));

double seconds_now(void);
/* The median of `count` numbers, which are sorted. */
double median(double *values, int count);

#endif
