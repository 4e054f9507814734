/* Defines the operator rotary, rotary position embedding (Su et al. 2021).
 *
 * Pair i of the last dimension, of size d, is rotated by the angle position * base^(-2i/d). The
 * position is the index along the second dimension, plus the attribute `first`, plus the second
 * operand if there is one: a scalar, or a number for each row of the batch. A pair is (x[i], x[i +
 * d/2]) or, with the attribute `interleaved`, (x[2i], x[2i+1]). With the attribute `inverse` the
 * rotation is by the opposite angle, which is the gradient. */
#include <math.h>

#include "graph/incremental.h"
#include "ops/ops.h"

/* (x [b, t, h, d], position that is added) -> y */
static weft_status rotary_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    double base = weft_node_real(node, "base", 10000);
    char have[128];
    if (!(base > 0) || isinf(base))
        return weft_node_fail(node, "the base is %g, must be a number above 0", base);
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 4));
    const weft_type *x = weft_in(g, node, 0);
    if (x->shape.rank != 4 || x->shape.dim[3] % 2 != 0)
        return weft_node_fail(node,
                              "the tensor is %s, must be [batch, positions, heads, d] with an "
                              "even d",
                              weft_shape_text(&x->shape, have, sizeof(have)));
    if (node->in_count == 2) {
        int rank = WEFT_MIN(weft_in(g, node, 1)->shape.rank, 1);
        WEFT_TRY(
            weft_expect(g, node, 1, "the position that is added", WEFT_I32, rank, x->shape.dim));
    }
    out[0] = *x;
    return WEFT_OK;
}

static void rotary_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                            const bool *want, weft_value *dx)
{
    weft_attr back = WEFT_ATTR_INT("inverse", !weft_node_int(node, "inverse", 0, 0));
    weft_value in[] = {dy[0], node->in_count == 2 ? node->in[1] : WEFT_NO_VALUE};
    if (want[0]) dx[0] = weft_emit_with(g, node, "dx", "rotary", in, node->in_count, &back);
}

static void rotary_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    const char *added = node->in_count < 2 ? "" : weft_in(g, node, 1)->shape.rank ? ", b" : ",";
    weft_text_add(text, "b t h !d%s -> b t h !d", added);
}

static double rotary_flops(const weft_graph *g, const weft_node *node)
{
    return 3.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

/* Tells a node that computes a part the position at which the part begins. */
static weft_status rotary_localize(const weft_graph *g, const weft_node *node, const int64_t *start,
                                   weft_node *part)
{
    (void)g;
    weft_attr first = WEFT_ATTR_INT("first", weft_node_int(node, "first", 0, 0) + start[1]);
    return weft_node_set(part, &first);
}

static weft_status rotary_one_position(weft_incremental *s, const weft_graph *g,
                                       const weft_node *node, const weft_value *in, weft_value *out)
{
    (void)g;
    if (node->in_count == 2) return weft_incremental_refuse(node, "has positions of its own");
    weft_value operands[] = {in[0], s->position};
    out[0] =
        weft_graph_node(s->graph, "rotary", node->name, operands, 2, node->attrs, node->attr_count);
    return weft_graph_status(s->graph);
}

WEFT_OPERATOR(rotary, "rotates pairs of the last dimension by angles that grow with the position",
              1, 2, .attrs = WEFT_ATTRS("base", "first", "interleaved", "inverse"), .narrow = 1,
              .narrow_out = 1, .shape = rotary_shape, .gradient = rotary_gradient,
              .labels = rotary_labels, .flops = rotary_flops, .linear = 1,
              .one_position = rotary_one_position, .localize = rotary_localize);
