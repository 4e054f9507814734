/* Defines the operators reshape, which is a view, and transpose. */
#include "ops/ops.h"

weft_status weft_shape_reshape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *x = weft_in(g, node, 0);
    const weft_attr *shape = weft_node_attr(node, "shape");
    if (!shape || shape->count > WEFT_MAX_RANK)
        return weft_node_fail(node, "needs attribute 'shape' with at most %d numbers",
                              WEFT_MAX_RANK);
    out[0] = (weft_type){x->dtype, weft_shape_of(shape->count, shape->ints)};
    int64_t count = 1;
    for (int i = 0; i < shape->count; i++) {
        if (shape->ints[i] < 1 || shape->ints[i] > ((int64_t)1 << 40) / count)
            return weft_node_fail(node, "dimension %d is %lld", i, (long long)shape->ints[i]);
        count *= shape->ints[i];
    }
    if (count != weft_shape_elements(&x->shape))
        return weft_node_fail(node, "%lld elements cannot become %lld",
                              (long long)weft_shape_elements(&x->shape), (long long)count);
    return WEFT_OK;
}

static void reshape_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    (void)want;
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    weft_attr shape = {.name = "shape", .count = x->rank};
    for (int i = 0; i < x->rank; i++) shape.ints[i] = x->dim[i];
    dx[0] = weft_emit(g, node, "dx", "reshape", dy, 1, &shape, 1);
}

/* Leading dimensions that are equal in input and output keep their label. The next dimension is
 * scaled (mark '*') if its size on one side is a multiple of that on the other: [b, c, h, w] and
 * [b, c h w] are split by channels. All later dimensions are never split. */
static void reshape_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    const weft_shape *in = &weft_in(g, node, 0)->shape, *out = &weft_out(g, node, 0)->shape;
    int same = 0;
    while (same < in->rank && same < out->rank && in->dim[same] == out->dim[same]) same++;
    bool next = same < in->rank && same < out->rank &&
                (in->dim[same] % out->dim[same] == 0 || out->dim[same] % in->dim[same] == 0);
    for (int side = 0; side < 2; side++) {
        const weft_shape *s = side ? out : in;
        if (side) weft_text_add(text, " -> ");
        for (int i = 0; i < s->rank; i++) {
            const char *mark = i < same ? "d" : i == same && next ? "*d" : side ? "!e" : "!d";
            weft_text_add(text, "%s%s%d", i ? " " : "", mark, i);
        }
    }
}

static weft_status transpose_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *x = weft_in(g, node, 0);
    const weft_attr *perm = weft_node_attr(node, "perm");
    unsigned seen = 0;
    if (!perm || perm->count != x->shape.rank)
        return weft_node_fail(node, "needs attribute 'perm' with %d numbers", x->shape.rank);
    out[0] = *x;
    for (int i = 0; i < perm->count; i++) {
        int64_t from = perm->ints[i];
        if (from < 0 || from >= perm->count || (seen & 1u << from))
            return weft_node_fail(node, "'perm' is not a permutation of its %d axes", perm->count);
        seen |= 1u << from;
        out[0].shape.dim[i] = x->shape.dim[from];
    }
    return WEFT_OK;
}

static void transpose_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                               const bool *want, weft_value *dx)
{
    (void)want;
    const weft_attr *perm = weft_node_attr(node, "perm");
    weft_attr inverse = {.name = "perm", .count = perm->count};
    for (int i = 0; i < perm->count; i++) inverse.ints[perm->ints[i]] = i;
    dx[0] = weft_emit(g, node, "dx", "transpose", dy, 1, &inverse, 1);
}

static void transpose_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, rank);
    weft_text_add(text, " ->");
    for (int i = 0; i < rank; i++)
        weft_text_add(text, " d%lld", (long long)weft_node_int(node, "perm", i, 0));
}

static double no_flops(const weft_graph *g, const weft_node *node)
{
    (void)g;
    (void)node;
    return 0;
}

WEFT_OPERATOR(reshape, "the same elements in the same order under another shape", 1, 1,
              .attrs = WEFT_ATTRS("shape"), .takes = {WEFT_ALL_TYPES}, .shape = weft_shape_reshape,
              .gradient = reshape_gradient, .labels = reshape_labels, .flops = no_flops,
              .view = WEFT_VIEW_WHOLE, .linear = 1, .dims = "shape");
WEFT_OPERATOR(transpose, "axes in another order: output axis i is perm[i]", 1, 1,
              .attrs = WEFT_ATTRS("perm"), .takes = {WEFT_ALL_TYPES}, .shape = transpose_shape,
              .gradient = transpose_gradient, .labels = transpose_labels, .flops = no_flops,
              .linear = 1);
