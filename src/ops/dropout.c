/* Defines the operator dropout (Srivastava et al. 2014), scaled at training time.
 *
 * Whether an element is dropped is a function of (seed, stream, step, sample, position in the
 * sample). So no mask is stored, the gradient is the operator itself applied to dy, and the
 * division of the batch into micro-batches or over ranks does not change the result. */
#include "graph/map.h"
#include "ops/ops.h"

/* (x [b, ...], step, index of the first sample in the step's batch) -> y */
static weft_status dropout_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    double rate = weft_node_real(node, "rate", 0.5);
    if (!(rate >= 0 && rate < 1))
        return weft_node_fail(node, "the rate is %g, must be from 0 up to but not including 1",
                              rate);
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    WEFT_TRY(weft_expect_scalar(g, node, 1, "the step", WEFT_I32));
    WEFT_TRY(weft_expect_scalar(g, node, 2, "the first sample", WEFT_I32));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

static void dropout_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    (void)want;
    dx[0] = weft_emit_same(g, node, "dx", "dropout",
                           (weft_value[]){dy[0], node->in[1], node->in[2]}, 3);
}

/* Tells a node that computes a part where the part begins in the whole tensor, so that it draws the
 * random numbers of those elements. */
static weft_status dropout_localize(const weft_graph *g, const weft_node *node,
                                    const int64_t *start, weft_node *part)
{
    const weft_shape *whole = &weft_out(g, node, 0)->shape;
    weft_attr at = {.name = "start", .count = whole->rank};
    weft_attr size = {.name = "whole", .count = whole->rank};
    for (int d = 0; d < whole->rank; d++) {
        at.ints[d] = start[d];
        size.ints[d] = whole->dim[d];
    }
    WEFT_TRY(weft_node_set(part, &at));
    return weft_node_set(part, &size);
}

/* Prediction drops nothing, since training has scaled what remained. */
static weft_status dropout_inference(weft_graph_mapper *m, int n, weft_value *out)
{
    out[0] = m->value[m->from->nodes[n]->in[0]];
    return WEFT_OK;
}

WEFT_OPERATOR(dropout, "zeroes elements at random and scales the others", 3, 3,
              .attrs = WEFT_ATTRS("rate", "seed", "stream", "start", "whole"), .narrow = 1,
              .narrow_out = 1, .shape = dropout_shape, .gradient = dropout_gradient,
              .labels = weft_labels_elementwise, .in_place = {1}, .localize = dropout_localize,
              .inference = dropout_inference);
