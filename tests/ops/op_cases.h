/* The graphs of the operator tests, with the numbers that are fed to them. */
#ifndef WEFT_TESTS_OP_CASES_H
#define WEFT_TESTS_OP_CASES_H

#include "support.h"

enum { MOST_INPUTS = 24, MOST_OUTPUTS = 16 };

/* A graph under test with the numbers that are fed to it. */
typedef struct fixture {
    weft_context *context;
    weft_graph *graph;
    bool narrow; /* real inputs are cast to bf16 */
    weft_value inputs[MOST_INPUTS];
    double *data[MOST_INPUTS]; /* real inputs; NULL: an integer input */
    int32_t *ints[MOST_INPUTS];
    int64_t sizes[MOST_INPUTS];
    int input_count;
    weft_value outputs[MOST_OUTPUTS];
    int output_count;
    weft_value loss;
} fixture;

typedef struct op_case {
    const char *name;
    void (*build)(fixture *f);
    bool no_gradient; /* the operator has no gradient, or its inputs are derivatives */
    /* Largest difference of cpu to reference, relative to the largest element; 0: 2e-5. */
    double tolerance;
} op_case;

/* Adds a real input with fixed numbers in [-scale, scale] + shift. wanted: it gets a gradient. */
weft_value fixture_input(fixture *f, int rank, const int64_t *dim, bool wanted, double scale,
                         double shift);
/* Adds an integer input with fixed numbers from 0 to limit - 1. */
weft_value fixture_ints(fixture *f, int rank, const int64_t *dim, int32_t limit);

/* Builds the graph of a case in f32, f64, or in bf16 (all real operands), a loss that weights every
 * output element and, unless the case has no gradient, the gradients of that loss. */
void fixture_start(fixture *f, const op_case *c, weft_dtype real);
void fixture_end(fixture *f);
/* Lists all outputs and gradients of a case in `fetch`, which has room for MOST_INPUTS +
 * MOST_OUTPUTS values; returns their number. */
int fixture_fetch(const fixture *f, weft_value *fetch);

/* Feed all inputs, and read element i of a real output. */
void fixture_feed(const fixture *f, const weft_instance *p);
double fixture_get(const fixture *f, const weft_instance *p, weft_value v, int64_t i);

/* All numbers of the outputs and gradients of a case; number[total] is the caller's. */
typedef struct case_results {
    double *number;
    int64_t total, sizes[MOST_INPUTS + MOST_OUTPUTS];
    int count;
} case_results;

/* Runs a case on a device, `times` times, and returns the results of the last one; fails if they
 * are not those of the one before to the bit. */
case_results fixture_run(const op_case *c, weft_dtype real, const char *device, int times);

extern const op_case op_cases[];
extern const int op_case_count;

#endif
