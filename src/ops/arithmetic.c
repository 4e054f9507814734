/* Defines the operators add, mul, scale, scale_by and constant. */
#include "ops/elementwise.h"

WEFT_ELEMENT(add, 2, NULL, 0, NULL, 0, a + b)
WEFT_ELEMENT(mul, 2, NULL, 0, NULL, 0, a *b)
WEFT_ELEMENT(scale, 1, "factor", 1, NULL, 0, p *a)
WEFT_ELEMENT(scale_by, 2, NULL, 0, NULL, 0, b *a)

static void add_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                         const bool *want, weft_value *dx)
{
    for (int i = 0; i < node->in_count; i++)
        if (want[i]) dx[i] = weft_element_gradient_of(g, node, i, dy[0]);
}

static void mul_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                         const bool *want, weft_value *dx)
{
    for (int i = 0; i < 2; i++) {
        weft_value in[] = {dy[0], node->in[1 - i]};
        if (want[i])
            dx[i] = weft_element_gradient_of(
                g, node, i, weft_emit(g, node, i ? "db" : "da", "mul", in, 2, NULL, 0));
    }
}

static void scale_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                           const bool *want, weft_value *dx)
{
    (void)want;
    dx[0] = weft_emit_same(g, node, "dx", "scale", dy, 1);
}

static weft_status scale_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    if (!weft_node_attr(node, "factor")) return weft_node_fail(node, "needs attribute 'factor'");
    return weft_shape_same(g, node, out);
}

static weft_status scale_by_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 0));
    WEFT_TRY(weft_expect_scalar(g, node, 1, "the factor", weft_node_float(g, node)));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

/* The value is everywhere, or the tensor `data`, whose type it then has. */
static weft_status constant_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_attr *shape = weft_node_attr(node, "shape"), *data = weft_node_attr(node, "data");
    if (data) {
        if (!weft_attr_data(data, &out[0]))
            return weft_node_fail(node, "the attribute 'data' is no tensor");
        weft_shape same = weft_shape_of(shape ? shape->count : 0, shape ? shape->ints : NULL);
        if (weft_node_attr(node, "value") || weft_node_attr(node, "dtype") ||
            (shape && !weft_shape_equal(&same, &out[0].shape)))
            return weft_node_fail(node, "'data' has numbers, type and shape; give no others");
        return WEFT_OK;
    }
    if (shape && shape->count > WEFT_MAX_RANK)
        return weft_node_fail(node, "has too many dimensions");
    out[0] = (weft_type){weft_node_float(g, node),
                         weft_shape_of(shape ? shape->count : 0, shape ? shape->ints : NULL)};
    return WEFT_OK;
}

static void constant_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_text_add(text, "-> ");
    weft_labels_dims(text, weft_out(g, node, 0)->shape.rank,
                     weft_node_attr(node, "data") ? 0 : WEFT_MAX_RANK);
}

static double no_flops(const weft_graph *g, const weft_node *node)
{
    (void)g;
    (void)node;
    return 0;
}

WEFT_OPERATOR(add, "sum of two tensors, element by element", 2, 2, .narrow = 3, .narrow_out = 1,
              .shape = weft_element_shape, .gradient = add_gradient, .labels = weft_element_labels,
              .element = &add_element, .in_place = {3}, .linear = 3);
WEFT_OPERATOR(mul, "product of two tensors, element by element", 2, 2, .narrow = 3, .narrow_out = 1,
              .shape = weft_element_shape, .gradient = mul_gradient, .labels = weft_element_labels,
              .element = &mul_element, .in_place = {3});
WEFT_OPERATOR(scale, "a tensor times the attribute 'factor'", 1, 1, .attrs = WEFT_ATTRS("factor"),
              .narrow = 1, .narrow_out = 1, .shape = scale_shape, .gradient = scale_gradient,
              .labels = weft_labels_elementwise, .element = &scale_element, .in_place = {1},
              .linear = 1);
WEFT_OPERATOR(scale_by, "a tensor times a scalar; not differentiable", 2, 2, .narrow = 1,
              .narrow_out = 1, .shape = scale_by_shape, .labels = weft_labels_elementwise,
              .element = &scale_by_element, .in_place = {1}, .linear = 1);
WEFT_OPERATOR(constant,
              "a tensor filled with the attribute 'value', or the "
              "tensor 'data'",
              0, 0, .attrs = WEFT_ATTRS("value", "shape", "dtype", "data"), .shape = constant_shape,
              .labels = constant_labels, .flops = no_flops, .dims = "shape");
