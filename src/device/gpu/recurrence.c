/* Describes lstm and gru, and their gradients. */
#include <stdio.h>

#include "device/gpu/gpu.h"

/* Most bytes of a row's states (at most six of each unit) that are kept in local memory. */
enum { LOCAL_BYTES = 6 * 1024 * 4 };

/* The optional inputs of a node, see graph/recurrence.c: their indices, or -1. */
typedef struct recurrence {
    int64_t batch, positions, units;
    int h0, c0, lengths, dy, dh, dc;
} recurrence;

static recurrence read_node(const weft_group *group, int gates, bool gradient)
{
    const weft_node *node = group->node[0];
    const weft_value *in;
    int count = weft->node_inputs(node, &in), next = gradient ? 4 : gates == 4 ? 2 : 3;
    const int64_t *x = weft->value_type(group->graph, in[0])->shape.dim;
    int64_t of = gradient ? gpu_node_int(node, "of", 0, 0) : 0;
    int end = count - (of & 2 ? 1 : 0) - (of & 4 ? 1 : 0), dy = of & 1 ? next++ : -1;
    bool lengths = end > next && weft->value_type(group->graph, in[end - 1])->dtype == WEFT_I32;
    int states = end - lengths - next;
    recurrence r = {.batch = x[0], .positions = x[1], .units = x[2] / gates, .dy = dy};
    r.h0 = states > 0 ? next++ : -1;
    r.c0 = states > 1 && gates == 4 ? next++ : -1;
    r.lengths = lengths ? next++ : -1;
    r.dh = of & 2 ? next++ : -1;
    r.dc = of & 4 ? next : -1;
    return r;
}

static size_t row_bytes(const gpu_plan *plan, int64_t units)
{
    return 6 * (size_t)units * (plan->real == WEFT_F64 ? sizeof(double) : sizeof(float));
}

static void begin(gpu_plan *plan, const char *function, const recurrence *r)
{
    char most[32] = "";
    int64_t units = r->units <= 64 ? 64 : r->units <= 256 ? 256 : r->units <= 512 ? 512 : 1024;
    if (row_bytes(plan, WEFT_MAX(units, r->units)) <= LOCAL_BYTES)
        (void)snprintf(most, sizeof(most), "#define MOST %d\n", (int)units);
    gpu_launch_add(plan, &gpu_text_recurrence, function, gpu_rows(r->batch), "%s", most);
}

/* An optional input, or another one in its place, which is not read. */
static void optional(gpu_plan *plan, int i)
{
    gpu_in(plan, i >= 0 ? i : 0);
}

static void sizes(gpu_plan *plan, const recurrence *r)
{
    size_t bytes = row_bytes(plan, r->units);
    if (bytes > LOCAL_BYTES)
        gpu_scratch(plan, gpu_reserve(plan, bytes * (size_t)r->batch));
    else
        optional(plan, -1);
    gpu_ints(plan, 6,
             (int64_t[]){r->positions, r->units, gpu_node_int(plan->node, "reverse", 0, 0) != 0,
                         r->h0 >= 0, r->c0 >= 0, r->lengths >= 0});
}

static void lstm(gpu_plan *plan)
{
    recurrence r = read_node(plan->group, 4, false);
    begin(plan, "lstm", &r);
    gpu_in(plan, 0);
    gpu_in(plan, 1);
    optional(plan, r.h0);
    optional(plan, r.c0);
    optional(plan, r.lengths);
    for (int o = 0; o < 5; o++) gpu_out(plan, o);
    sizes(plan, &r);
}

static void gru(gpu_plan *plan)
{
    recurrence r = read_node(plan->group, 3, false);
    begin(plan, "gru", &r);
    for (int i = 0; i < 3; i++) gpu_in(plan, i);
    optional(plan, r.h0);
    optional(plan, r.lengths);
    for (int o = 0; o < 4; o++) gpu_out(plan, o);
    sizes(plan, &r);
}

static void lstm_grad(gpu_plan *plan)
{
    recurrence r = read_node(plan->group, 4, true);
    begin(plan, "lstm_grad", &r);
    for (int i = 0; i < 4; i++) gpu_in(plan, i);
    const int others[] = {r.h0, r.c0, r.lengths, r.dy, r.dh, r.dc};
    for (size_t i = 0; i < WEFT_COUNT(others); i++) optional(plan, others[i]);
    for (int o = 0; o < 4; o++) gpu_out(plan, o);
    sizes(plan, &r);
    gpu_ints(plan, 3, (int64_t[]){r.dy >= 0, r.dh >= 0, r.dc >= 0});
}

static void gru_grad(gpu_plan *plan)
{
    recurrence r = read_node(plan->group, 3, true);
    begin(plan, "gru_grad", &r);
    for (int i = 0; i < 4; i++) gpu_in(plan, i);
    const int others[] = {r.h0, r.lengths, r.dy, r.dh};
    for (size_t i = 0; i < WEFT_COUNT(others); i++) optional(plan, others[i]);
    for (int o = 0; o < 4; o++) gpu_out(plan, o);
    sizes(plan, &r);
    gpu_ints(plan, 2, (int64_t[]){r.dy >= 0, r.dh >= 0});
}

const gpu_entry gpu_recurrence_entries[] = {
    {"lstm", "rows", NULL, lstm, false},
    {"gru", "rows", NULL, gru, false},
    {"lstm_grad", "rows", NULL, lstm_grad, false},
    {"gru_grad", "rows", NULL, gru_grad, false},
    {NULL, NULL, NULL, NULL, false},
};
