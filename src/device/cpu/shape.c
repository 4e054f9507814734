/* concat and slice along an axis, in blocked layouts where the cuts fall between blocks. */
#include "device/cpu/cpu.h"

/* The layout of x cut to other dimensions: the same blocks, or plain. */
static weft_status alike(weft_device *device, cpu_md x, const weft_type *type, cpu_md *out)
{
    if (type->shape.rank == 4 && cpu_in_channel_blocks(x))
        return cpu_md_blocked(device, type->shape.dim, out);
    return cpu_md_of_type(device, type, out);
}

static weft_status concat_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    int axis = (int)weft_node_int(node, "axis", 0, 0);
    cpu_md source[CPU_MAX_ARGS], plain, target;
    cpu_arg args[CPU_MAX_ARGS];
    for (int i = 0; i < node->in_count; i++) {
        WEFT_TRY(cpu_md_of_type(device, weft_in(g, node, i), &plain));
        int at = weft_group_in(group, node->in[i]);
        source[i] = cpu_md_of(in[at], plain);
        args[i] =
            (cpu_arg){DNNL_ARG_MULTIPLE_SRC + i, dnnl_query_src_md, i, CPU_IN, at, plain, false};
    }
    WEFT_TRY(cpu_md_of_type(device, weft_out(g, node, 0), &plain));
    WEFT_TRY(alike(device, source[0], weft_out(g, node, 0), &target));
    dnnl_primitive_desc_t pd;
    DNNL_TRY(dnnl_concat_primitive_desc_create(&pd, d->engine, target, node->in_count, axis, source,
                                               d->attr));
    args[node->in_count] = (cpu_arg){DNNL_ARG_DST, dnnl_query_dst_md, 0, CPU_OUT, 0, plain, false};
    return cpu_primitive_make(device, pd, args, node->in_count + 1, out);
}

static bool concat_supports(const weft_group *group)
{
    const weft_node *node = group->node[0];
    if (!cpu_single(group) || node->in_count + 2 > CPU_MAX_ARGS) return false;
    for (int i = 0; i < node->in_count; i++)
        for (int j = 0; j < i; j++)
            if (node->in[i] == node->in[j]) return false;
    return true;
}

/* A reorder out of a part of the tensor. */
static weft_status slice_make(weft_device *device, const weft_group *group,
                              const weft_layout *const *in, weft_kernel **out)
{
    cpu_device *d = (cpu_device *)device;
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_type *type = weft_in(g, node, 0), *result = weft_out(g, node, 0);
    cpu_md plain, target_plain, target;
    WEFT_TRY(cpu_md_of_type(device, type, &plain));
    WEFT_TRY(cpu_md_of_type(device, result, &target_plain));
    cpu_md whole = cpu_md_of(in[0], plain);
    WEFT_TRY(alike(device, whole, result, &target));
    dnnl_memory_desc_t part;
    dnnl_dims_t offset = {0}, dims;
    int axis = (int)weft_node_int(node, "axis", 0, 0);
    for (int i = 0; i < type->shape.rank; i++) dims[i] = result->shape.dim[i];
    offset[axis] = weft_node_int(node, "start", 0, 0);
    if (dnnl_memory_desc_create_submemory(&part, whole, dims, offset) != dnnl_success) {
        whole = plain; /* the cut falls into a block: from plain memory, then */
        target = target_plain;
        DNNL_TRY(dnnl_memory_desc_create_submemory(&part, whole, dims, offset));
    }
    dnnl_primitive_desc_t pd;
    weft_status status = DNNL_CALL(
        dnnl_reorder_primitive_desc_create(&pd, part, d->engine, target, d->engine, d->attr));
    (void)dnnl_memory_desc_destroy(part);
    WEFT_TRY(status);
    cpu_arg args[] = {
        {DNNL_ARG_FROM, dnnl_query_src_md, 0, CPU_IN, 0, plain, false},
        {DNNL_ARG_TO, dnnl_query_dst_md, 0, CPU_OUT, 0, target_plain, false},
    };
    WEFT_TRY(cpu_primitive_make(device, pd, args, 2, out));
    /* The primitive reads a part, but the operand is the whole. */
    return cpu_layout_of(device, whole, plain, false, &(*out)->in[0]);
}

const cpu_entry cpu_shape_entries[] = {
    {"concat", concat_supports, concat_make},
    {"slice", cpu_single, slice_make},
    {NULL, NULL, NULL},
};
