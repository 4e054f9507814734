/* Defines the operator matmul, the batched matrix product [..., m, k] [..., k, n]; either operand
 * may be transposed (attributes ta, tb). */
#include "ops/ops.h"

static weft_status matmul_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the left matrix", 2));
    WEFT_TRY(weft_expect_real(g, node, 1, "the right matrix", 2));
    const weft_shape *a = &weft_in(g, node, 0)->shape, *b = &weft_in(g, node, 1)->shape;
    bool ta = weft_node_int(node, "ta", 0, 0) != 0, tb = weft_node_int(node, "tb", 0, 0) != 0;
    int r = a->rank;
    bool batch = r == b->rank;
    for (int i = 0; batch && i < r - 2; i++) batch = a->dim[i] == b->dim[i];
    if (!batch) return weft_node_fail(node, "the matrices differ in their batch dimensions");
    int64_t ka = a->dim[ta ? r - 2 : r - 1], kb = b->dim[tb ? r - 1 : r - 2];
    if (ka != kb)
        return weft_node_fail(node, "the left matrix has %lld columns, the right one %lld rows",
                              (long long)ka, (long long)kb);
    out[0] = *weft_in(g, node, 0);
    out[0].shape.dim[r - 2] = a->dim[ta ? r - 1 : r - 2];
    out[0].shape.dim[r - 1] = b->dim[tb ? r - 2 : r - 1];
    return WEFT_OK;
}

static weft_value product(weft_graph *g, const weft_node *node, const char *suffix, weft_value a,
                          weft_value b, int ta, int tb)
{
    weft_attr attrs[] = {WEFT_ATTR_INT("ta", ta), WEFT_ATTR_INT("tb", tb)};
    return weft_emit(g, node, suffix, "matmul", (weft_value[]){a, b}, 2, attrs, 2);
}

static void matmul_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                            const bool *want, weft_value *dx)
{
    int ta = weft_node_int(node, "ta", 0, 0) != 0, tb = weft_node_int(node, "tb", 0, 0) != 0;
    weft_value a = node->in[0], b = node->in[1];
    if (want[0])
        dx[0] =
            ta ? product(g, node, "da", b, dy[0], tb, 1) : product(g, node, "da", dy[0], b, 0, !tb);
    if (want[1])
        dx[1] =
            tb ? product(g, node, "db", dy[0], a, 1, ta) : product(g, node, "db", a, dy[0], !ta, 0);
}

static void matmul_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int ta = weft_node_int(node, "ta", 0, 0) != 0, tb = weft_node_int(node, "tb", 0, 0) != 0;
    int batch = weft_in(g, node, 0)->shape.rank - 2;
    const char *operand[] = {ta ? "k m, " : "m k, ", tb ? "n k -> " : "k n -> ", "m n"};
    for (int i = 0; i < 3; i++) {
        weft_labels_dims(text, batch, batch);
        weft_text_add(text, "%s%s", batch ? " " : "", operand[i]);
    }
}

static double matmul_flops(const weft_graph *g, const weft_node *node)
{
    const weft_shape *a = &weft_in(g, node, 0)->shape;
    int64_t k = a->dim[weft_node_int(node, "ta", 0, 0) ? a->rank - 2 : a->rank - 1];
    return 2.0 * (double)weft_shape_elements(&weft_out(g, node, 0)->shape) * (double)k;
}

WEFT_OPERATOR(matmul, "batched matrix product, with transposes ta and tb", 2, 2,
              .attrs = WEFT_ATTRS("ta", "tb"), .narrow = 3, .narrow_out = 1, .narrows = true,
              .shape = matmul_shape, .gradient = matmul_gradient, .labels = matmul_labels,
              .flops = matmul_flops);
