/* Implements pooling by oneDNN. The layout of the result follows from the layout of the input; the
 * index of maxpool is oneDNN's workspace. */
#include "device/cpu/cpu.h"

typedef struct pool {
    onednn_spec any; /* x plain, y in the layout that follows from x */
    cpu_md x, y;     /* plain */
} pool;

static weft_status pool_of(weft_device *device, const weft_node *node, const weft_shape *x,
                           const weft_shape *y, pool *out)
{
    bool max = strncmp(node->op->name, "max", 3) == 0;
    pool p = {.any = {.kind = max ? ONEDNN_MAXPOOL : ONEDNN_AVGPOOL}};
    weft_window window = weft_node_window(node, x->rank - 2);
    for (int i = 0; i < window.dims; i++) {
        p.any.stride[i] = window.stride[i];
        p.any.kernel[i] = window.kernel[i];
        p.any.padding[i] = window.padding[i];
        p.any.padding_end[i] = window.padding_end[i];
    }
    WEFT_TRY(cpu_md_plain(device, x->rank, x->dim, &p.x));
    WEFT_TRY(cpu_md_plain(device, y->rank, y->dim, &p.y));
    p.any.x = p.x;
    WEFT_TRY(onednn_md_any(cpu_onednn(device), p.y, &p.any.y));
    *out = p;
    return WEFT_OK;
}

static weft_status pool_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p;
    WEFT_TRY(pool_of(device, node, &weft_in(g, node, 0)->shape, &weft_out(g, node, 0)->shape, &p));
    p.any.x = cpu_md_of(in[0], p.x);
    int index = node->out_count > 1 ? weft_group_out(group, node->out + 1) : -1;
    p.any.pass = index >= 0 ? ONEDNN_FORWARD : ONEDNN_INFERENCE;
    cpu_arg args[3] = {
        {ONEDNN_X, CPU_IN, 0, p.x, false},
        {ONEDNN_Y, CPU_OUT, weft_group_out(group, node->out), p.y, false},
        /* The opaque layout of the index records the layout of the input, which the gradient
         * needs. */
        {ONEDNN_INDEX, CPU_OUT, index, p.any.x, true},
    };
    return cpu_spec_make(device, &p.any, args, index >= 0 ? 3 : 2, out);
}

/* Creates a kernel for the gradient of pooling. maxpool_grad is refused unless this device has made
 * the index, since the format of the index is oneDNN's. */
static weft_status grad_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p;
    WEFT_TRY(pool_of(device, node, &weft_out(g, node, 0)->shape, &weft_in(g, node, 0)->shape, &p));
    bool indexed = node->in_count > 1;
    int at = indexed ? weft_group_in(group, node->in[1]) : -1;
    const weft_layout *index = indexed ? in[at] : NULL;
    if (indexed && (!index || !index->opaque))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "'%s' reads an index that no maxpool has made",
                         node->name);
    if (indexed)
        p.any.x = ((const cpu_layout *)index)->plain;
    else if (cpu_in_channel_blocks(cpu_md_of(in[0], p.y))) /* in the layout of dy */
        WEFT_TRY(onednn_md_blocked(cpu_onednn(device), &weft_out(g, node, 0)->shape, &p.any.x));
    p.any.pass = ONEDNN_BACKWARD;
    cpu_arg args[3] = {
        {ONEDNN_DY, CPU_IN, weft_group_in(group, node->in[0]), p.y, false},
        {ONEDNN_DX, CPU_OUT, 0, p.x, false},
        {ONEDNN_INDEX, CPU_IN, at, p.any.x, true},
    };
    return cpu_spec_make(device, &p.any, args, 2 + indexed, out);
}

const cpu_entry cpu_pool_entries[] = {
    {"maxpool", "onednn", cpu_single, pool_make, NULL},
    {"maxpool_grad", "onednn", cpu_single, grad_make, NULL},
    {"avgpool", "onednn", cpu_single, pool_make, NULL},
    {"avgpool_grad", "onednn", cpu_single, grad_make, NULL},
    {.op = NULL},
};
