/* Describes tables by their indices, dropout and rotary positions. */
#include "device/gpu/gpu.h"

static void begin(gpu_plan *plan, const char *function, int64_t count)
{
    gpu_launch_add(plan, &gpu_text_rows, function, gpu_line(count, 4096), "%s", "");
}

/* A tensor as [outer, rows, width]: indices select its rows. */
typedef struct rows {
    int64_t outer, rows, width;
} rows;

static rows rows_of(const gpu_plan *plan, const weft_shape *x)
{
    int axis = (int)gpu_node_int(plan->node, "axis", 0, 0);
    rows r = {1, x->dim[axis], 1};
    for (int d = 0; d < x->rank; d++)
        *(d < axis ? &r.outer : &r.width) *= d == axis ? 1 : x->dim[d];
    return r;
}

/* The type of the indices, which are the node's first input. */
static const char *index_type(const gpu_plan *plan)
{
    weft_dtype dtype = weft->value_type(plan->group->graph, plan->in[0])->dtype;
    return dtype == WEFT_I64 ? "i64" : "int";
}

/* Indices are integers of 32 or 64 bits, and the tensor has no bf16. */
static bool can_gather(const weft_group *group)
{
    const weft_value *in;
    if (group->count != 1) return false;
    (void)weft->node_inputs(group->node[0], &in);
    weft_dtype ids = weft->value_type(group->graph, in[0])->dtype;
    weft_dtype x = weft->value_type(group->graph, in[1])->dtype;
    return (ids == WEFT_I32 || ids == WEFT_I64) && x != WEFT_BF16;
}

static void gather(gpu_plan *plan)
{
    rows r = rows_of(plan, gpu_in_shape(plan, 1));
    int64_t count = gpu_out_size(plan, 0);
    weft_dtype dtype = weft->value_type(plan->group->graph, plan->out)->dtype;
    bool real = dtype == WEFT_F32 || dtype == WEFT_F64;
    gpu_launch_add(plan, &gpu_text_rows, "gather", gpu_line(count, 4096),
                   "#define INDEX %s\n#define ELEMENT %s\n#define UNKNOWN %s\n", index_type(plan),
                   gpu_type_name(dtype), real ? "NAN_OF(ELEMENT)" : "0");
    gpu_in(plan, 0);
    gpu_in(plan, 1);
    gpu_out(plan, 0);
    gpu_ints(plan, 4, (int64_t[]){count, r.rows, r.width, gpu_in_size(plan, 0)});
}

/* Most parts of the indices: one group of work items adds up their counts. */
enum { DIGITS = 256, MOST_PARTS = 128 };

/* The buffers of a sort in scratch memory: keys and where they are from, twice, and counts. */
typedef struct sort {
    size_t key[2], from[2], counts;
    int64_t indices, rows, each, parts;
} sort;

static void sort_launch(gpu_plan *plan, const char *function, gpu_grid grid)
{
    gpu_launch_add(plan, &gpu_text_table_grad, function, grid, "#define INDEX %s\n",
                   index_type(plan));
}

static sort sort_begin(gpu_plan *plan, int64_t indices, int64_t table)
{
    int64_t tiles = (indices + 255) / 256, tiles_each = (tiles + MOST_PARTS - 1) / MOST_PARTS;
    sort s = {.indices = indices, .rows = table, .each = WEFT_MAX(tiles_each, (int64_t)1) * 256};
    s.parts = WEFT_MAX((indices + s.each - 1) / s.each, (int64_t)1);
    for (int i = 0; i < 2; i++) {
        s.key[i] = gpu_reserve(plan, sizeof(int32_t) * (size_t)indices);
        s.from[i] = gpu_reserve(plan, sizeof(int32_t) * (size_t)indices);
    }
    s.counts = gpu_reserve(plan, sizeof(int32_t) * (size_t)(DIGITS * s.parts));
    sort_launch(plan, "row_keys", gpu_line(indices, 1024));
    gpu_in(plan, 0);
    gpu_scratch(plan, s.key[0]);
    gpu_scratch(plan, s.from[0]);
    gpu_ints(plan, 2, (int64_t[]){indices, table});
    return s;
}

/* A pass sorts by the digit at bit `shift`, from buffers `at` to the others. */
static void sort_pass(gpu_plan *plan, const sort *s, int at, int shift)
{
    gpu_grid parts = {{(int)s->parts, 1, 1}, {256, 1}};
    sort_launch(plan, "count_digits", parts);
    gpu_scratch(plan, s->key[at]);
    gpu_scratch(plan, s->counts);
    gpu_ints(plan, 4, (int64_t[]){s->indices, s->each, s->parts, shift});
    sort_launch(plan, "begin_digits", gpu_rows(1));
    gpu_scratch(plan, s->counts);
    gpu_int(plan, s->parts);
    sort_launch(plan, "move_keys", parts);
    gpu_scratch(plan, s->key[at]);
    gpu_scratch(plan, s->from[at]);
    gpu_scratch(plan, s->counts);
    gpu_scratch(plan, s->key[!at]);
    gpu_scratch(plan, s->from[!at]);
    gpu_ints(plan, 4, (int64_t[]){s->indices, s->each, s->parts, shift});
}

