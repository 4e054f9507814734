/* Defines the operator stochastic_round, which rounds numbers to bf16 up or down at random, so that
 * the expectation is the number (arXiv 2502.20566).
 *
 * Random bits are a function of (seed, stream, step, position in the whole tensor), of which a part
 * or a range is told its place. So they are the same on every number of ranks, with every mesh and
 * stage of ZeRO, and in a resumed run. */
#include "ops/ops.h"

/* (x, step) -> x in bf16 */
static weft_status stochastic_round_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_scalar(g, node, 1, "the step", WEFT_I32));
    out[0] = (weft_type){WEFT_BF16, weft_in(g, node, 0)->shape};
    return WEFT_OK;
}

static weft_attr sizes(const char *name, const weft_shape *shape)
{
    weft_attr attr = {.name = name, .count = shape->rank};
    for (int d = 0; d < shape->rank; d++) attr.ints[d] = shape->dim[d];
    return attr;
}

/* The part of the whole tensor at `start`; of a range, which is a vector, the rewrite has set the
 * attributes `part` and `begin`. */
static weft_status stochastic_round_localize(const weft_graph *g, const weft_node *node,
                                             const int64_t *start, weft_node *part)
{
    weft_attr whole = sizes("whole", &weft_out(g, node, 0)->shape), at = whole;
    if (whole.count == 0) return WEFT_OK;
    at.name = "start";
    for (int d = 0; d < at.count; d++) at.ints[d] = start[d];
    WEFT_TRY(weft_node_set(part, &whole));
    return weft_node_set(part, &at);
}

WEFT_OPERATOR(stochastic_round, "rounds f32 to bf16, up or down at random, without bias", 2, 2,
              .attrs = WEFT_ATTRS("seed", "stream", "start", "whole", "part", "begin"),
              .takes = {WEFT_TYPE(F32), WEFT_ALL_TYPES}, .shape = stochastic_round_shape,
              .labels = weft_labels_elementwise, .localize = stochastic_round_localize);
