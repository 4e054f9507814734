/* Defines sequence_mean, the mean over the positions that count of each sample, and its gradient.
 *
 *   sequence_mean       (x [b, t, w], lengths [b]) -> y [b, w]
 *   sequence_mean_grad  (dy [b, w], lengths [b]) -> dx [b, t, w], attribute `size`: t and w
 *
 * Positions from the length of a sample on do not count; a sample of length 0 has the mean zero. */
#include "ops/ops.h"

static weft_status mean_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the sequences", 3));
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    if (x->rank != 3)
        return weft_node_fail(node, "the sequences have %d dimensions, not 3", x->rank);
    WEFT_TRY(weft_expect(g, node, 1, "the lengths", WEFT_I32, 1, x->dim));
    out[0] = *weft_in(g, node, 0);
    out[0].shape = weft_shape_of(2, (int64_t[]){x->dim[0], x->dim[2]});
    return WEFT_OK;
}

static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_attr *size = weft_node_attr(node, "size");
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 2));
    const weft_shape *dy = &weft_in(g, node, 0)->shape;
    if (dy->rank != 2) return weft_node_fail(node, "dy has %d dimensions, not 2", dy->rank);
    WEFT_TRY(weft_expect(g, node, 1, "the lengths", WEFT_I32, 1, dy->dim));
    if (!size || size->count != 2 || size->ints[0] < 1 || size->ints[1] != dy->dim[1])
        return weft_node_fail(node, "needs attribute 'size', the positions and the width of dy");
    out[0] = *weft_in(g, node, 0);
    out[0].shape = weft_shape_of(3, (int64_t[]){dy->dim[0], size->ints[0], dy->dim[1]});
    return WEFT_OK;
}

static void mean_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    weft_attr size = WEFT_ATTR_PAIR("size", x->dim[1], x->dim[2]);
    dx[0] = weft_emit(g, node, "dx", "sequence_mean_grad", (weft_value[]){dy[0], node->in[1]}, 2,
                      &size, 1);
}

/* The positions stay whole, since the lengths count from the first one. */
static void mean_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "b !t w, b -> b w");
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "b w, b -> b !t w");
}

static double mean_flops(const weft_graph *g, const weft_node *node)
{
    return (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

WEFT_OPERATOR(sequence_mean, "mean over the positions below the length", 2, 2, .narrow = 1,
              .narrow_out = 1, .shape = mean_shape, .gradient = mean_gradient,
              .labels = mean_labels, .flops = mean_flops);
WEFT_OPERATOR(sequence_mean_grad, "gradient of sequence_mean", 2, 2, .attrs = WEFT_ATTRS("size"),
              .narrow = 1, .narrow_out = 1, .shape = grad_shape, .labels = grad_labels,
              .dims = "size", .dims_from = 1);
