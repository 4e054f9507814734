/* Defines the operators concat, split, slice and pad, which join, cut and pad tensors along one
 * axis. */
#include "ops/ops.h"

static weft_status axis_of(const weft_graph *g, const weft_node *node, int *out)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    int64_t axis = weft_node_int(node, "axis", 0, -1);
    if (axis < 0 || axis >= rank)
        return weft_node_fail(node, "axis %lld, the tensor has %d dimensions", (long long)axis,
                              rank);
    *out = (int)axis;
    return WEFT_OK;
}

static weft_status concat_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int axis = 0;
    WEFT_TRY(axis_of(g, node, &axis));
    if (node->in_count > WEFT_MAX_OUTPUTS)
        return weft_node_fail(node, "joins %d tensors, at most %d are possible", node->in_count,
                              WEFT_MAX_OUTPUTS);
    out[0] = *weft_in(g, node, 0);
    for (int i = 1; i < node->in_count; i++) {
        weft_type like = *weft_in(g, node, 0);
        if (weft_in(g, node, i)->shape.rank > axis)
            like.shape.dim[axis] = weft_in(g, node, i)->shape.dim[axis];
        WEFT_TRY(weft_expect_like(g, node, i, "a joined tensor", &like));
        out[0].shape.dim[axis] += like.shape.dim[axis];
    }
    return WEFT_OK;
}

static void concat_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                            const bool *want, weft_value *dx)
{
    int axis = (int)weft_node_int(node, "axis", 0, 0);
    int64_t start = 0;
    for (int i = 0; i < node->in_count; i++) {
        int64_t stop = start + weft_in(g, node, i)->shape.dim[axis];
        weft_attr attrs[] = {WEFT_ATTR_INT("axis", axis), WEFT_ATTR_INT("start", start),
                             WEFT_ATTR_INT("stop", stop)};
        if (want[i]) dx[i] = weft_emit(g, node, "dx", "slice", dy, 1, attrs, 3);
        start = stop;
    }
}

static weft_status split_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int axis = 0;
    WEFT_TRY(axis_of(g, node, &axis));
    const weft_attr *sizes = weft_node_attr(node, "sizes");
    const weft_type *x = weft_in(g, node, 0);
    int64_t sum = 0;
    if (!sizes || sizes->count < 1 || sizes->count > WEFT_MAX_OUTPUTS)
        return weft_node_fail(node, "needs attribute 'sizes' with 1 to %d numbers",
                              WEFT_MAX_OUTPUTS);
    for (int i = 0; i < sizes->count; i++) {
        out[i] = *x;
        out[i].shape.dim[axis] = sizes->ints[i];
        sum += sizes->ints[i];
    }
    if (sum != x->shape.dim[axis])
        return weft_node_fail(node, "the sizes add up to %lld, axis %d has %lld", (long long)sum,
                              axis, (long long)x->shape.dim[axis]);
    node->out_count = sizes->count;
    return WEFT_OK;
}

static void split_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                           const bool *want, weft_value *dx)
{
    (void)want;
    weft_value parts[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < node->out_count; i++) {
        parts[i] = dy[i];
        if (dy[i] != WEFT_NO_VALUE) continue; /* a part without a gradient has zeros */
        const weft_shape *shape = &weft_out(g, node, i)->shape;
        weft_dtype dtype = weft_out(g, node, i)->dtype;
        weft_attr attrs[] = {WEFT_ATTR_REAL("value", 0),
                             {.name = "shape", .count = shape->rank},
                             WEFT_ATTR_INT("dtype", dtype)};
        for (int d = 0; d < shape->rank; d++) attrs[1].ints[d] = shape->dim[d];
        parts[i] = weft_emit(g, node, "zero", "constant", NULL, 0, attrs, dtype == g->real ? 2 : 3);
    }
    weft_attr axis = WEFT_ATTR_INT("axis", weft_node_int(node, "axis", 0, 0));
    dx[0] = weft_emit(g, node, "dx", "concat", parts, node->out_count, &axis, 1);
}

static weft_status slice_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int axis = 0;
    WEFT_TRY(axis_of(g, node, &axis));
    int64_t start = weft_node_int(node, "start", 0, 0);
    int64_t stop = weft_node_int(node, "stop", 0, 0);
    int64_t size = weft_in(g, node, 0)->shape.dim[axis];
    if (start < 0 || stop <= start || stop > size)
        return weft_node_fail(node, "takes %lld up to %lld of an axis of %lld", (long long)start,
                              (long long)stop, (long long)size);
    out[0] = *weft_in(g, node, 0);
    out[0].shape.dim[axis] = stop - start;
    return WEFT_OK;
}

