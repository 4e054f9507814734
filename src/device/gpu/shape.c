/* Describes what only moves elements: concat, split, slice, pad, reshape, transpose, broadcast,
 * flat, unflat; and casts and constants. */
#include "device/gpu/gpu.h"

/* A block of elements that is copied. */
typedef struct block {
    int64_t n[6], from_first, from[6], to_first, to[6];
} block;

static const char *element_of(size_t size)
{
    return size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64";
}

static size_t size_of(const gpu_plan *plan, weft_value v)
{
    const weft_type *t = weft->value_type(plan->group->graph, v);
    return weft->type_bytes(t) / (size_t)weft->elements(&t->shape);
}

/* Copies a block from the node's input to its output. */
static void move(gpu_plan *plan, int in, int out, const block *b)
{
    int64_t count = 1;
    for (int d = 0; d < 6; d++) count *= b->n[d];
    gpu_launch_add(plan, &gpu_text_shape, "move", gpu_line(count, 4096), "#define ELEMENT %s\n",
                   element_of(size_of(plan, plan->in[in])));
    gpu_in(plan, in);
    gpu_out(plan, out);
    gpu_int(plan, count);
    gpu_ints(plan, 5, b->n + 1);
    gpu_int(plan, b->from_first);
    gpu_ints(plan, 6, b->from);
    gpu_int(plan, b->to_first);
    gpu_ints(plan, 6, b->to);
    gpu_guard(plan);
}

/* A shape as [outer, axis, inner]. */
typedef struct parts {
    int64_t outer, axis, inner;
} parts;

static parts parts_of(const gpu_plan *plan, const weft_shape *s)
{
    int axis = (int)gpu_node_int(plan->node, "axis", 0, 0);
    parts p = {1, s->dim[axis], 1};
    for (int i = 0; i < axis; i++) p.outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++) p.inner *= s->dim[i];
    return p;
}

/* Copies `count` slices along the axis, from position f_start of an input to t_start of an
 * output. */
static void move_slices(gpu_plan *plan, int in, int64_t f_start, int out, int64_t t_start,
                        int64_t count)
{
    parts f = parts_of(plan, gpu_in_shape(plan, in)), t = parts_of(plan, gpu_out_shape(plan, out));
    move(plan, in, out,
         &(block){.n = {f.outer, 1, 1, 1, 1, count * f.inner},
                  .from_first = f_start * f.inner,
                  .from = {f.axis * f.inner, 0, 0, 0, 0, 1},
                  .to_first = t_start * t.inner,
                  .to = {t.axis * t.inner, 0, 0, 0, 0, 1}});
}

static void concat(gpu_plan *plan)
{
    int64_t at = 0;
    for (int i = 0; i < plan->in_count; i++) {
        int64_t axis = parts_of(plan, gpu_in_shape(plan, i)).axis;
        move_slices(plan, i, 0, 0, at, axis);
        at += axis;
    }
}

static void split(gpu_plan *plan)
{
    int64_t at = 0;
    for (int i = 0; i < plan->out_count; i++) {
        int64_t axis = parts_of(plan, gpu_out_shape(plan, i)).axis;
        move_slices(plan, 0, at, i, 0, axis);
        at += axis;
    }
}

static void slice(gpu_plan *plan)
{
    move_slices(plan, 0, gpu_node_int(plan->node, "start", 0, 0), 0, 0,
                parts_of(plan, gpu_out_shape(plan, 0)).axis);
}

static void fill(gpu_plan *plan, const char *element, double value)
{
    int64_t count = gpu_out_size(plan, 0);
    gpu_launch_add(plan, &gpu_text_shape, "fill", gpu_line(count, 4096), "#define ELEMENT %s\n",
                   element);
    gpu_out(plan, 0);
    gpu_int(plan, count);
    gpu_acc(plan, value);
}

static void pad(gpu_plan *plan)
{
    fill(plan, element_of(size_of(plan, plan->out)), 0);
    move_slices(plan, 0, 0, 0, gpu_node_int(plan->node, "before", 0, 0),
                parts_of(plan, gpu_in_shape(plan, 0)).axis);
}

/* Copies all elements in their order. */
static void same(gpu_plan *plan)
{
    int64_t count = gpu_out_size(plan, 0);
    move(plan, 0, 0, &(block){.n = {1, 1, 1, 1, 1, count}, .from = {[5] = 1}, .to = {[5] = 1}});
}

static void dense_strides(const weft_shape *s, int64_t *stride)
{
    int64_t step = 1;
    for (int i = s->rank; i-- > 0; step *= s->dim[i]) stride[i] = step;
}

/* Whether the last two dimensions are exchanged, and no others. */
static bool is_matrix(const gpu_plan *plan, int rank)
{
    bool is = rank >= 2;
    for (int d = 0; d < rank; d++) {
        int64_t from = gpu_node_int(plan->node, "perm", d, 0);
        is = is && from == (d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d);
    }
    return is;
}

