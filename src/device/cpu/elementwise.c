/* Implements groups of operators that are functions of each element (weft_op.element) as one pass:
 * for a block of elements after the other, each node in turn computes its elements, so intermediate
 * results stay in the first cache and are written nowhere else. Truth values (bool) are bytes in
 * operands and results, and 0 or 1 in the float of a block; bf16 values are f32 in a block, and
 * only results of the group are rounded. Random rounding of results, and casts of these to f32, are
 * parts of the pass; tensors are in row-major order then. */
#include <stdlib.h>

#include "device/cpu/element_pass.h"
#include "device/cpu/update.h"

enum { GRAIN = 8192 };

static int by_place_in_graph(const void *a, const void *b)
{
    const weft_node *const *x = a, *const *y = b;
    return ((*x)->out > (*y)->out) - ((*x)->out < (*y)->out);
}

/* Sets where each node reads and writes. node[]: the group's nodes in the order of the graph. */
static void lay_out(const weft_group *group, const weft_node *const *node, element_pass *k)
{
    int spreads = 0, index[WEFT_GROUP_VALUES];
    for (int i = 0; i < group->in_count; i++) {
        const weft_shape *all = &weft_out(group->graph, group->node[0], 0)->shape;
        const weft_type *operand = weft_value_type(group->graph, group->in[i]);
        k->spread[i] = operand->dtype == WEFT_BOOL || (weft_dtype_is_float(operand->dtype) &&
                                                       !weft_shape_equal(&operand->shape, all));
        k->narrow[i] = operand->dtype == WEFT_BF16 && !k->spread[i];
        if (k->spread[i]) k->how[i] = cpu_spread_of(operand, all);
        index[i] = k->spread[i] || k->narrow[i] ? spreads++ : i;
    }
    k->blocks = spreads;
    for (int s = 0; s < group->count; s++) {
        element_step *now = &k->steps[s];
        const weft_element *element = node[s]->op->element;
        *now = (element_step){node[s], element, element ? element->count : 1, .in = {{OPERAND, 0}}};
        if (element) weft_node_parameters(node[s], now->parameters);
        for (int i = 0; i < node[s]->in_count; i++) {
            int in = weft_group_in(group, node[s]->in[i]);
            bool block = in >= 0 && (k->spread[in] || k->narrow[in]);
            if (in >= 0) now->in[i] = (element_where){block ? SPREAD : OPERAND, index[in]};
            for (int t = 0; t < s && in < 0; t++)
                if (node[t]->out == node[s]->in[i]) now->in[i] = k->steps[t].out;
        }
        int out = weft_group_out(group, node[s]->out);
        weft_dtype type = weft_out(group->graph, node[s], 0)->dtype;
        bool direct = out >= 0 && type == WEFT_F32;
        now->out = direct ? (element_where){RESULT, out} : (element_where){BETWEEN, k->blocks++};
        if (out >= 0) k->type[out] = type;
        if (out >= 0 && !direct) k->other[out] = now->out.index + 1;
    }
}

/* A result may overlie an operand that no later node reads; a bf16 result, which is written at the
 * end of a block, each bf16 operand, which is read at its beginning. */
static void allow_in_place(element_pass *k)
{
    for (int o = 0; o < k->out_count; o++)
        for (int i = 0; i < k->in_count && k->other[o] > 0 && k->type[o] == WEFT_BF16; i++)
            if (k->narrow[i]) k->head.in_place[o] |= 1u << i;
    for (int s = 0; s < k->count; s++) {
        if (k->steps[s].out.place != RESULT) continue;
        for (int i = 0; i < k->in_count; i++) {
            bool later = k->spread[i];
            for (int t = s + 1; t < k->count; t++)
                for (int j = 0; j < k->steps[t].operands; j++)
                    later = later ||
                            (k->steps[t].in[j].place == OPERAND && k->steps[t].in[j].index == i);
            if (!later) k->head.in_place[k->steps[s].out.index] |= 1u << i;
        }
    }
}

/* Whether every result is zero where the tensors are, whatever the scalars: then zeros in the
 * padding of a layout stay zero. */
static bool keeps_zeros(const element_pass *k)
{
    const float zero = 0, one = 1;
    bool spread[WEFT_GROUP_VALUES] = {false}; /* of each block */
    for (int i = 0, index = 0; i < k->in_count; i++)
        if (k->spread[i] || k->narrow[i]) spread[index++] = k->spread[i];
    for (int s = 0; s < k->count; s++) {
        const void *in[3];
        float y;
        if (!k->steps[s].element) return false;
        for (int i = 0; i < 3; i++) {
            element_where w = k->steps[s].in[i];
            in[i] = w.place == SPREAD && spread[w.index] ? &one : &zero;
        }
        k->steps[s].element->f32(in, k->steps[s].parameters, &y, 1);
        if (y != 0) return false;
    }
    return true;
}

/* The type of all tensors of the result's shape, operands and results; bool: they differ, or there
 * are results of bool. */
