/* Declares measured times: how many seconds kernels, and the parts of transfers, took on a machine
 * (weft measure). Times of other sizes are estimated from them. */
#ifndef WEFT_COST_TIMES_H
#define WEFT_COST_TIMES_H

#include "base/base.h"

/* Something that takes time. `kind` tells what runs: operators, types and implementation; `group`
 * describes one size of it exactly, and up to its first '-', if it has one, a family: sizes of one
 * operator that differ in the number of samples alone. "": only the kind and the counts describe
 * it.
 */
typedef struct weft_timed {
    const char *kind, *group;
    int threads, ranks;  /* of a rank; ranks of the machine that compute at the same time */
    double flops, bytes; /* operations, and bytes that it reads and writes */
} weft_timed;

/* How an estimate was made, the best way first. */
typedef enum weft_estimate_by {
    WEFT_BY_SIZE,     /* this kind was measured with this size */
    WEFT_BY_KIND,     /* with other sizes, or this family of the operator */
    WEFT_BY_OPERATOR, /* the operator was, by another implementation or with other epilogues */
    WEFT_BY_RATES,    /* neither was: the machine's rates of operations and bytes */
    WEFT_ESTIMATES
} weft_estimate_by;

typedef struct weft_estimate {
    double seconds;
    double error; /* relative: estimates of this way are wrong by so much in the median */
    weft_estimate_by by;
} weft_estimate;

typedef struct weft_times weft_times;

/* Creates a table of this machine, without times. */
weft_status weft_times_new(weft_times **out) WEFT_NODISCARD;
void weft_times_free(weft_times **times);
/* Adds a measurement. The lower quartile of several measurements of the same thing counts. */
weft_status weft_times_add(weft_times *times, const weft_timed *what,
                           double seconds) WEFT_NODISCARD;
/* Adds the measurements of another table. */
weft_status weft_times_add_all(weft_times *times, const weft_times *from) WEFT_NODISCARD;
/* Adds the measurements of one run, which keeps one of each thing: the mean, so that the times of
 * equal kernels add up to the time of the run. */
weft_status weft_times_add_means(weft_times *times, weft_times *run) WEFT_NODISCARD;
size_t weft_times_count(const weft_times *times);

/* Reads the text of a table. FORMAT: it is none, or is damaged; the message names the line of
 * `where`. ARGUMENT: the table is of another version of Weft, whose kernels differ. */
weft_status weft_times_read(const char *text, size_t size, const char *where,
                            weft_times **out) WEFT_NODISCARD;
weft_status weft_times_text(const weft_times *times, char **out) WEFT_NODISCARD;
/* The processor on which the table was measured. */
const char *weft_times_processor(const weft_times *times);

/* Prepares a table, to which nothing is added any more, for estimates. */
weft_status weft_times_index(weft_times *times) WEFT_NODISCARD;
/* How far repeated measurements are from their median: a share of the time of all of them. Two that
 * differ by 10 % are 5 % from it. */
double weft_times_spread(const weft_times *times);
weft_estimate weft_times_estimate(const weft_times *times, const weft_timed *what);
/* times_least.c: seconds of one thread for an operation, at least, in any instruction whose kind
 * begins with the operator: no estimate of so many operations by so many threads is below their
 * product, divided by the threads. */
double weft_times_least(const weft_times *times, const char *op);
/* The least measurement of an operator relative to its roofline, as a share of the greatest; 1: it
 * was not measured. Estimates of equal work in other pieces differ by no more. */
double weft_times_evenness(const weft_times *times, const char *op);

/* Estimates that have been made, so that equal instructions of many layers are estimated once. The
 * table must outlive them. */
typedef struct weft_known weft_known;
weft_status weft_known_new(const weft_times *times, weft_known **out) WEFT_NODISCARD;
void weft_known_free(weft_known **known);
weft_status weft_known_estimate(weft_known *known, const weft_timed *what,
                                weft_estimate *out) WEFT_NODISCARD;
/* How many different ones there are. */
size_t weft_known_count(const weft_known *known);

#endif
