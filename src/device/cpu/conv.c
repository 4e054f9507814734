/* conv2d and its gradients. Every operand is left to oneDNN's choice; lowering puts reorders where
 * neighbours disagree. */
#include "device/cpu/cpu.h"

typedef struct conv {
    dnnl_dims_t stride, dilation, padding;
    cpu_md x, w, bias, y; /* plain */
} conv;

/* Weights of groups are [g, o / g, i / g, h, w] for oneDNN: the same memory as our [o, i / g, ..].
 */
static conv conv_of(const weft_node *node, const weft_shape *x, const weft_shape *w,
                    const weft_shape *y)
{
    conv c;
    weft_window window = weft_node_window(node);
    int64_t groups = weft_node_int(node, "groups", 0, 1);
    for (int i = 0; i < 2; i++) {
        c.stride[i] = window.stride[i];
        c.dilation[i] = window.dilation[i] - 1;
        c.padding[i] = window.padding[i];
    }
    int64_t grouped[] = {groups, w->dim[0] / groups, w->dim[1], w->dim[2], w->dim[3]};
    c.x = cpu_md_plain(4, x->dim);
    c.y = cpu_md_plain(4, y->dim);
    c.w = groups > 1 ? cpu_md_plain(5, grouped) : cpu_md_plain(4, w->dim);
    c.bias = cpu_md_plain(1, &y->dim[1]);
    return c;
}

static bool conv_supports(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain);
}

static weft_status forward_desc(cpu_device *d, const dnnl_convolution_desc_t *desc,
                                const cpu_chain *chain, const cpu_md *addend,
                                dnnl_primitive_desc_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_attr_t attr;
    WEFT_TRY(cpu_chain_post_ops(chain, addend, &ops));
    weft_status status = cpu_attr_make(ops, &attr);
    dnnl_post_ops_destroy(ops);
    WEFT_TRY(status);
    dnnl_status_t made = dnnl_primitive_desc_create(out, desc, attr, d->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    DNNL_TRY(made);
    return WEFT_OK;
}

static weft_status conv_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    cpu_chain chain;
    (void)cpu_chain_of(group, &chain);
    conv c = conv_of(node, &weft_in(g, node, 0)->shape, &weft_in(g, node, 1)->shape,
                     &weft_out(g, node, 0)->shape);
    cpu_md x = cpu_md_any(&c.x), w = cpu_md_any(&c.w), y = cpu_md_any(&c.y);
    bool biased = chain.bias != WEFT_NO_VALUE, added = chain.addend != WEFT_NO_VALUE;
    dnnl_convolution_desc_t desc;
    DNNL_TRY(dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, &x, &w, biased ? &c.bias : NULL, &y,
        c.stride, c.dilation, c.padding, c.padding));
    dnnl_primitive_desc_t pd;
    WEFT_TRY(forward_desc(d, &desc, &chain, NULL, &pd));
    cpu_md addend = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    if (added) { /* the addend has to lie as the result does, which is known only now */
        dnnl_primitive_desc_destroy(pd);
        WEFT_TRY(forward_desc(d, &desc, &chain, &addend, &pd));
    }
    cpu_arg args[5] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, weft_group_in(group, node->in[0]), c.x, false},
        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, CPU_IN, weft_group_in(group, node->in[1]), c.w,
         false},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0, CPU_OUT, 0, c.y, false},
    };
    int count = 3;
    if (biased)
        args[count++] = (cpu_arg){DNNL_ARG_BIAS,
                                  dnnl_query_weights_md,
                                  1,
                                  CPU_IN,
                                  weft_group_in(group, chain.bias),
                                  c.bias,
                                  false};
    if (added)
        args[count++] = (cpu_arg){cpu_chain_addend_arg(&chain),
                                  dnnl_query_dst_md,
                                  0,
                                  CPU_IN,
                                  weft_group_in(group, chain.addend),
                                  c.y,
                                  false};
    WEFT_TRY(cpu_primitive_make(device, pd, args, count, out));
    weft_status finished = cpu_chain_finish(group, &chain, *out);
    if (finished != WEFT_OK) (*out)->ops->destroy(*out);
    return finished;
}