static weft_dtype common_type(const weft_group *group, const element_pass *k)
{
    weft_dtype type = k->type[0];
    bool same = true;
    for (int o = 0; o < k->out_count; o++) same = same && k->type[o] == type;
    for (int i = 0; i < k->in_count; i++)
        if (!k->spread[i])
            same = same && weft_value_type(group->graph, group->in[i])->dtype == type;
    return same ? type : WEFT_BOOL;
}

/* Lays out the operands and results: tensors of the result's shape in `layout`, or plain if that is
 * NULL; others plain. */
static weft_status lay(weft_device *device, const weft_group *group, const weft_layout *layout,
                       element_pass *k)
{
    const weft_graph *g = group->graph;
    for (int i = 0; i < group->in_count; i++)
        if (layout && !k->spread[i])
            k->head.in[i] = layout;
        else
            WEFT_TRY(weft_layout_plain(device, weft_value_type(g, group->in[i]), &k->head.in[i]));
    for (int o = 0; o < group->out_count; o++)
        if (layout)
            k->head.out[o] = layout;
        else
            WEFT_TRY(weft_layout_plain(device, weft_value_type(g, group->out[o]), &k->head.out[o]));
    return WEFT_OK;
}

/* The layout of all tensors: that of the first operand that has one, unless numbers would get into
 * its padding, elements are found by their indices, or types differ; or plain. */
static weft_status choose_layouts(weft_device *device, const weft_group *group,
                                  const weft_layout *const *in, element_pass *k)
{
    const weft_type all = {common_type(group, k), weft_out(group->graph, group->node[0], 0)->shape};
    const weft_layout *layout = NULL;
    bool padding = keeps_zeros(k), plain = all.dtype == WEFT_BOOL;
    for (int s = 0; s < k->count; s++) plain = plain || !k->steps[s].element;
    for (int i = 0; i < group->in_count; i++)
        plain = plain || (k->spread[i] && !cpu_spread_is_scalar(&k->how[i]));
    for (int i = 0; i < group->in_count && !layout && !plain; i++)
        if (!k->spread[i] && in[i] && !in[i]->opaque &&
            (padding || in[i]->bytes == weft_type_bytes(&all)))
            layout = in[i];
    if (layout) k->size = (int64_t)(layout->bytes / weft_dtype_size(all.dtype));
    return lay(device, group, layout, k);
}

static weft_status make(weft_device *device, const weft_group *group, const weft_layout *const *in,
                        weft_kernel **out)
{
    element_pass *k;
    const weft_node *node[WEFT_GROUP_NODES];
    WEFT_TRY(WEFT_NEW(&k, 1));
    memcpy((void *)node, (const void *)group->node, (size_t)group->count * sizeof(*node));
    qsort((void *)node, (size_t)group->count, sizeof(*node), by_place_in_graph);
    k->head.ops = &cpu_element_pass_ops;
    k->graph = group->graph;
    k->count = group->count;
    k->in_count = group->in_count;
    k->out_count = group->out_count;
    k->size = weft_shape_elements(&weft_out(group->graph, group->node[0], 0)->shape);
    k->threads = (int)WEFT_MIN((int64_t)device->threads, k->size / GRAIN + 1);
    lay_out(group, node, k);
    allow_in_place(k);
    k->head.scratch = (size_t)k->threads * (size_t)k->blocks * ELEMENT_BLOCK * sizeof(float);
    memcpy(k->head.text, "elements", sizeof("elements"));
    weft_status status = choose_layouts(device, group, in, k);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        free(k);
    return status;
}

static bool is_block_type(const weft_type *type)
{
    return type->dtype == WEFT_F32 || type->dtype == WEFT_BF16 || type->dtype == WEFT_BOOL;
}

/* Whether a node rounds what another one of the group computes, or casts what one rounds. */
static bool rounds(const weft_group *group, const weft_node *node)
{
    bool random = cpu_rounds_at_random(node);
    for (int n = 0; n < group->count && node->in_count > 0; n++) {
        const weft_node *other = group->node[n];
        if (other->out == node->in[0])
            return random ? other->op->element != NULL
                          : cpu_widens(group->graph, node) && cpu_rounds_at_random(other);
    }
    return false;
}

/* All nodes are functions of each element of one shape, of f32, bf16 and bool, or round these. */
static bool supports(const weft_group *group)
{
    const weft_type *all = weft_out(group->graph, group->node[0], 0);
    for (int n = 0; n < group->count; n++) {
        const weft_node *node = group->node[n];
        if (!weft_shape_equal(&weft_out(group->graph, node, 0)->shape, &all->shape)) return false;
        if (!node->op->element && rounds(group, node)) continue;
        if (!node->op->element) return false;
        if (!is_block_type(weft_out(group->graph, node, 0))) return false;
        for (int i = 0; i < node->in_count; i++)
            if (!is_block_type(weft_in(group->graph, node, i))) return false;
    }
    return true;
}

const cpu_entry cpu_element_entry = {NULL, "elements", supports, make, NULL, CPU_ANY};
