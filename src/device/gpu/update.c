/* Describes optimizer steps, sums over micro-batches, exact sums and counters. */
#include "base/moving_average.h"
#include "device/gpu/elements.h"

static void begin(gpu_plan *plan, const char *function, gpu_grid grid)
{
    gpu_launch_add(plan, &gpu_text_update, function, grid, "%s", "");
}

static void sgd(gpu_plan *plan)
{
    bool with = plan->in_count == 4;
    int64_t count = gpu_in_size(plan, 0);
    double momentum = gpu_node_real(plan->node, "momentum", 0);
    weft_decay lasting = weft_decay_of(momentum);
    begin(plan, "sgd", gpu_line(count, 2048));
    gpu_in(plan, 0);
    gpu_in(plan, 1);
    gpu_in(plan, with ? 2 : 0);
    gpu_in(plan, plan->in_count - 1);
    gpu_out(plan, 0);
    gpu_out(plan, with ? 1 : 0);
    gpu_ints(plan, 3, (int64_t[]){count, with, gpu_node_int(plan->node, "nesterov", 0, 0) != 0});
    const double numbers[] = {momentum, lasting.keep, lasting.drop,
                              gpu_node_real(plan->node, "decay", 0)};
    for (size_t i = 0; i < WEFT_COUNT(numbers); i++) gpu_real(plan, numbers[i]);
    gpu_guard(plan);
}

static void adam(gpu_plan *plan)
{
    int64_t count = gpu_in_size(plan, 0);
    double beta1 = gpu_node_real(plan->node, "beta1", 0.9);
    double beta2 = gpu_node_real(plan->node, "beta2", 0.999);
    weft_decay of1 = weft_decay_of(beta1), of2 = weft_decay_of(beta2);
    begin(plan, "adam", gpu_line(count, 2048));
    for (int i = 0; i < 6; i++) gpu_in(plan, i);
    for (int o = 0; o < 3; o++) gpu_out(plan, o);
    gpu_ints(plan, 2, (int64_t[]){count, gpu_node_int(plan->node, "kind", 0, 0) == 1});
    const double parts[] = {log(beta1), log(beta2), gpu_node_real(plan->node, "decay", 0),
                            weft_adam_least(1, plan->real)};
    for (size_t i = 0; i < WEFT_COUNT(parts); i++) gpu_acc(plan, parts[i]);
    const double numbers[] = {gpu_node_real(plan->node, "epsilon", 1e-8),
                              of1.keep,
                              of1.drop,
                              1 - beta1,
                              of2.keep,
                              of2.drop,
                              1 - beta2};
    for (size_t i = 0; i < WEFT_COUNT(numbers); i++) gpu_real(plan, numbers[i]);
    gpu_guard(plan);
}

static void counter(gpu_plan *plan)
{
    begin(plan, "counter", gpu_rows(1));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_guard(plan);
}

/* Schedules of which the formula is known, which follow from the step alone. */
static const char *rate_of(const weft_context *context, const weft_node *node)
{
    const weft_value *in;
    if (weft->node_inputs(node, &in) != 1) return NULL;
    return weft->rate_text(context, (int)gpu_node_int(node, "kind", 0, 0));
}

static bool has_formula(const weft_group *group)
{
    return group->count == 1 && rate_of(weft->graph_context(group->graph), group->node[0]);
}

static void schedule(gpu_plan *plan)
{
    const weft_node *node = plan->node;
    gpu_body body = {0};
    gpu_text_add(plan, &body, "#define RATE (%s)\n",
                 rate_of(weft->graph_context(plan->group->graph), node));
    begin(plan, "schedule", gpu_rows(1));
    if (plan->status != WEFT_OK) {
        free(body.text);
        return;
    }
    plan->now->body = body.text;
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    const double numbers[] = {gpu_node_real(node, "base", 0),
                              gpu_node_real(node, "gamma", 0.1),
                              gpu_node_real(node, "floor", 0),
                              (double)gpu_node_int(node, "warmup", 0, 0),
                              (double)gpu_node_int(node, "total", 0, 0),
                              (double)gpu_node_int(node, "every", 0, 1),
                              (double)gpu_node_int(node, "step", 0, 0),
                              gpu_node_real(node, "at", 0),
                              gpu_node_real(node, "pace", 1)};
    for (size_t i = 0; i < WEFT_COUNT(numbers); i++) gpu_acc(plan, numbers[i]);
}

