/* Describes losses and their gradients. */
#include "device/gpu/gpu.h"

static void begin(gpu_plan *plan, const char *function, gpu_grid grid)
{
    gpu_launch_add(plan, &gpu_text_loss, function, grid, "%s", "");
}

/* A loss: a number for each row, and then their sum. */
static void rows_and_total(gpu_plan *plan, const char *function, int64_t rows, int64_t n)
{
    size_t losses = gpu_reserve(plan, sizeof(double) * (size_t)rows);
    bool smooth = strcmp(function, "xent_rows") == 0;
    begin(plan, function, gpu_rows(rows));
    for (int i = 0; i < 3; i++) gpu_in(plan, i);
    gpu_out(plan, 1);
    gpu_scratch(plan, losses);
    gpu_int(plan, n);
    if (smooth) gpu_real(plan, gpu_node_real(plan->node, "smoothing", 0));
    begin(plan, "total", gpu_rows(1));
    gpu_scratch(plan, losses);
    gpu_out(plan, 0);
    gpu_int(plan, rows);
}

static void softmax_xent(gpu_plan *plan)
{
    const weft_shape *s = gpu_in_shape(plan, 0);
    int64_t n = s->dim[s->rank - 1];
    rows_and_total(plan, "xent_rows", weft->elements(s) / n, n);
}

static void mse(gpu_plan *plan)
{
    int64_t rows = gpu_in_shape(plan, 0)->dim[0];
    rows_and_total(plan, "mse_rows", rows, gpu_in_size(plan, 0) / rows);
}

static void softmax_xent_grad(gpu_plan *plan)
{
    const weft_shape *s = gpu_in_shape(plan, 0);
    int64_t n = s->dim[s->rank - 1], count = weft->elements(s);
    double smoothing = gpu_node_real(plan->node, "smoothing", 0);
    begin(plan, "xent_grad", gpu_line(count, 4096));
    for (int i = 0; i < 4; i++) gpu_in(plan, i);
    gpu_out(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){count, n});
    gpu_real(plan, smoothing / (double)n);
    gpu_real(plan, 1 - smoothing + smoothing / (double)n);
}

static void mse_grad(gpu_plan *plan)
{
    int64_t count = gpu_in_size(plan, 0);
    begin(plan, "mse_grad", gpu_line(count, 4096));
    for (int i = 0; i < 4; i++) gpu_in(plan, i);
    gpu_out(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){count, count / gpu_in_shape(plan, 0)->dim[0]});
}

const gpu_entry gpu_loss_entries[] = {
    {"softmax_xent", "rows", NULL, softmax_xent, false},
    {"softmax_xent_grad", "elements", NULL, softmax_xent_grad, false},
    {"mse", "rows", NULL, mse, false},
    {"mse_grad", "elements", NULL, mse_grad, false},
    {NULL, NULL, NULL, NULL, false},
};
