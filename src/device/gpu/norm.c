/* Describes softmax and normalizations. */
#include "device/gpu/gpu.h"

static void begin(gpu_plan *plan, const char *function, gpu_grid grid)
{
    gpu_launch_add(plan, &gpu_text_norm, function, grid, "%s", "");
}

static void inputs(gpu_plan *plan, int count, const int *which)
{
    for (int i = 0; i < count; i++) gpu_in(plan, which[i]);
}
#define INPUTS(plan, ...)                                                                          \
    inputs(plan, (int)WEFT_COUNT(((const int[]){__VA_ARGS__})), (const int[]){__VA_ARGS__})

static int64_t last_size(const weft_shape *s)
{
    return s->dim[s->rank - 1];
}

static void softmax(gpu_plan *plan)
{
    int64_t n = last_size(gpu_in_shape(plan, 0));
    begin(plan, "softmax", gpu_rows(gpu_in_size(plan, 0) / n));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_int(plan, n);
}

static void softmax_grad(gpu_plan *plan)
{
    int64_t n = last_size(gpu_in_shape(plan, 0));
    begin(plan, "softmax_grad", gpu_rows(gpu_in_size(plan, 0) / n));
    INPUTS(plan, 0, 1);
    gpu_out(plan, 0);
    gpu_int(plan, n);
}

static void batch_count(gpu_plan *plan)
{
    begin(plan, "batch_count", gpu_rows(1));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_int(plan, gpu_in_size(plan, 0));
}

/* The sizes of x, input i, as [batch, channels, inner]. */
static void channels(gpu_plan *plan, int i)
{
    const weft_shape *x = gpu_in_shape(plan, i);
    gpu_ints(plan, 2, x->dim);
    gpu_int(plan, weft->elements(x) / (x->dim[0] * x->dim[1]));
}

static int64_t positions(const gpu_plan *plan)
{
    return gpu_node_int(plan->node, "positions", 0, 1);
}

static double epsilon(const gpu_plan *plan)
{
    return gpu_node_real(plan->node, "epsilon", 1e-5);
}

static void statistic(gpu_plan *plan, bool variance)
{
    begin(plan, "statistic", gpu_rows(gpu_in_shape(plan, 0)->dim[1]));
    INPUTS(plan, 0, 1, 2, variance ? 3 : 2);
    gpu_out(plan, 0);
    channels(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){positions(plan), variance});
}

static void batch_mean(gpu_plan *plan)
{
    statistic(plan, false);
}

static void batch_variance(gpu_plan *plan)
{
    statistic(plan, true);
}

static void batch_running(gpu_plan *plan)
{
    begin(plan, "batch_running", gpu_line(gpu_in_size(plan, 0), 64));
    INPUTS(plan, 0, 1, 2, 3, 4);
    gpu_out(plan, 0);
    gpu_out(plan, 1);
    gpu_ints(plan, 2, (int64_t[]){gpu_in_size(plan, 0), positions(plan)});
    gpu_acc(plan, gpu_node_real(plan->node, "momentum", 0.1));
    gpu_guard(plan);
}

static void batch_norm(gpu_plan *plan)
{
    begin(plan, "batch_norm", gpu_rows(gpu_in_shape(plan, 0)->dim[1]));
    INPUTS(plan, 0, 1, 2, 5, 6, 3, 4);
    gpu_out(plan, 0);
    channels(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){positions(plan), 0});
    gpu_real(plan, epsilon(plan));
}

static void batch_norm_infer(gpu_plan *plan)
{
    begin(plan, "batch_norm", gpu_rows(gpu_in_shape(plan, 0)->dim[1]));
    INPUTS(plan, 0, 1, 2, 3, 4, 3, 4); /* the last two are not used */
    gpu_out(plan, 0);
    channels(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){1, 1});
    gpu_real(plan, epsilon(plan));
}

