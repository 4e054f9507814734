/* Implements concat and slice along an axis, in two ways: by oneDNN, in blocked layouts if the cuts
 * are between blocks; and, for plain tensors, as copies of rows of bytes. */
#include "device/cpu/cpu.h"

/* The descriptor of another type in the layout of x: in the same channel blocks, or plain. */
static weft_status alike(weft_device *device, cpu_md x, const weft_type *type, cpu_md *out)
{
    if (type->shape.rank > 2 && cpu_in_channel_blocks(x))
        return onednn_md_blocked(cpu_onednn(device), type, out);
    return cpu_md_of_type(device, type, out);
}

static weft_status concat_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    cpu_md source[CPU_MAX_ARGS], plain;
    cpu_arg args[CPU_MAX_ARGS];
    onednn_spec s = {.kind = ONEDNN_CONCAT,
                     .sources = source,
                     .source_count = node->in_count,
                     .axis = (int)weft_node_int(node, "axis", 0, 0)};
    for (int i = 0; i < node->in_count; i++) {
        WEFT_TRY(cpu_md_of_type(device, weft_in(g, node, i), &plain));
        int at = weft_group_in(group, node->in[i]);
        source[i] = cpu_md_of(in[at], plain);
        args[i] = (cpu_arg){(onednn_role)(ONEDNN_SOURCE + i), CPU_IN, at, plain, false};
    }
    WEFT_TRY(cpu_md_of_type(device, weft_out(g, node, 0), &plain));
    WEFT_TRY(alike(device, source[0], weft_out(g, node, 0), &s.y));
    args[node->in_count] = (cpu_arg){ONEDNN_Y, CPU_OUT, 0, plain, false};
    return cpu_spec_make(device, &s, args, node->in_count + 1, out);
}

/* Whether the group is a node of f32 or bf16 numbers, in which layouts have blocks. */
static bool is_real(const weft_group *group)
{
    weft_dtype dtype = weft_out(group->graph, group->node[0], 0)->dtype;
    return group->count == 1 && (dtype == WEFT_F32 || dtype == WEFT_BF16);
}

static bool concat_supports(const weft_group *group)
{
    const weft_node *node = group->node[0];
    if (!is_real(group) || node->in_count + 2 > CPU_MAX_ARGS) return false;
    for (int i = 0; i < node->in_count; i++)
        for (int j = 0; j < i; j++)
            if (node->in[i] == node->in[j]) return false;
    return true;
}

/* Creates a slice as a reorder from a part of the tensor. */
static weft_status slice_make(weft_device *device, const weft_group *group,
                              const weft_layout *const *in, weft_kernel **out)
{
    onednn *o = cpu_onednn(device);
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_type *result = weft_out(g, node, 0);
    cpu_md plain, target_plain;
    onednn_spec s = {.kind = ONEDNN_REORDER};
    WEFT_TRY(cpu_md_of_type(device, weft_in(g, node, 0), &plain));
    WEFT_TRY(cpu_md_of_type(device, result, &target_plain));
    cpu_md whole = cpu_md_of(in[0], plain);
    WEFT_TRY(alike(device, whole, result, &s.y));
    int64_t start[ONEDNN_MOST_DIMS] = {0};
    start[weft_node_int(node, "axis", 0, 0)] = weft_node_int(node, "start", 0, 0);
    if (onednn_md_part(o, whole, result->shape.dim, start, &s.x) != WEFT_OK) {
        whole = plain; /* the cut is inside a block, so plain memory is used */
        s.y = target_plain;
        WEFT_TRY(onednn_md_part(o, whole, result->shape.dim, start, &s.x));
    }
    cpu_arg args[] = {
        {ONEDNN_X, CPU_IN, 0, plain, false},
        {ONEDNN_Y, CPU_OUT, 0, target_plain, false},
    };
    WEFT_TRY(cpu_spec_make(device, &s, args, 2, out));
    /* The primitive reads a part, but the operand is the whole. */
    return cpu_layout_of(device, whole, plain, false, &(*out)->in[0]);
}

/* --- rows --- */

enum { GRAIN = 1 << 16 };

/* The bytes that an operand contributes to each row of the result. A row has all elements with the
 * same indices before the axis. */
typedef struct piece {
    const char *from;
    int64_t size, step; /* bytes in a row of the result; bytes from row to row of the operand */
} piece;

typedef struct rows {
    piece pieces[WEFT_GROUP_VALUES];
    int count;
    int64_t width, height; /* of the result: bytes of a row, number of rows */
    char *to;
} rows;

static rows rows_of(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_type *result = weft_out(g, node, 0);
    int axis = (int)weft_node_int(node, "axis", 0, 0);
    rows r = {.count = node->in_count, .height = 1};
    for (int d = 0; d < axis; d++) r.height *= result->shape.dim[d];
    r.width = (int64_t)weft_type_bytes(result) / r.height;
    for (int i = 0; i < r.count; i++) {
        int64_t width = (int64_t)weft_type_bytes(weft_in(g, node, i)) / r.height;
        r.pieces[i] = (piece){NULL, WEFT_MIN(width, r.width), width};
    }
    return r;
}

