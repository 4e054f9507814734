/* Packs and unpacks, on a device, parts of tensors that do not lie one after the other: kernels of
 * slice, concat, pad and add, on the tensor as [outer, size, inner] around the dimension that is
 * split. */
#include <stdio.h>

#include "program/far.h"

enum { DIM = 1 };

static weft_value leaf(weft_graph *g, int number, weft_dtype dtype, int64_t outer, int64_t size,
                       int64_t inner)
{
    const weft_shape shape = weft_shape_of(3, (const int64_t[]){outer, size, inner});
    char name[24];
    (void)snprintf(name, sizeof(name), "part%d", number);
    return weft_graph_leaf(g, WEFT_VALUE_INPUT, name, dtype, &shape,
                           (weft_init){.kind = WEFT_INIT_CONSTANT});
}

static weft_value node(weft_graph *g, const char *op, int number, const weft_value *in, int count,
                       const weft_attr *attrs, int attr_count)
{
    char name[40];
    (void)snprintf(name, sizeof(name), "%s%d", op, number);
    return weft_graph_node(g, op, name, in, count, attrs, attr_count);
}

weft_status weft_far_split(weft_device *device, const far_rows *t, const far_range *part, int parts,
                           far_graph **out)
{
    weft_graph *g;
    weft_value result[WEFT_MAX_OUTPUTS];
    WEFT_TRY(weft_graph_create(device->context, WEFT_F32, &g));
    weft_value x = leaf(g, 0, t->dtype, t->outer, t->size, t->inner);
    for (int i = 0; i < parts; i++) {
        const weft_attr attrs[] = {WEFT_ATTR_INT("axis", DIM),
                                   WEFT_ATTR_INT("start", part[i].begin),
                                   WEFT_ATTR_INT("stop", part[i].end)};
        result[i] = node(g, "slice", i, &x, 1, attrs, 3);
    }
    return weft_far_graph_open(device, g, result, parts, false, out);
}

weft_status weft_far_join(weft_device *device, const far_rows *t, const far_range *part, int parts,
                          far_graph **out)
{
    weft_graph *g;
    weft_value in[WEFT_MAX_OUTPUTS];
    const weft_attr axis = WEFT_ATTR_INT("axis", DIM);
    WEFT_TRY(weft_graph_create(device->context, WEFT_F32, &g));
    for (int i = 0; i < parts; i++)
        in[i] = leaf(g, i, t->dtype, t->outer, part[i].end - part[i].begin, t->inner);
    weft_value result = node(g, "concat", 0, in, parts, &axis, 1);
    return weft_far_graph_open(device, g, &result, 1, false, out);
}

/* Zeros, to which each part is added where it lies, in order. */
weft_status weft_far_add_rows(weft_device *device, const far_rows *t, const far_range *part,
                              int parts, far_graph **out)
{
    weft_graph *g;
    const weft_attr zeros[] = {WEFT_ATTR_REAL("value", 0),
                               {.name = "shape", .count = 3, .ints = {t->outer, t->size, t->inner}},
                               WEFT_ATTR_INT("dtype", t->dtype)};
    WEFT_TRY(weft_graph_create(device->context, WEFT_F32, &g));
    weft_value sum[2] = {node(g, "constant", 0, NULL, 0, zeros, 3)};
    for (int i = 0; i < parts; i++) {
        weft_value x = leaf(g, i, t->dtype, t->outer, part[i].end - part[i].begin, t->inner);
        const weft_attr attrs[] = {WEFT_ATTR_INT("axis", DIM),
                                   WEFT_ATTR_INT("before", part[i].begin),
                                   WEFT_ATTR_INT("after", t->size - part[i].end)};
        sum[1] = node(g, "pad", i, &x, 1, attrs, 3);
        sum[0] = node(g, "add", i, sum, 2, NULL, 0);
    }
    return weft_far_graph_open(device, g, sum, 1, false, out);
}

static bool has(weft_device *device, const far_rows *t,
                weft_status (*make)(weft_device *device, const far_rows *t, const far_range *part,
                                    int parts, far_graph **out))
{
    static const far_range parts[] = {{0, 1}, {1, 3}};
    return make(device, t, parts, 2, NULL) == WEFT_OK;
}

bool weft_far_packs(weft_device *device, weft_dtype dtype)
{
    const far_rows t = {.dtype = dtype, .outer = 2, .size = 3, .inner = 2};
    return has(device, &t, weft_far_split) && has(device, &t, weft_far_join) &&
           has(device, &t, weft_far_add_rows);
}
