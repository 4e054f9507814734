/* Implements kernels that move elements of any type: concat, split, slice, pad, reshape, transpose,
 * gather and where; and comparisons. */
#include <math.h>

#include "device/reference/reference.h"

static weft_dtype type_of(const weft_ref *a)
{
    return weft_out(a->graph, a->node, 0)->dtype;
}

/* A tensor as [outer, axis, inner]: the products of the dimensions before and after the axis; inner
 * in bytes. */
typedef struct parts {
    int64_t outer, axis;
    size_t inner;
} parts;

static parts parts_of(const weft_ref *a, const weft_shape *s)
{
    int axis = (int)weft_node_int(a->node, "axis", 0, 0);
    parts p = {1, s->dim[axis], weft_dtype_size(type_of(a))};
    for (int i = 0; i < axis; i++) p.outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++) p.inner *= (size_t)s->dim[i];
    return p;
}

/* Copies `count` slices along the axis from one tensor to the other. */
static void copy_slices(const char *from, parts f, int64_t f_start, char *to, parts t,
                        int64_t t_start, int64_t count)
{
    for (int64_t o = 0; o < f.outer; o++)
        memcpy(to + (size_t)(o * t.axis + t_start) * t.inner,
               from + (size_t)(o * f.axis + f_start) * f.inner, (size_t)count * f.inner);
}

static void concat(const weft_ref *a)
{
    parts t = parts_of(a, out_shape(a, 0));
    int64_t at = 0;
    for (int i = 0; i < a->node->in_count; i++) {
        parts f = parts_of(a, in_shape(a, i));
        copy_slices(a->in[i], f, 0, a->out[0], t, at, f.axis);
        at += f.axis;
    }
}

static void split(const weft_ref *a)
{
    parts f = parts_of(a, in_shape(a, 0));
    int64_t at = 0;
    for (int i = 0; i < a->node->out_count; i++) {
        parts t = parts_of(a, out_shape(a, i));
        copy_slices(a->in[0], f, at, a->out[i], t, 0, t.axis);
        at += t.axis;
    }
}

static void slice(const weft_ref *a)
{
    parts f = parts_of(a, in_shape(a, 0)), t = parts_of(a, out_shape(a, 0));
    copy_slices(a->in[0], f, weft_node_int(a->node, "start", 0, 0), a->out[0], t, 0, t.axis);
}

static void pad(const weft_ref *a)
{
    parts f = parts_of(a, in_shape(a, 0)), t = parts_of(a, out_shape(a, 0));
    memset(a->out[0], 0, weft_type_bytes(weft_out(a->graph, a->node, 0)));
    copy_slices(a->in[0], f, 0, a->out[0], t, weft_node_int(a->node, "before", 0, 0), f.axis);
}

static void reshape(const weft_ref *a)
{
    memmove(a->out[0], a->in[0], weft_type_bytes(weft_out(a->graph, a->node, 0)));
}

static void transpose(const weft_ref *a)
{
    const weft_shape *to = out_shape(a, 0), *x = in_shape(a, 0);
    int64_t from[WEFT_MAX_RANK], at[WEFT_MAX_RANK] = {0}, step = 1;
    size_t size = weft_dtype_size(type_of(a));
    for (int d = x->rank; d-- > 0; step *= x->dim[d]) from[d] = step;
    for (int64_t i = 0; i < out_size(a, 0); i++) {
        int64_t source = 0;
        for (int d = 0; d < to->rank; d++)
            source += at[d] * from[weft_node_int(a->node, "perm", d, 0)];
        memcpy((char *)a->out[0] + (size_t)i * size, (const char *)a->in[0] + (size_t)source * size,
               size);
        for (int d = to->rank; d-- > 0 && ++at[d] == to->dim[d];) at[d] = 0;
    }
}

static void gather(const weft_ref *a)
{
    parts x = parts_of(a, in_shape(a, 1));
    weft_dtype ids = weft_in(a->graph, a->node, 0)->dtype;
    const char *from = a->in[1];
    char *y = a->out[0];
    size_t size = weft_dtype_size(type_of(a));
    for (int64_t o = 0; o < x.outer; o++, from += (size_t)x.axis * x.inner)
        for (int64_t i = 0; i < in_size(a, 0); i++, y += x.inner) {
            int64_t id = weft_index_at(ids, a->in[0], i);
            if (id >= 0 && id < x.axis)
                memcpy(y, from + (size_t)id * x.inner, x.inner);
            else
                weft_fill_unknown(type_of(a), y, (int64_t)(x.inner / size));
        }
}

/* --- functions of each element --- */

static void where(const weft_ref *a)
{
    weft_dtype dtype = weft_in(a->graph, a->node, 0)->dtype;
    size_t size = weft_dtype_size(type_of(a));
    for (int64_t i = 0; i < out_size(a, 0); i++) {
        double holds = weft_number_get(dtype, a->in[0], weft_ref_element_of(a, 0, i));
        int branch = holds != 0 ? 1 : 2;
        char *y = (char *)a->out[0] + (size_t)i * size;
        if (isnan(holds))
            weft_fill_unknown(type_of(a), y, 1);
        else
            memcpy(y,
                   (const char *)a->in[branch] + (size_t)weft_ref_element_of(a, branch, i) * size,
                   size);
    }
}

enum { LESS, EQUAL, GREATER, UNORDERED };

static int order_of(weft_dtype dtype, const void *a, int64_t i, const void *b, int64_t j)
{
    if (dtype == WEFT_I64) {
        int64_t x = ((const int64_t *)a)[i], y = ((const int64_t *)b)[j];
        return x < y ? LESS : x > y ? GREATER : EQUAL;
    }
    double x = weft_number_get(dtype, a, i), y = weft_number_get(dtype, b, j);
    return x < y ? LESS : x > y ? GREATER : x == y ? EQUAL : UNORDERED;
}

static void compare(const weft_ref *a, int holds)
{
    weft_dtype dtype = weft_in(a->graph, a->node, 0)->dtype;
    uint8_t *y = a->out[0];
    for (int64_t i = 0; i < out_size(a, 0); i++)
        y[i] = order_of(dtype, a->in[0], weft_ref_element_of(a, 0, i), a->in[1],
                        weft_ref_element_of(a, 1, i)) == holds;
}

static void greater(const weft_ref *a)
{
    compare(a, GREATER);
}

static void less(const weft_ref *a)
{
    compare(a, LESS);
}

static void equal(const weft_ref *a)
{
    compare(a, EQUAL);
}

const weft_ref_entry weft_ref_moves[] = {
    {"concat", concat, 0},   {"split", split, 0},      {"slice", slice, 0},
    {"pad", pad, 0},         {"reshape", reshape, 0},  {"transpose", transpose, 0},
    {"gather", gather, 0},   {"embedding", gather, 0}, {"where", where, 0},
    {"greater", greater, 0}, {"less", less, 0},        {"equal", equal, 0},
    {NULL, NULL, 0},
};
