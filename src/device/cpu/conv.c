/* conv2d and its gradients. Every operand is left to oneDNN's choice; lowering puts reorders where
 * neighbours disagree. */
#include "device/cpu/cpu.h"

typedef struct conv {
    dnnl_dims_t stride, dilation, padding, padding_end;
    cpu_weighted m; /* plain */
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
        c.padding_end[i] = window.padding_end[i];
    }
    int64_t grouped[] = {groups, w->dim[0] / groups, w->dim[1], w->dim[2], w->dim[3]};
    c.m.x = cpu_md_plain(4, x->dim);
    c.m.y = cpu_md_plain(4, y->dim);
    c.m.w = groups > 1 ? cpu_md_plain(5, grouped) : cpu_md_plain(4, w->dim);
    c.m.bias = cpu_md_plain(1, &y->dim[1]);
    return c;
}

/* The same in whatever layouts the primitive likes. */
static cpu_weighted free_layouts(const cpu_weighted *m)
{
    return (cpu_weighted){cpu_md_any(&m->x), cpu_md_any(&m->w), m->bias, cpu_md_any(&m->y)};
}

static bool conv_supports(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain);
}

static weft_status forward_op(const conv *c, bool biased, dnnl_convolution_desc_t *out)
{
    cpu_weighted any = free_layouts(&c->m);
    DNNL_TRY(dnnl_dilated_convolution_forward_desc_init(
        out, dnnl_forward_training, dnnl_convolution_direct, &any.x, &any.w,
        biased ? &any.bias : NULL, &any.y, c->stride, c->dilation, c->padding, c->padding_end));
    return WEFT_OK;
}

static weft_status conv_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    cpu_chain chain;
    dnnl_convolution_desc_t desc;
    (void)cpu_chain_of(group, &chain);
    conv c = conv_of(node, &weft_in(g, node, 0)->shape, &weft_in(g, node, 1)->shape,
                     &weft_out(g, node, 0)->shape);
    WEFT_TRY(forward_op(&c, chain.bias != WEFT_NO_VALUE, &desc));
    return cpu_forward_make(device, group, &chain, &desc, &c.m, out);
}

/* Backward descriptors need the forward one as a hint. */
static weft_status hint_of(weft_device *device, const conv *c, dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t desc;
    WEFT_TRY(forward_op(c, false, &desc));
    return cpu_desc_make((cpu_device *)device, &desc, NULL, NULL, out);
}

static weft_status dx_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    conv c = conv_of(node, &weft_out(g, node, 0)->shape, &weft_in(g, node, 1)->shape,
                     &weft_in(g, node, 0)->shape);
    cpu_weighted any = free_layouts(&c.m);
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint;
    DNNL_TRY(dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, &any.x, &any.w, &any.y, c.stride, c.dilation, c.padding,
        c.padding_end));
    WEFT_TRY(hint_of(device, &c, &hint));
    weft_status status = cpu_dx_make(device, group, &desc, hint, &c.m, out);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

static bool dw_supports(const weft_group *group)
{
    return cpu_single(group) || cpu_with_bias_sum(group, 1, 1);
}

static weft_status dw_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    conv c = conv_of(node, &weft_in(g, node, 0)->shape, &weft_out(g, node, 0)->shape,
                     &weft_in(g, node, 1)->shape);
    cpu_weighted any = free_layouts(&c.m);
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint;
    DNNL_TRY(dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, &any.x, &any.w, group->count == 2 ? &any.bias : NULL,
        &any.y, c.stride, c.dilation, c.padding, c.padding_end));
    WEFT_TRY(hint_of(device, &c, &hint));
    weft_status status = cpu_dw_make(device, group, &desc, hint, &c.m, out);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

const cpu_entry cpu_conv_entries[] = {
    {"conv2d", conv_supports, conv_make},
    {"conv2d_dx", cpu_single, dx_make},
    {"conv2d_dw", dw_supports, dw_make},
    {NULL, NULL, NULL},
};