/* Copies bytes [begin, end) of the result. */
static void rows_part(void *user, int64_t begin, int64_t end)
{
    const rows *r = user;
    int64_t at = begin / r->width * r->width;
    for (int64_t row = at / r->width; at < end; row++)
        for (int i = 0; i < r->count; i++) {
            const piece *p = &r->pieces[i];
            int64_t first = WEFT_MAX(at, begin), stop = WEFT_MIN(at + p->size, end);
            if (first < stop)
                memcpy(r->to + first, p->from + row * p->step + (first - at),
                       (size_t)(stop - first));
            at += p->size;
        }
}

static void rows_loop(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    rows r = rows_of(&k->group);
    int64_t start = weft_node_int(node, "start", 0, 0); /* of a slice */
    for (int i = 0; i < r.count; i++) r.pieces[i].from = k->in[i];
    if (start > 0) {
        int axis = (int)weft_node_int(node, "axis", 0, 0);
        int64_t all = weft_in(k->group.graph, node, 0)->shape.dim[axis];
        r.pieces[0].from += r.pieces[0].step / all * start;
    }
    r.to = k->out[0];
    weft_parallel(k->threads, r.width * r.height, GRAIN, rows_part, &r);
}

CPU_PLAIN(rows)

/* --- write_rows --- */

static void write_rows_loop(const cpu_loop *k)
{
    const weft_type *all = weft_in(k->group.graph, k->group.node[0], 0);
    const int32_t *position = k->in[2];
    int64_t batch = all->shape.dim[0], most = all->shape.dim[1];
    size_t table = weft_type_bytes(all) / (size_t)batch, each = table / (size_t)most;
    if (k->in[0] != k->out[0]) memcpy(k->out[0], k->in[0], weft_type_bytes(all));
    for (int64_t b = 0; b < batch; b++)
        if (position[b] >= 0 && position[b] < most)
            memcpy((char *)k->out[0] + (size_t)b * table + (size_t)position[b] * each,
                   (const char *)k->in[1] + (size_t)b * each, each);
}

CPU_PLAIN(write_rows)

/* --- cast --- */

typedef struct cast_job {
    weft_dtype from, to;
    const char *x;
    char *y;
} cast_job;

static void cast_part(void *user, int64_t begin, int64_t end)
{
    const cast_job *j = user;
    if (j->from == WEFT_F32 && j->to == WEFT_BF16) {
        weft_widen_to((const float *)(const void *)j->x + begin, (uint16_t *)(void *)j->y + begin,
                      end - begin);
        return;
    }
    if (j->from == WEFT_BF16 && j->to == WEFT_F32) {
        weft_widen_from((const uint16_t *)(const void *)j->x + begin, (float *)(void *)j->y + begin,
                        end - begin);
        return;
    }
    weft_numbers_cast(j->from, j->x + (size_t)begin * weft_dtype_size(j->from), j->to,
                      j->y + (size_t)begin * weft_dtype_size(j->to), end - begin);
}

static void cast_loop(const cpu_loop *k)
{
    const weft_graph *g = k->group.graph;
    const weft_node *node = k->group.node[0];
    cast_job j = {weft_in(g, node, 0)->dtype, weft_out(g, node, 0)->dtype, k->in[0], k->out[0]};
    weft_parallel(k->threads, weft_shape_elements(&weft_out(g, node, 0)->shape), GRAIN, cast_part,
                  &j);
}

CPU_PLAIN(cast)

/* Estimated seconds: a start-up time, the time of each change to the next piece, and the time of
 * the copied bytes. */
static double pieces_seconds(const weft_group *group, double start, double turn, double rate)
{
    rows r = rows_of(group);
    return start + turn * (double)(r.height * r.count) + 2 * (double)(r.width * r.height) / rate;
}

static double rows_seconds(const weft_group *group, const weft_layout *const *in)
{
    (void)in;
    return pieces_seconds(group, 1e-7, 3e-9, 9e10);
}

/* oneDNN 2.6 concatenates plain tensors slowly; blocked tensors have larger contiguous pieces. */
static double concat_seconds(const weft_group *group, const weft_layout *const *in)
{
    bool plain = !in[0] || in[0]->plain;
    return pieces_seconds(group, 3e-7, plain ? 8e-9 : 0, plain ? 3e10 : 9e10);
}

static double slice_seconds(const weft_group *group, const weft_layout *const *in)
{
    bool plain = !in[0] || in[0]->plain;
    return pieces_seconds(group, 2e-7, plain ? 1.4e-9 : 0, 9e10);
}

const cpu_entry cpu_shape_entries[] = {
    {"concat", "onednn", concat_supports, concat_make, concat_seconds, CPU_HARDWARE},
    {"concat", "rows", cpu_single_of_any, rows_make, rows_seconds, CPU_ANY},
    {"slice", "onednn", is_real, slice_make, slice_seconds, CPU_HARDWARE},
    {"slice", "rows", cpu_single_of_any, rows_make, rows_seconds, CPU_ANY},
    {"write_rows", "loop", cpu_one_type, write_rows_make, NULL, CPU_ANY},
    {"cast", "loop", cpu_single_of_any, cast_make, NULL, CPU_ANY},
    {.op = NULL},
};
