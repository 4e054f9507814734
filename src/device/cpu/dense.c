/* Implements dense and its gradients by oneDNN's inner products, and matmul. Activations are
 * row-major, and oneDNN chooses the layout of weights. Weft's weight [k, n] is oneDNN's (n, k). */
#include "device/cpu/weight_grad.h"

typedef struct dense {
    onednn_spec any; /* the weight in the layout that the primitive chooses */
    cpu_weighted m;  /* plain */
} dense;

/* Describes an inner product of x [rows, k], where rows are all leading dimensions of x or dx, and
 * w [k, n]. */
static weft_status dense_of(weft_device *device, const weft_type *x, const weft_type *w,
                            weft_dtype read, weft_dtype y, dense *out)
{
    int64_t k = w->shape.dim[0], n = w->shape.dim[1], rows = weft_shape_elements(&x->shape) / k;
    onednn *o = cpu_onednn(device);
    WEFT_TRY(cpu_md_plain(device, x->dtype, 2, (int64_t[]){rows, k}, &out->m.x));
    WEFT_TRY(cpu_md_plain(device, y, 2, (int64_t[]){rows, n}, &out->m.y));
    WEFT_TRY(onednn_md_strided(o, w->dtype, 2, (int64_t[]){n, k}, (int64_t[]){1, n}, &out->m.w));
    WEFT_TRY(cpu_md_plain(device, WEFT_F32, 1, &n, &out->m.bias));
    out->any =
        (onednn_spec){.kind = ONEDNN_INNER, .x = out->m.x, .bias = out->m.bias, .y = out->m.y};
    return onednn_md_any(o, out->m.w, read, &out->any.w);
}

/* oneDNN 2 adds an operand to a product of bf16 numbers by a kernel that takes about twice as long
 * as the product and a pass that adds. */
static bool dense_supports(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain) &&
           (chain.addend == WEFT_NO_VALUE || cpu_chain_type(group)->dtype == WEFT_F32);
}

static weft_status dense_make(weft_device *device, const weft_group *group,
                              const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    cpu_chain chain;
    dense p;
    (void)cpu_chain_of(group, &chain);
    WEFT_TRY(dense_of(device, weft_in(g, node, 0), weft_in(g, node, 1), cpu_read_type(g, node, 1),
                      cpu_chain_type(group)->dtype, &p));
    return cpu_forward_make(device, group, &chain, &p.any, &p.m, out);
}

static weft_status dx_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    dense p;
    WEFT_TRY(dense_of(device, weft_out(g, node, 0), weft_in(g, node, 1), cpu_read_type(g, node, 1),
                      weft_in(g, node, 0)->dtype, &p));
    return cpu_dx_make(device, group, &p.any, &p.m, out);
}

static bool dw_supports(const weft_group *group)
{
    int rank = weft_in(group->graph, group->node[0], 1)->shape.rank;
    return cpu_single(group) || cpu_with_bias_sum(group, 1, rank - 1);
}

static weft_status dw_of(weft_device *device, const weft_group *group, dense *out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    return dense_of(device, weft_in(g, node, 0), weft_out(g, node, 0), weft_out(g, node, 0)->dtype,
                    weft_in(g, node, 1)->dtype, out);
}

static weft_status dw_make(weft_device *device, const weft_group *group,
                           const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    dense p;
    WEFT_TRY(dw_of(device, group, &p));
    return cpu_dw_make(device, group, &p.any, &p.m, out);
}

static weft_status dw_panels_make(weft_device *device, const weft_group *group,
                                  const weft_layout *const *in, weft_kernel **out)
{
    dense p;
    WEFT_TRY(dw_of(device, group, &p));
    return cpu_weight_grad_make(device, group, &p.any, &p.m, in, out);
}

/* The descriptor of a matmul operand as [batch, rows, columns], with swapped dimensions and strides
 * if it is transposed. */
static weft_status matrix(weft_device *device, const weft_shape *s, weft_dtype dtype,
                          bool transposed, cpu_md *out)
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
    return onednn_md_strided(cpu_onednn(device), dtype, 3, dim, stride, out);
}

static weft_status matmul_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    bool ta = weft_node_int(node, "ta", 0, 0) != 0, tb = weft_node_int(node, "tb", 0, 0) != 0;
    const weft_type *x = weft_in(g, node, 0), *w = weft_in(g, node, 1), *y = weft_out(g, node, 0);
    onednn_spec s = {.kind = ONEDNN_MATMUL};
    cpu_md plain_x, plain_w; /* in the operands' own types */
    WEFT_TRY(matrix(device, &x->shape, cpu_read_type(g, node, 0), ta, &s.x));
    WEFT_TRY(matrix(device, &w->shape, cpu_read_type(g, node, 1), tb, &s.w));
    WEFT_TRY(matrix(device, &x->shape, x->dtype, ta, &plain_x));
    WEFT_TRY(matrix(device, &w->shape, w->dtype, tb, &plain_w));
    WEFT_TRY(matrix(device, &y->shape, y->dtype, false, &s.y));
    cpu_arg args[] = {
        {ONEDNN_X, CPU_IN, weft_group_in(group, node->in[0]), plain_x, false},
        {ONEDNN_W, CPU_IN, weft_group_in(group, node->in[1]), plain_w, false},
        {ONEDNN_Y, CPU_OUT, 0, s.y, false},
    };
    return cpu_spec_make(device, &s, args, 3, out);
}

/* A node with the same value as both operands is left to the reference device, since the value
 * would need two layouts. */
static bool matmul_supports(const weft_group *group)
{
    return cpu_single(group) && group->node[0]->in[0] != group->node[0]->in[1];
}

const cpu_entry cpu_dense_entries[] = {
    {"dense", "inner", dense_supports, dense_make, NULL, CPU_HARDWARE},
    {"dense_dx", "inner", cpu_single, dx_make, NULL, CPU_HARDWARE},
    {"dense_dw", "inner", dw_supports, dw_make, NULL, CPU_HARDWARE},
    {"dense_dw", "panels", cpu_weight_grad_supports, dw_panels_make, cpu_weight_grad_seconds,
     CPU_PAIRS},
    {"matmul", "matmul", matmul_supports, matmul_make, NULL, CPU_HARDWARE},
    {.op = NULL},
};