static void slice_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                           const bool *want, weft_value *dx)
{
    (void)want;
    int64_t axis = weft_node_int(node, "axis", 0, 0);
    int64_t before = weft_node_int(node, "start", 0, 0);
    int64_t after = weft_in(g, node, 0)->shape.dim[axis] - weft_node_int(node, "stop", 0, 0);
    weft_attr attrs[] = {WEFT_ATTR_INT("axis", axis), WEFT_ATTR_INT("before", before),
                         WEFT_ATTR_INT("after", after)};
    dx[0] = weft_emit(g, node, "dx", "pad", dy, 1, attrs, 3);
}

static weft_status pad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int axis = 0;
    WEFT_TRY(axis_of(g, node, &axis));
    int64_t before = weft_node_int(node, "before", 0, 0);
    int64_t after = weft_node_int(node, "after", 0, 0);
    const int64_t most = (int64_t)1 << 40;
    if (before < 0 || after < 0 || before > most || after > most)
        return weft_node_fail(node, "pads by %lld before and %lld after, must be from 0 to 2^40",
                              (long long)before, (long long)after);
    out[0] = *weft_in(g, node, 0);
    out[0].shape.dim[axis] += before + after;
    return WEFT_OK;
}

static void pad_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                         const bool *want, weft_value *dx)
{
    (void)want;
    int64_t axis = weft_node_int(node, "axis", 0, 0);
    int64_t before = weft_node_int(node, "before", 0, 0);
    int64_t stop = before + weft_in(g, node, 0)->shape.dim[axis];
    weft_attr attrs[] = {WEFT_ATTR_INT("axis", axis), WEFT_ATTR_INT("start", before),
                         WEFT_ATTR_INT("stop", stop)};
    dx[0] = weft_emit(g, node, "dx", "slice", dy, 1, attrs, 3);
}

/* The joined axis is never split (mark '!'), and has a different label in each operand, since its
 * sizes differ. */
static void joined_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int axis = (int)weft_node_int(node, "axis", 0, 0), operand = 0;
    for (int side = 0; side < 2; side++) {
        int count = side ? node->out_count : node->in_count;
        if (side) weft_text_add(text, " -> ");
        for (int i = 0; i < count; i++, operand++) {
            const weft_type *type = side ? weft_out(g, node, i) : weft_in(g, node, i);
            weft_text_add(text, "%s", i ? ", " : "");
            for (int d = 0; d < type->shape.rank; d++)
                if (d == axis)
                    weft_text_add(text, "%s!j%d", d ? " " : "", operand);
                else
                    weft_text_add(text, "%sd%d", d ? " " : "", d);
        }
    }
}

static double no_flops(const weft_graph *g, const weft_node *node)
{
    (void)g;
    (void)node;
    return 0;
}

WEFT_OPERATOR(concat, "joins tensors along an axis", 1, -1, .attrs = WEFT_ATTRS("axis"),
              .takes = {WEFT_ALL_TYPES}, .shape = concat_shape, .gradient = concat_gradient,
              .labels = joined_labels, .flops = no_flops);
WEFT_OPERATOR(split, "cuts a tensor into parts along an axis", 1, 1,
              .attrs = WEFT_ATTRS("axis", "sizes"), .takes = {WEFT_ALL_TYPES}, .shape = split_shape,
              .gradient = split_gradient, .labels = joined_labels, .flops = no_flops);
WEFT_OPERATOR(slice, "takes start up to stop along an axis", 1, 1,
              .attrs = WEFT_ATTRS("axis", "start", "stop"), .takes = {WEFT_ALL_TYPES},
              .shape = slice_shape, .gradient = slice_gradient, .labels = joined_labels,
              .flops = no_flops, .view = WEFT_VIEW_SLICE);
WEFT_OPERATOR(pad, "puts zeros before and after along an axis", 1, 1,
              .attrs = WEFT_ATTRS("axis", "before", "after"), .takes = {WEFT_ALL_TYPES},
              .shape = pad_shape, .gradient = pad_gradient, .labels = joined_labels,
              .flops = no_flops);
