/* Operators under test: small graphs with the numbers that are fed to them. */
#ifndef WEFT_TESTS_OP_CASES_H
#define WEFT_TESTS_OP_CASES_H

#include "support.h"

enum { MOST_INPUTS = 16, MOST_OUTPUTS = 16 };

/* A graph under test with the numbers that are fed to it. */
typedef struct fixture {
    weft_context *context;
    weft_graph *graph;
    weft_value inputs[MOST_INPUTS];
    double *data[MOST_INPUTS]; /* real inputs */
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
    bool no_gradient; /* of the operator: not differentiable, or its inputs are derivatives */
    double tolerance; /* cpu against reference, relative to the largest element; 0: 2e-5 */
} op_case;

/* Adds a real input of this shape with fixed numbers in [-scale, scale] + shift. */
weft_value fixture_input(fixture *f, int rank, const int64_t *dim, bool wanted, double scale,
                         double shift);
/* An integer input with fixed numbers from 0 to limit - 1. */
weft_value fixture_ints(fixture *f, int rank, const int64_t *dim, int32_t limit);

/* The graph of a case with a loss that weighs every output, and its gradients. */
void fixture_start(fixture *f, const op_case *c, weft_dtype real);
void fixture_end(fixture *f);
/* All outputs and gradients of a case; returns how many. There is room for MOST_INPUTS +
 * MOST_OUTPUTS. */
int fixture_fetch(const fixture *f, weft_value *fetch);

extern const op_case op_cases[];
extern const int op_case_count;

#endif