static void transpose_matrices(gpu_plan *plan, const weft_shape *from)
{
    int64_t rows = from->dim[from->rank - 2], columns = from->dim[from->rank - 1];
    int64_t planes = gpu_in_size(plan, 0) / (rows * columns);
    gpu_grid grid = {{(int)((columns + 15) / 16), (int)((rows + 15) / 16), (int)planes}, {16, 16}};
    gpu_launch_add(plan, &gpu_text_shape, "transpose", grid, "#define ELEMENT %s\n",
                   element_of(size_of(plan, plan->in[0])));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){rows, columns});
}

static void transpose(gpu_plan *plan)
{
    const weft_shape *to = gpu_out_shape(plan, 0), *from = gpu_in_shape(plan, 0);
    block b = {.n = {1, 1, 1, 1, 1, 1}};
    int64_t stride[WEFT_MAX_RANK], own[WEFT_MAX_RANK];
    int lacks = 6 - to->rank;
    bool small = to->rank >= 2 && from->dim[from->rank - 2] < 65535 * 16 &&
                 gpu_in_size(plan, 0) < (int64_t)65535 * from->dim[from->rank - 1];
    if (is_matrix(plan, to->rank) && small) {
        transpose_matrices(plan, from);
        return;
    }
    dense_strides(from, stride);
    dense_strides(to, own);
    for (int d = 0; d < to->rank; d++) {
        b.n[d + lacks] = to->dim[d];
        b.from[d + lacks] = stride[gpu_node_int(plan->node, "perm", d, 0)];
        b.to[d + lacks] = own[d];
    }
    move(plan, 0, 0, &b);
}

static void broadcast(gpu_plan *plan)
{
    const weft_shape *to = gpu_out_shape(plan, 0);
    const int64_t *axes;
    int count = weft->node_ints(plan->node, "axes", &axes), lacks = 6 - to->rank;
    block b = {.n = {1, 1, 1, 1, 1, 1}};
    int64_t step = 1, own[WEFT_MAX_RANK];
    dense_strides(to, own);
    for (int d = to->rank; d-- > 0;) {
        bool added = false;
        for (int i = 0; i < count; i++) added = added || axes[i] == d;
        b.n[d + lacks] = to->dim[d];
        b.from[d + lacks] = added ? 0 : step;
        b.to[d + lacks] = own[d];
        if (!added) step *= to->dim[d];
    }
    move(plan, 0, 0, &b);
}

static bool is_float(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_BF16;
}

/* The macro or conversion that makes a number of type `to`. */
static const char *conversion(weft_dtype from, weft_dtype to)
{
    if (to == WEFT_BOOL) return "TO_BOOL";
    if (to == WEFT_BF16) return "to_bf16";
    if (!is_float(from) || is_float(to)) return "(TO)";
    return to == WEFT_I32 ? "TO_I32" : to == WEFT_I64 ? "TO_I64" : "TO_U8";
}

static void cast(gpu_plan *plan)
{
    weft_dtype from = weft->value_type(plan->group->graph, plan->in[0])->dtype;
    weft_dtype to = weft->value_type(plan->group->graph, plan->out)->dtype;
    gpu_launch_add(plan, &gpu_text_shape, "cast", gpu_line(gpu_out_size(plan, 0), 4096),
                   "#define FROM %s\n#define TO %s\n#define CAST(x) %s(%s(x))\n",
                   gpu_type_name(from), gpu_type_name(to), conversion(from, to),
                   from == WEFT_BF16 ? "from_bf16" : "");
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_int(plan, gpu_out_size(plan, 0));
}

/* A number everywhere; a tensor is copied from the host (the reference device has it). */
static bool is_number(const weft_group *group)
{
    weft_value out;
    const int64_t *ints;
    (void)weft->node_outputs(group->node[0], &out);
    return group->count == 1 && weft->value_type(group->graph, out)->dtype != WEFT_BF16 &&
           weft->node_ints(group->node[0], "data", &ints) == 0;
}

static void constant(gpu_plan *plan)
{
    weft_dtype dtype = weft->value_type(plan->group->graph, plan->out)->dtype;
    double value = gpu_node_real(plan->node, "value", 0);
    fill(plan, gpu_type_name(dtype), dtype == WEFT_BOOL ? value != 0 : value);
}

const gpu_entry gpu_shape_entries[] = {
    {"concat", "move", NULL, concat, true},
    {"split", "move", NULL, split, true},
    {"slice", "move", NULL, slice, true},
    {"pad", "move", NULL, pad, true},
    {"reshape", "move", NULL, same, true},
    {"flat", "move", NULL, same, true},
    {"unflat", "move", NULL, same, true},
    {"transpose", "move", NULL, transpose, true},
    {"broadcast", "move", NULL, broadcast, true},
    {"cast", "cast", NULL, cast, true},
    {"constant", "fill", is_number, constant, true},
    {NULL, NULL, NULL, NULL, false},
};