static void accumulate_tree(gpu_plan *plan)
{
    int places = plan->out_count;
    int64_t count = gpu_in_size(plan, 0);
    gpu_body body = {0};
    gpu_text_add(plan, &body, "#define PLACES %d\n#define PARAMETERS ", places);
    for (int p = 0; p < places; p++) gpu_text_add(plan, &body, ", BUFFER(p%d), BUFFER(o%d)", p, p);
    gpu_text_add(plan, &body, "\n#define LOADS ");
    for (int p = 0; p < places; p++)
        gpu_text_add(plan, &body, " stack[%d] = AT(p%d, const real_t)[i];", p, p);
    gpu_text_add(plan, &body, "\n#define STORES ");
    for (int p = 0; p < places; p++)
        gpu_text_add(plan, &body, " AT(o%d, real_t)[i] = stack[%d];", p, p);
    gpu_text_add(plan, &body, "\n");
    begin(plan, "accumulate_tree", gpu_line(count, 2048));
    if (plan->status != WEFT_OK) {
        free(body.text);
        return;
    }
    plan->now->body = body.text;
    gpu_in(plan, places);
    gpu_in(plan, places + 1);
    gpu_ints(plan, 3,
             (int64_t[]){count, gpu_node_int(plan->node, "leaves", 0, 1),
                         gpu_node_int(plan->node, "first", 0, 0)});
    for (int p = 0; p < places; p++) {
        gpu_in(plan, p);
        gpu_out(plan, p);
    }
}

enum { DIGITS = 156, GROUP_SQUARES = 1 << 14 };

static void sum_squares(gpu_plan *plan)
{
    int64_t count = gpu_in_size(plan, 0), groups = (count + GROUP_SQUARES - 1) / GROUP_SQUARES;
    groups = WEFT_MIN(groups, (int64_t)8192);
    int64_t each = (count + groups - 1) / groups;
    size_t digits = gpu_reserve(plan, sizeof(uint32_t) * (size_t)(groups * DIGITS));
    size_t endless = gpu_reserve(plan, sizeof(uint32_t) * (size_t)groups);
    if (!plan->kernel->device->card->doubles || each > 1 << 17) {
        plan->status = weft->fail(WEFT_ERR_UNSUPPORTED, "exact sums need double precision");
        return;
    }
    begin(plan, "squares", gpu_rows(groups));
    gpu_in(plan, 0);
    gpu_scratch(plan, digits);
    gpu_scratch(plan, endless);
    gpu_ints(plan, 2, (int64_t[]){count, each});
    begin(plan, "add_squares", gpu_rows(1));
    gpu_scratch(plan, digits);
    gpu_scratch(plan, endless);
    gpu_out(plan, 0);
    gpu_int(plan, groups);
}

/* Kernels of exact sums: those of one work item. */
static void exact(gpu_plan *plan, const char *function)
{
    if (!plan->kernel->device->card->doubles)
        plan->status = weft->fail(WEFT_ERR_UNSUPPORTED, "exact sums need double precision");
    begin(plan, function, gpu_rows(1));
    for (int i = 0; i < plan->in_count; i++) gpu_in(plan, i);
    gpu_out(plan, 0);
}

static void add_exact(gpu_plan *plan)
{
    exact(plan, "add_exact");
}

static void exact_sqrt(gpu_plan *plan)
{
    exact(plan, "exact_root");
    gpu_acc(plan, -1);
}

static void clip_factor(gpu_plan *plan)
{
    exact(plan, "exact_root");
    gpu_acc(plan, gpu_node_real(plan->node, "max_norm", 1));
}

const gpu_entry gpu_update_entries[] = {
    {"sgd", "update", NULL, sgd, false},
    {"adam", "update", NULL, adam, false},
    {"counter", "update", NULL, counter, false},
    {"schedule", "update", has_formula, schedule, false},
    {"accumulate_tree", "update", NULL, accumulate_tree, false},
    {"sum_squares", "exact", NULL, sum_squares, false},
    {"addend_squares", "exact", NULL, sum_squares, false},
    {"add_exact", "exact", NULL, add_exact, false},
    {"exact_sqrt", "exact", NULL, exact_sqrt, false},
    {"clip_factor", "exact", NULL, clip_factor, false},
    {NULL, NULL, NULL, NULL, false},
};
