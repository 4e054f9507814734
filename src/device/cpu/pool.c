/* Pooling. The layout follows the input; the index of maxpool is oneDNN's own workspace. */
#include "device/cpu/cpu.h"

typedef struct pool {
    dnnl_dims_t stride, kernel, dilation, padding, padding_end;
    cpu_md x, y; /* plain */
    dnnl_alg_kind_t alg;
} pool;

static weft_status pool_of(weft_device *device, const weft_node *node, const weft_shape *x,
                           const weft_shape *y, pool *out)
{
    pool p = {.dilation = {0}};
    weft_window window = weft_node_window(node, x->rank - 2);
    for (int i = 0; i < window.dims; i++) {
        p.stride[i] = window.stride[i];
        p.kernel[i] = window.kernel[i];
        p.padding[i] = window.padding[i];
        p.padding_end[i] = window.padding_end[i];
    }
    WEFT_TRY(cpu_md_plain(device, x->rank, x->dim, &p.x));
    WEFT_TRY(cpu_md_plain(device, y->rank, y->dim, &p.y));
    p.alg = strncmp(node->op->name, "max", 3) == 0 ? dnnl_pooling_max
                                                   : dnnl_pooling_avg_exclude_padding;
    *out = p;
    return WEFT_OK;
}

/* x may be in a layout of its own; y follows it. */
static weft_status forward(cpu_device *d, const pool *p, cpu_md x, dnnl_prop_kind_t kind,
                           dnnl_primitive_desc_t *out)
{
    cpu_md y;
    WEFT_TRY(cpu_md_any(&d->head, p->y, &y));
    return DNNL_CALL(dnnl_pooling_forward_primitive_desc_create(
        out, d->engine, kind, p->alg, x, y, p->stride, p->kernel, p->dilation, p->padding,
        p->padding_end, d->attr));
}

static weft_status pool_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p;
    WEFT_TRY(pool_of(device, node, &weft_in(g, node, 0)->shape, &weft_out(g, node, 0)->shape, &p));
    cpu_md x = cpu_md_of(in[0], p.x);
    int index = node->out_count > 1 ? weft_group_out(group, node->out + 1) : -1;
    dnnl_primitive_desc_t pd;
    WEFT_TRY(forward((cpu_device *)device, &p, x,
                     index >= 0 ? dnnl_forward_training : dnnl_forward_inference, &pd));
    cpu_arg args[3] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, 0, p.x, false},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0, CPU_OUT, weft_group_out(group, node->out), p.y, false},
    };
    int count = 2;
    if (index >= 0) /* the opaque layout remembers how the input lay, for the gradient */
        args[count++] =
            (cpu_arg){DNNL_ARG_WORKSPACE, dnnl_query_workspace_md, 0, CPU_OUT, index, x, true};
    return cpu_primitive_make(device, pd, args, count, out);
}

/* maxpool_grad only reads an index that this device has made. */
static weft_status grad_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p;
    WEFT_TRY(pool_of(device, node, &weft_out(g, node, 0)->shape, &weft_in(g, node, 0)->shape, &p));
    bool indexed = node->in_count > 1;
    const weft_layout *index = indexed ? in[weft_group_in(group, node->in[1])] : NULL;
    if (indexed && (!index || !index->opaque))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "'%s' reads an index that no maxpool has made",
                         node->name);
    cpu_md x = indexed ? ((const cpu_layout *)index)->plain : p.x;
    if (!indexed && cpu_in_channel_blocks(cpu_md_of(in[0], p.y))) /* as dy lies */
        WEFT_TRY(cpu_md_blocked(device, &weft_out(g, node, 0)->shape, &x));
    dnnl_primitive_desc_t hint, pd;
    WEFT_TRY(forward(d, &p, x, dnnl_forward_training, &hint));
    weft_status status = DNNL_CALL(dnnl_pooling_backward_primitive_desc_create(
        &pd, d->engine, p.alg, x, dnnl_primitive_desc_query_md(hint, dnnl_query_dst_md, 0),
        p.stride, p.kernel, p.dilation, p.padding, p.padding_end, hint, d->attr));
    dnnl_primitive_desc_destroy(hint);
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
                            x,
                            true};
    return cpu_primitive_make(device, pd, args, 2 + indexed, out);
}

const cpu_entry cpu_pool_entries[] = {
    {"maxpool", "onednn", cpu_single, pool_make, NULL},
    {"maxpool_grad", "onednn", cpu_single, grad_make, NULL},
    {"avgpool", "onednn", cpu_single, pool_make, NULL},
    {"avgpool_grad", "onednn", cpu_single, grad_make, NULL},
    {.op = NULL},
};