static void batch_norm_sums(gpu_plan *plan)
{
    begin(plan, "batch_norm_sums", gpu_rows(gpu_in_shape(plan, 0)->dim[1]));
    INPUTS(plan, 0, 1, 2, 3);
    gpu_out(plan, 0);
    gpu_out(plan, 1);
    channels(plan, 0);
    gpu_real(plan, epsilon(plan));
}

static void batch_norm_dx(gpu_plan *plan)
{
    const weft_shape *x = gpu_in_shape(plan, 0);
    int64_t count = weft->elements(x);
    begin(plan, "batch_norm_dx", gpu_line(count, 4096));
    INPUTS(plan, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    gpu_out(plan, 0);
    gpu_ints(plan, 4,
             (int64_t[]){count, x->dim[1], count / (x->dim[0] * x->dim[1]), positions(plan)});
    gpu_real(plan, epsilon(plan));
}

static void layer_norm(gpu_plan *plan)
{
    int64_t n = gpu_in_size(plan, 1);
    begin(plan, "layer_norm", gpu_rows(gpu_in_size(plan, 0) / n));
    INPUTS(plan, 0, 1, 2);
    for (int o = 0; o < 3; o++) gpu_out(plan, o);
    gpu_int(plan, n);
    gpu_real(plan, epsilon(plan));
}

static void layer_norm_grad(gpu_plan *plan)
{
    int64_t n = gpu_in_size(plan, 2), rows = gpu_in_size(plan, 0) / n;
    begin(plan, "layer_norm_dx", gpu_rows(rows));
    INPUTS(plan, 0, 1, 2, 3, 4);
    gpu_out(plan, 0);
    gpu_int(plan, n);
    begin(plan, "layer_norm_sums", (gpu_grid){{(int)((n + 15) / 16), 1, 1}, {16, 16}});
    INPUTS(plan, 0, 1, 3, 4);
    gpu_out(plan, 1);
    gpu_out(plan, 2);
    gpu_ints(plan, 2, (int64_t[]){n, rows});
}

static void rms_norm(gpu_plan *plan)
{
    int64_t n = gpu_in_size(plan, 1);
    begin(plan, "rms_norm", gpu_rows(gpu_in_size(plan, 0) / n));
    INPUTS(plan, 0, 1);
    gpu_out(plan, 0);
    gpu_out(plan, 1);
    gpu_int(plan, n);
    gpu_real(plan, epsilon(plan));
}

static void rms_norm_grad(gpu_plan *plan)
{
    int64_t n = gpu_in_size(plan, 2), rows = gpu_in_size(plan, 0) / n;
    begin(plan, "rms_norm_dx", gpu_rows(rows));
    INPUTS(plan, 0, 1, 2, 3);
    gpu_out(plan, 0);
    gpu_int(plan, n);
    begin(plan, "rms_norm_sums", (gpu_grid){{(int)((n + 15) / 16), 1, 1}, {16, 16}});
    INPUTS(plan, 0, 1, 3);
    gpu_out(plan, 1);
    gpu_ints(plan, 2, (int64_t[]){n, rows});
}

const gpu_entry gpu_norm_entries[] = {
    {"softmax", "rows", NULL, softmax, false},
    {"softmax_grad", "rows", NULL, softmax_grad, false},
    {"batch_count", "channels", NULL, batch_count, false},
    {"batch_mean", "channels", NULL, batch_mean, false},
    {"batch_variance", "channels", NULL, batch_variance, false},
    {"batch_running", "channels", NULL, batch_running, false},
    {"batch_norm", "channels", NULL, batch_norm, false},
    {"batch_norm_infer", "channels", NULL, batch_norm_infer, false},
    {"batch_norm_sums", "channels", NULL, batch_norm_sums, false},
    {"batch_norm_dx", "channels", NULL, batch_norm_dx, false},
    {"layer_norm", "rows", NULL, layer_norm, false},
    {"layer_norm_grad", "rows", NULL, layer_norm_grad, false},
    {"rms_norm", "rows", NULL, rms_norm, false},
    {"rms_norm_grad", "rows", NULL, rms_norm_grad, false},
    {NULL, NULL, NULL, NULL, false},
};
