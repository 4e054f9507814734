/* Defines the operator dense, the matrix product of x [..., k] and a weight w [k, n], and its
 * gradients. */
#include "ops/ops.h"

static weft_status dense_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    WEFT_TRY(weft_expect_real(g, node, 1, "the weight", 2));
    const weft_shape *x = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, 1)->shape;
    if (w->rank != 2 || w->dim[0] != x->dim[x->rank - 1])
        return weft_node_fail(node,
                              "the weight must have 2 dimensions, the first as many rows as the "
                              "tensor has columns (%lld)",
                              (long long)x->dim[x->rank - 1]);
    out[0] = *weft_in(g, node, 0);
    out[0].shape.dim[x->rank - 1] = w->dim[1];
    return WEFT_OK;
}

static weft_status dense_dx_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 2));
    WEFT_TRY(weft_expect_real(g, node, 1, "the weight", 2));
    const weft_shape *dy = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, 1)->shape;
    if (w->rank != 2 || w->dim[1] != dy->dim[dy->rank - 1])
        return weft_node_fail(node, "dy and the weight differ in columns");
    out[0] = *weft_in(g, node, 0);
    out[0].shape.dim[dy->rank - 1] = w->dim[0];
    return WEFT_OK;
}

static weft_status dense_dw_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    WEFT_TRY(weft_expect_real(g, node, 1, "dy", 2));
    weft_type x = *weft_in(g, node, 0), dy = *weft_in(g, node, 1);
    int last = x.shape.rank - 1;
    int64_t k = x.shape.dim[last], n = dy.shape.dim[dy.shape.rank - 1];
    x.shape.dim[last] = n;
    WEFT_TRY(weft_expect_like(g, node, 1, "dy", &x));
    out[0] = (weft_type){weft_node_float(g, node), weft_shape_of(2, (int64_t[]){k, n})};
    return WEFT_OK;
}

static void dense_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                           const bool *want, weft_value *dx)
{
    if (want[1])
        dx[1] =
            weft_emit(g, node, "dw", "dense_dw", (weft_value[]){node->in[0], dy[0]}, 2, NULL, 0);
    if (want[0])
        dx[0] =
            weft_emit(g, node, "dx", "dense_dx", (weft_value[]){dy[0], node->in[1]}, 2, NULL, 0);
}

/* dense_dx, the product with the transposed weight, is also a layer whose weight is a table of
 * embeddings. */
static void dense_dx_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                              const bool *want, weft_value *dx)
{
    if (want[1])
        dx[1] =
            weft_emit(g, node, "dw", "dense_dw", (weft_value[]){dy[0], node->in[0]}, 2, NULL, 0);
    if (want[0])
        dx[0] = weft_emit(g, node, "dx", "dense", (weft_value[]){dy[0], node->in[1]}, 2, NULL, 0);
}

static double dense_flops(const weft_graph *g, const weft_node *node)
{
    /* 2 rows k n operations. The formula does not depend on which of the three tensors are
     * inputs. */
    double product = 1;
    for (int i = 0; i < 2; i++) product *= (double)weft_shape_elements(&weft_in(g, node, i)->shape);
    product *= (double)weft_shape_elements(&weft_out(g, node, 0)->shape);
    return 2 * __builtin_sqrt(product); /* (r k)(k n)(r n) = (r k n)^2 */
}

static void add_rows(weft_text *text, int rank, const char *last)
{
    for (int i = 0; i + 1 < rank; i++)
        if (i == 0)
            weft_text_add(text, "b ");
        else
            weft_text_add(text, "r%d ", i);
    weft_text_add(text, "%s", last);
}

static void dense_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    add_rows(text, rank, "k, k n -> ");
    add_rows(text, rank, "n");
}

static void dense_dx_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    add_rows(text, rank, "n, k n -> ");
    add_rows(text, rank, "k");
}

static void dense_dw_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    add_rows(text, rank, "k, ");
    add_rows(text, rank, "n -> k n");
}

WEFT_OPERATOR(dense, "matrix product with a weight: [..., k] [k, n]", 2, 2, .narrow = 3,
              .narrow_out = 1, .narrows = true, .shape = dense_shape, .gradient = dense_gradient,
              .labels = dense_labels, .flops = dense_flops);
WEFT_OPERATOR(dense_dx, "product with a transposed weight, from (dy, w): gradient of dense", 2, 2,
              .narrow = 3, .narrow_out = 1, .narrows = true, .shape = dense_dx_shape,
              .gradient = dense_dx_gradient, .labels = dense_dx_labels, .flops = dense_flops);
WEFT_OPERATOR(dense_dw, "gradient of dense for its weight, from (x, dy)", 2, 2, .narrow = 3,
              .narrows = true, .shape = dense_dw_shape, .labels = dense_dw_labels,
              .flops = dense_flops);
