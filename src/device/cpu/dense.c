/* dense and its gradients as inner products, and matmul. Activations stay row-major; weights lie
 * as oneDNN likes them. Our weight [k, n] is its (n, k). */
#include "device/cpu/cpu.h"

typedef struct dense {
    cpu_md x, w, bias, y; /* plain; rows of all leading dimensions */
} dense;

static dense dense_of(int64_t rows, int64_t k, int64_t n)
{
    dense d;
    d.x = cpu_md_plain(2, (int64_t[]){rows, k});
    d.y = cpu_md_plain(2, (int64_t[]){rows, n});
    d.w = cpu_md_strided(2, (int64_t[]){n, k}, (int64_t[]){1, n});
    d.bias = cpu_md_plain(1, &n);
    return d;
}

static bool dense_supports(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain);
}

static weft_status inner_desc(cpu_device *d, const dnnl_inner_product_desc_t *desc,
                              const_dnnl_post_ops_t ops, const dense *hint_for,
                              dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_attr_t attr;
    if (hint_for) {
        cpu_md w = cpu_md_any(&hint_for->w);
        dnnl_inner_product_desc_t forward;
        DNNL_TRY(dnnl_inner_product_forward_desc_init(&forward, dnnl_forward_training, &hint_for->x,
                                                      &w, NULL, &hint_for->y));
        DNNL_TRY(dnnl_primitive_desc_create(&hint, &forward, NULL, d->engine, NULL));
    }
    weft_status status = cpu_attr_make(ops, &attr);
    dnnl_status_t made = dnnl_success;
    if (status == WEFT_OK) {
        made = dnnl_primitive_desc_create(out, desc, attr, d->engine, hint);
        dnnl_primitive_attr_destroy(attr);
    }
    if (hint) dnnl_primitive_desc_destroy(hint);
    WEFT_TRY(status);
    DNNL_TRY(made);
    return WEFT_OK;
}

static weft_status dense_make(weft_device *device, const weft_group *group,
                              const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_shape *ws = &weft_in(g, node, 1)->shape;
    cpu_chain chain;
    (void)cpu_chain_of(group, &chain);
    int64_t k = ws->dim[0], n = ws->dim[1];
    dense m = dense_of(weft_shape_elements(&weft_in(g, node, 0)->shape) / k, k, n);
    cpu_md w = cpu_md_any(&m.w);
    bool biased = chain.bias != WEFT_NO_VALUE, added = chain.addend != WEFT_NO_VALUE;
    dnnl_inner_product_desc_t desc;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_training, &m.x, &w,
                                                  biased ? &m.bias : NULL, &m.y));
    WEFT_TRY(cpu_chain_post_ops(&chain, added ? &m.y : NULL, &ops));
    weft_status status = inner_desc((cpu_device *)device, &desc, ops, NULL, &pd);
    dnnl_post_ops_destroy(ops);
    WEFT_TRY(status);
    cpu_arg args[5] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, weft_group_in(group, node->in[0]), m.x, false},
        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, CPU_IN, weft_group_in(group, node->in[1]), m.w,
         false},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0, CPU_OUT, 0, m.y, false},
    };
    int count = 3;
    if (biased)
        args[count++] = (cpu_arg){DNNL_ARG_BIAS,
                                  dnnl_query_weights_md,
                                  1,
                                  CPU_IN,
                                  weft_group_in(group, chain.bias),
                                  m.bias,
                                  false};
    if (added)
        args[count++] = (cpu_arg){cpu_chain_addend_arg(&chain),
                                  dnnl_query_dst_md,
                                  0,
                                  CPU_IN,
                                  weft_group_in(group, chain.addend),
                                  m.y,
                                  false};
    WEFT_TRY(cpu_primitive_make(device, pd, args, count, out));
    weft_status finished = cpu_chain_finish(group, &chain, *out);
    if (finished != WEFT_OK) (*out)->ops->destroy(*out);
    return finished;
}

static weft_status dx_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_shape *ws = &weft_in(g, node, 1)->shape;
    int64_t k = ws->dim[0], n = ws->dim[1];
    dense m = dense_of(weft_shape_elements(&weft_in(g, node, 0)->shape) / n, k, n);
    (void)in;
    cpu_md w = cpu_md_any(&m.w);
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_inner_product_backward_data_desc_init(&desc, &m.x, &w, &m.y));
    WEFT_TRY(inner_desc((cpu_device *)device, &desc, NULL, &m, &pd));
    cpu_arg args[] = {
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, CPU_IN, weft_group_in(group, node->in[0]),
         m.y, false},
        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, CPU_IN, weft_group_in(group, node->in[1]), m.w,
         false},
        {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, CPU_OUT, 0, m.x, false},
    };
    return cpu_primitive_make(device, pd, args, 3, out);
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
    const weft_shape *ws = &weft_out(g, node, 0)->shape;
    int64_t k = ws->dim[0], n = ws->dim[1];
    dense m = dense_of(weft_shape_elements(&weft_in(g, node, 0)->shape) / k, k, n);
    cpu_md w = cpu_md_any(&m.w);
    bool biased = group->count == 2;
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_inner_product_backward_weights_desc_init(&desc, &m.x, &w, biased ? &m.bias : NULL,
                                                           &m.y));
    WEFT_TRY(inner_desc((cpu_device *)device, &desc, NULL, &m, &pd));
    cpu_arg args[4] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, weft_group_in(group, node->in[0]), m.x, false},
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, CPU_IN, weft_group_in(group, node->in[1]),
         m.y, false},
        {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0, CPU_OUT,
         weft_group_out(group, node->out), m.w, false},
    };
    if (biased)
        args[3] = (cpu_arg){DNNL_ARG_DIFF_BIAS,
                            dnnl_query_diff_weights_md,
                            1,
                            CPU_OUT,
                            weft_group_out(group, group->node[1]->out),
                            m.bias,
                            false};
    return cpu_primitive_make(device, pd, args, 3 + biased, out);
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
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    cpu_md a = matrix(&weft_in(g, node, 0)->shape, weft_node_int(node, "ta", 0, 0) != 0);
    cpu_md b = matrix(&weft_in(g, node, 1)->shape, weft_node_int(node, "tb", 0, 0) != 0);
    cpu_md c = matrix(&weft_out(g, node, 0)->shape, false);
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c));
    WEFT_TRY(cpu_attr_make(NULL, &attr));
    dnnl_status_t made = dnnl_primitive_desc_create(&pd, &desc, attr, d->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    DNNL_TRY(made);
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
