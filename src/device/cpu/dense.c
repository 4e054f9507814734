/* dense and its gradients as inner products, and matmul. Activations stay row-major; weights lie
 * as oneDNN likes them. Our weight [k, n] is its (n, k). */
#include "device/cpu/cpu.h"

/* Rows of all leading dimensions times k, and k times n. */
static cpu_weighted dense_of(int64_t rows, int64_t k, int64_t n)
{
    return (cpu_weighted){
        .x = cpu_md_plain(2, (int64_t[]){rows, k}),
        .y = cpu_md_plain(2, (int64_t[]){rows, n}),
        .w = cpu_md_strided(2, (int64_t[]){n, k}, (int64_t[]){1, n}),
        .bias = cpu_md_plain(1, &n),
    };
}

static bool dense_supports(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain);
}

static weft_status forward_op(const cpu_weighted *m, bool biased, dnnl_inner_product_desc_t *out)
{
    cpu_md w = cpu_md_any(&m->w);
    DNNL_TRY(dnnl_inner_product_forward_desc_init(out, dnnl_forward_training, &m->x, &w,
                                                  biased ? &m->bias : NULL, &m->y));
    return WEFT_OK;
}

static weft_status dense_make(weft_device *device, const weft_group *group,
                              const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_shape *w = &weft_in(g, node, 1)->shape;
    cpu_chain chain;
    dnnl_inner_product_desc_t desc;
    (void)cpu_chain_of(group, &chain);
    cpu_weighted m = dense_of(weft_shape_elements(&weft_in(g, node, 0)->shape) / w->dim[0],
                              w->dim[0], w->dim[1]);
    WEFT_TRY(forward_op(&m, chain.bias != WEFT_NO_VALUE, &desc));
    return cpu_forward_make(device, group, &chain, &desc, &m, out);
}

static weft_status hint_of(weft_device *device, const cpu_weighted *m, dnnl_primitive_desc_t *out)
{
    dnnl_inner_product_desc_t desc;
    WEFT_TRY(forward_op(m, false, &desc));
    return cpu_desc_make((cpu_device *)device, &desc, NULL, NULL, out);
}

static weft_status dx_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_shape *w = &weft_in(g, node, 1)->shape;
    cpu_weighted m = dense_of(weft_shape_elements(&weft_in(g, node, 0)->shape) / w->dim[1],
                              w->dim[0], w->dim[1]);
    cpu_md any = cpu_md_any(&m.w);
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t hint;
    DNNL_TRY(dnnl_inner_product_backward_data_desc_init(&desc, &m.x, &any, &m.y));
    WEFT_TRY(hint_of(device, &m, &hint));
    weft_status status = cpu_dx_make(device, group, &desc, hint, &m, out);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

static bool dw_supports(const weft_group *group)
{
    int rank = weft_in(group->graph, group->node[0], 1)->shape.rank;
    return cpu_single(group) || cpu_with_bias_sum(group, 1, rank - 1);
}

static weft_status dw_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_shape *w = &weft_out(g, node, 0)->shape;
    cpu_weighted m = dense_of(weft_shape_elements(&weft_in(g, node, 0)->shape) / w->dim[0],
                              w->dim[0], w->dim[1]);
    cpu_md any = cpu_md_any(&m.w);
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t hint;
    DNNL_TRY(dnnl_inner_product_backward_weights_desc_init(
        &desc, &m.x, &any, group->count == 2 ? &m.bias : NULL, &m.y));
    WEFT_TRY(hint_of(device, &m, &hint));
    weft_status status = cpu_dw_make(device, group, &desc, hint, &m, out);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

/* A batched operand as [batch, rows, columns], read across its memory where it is transposed. */
static cpu_md matrix(const weft_shape *s, bool transposed)
{
    int64_t rows = s->dim[s->rank - 2], columns = s->dim[s->rank - 1];
    int64_t batch = weft_shape_elements(s) / (rows * columns);
    int64_t dim[] = {batch, rows, columns}, stride[] = {rows * columns, columns, 1};
    if (transposed) {
        dim[1] = columns;
        dim[2] = rows;
        stride[1] = 1;
        stride[2] = columns;
    }
    return cpu_md_strided(3, dim, stride);
}

static weft_status matmul_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    cpu_md a = matrix(&weft_in(g, node, 0)->shape, weft_node_int(node, "ta", 0, 0) != 0);
    cpu_md b = matrix(&weft_in(g, node, 1)->shape, weft_node_int(node, "tb", 0, 0) != 0);
    cpu_md c = matrix(&weft_out(g, node, 0)->shape, false);
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c));
    WEFT_TRY(cpu_desc_make((cpu_device *)device, &desc, NULL, NULL, &pd));
    cpu_arg args[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, weft_group_in(group, node->in[0]), a, false},
        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, CPU_IN, weft_group_in(group, node->in[1]), b,
         false},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0, CPU_OUT, 0, c, false},
    };
    return cpu_primitive_make(device, pd, args, 3, out);
}

/* One value twice would need two layouts in one operand. */
static bool matmul_supports(const weft_group *group)
{
    return cpu_single(group) && group->node[0]->in[0] != group->node[0]->in[1];
}

const cpu_entry cpu_dense_entries[] = {
    {"dense", dense_supports, dense_make},
    {"dense_dx", cpu_single, dx_make},
    {"dense_dw", dw_supports, dw_make},
    {"matmul", matmul_supports, matmul_make},
    {NULL, NULL, NULL},
};