/* Backward descriptors need the forward one as a hint. */
static weft_status hint_of(cpu_device *d, const conv *c, dnnl_primitive_desc_t *out)
{
    cpu_md x = cpu_md_any(&c->x), w = cpu_md_any(&c->w), y = cpu_md_any(&c->y);
    dnnl_convolution_desc_t desc;
    DNNL_TRY(dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, &x, &w, NULL, &y, c->stride,
        c->dilation, c->padding, c->padding));
    DNNL_TRY(dnnl_primitive_desc_create(out, &desc, NULL, d->engine, NULL));
    return WEFT_OK;
}

static weft_status backward_desc(cpu_device *d, const conv *c, const dnnl_convolution_desc_t *desc,
                                 dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint;
    dnnl_primitive_attr_t attr;
    WEFT_TRY(hint_of(d, c, &hint));
    weft_status status = cpu_attr_make(NULL, &attr);
    dnnl_status_t made = dnnl_success;
    if (status == WEFT_OK) {
        made = dnnl_primitive_desc_create(out, desc, attr, d->engine, hint);
        dnnl_primitive_attr_destroy(attr);
    }
    dnnl_primitive_desc_destroy(hint);
    WEFT_TRY(status);
    DNNL_TRY(made);
    return WEFT_OK;
}

static weft_status dx_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    conv c = conv_of(node, &weft_out(g, node, 0)->shape, &weft_in(g, node, 1)->shape,
                     &weft_in(g, node, 0)->shape);
    cpu_md x = cpu_md_any(&c.x), w = cpu_md_any(&c.w), y = cpu_md_any(&c.y);
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, &x, &w, &y, c.stride, c.dilation, c.padding, c.padding));
    WEFT_TRY(backward_desc(d, &c, &desc, &pd));
    cpu_arg args[] = {
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, CPU_IN, weft_group_in(group, node->in[0]),
         c.y, false},
        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, CPU_IN, weft_group_in(group, node->in[1]), c.w,
         false},
        {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, CPU_OUT, 0, c.x, false},
    };
    return cpu_primitive_make(device, pd, args, 3, out);
}

static bool dw_supports(const weft_group *group)
{
    return cpu_single(group) || cpu_with_bias_sum(group, 1, 1);
}

static weft_status dw_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    conv c = conv_of(node, &weft_in(g, node, 0)->shape, &weft_out(g, node, 0)->shape,
                     &weft_in(g, node, 1)->shape);
    cpu_md x = cpu_md_any(&c.x), w = cpu_md_any(&c.w), y = cpu_md_any(&c.y);
    bool biased = group->count == 2;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, &x, &w, biased ? &c.bias : NULL, &y, c.stride, c.dilation,
        c.padding, c.padding));
    WEFT_TRY(backward_desc(d, &c, &desc, &pd));
    cpu_arg args[4] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0, CPU_IN, weft_group_in(group, node->in[0]), c.x, false},
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, CPU_IN, weft_group_in(group, node->in[1]),
         c.y, false},
        {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0, CPU_OUT,
         weft_group_out(group, node->out), c.w, false},
    };
    if (biased)
        args[3] = (cpu_arg){DNNL_ARG_DIFF_BIAS,
                            dnnl_query_diff_weights_md,
                            1,
                            CPU_OUT,
                            weft_group_out(group, group->node[1]->out),
                            c.bias,
                            false};
    return cpu_primitive_make(device, pd, args, 3 + biased, out);
}

const cpu_entry cpu_conv_entries[] = {
    {"conv2d", conv_supports, conv_make},
    {"conv2d_dx", cpu_single, dx_make},
    {"conv2d_dw", dw_supports, dw_make},
    {NULL, NULL, NULL},
};
