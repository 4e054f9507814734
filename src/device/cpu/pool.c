/* Pooling. The layout follows the input; the index of maxpool is oneDNN's own workspace. */
#include "device/cpu/cpu.h"

typedef struct pool {
    dnnl_dims_t stride, kernel, padding, padding_end;
    cpu_md x, y; /* plain */
    dnnl_alg_kind_t alg;
} pool;

static pool pool_of(const weft_node *node, const weft_shape *x, const weft_shape *y)
{
    pool p;
    weft_window window = weft_node_window(node);
    for (int i = 0; i < 2; i++) {
        p.stride[i] = window.stride[i];
        p.kernel[i] = window.kernel[i];
        p.padding[i] = window.padding[i];
        p.padding_end[i] = window.padding_end[i];
    }
    p.x = cpu_md_plain(4, x->dim);
    p.y = cpu_md_plain(4, y->dim);
    p.alg = strncmp(node->op->name, "max", 3) == 0 ? dnnl_pooling_max
                                                   : dnnl_pooling_avg_exclude_padding;
    return p;
}

/* x may be in a layout of its own; y follows it. */
static weft_status forward_desc(cpu_device *d, const pool *p, const cpu_md *x,
                                dnnl_prop_kind_t kind, dnnl_primitive_desc_t *out)
{
    cpu_md y = cpu_md_any(&p->y);
    dnnl_pooling_desc_t desc;
    DNNL_TRY(dnnl_pooling_forward_desc_init(&desc, kind, p->alg, x, &y, p->stride, p->kernel,
                                            p->padding, p->padding_end));
    return cpu_desc_make(d, &desc, NULL, NULL, out);
}

static weft_status pool_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p = pool_of(node, &weft_in(g, node, 0)->shape, &weft_out(g, node, 0)->shape);
    int index = node->out_count > 1 ? weft_group_out(group, node->out + 1) : -1;
    dnnl_primitive_desc_t pd;
    WEFT_TRY(forward_desc((cpu_device *)device, &p, cpu_md_of(in[0], &p.x),
                          index >= 0 ? dnnl_forward_training : dnnl_forward_inference, &pd));
    cpu_arg args[3] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, 0, p.x, false},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0, CPU_OUT, weft_group_out(group, node->out), p.y, false},
    };
    int count = 2;
    if (index >= 0) /* the opaque layout remembers how the input lay, for the gradient */
        args[count++] = (cpu_arg){DNNL_ARG_WORKSPACE,
                                  dnnl_query_workspace_md,
                                  0,
                                  CPU_OUT,
                                  index,
                                  *cpu_md_of(in[0], &p.x),
                                  true};
    return cpu_primitive_make(device, pd, args, count, out);
}

/* maxpool_grad only reads an index that this device has made. */
static weft_status grad_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p = pool_of(node, &weft_out(g, node, 0)->shape, &weft_in(g, node, 0)->shape);
    bool indexed = node->in_count > 1;
    const weft_layout *index = indexed ? in[weft_group_in(group, node->in[1])] : NULL;
    if (indexed && (!index || !index->opaque))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "'%s' reads an index that no maxpool has made",
                         node->name);
    const cpu_md *x = indexed ? &((const cpu_layout *)index)->plain : NULL;
    cpu_md like = p.x;
    if (!x) { /* as dy lies: the same blocks under the input's dimensions */
        const cpu_md *dy = cpu_md_of(in[0], &p.y);
        const dnnl_blocking_desc_t *b = &dy->format_desc.blocking;
        if (b->inner_nblks == 1 && b->inner_idxs[0] == 1 && b->inner_blks[0] == 16)
            DNNL_TRY(dnnl_memory_desc_init_by_tag(&like, 4, p.x.dims, dnnl_f32, dnnl_aBcd16b));
        x = &like;
    }
    dnnl_primitive_desc_t hint, pd;
    WEFT_TRY(forward_desc(d, &p, x, dnnl_forward_training, &hint));
    cpu_md dy = *dnnl_primitive_desc_query_md(hint, dnnl_query_dst_md, 0);
    dnnl_pooling_desc_t desc;
    dnnl_status_t made = dnnl_pooling_backward_desc_init(&desc, p.alg, x, &dy, p.stride, p.kernel,
                                                         p.padding, p.padding_end);
    weft_status status = WEFT_OK;
    if (made == dnnl_success) status = cpu_desc_make(d, &desc, NULL, hint, &pd);
    dnnl_primitive_desc_destroy(hint);
    DNNL_TRY(made);
    WEFT_TRY(status);
    cpu_arg args[3] = {
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, CPU_IN, weft_group_in(group, node->in[0]),
         p.y, false},
        {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, CPU_OUT, 0, p.x, false},
    };
    if (indexed)
        args[2] = (cpu_arg){DNNL_ARG_WORKSPACE,
                            dnnl_query_workspace_md,
                            0,
                            CPU_IN,
                            weft_group_in(group, node->in[1]),
                            *x,
                            true};
    return cpu_primitive_make(device, pd, args, 2 + indexed, out);
}

const cpu_entry cpu_pool_entries[] = {
    {"maxpool", cpu_single, pool_make},
    {"maxpool_grad", cpu_single, grad_make},
    {"avgpool", cpu_single, pool_make},
    {"avgpool_grad", cpu_single, grad_make},
    {NULL, NULL, NULL},
};
