/* Implements conv and its gradients by oneDNN's convolutions. oneDNN chooses the layouts of all
 * operands; lowering adds a reorder where a node's producer or reader has another layout. */
#include "device/cpu/im2col.h"
#include "device/cpu/weight_grad.h"
#include "device/cpu/winograd.h"

typedef struct conv {
    onednn_spec any; /* operands in the layouts that the primitive chooses */
    cpu_weighted m;  /* plain operands */
} conv;

/* Describes a convolution. read: the type in which it reads the weight. A weight with g groups is
 * [g, o / g, i / g, ...] in oneDNN, which is the same memory as Weft's [o, i / g, ...]. */
static weft_status conv_of(weft_device *device, const weft_node *node, const weft_type *x_type,
                           const weft_type *w_type, weft_dtype read, const weft_type *y_type,
                           conv *out)
{
    const weft_shape *x = &x_type->shape, *w = &w_type->shape, *y = &y_type->shape;
    conv c = {.any = {.kind = ONEDNN_CONV}};
    weft_window window = weft_node_window(node, x->rank - 2);
    int64_t groups = weft_node_int(node, "groups", 0, 1);
    for (int i = 0; i < window.dims; i++) {
        c.any.stride[i] = window.stride[i];
        c.any.dilation[i] = window.dilation[i] - 1;
        c.any.padding[i] = window.padding[i];
        c.any.padding_end[i] = window.padding_end[i];
    }
    int64_t grouped[WEFT_MAX_RANK + 1] = {groups, w->dim[0] / groups};
    for (int i = 1; i < w->rank; i++) grouped[i + 1] = w->dim[i];
    WEFT_TRY(cpu_md_of_type(device, x_type, &c.m.x));
    WEFT_TRY(cpu_md_of_type(device, y_type, &c.m.y));
    WEFT_TRY(groups > 1 ? cpu_md_plain(device, w_type->dtype, w->rank + 1, grouped, &c.m.w)
                        : cpu_md_of_type(device, w_type, &c.m.w));
    WEFT_TRY(cpu_md_plain(device, WEFT_F32, 1, &y->dim[1], &c.m.bias));
    c.any.bias = c.m.bias;
    WEFT_TRY(onednn_md_any(cpu_onednn(device), c.m.x, x_type->dtype, &c.any.x));
    WEFT_TRY(onednn_md_any(cpu_onednn(device), c.m.y, y_type->dtype, &c.any.y));
    WEFT_TRY(onednn_md_any(cpu_onednn(device), c.m.w, read, &c.any.w));
    *out = c;
    return WEFT_OK;
}

static bool conv_supports(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain);
}

static weft_status forward_of(weft_device *device, const weft_group *group, conv *out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    return conv_of(device, node, weft_in(g, node, 0), weft_in(g, node, 1),
                   cpu_read_type(g, node, 1), cpu_chain_type(group), out);
}

static weft_status conv_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    cpu_chain chain;
    conv c;
    (void)cpu_chain_of(group, &chain);
    WEFT_TRY(forward_of(device, group, &c));
    return cpu_forward_make(device, group, &chain, &c.any, &c.m, out);
}

static weft_status conv_winograd_make(weft_device *device, const weft_group *group,
                                      const weft_layout *const *in, weft_kernel **out)
{
    conv c;
    WEFT_TRY(forward_of(device, group, &c));
    return cpu_winograd_make(device, group, &c.any, &c.m, in, out);
}

static weft_status conv_im2col_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    conv c;
    WEFT_TRY(forward_of(device, group, &c));
    return cpu_im2col_make(device, group, &c.any, &c.m, out);
}

static weft_status dx_of(weft_device *device, const weft_group *group, conv *out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    return conv_of(device, node, weft_out(g, node, 0), weft_in(g, node, 1),
                   cpu_read_type(g, node, 1), weft_in(g, node, 0), out);
}

static weft_status dx_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    conv c;
    WEFT_TRY(dx_of(device, group, &c));
    return cpu_dx_make(device, group, &c.any, &c.m, out);
}

static weft_status dx_winograd_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out)
{
    conv c;
    WEFT_TRY(dx_of(device, group, &c));
    return cpu_winograd_make(device, group, &c.any, &c.m, in, out);
}

static bool dw_supports(const weft_group *group)
{
    return cpu_single(group) || cpu_with_bias_sum(group, 1, 1);
}

static weft_status dw_of(weft_device *device, const weft_group *group, conv *out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    return conv_of(device, node, weft_in(g, node, 0), weft_out(g, node, 0),
                   weft_out(g, node, 0)->dtype, weft_in(g, node, 1), out);
}

static weft_status dw_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    conv c;
    WEFT_TRY(dw_of(device, group, &c));
    return cpu_dw_make(device, group, &c.any, &c.m, out);
}

static weft_status dw_panels_make(weft_device *device, const weft_group *group,
                                  const weft_layout *const *in, weft_kernel **out)
{
    conv c;
    WEFT_TRY(dw_of(device, group, &c));
    return cpu_weight_grad_make(device, group, &c.any, &c.m, in, out);
}

static weft_status dw_winograd_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out)
{
    conv c;
    WEFT_TRY(dw_of(device, group, &c));
    return cpu_winograd_make(device, group, &c.any, &c.m, in, out);
}

const cpu_entry cpu_conv_entries[] = {
    {"conv", "direct", conv_supports, conv_make, NULL, CPU_HARDWARE},
    {"conv", "winograd", cpu_winograd_supports, conv_winograd_make, cpu_winograd_seconds, CPU_WIDE},
    {"conv", "im2col", cpu_im2col_supports, conv_im2col_make, cpu_im2col_seconds, CPU_WIDE},
    {"conv_dx", "direct", cpu_single, dx_make, NULL, CPU_HARDWARE},
    {"conv_dx", "winograd", cpu_winograd_supports, dx_winograd_make, cpu_winograd_seconds,
     CPU_WIDE},
    {"conv_dw", "direct", dw_supports, dw_make, NULL, CPU_HARDWARE},
    {"conv_dw", "panels", cpu_weight_grad_supports, dw_panels_make, cpu_weight_grad_seconds,
     CPU_PAIRS},
    {"conv_dw", "winograd", cpu_winograd_supports, dw_winograd_make, cpu_winograd_seconds,
     CPU_WIDE},
    {.op = NULL},
};