static void table_grad(gpu_plan *plan)
{
    rows r = rows_of(plan, gpu_out_shape(plan, 0));
    int64_t count = gpu_out_size(plan, 0), indices = gpu_in_size(plan, 0);
    sort s = sort_begin(plan, indices, r.rows);
    int at = 0;
    for (int shift = 0; shift < 31 && r.rows >> shift > 0; shift += 8, at = !at)
        sort_pass(plan, &s, at, shift);
    size_t begins = gpu_reserve(plan, sizeof(int32_t) * (size_t)(r.rows + 1));
    sort_launch(plan, "begin_rows", gpu_line(r.rows + 1, 1024));
    gpu_scratch(plan, s.key[at]);
    gpu_scratch(plan, begins);
    gpu_ints(plan, 2, (int64_t[]){indices, r.rows});
    sort_launch(plan, "table_grad", gpu_line(count, 4096));
    gpu_scratch(plan, s.from[at]);
    gpu_scratch(plan, begins);
    gpu_in(plan, 1);
    gpu_out(plan, 0);
    gpu_ints(plan, 4, (int64_t[]){count, r.rows, r.width, indices});
}

static void write_rows(gpu_plan *plan)
{
    int64_t count = gpu_out_size(plan, 0), batch = gpu_in_shape(plan, 0)->dim[0];
    begin(plan, "write_rows", count);
    for (int i = 0; i < 3; i++) gpu_in(plan, i);
    gpu_out(plan, 0);
    gpu_ints(plan, 3,
             (int64_t[]){count, gpu_in_shape(plan, 0)->dim[1], gpu_in_size(plan, 1) / batch});
}

/* Philox4x32-10 of counter (low, high), as base/random.c. */
static uint64_t mix(uint64_t key, uint64_t low)
{
    uint32_t x0 = (uint32_t)low, x1 = (uint32_t)(low >> 32), x2 = 0x77656674u, x3 = 0;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (uint64_t)x1 << 32 | x0;
}

/* The sizes of a sample along five dimensions, with ones in front: of the part that this node has,
 * or an attribute's; begin: an attribute's, or zeros. */
static void sample_sizes(gpu_plan *plan, const char *attr, int64_t otherwise)
{
    const weft_shape *s = gpu_in_shape(plan, 0);
    int missing = 6 - s->rank;
    for (int d = 1; d < 6; d++) {
        int own = d - missing;
        int64_t part = own >= 1 ? s->dim[own] : 1;
        int64_t usual = otherwise < 0 ? part : otherwise;
        bool has = own >= 1 && attr;
        gpu_int(plan, has             ? gpu_node_int(plan->node, attr, own, usual)
                      : own >= 1      ? usual
                      : otherwise < 0 ? 1
                                      : 0);
    }
}

static void dropout(gpu_plan *plan)
{
    const weft_node *node = plan->node;
    int64_t count = gpu_in_size(plan, 0), each = count / gpu_in_shape(plan, 0)->dim[0];
    double rate = gpu_node_real(node, "rate", 0.5);
    uint64_t key = mix((uint64_t)gpu_node_int(node, "seed", 0, 0),
                       (uint64_t)gpu_node_int(node, "stream", 0, 0));
    const int64_t *whole;
    bool part =
        weft->node_ints(node, "whole", &whole) > 0 && weft->node_ints(node, "start", &whole) > 0;
    begin(plan, "dropout", count);
    for (int i = 0; i < 3; i++) gpu_in(plan, i);
    gpu_out(plan, 0);
    gpu_ints(plan, 6,
             (int64_t[]){count, each, gpu_node_int(node, "start", 0, 0), (int32_t)(uint32_t)key,
                         (int32_t)(uint32_t)(key >> 32), (int32_t)(uint32_t)(rate * 4294967296.0)});
    gpu_real(plan, 1 / (1 - rate));
    sample_sizes(plan, NULL, -1);
    sample_sizes(plan, part ? "whole" : NULL, -1);
    sample_sizes(plan, part ? "start" : NULL, 0);
}

static void rotary(gpu_plan *plan)
{
    const weft_node *node = plan->node;
    const int64_t *dim = gpu_in_shape(plan, 0)->dim;
    bool added = plan->in_count == 2, each = added && gpu_in_shape(plan, 1)->rank > 0;
    int64_t pairs = dim[3] / 2, places = each ? dim[0] * dim[1] : dim[1];
    size_t turns =
        gpu_reserve(plan, (plan->real == WEFT_F64 ? 2 * sizeof(double) : 2 * sizeof(float)) *
                              (size_t)(places * pairs));
    begin(plan, "turns", places * pairs);
    gpu_in(plan, added ? 1 : 0);
    gpu_scratch(plan, turns);
    gpu_ints(plan, 5,
             (int64_t[]){places * pairs, dim[1], pairs, added, gpu_node_int(node, "first", 0, 0)});
    gpu_acc(plan, gpu_node_real(node, "base", 10000));
    gpu_acc(plan, gpu_node_int(node, "inverse", 0, 0) ? -1 : 1);
    begin(plan, "rotary", gpu_in_size(plan, 0) / 2);
    gpu_in(plan, 0);
    gpu_scratch(plan, turns);
    gpu_out(plan, 0);
    gpu_ints(plan, 5,
             (int64_t[]){gpu_in_size(plan, 0) / 2, dim[2], pairs,
                         gpu_node_int(node, "interleaved", 0, 0) != 0, places});
}

const gpu_entry gpu_rows_entries[] = {
    {"embedding", "rows", can_gather, gather, true},
    {"gather", "rows", can_gather, gather, true},
    {"embedding_grad", "rows", can_gather, table_grad, false},
    {"write_rows", "rows", NULL, write_rows, false},
    {"dropout", "by position", NULL, dropout, false},
    {"rotary", "pairs", NULL, rotary, false},
    {NULL, NULL, NULL, NULL, false},
};
