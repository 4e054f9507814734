/* Reads windows, and describes pooling. */
#include "device/gpu/window.h"

gpu_window gpu_window_of(const gpu_plan *plan, const weft_shape *x, const weft_shape *weight,
                         const weft_shape *y)
{
    const weft_node *node = plan->node;
    gpu_window w = {.batch = x->dim[0],
                    .in = x->dim[1],
                    .out = y->dim[1],
                    .groups = gpu_node_int(node, "groups", 0, 1)};
    int missing = 3 - (x->rank - 2);
    w.x_plane = w.y_plane = w.kernel_size = 1;
    for (int d = 0; d < 3; d++) {
        int own = d - missing;
        bool has = own >= 0;
        w.x[d] = has ? x->dim[2 + own] : 1;
        w.y[d] = has ? y->dim[2 + own] : 1;
        w.kernel[d] = !has     ? 1
                      : weight ? weight->dim[2 + own]
                               : gpu_node_int(node, "kernel", own, 1);
        w.stride[d] = has ? gpu_node_int(node, "stride", own, 1) : 1;
        w.padding[d] = has ? gpu_node_int(node, "padding", own, 0) : 0;
        w.dilation[d] = has ? gpu_node_int(node, "dilation", own, 1) : 1;
        w.x_plane *= w.x[d];
        w.y_plane *= w.y[d];
        w.kernel_size *= w.kernel[d];
    }
    return w;
}

static void begin(gpu_plan *plan, const char *function, int64_t count)
{
    gpu_launch_add(plan, &gpu_text_window, function, gpu_line(count, 4096), "%s", "");
}

static void sizes(gpu_plan *plan, int64_t count, const gpu_window *w)
{
    const int64_t *const lists[] = {w->x, w->y, w->kernel, w->stride, w->padding};
    gpu_int(plan, count);
    for (size_t l = 0; l < WEFT_COUNT(lists); l++) gpu_ints(plan, 3, lists[l]);
}

static void maxpool(gpu_plan *plan)
{
    gpu_window w = gpu_window_of(plan, gpu_in_shape(plan, 0), NULL, gpu_out_shape(plan, 0));
    begin(plan, "maxpool", gpu_out_size(plan, 0));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_out(plan, 1);
    sizes(plan, gpu_out_size(plan, 0), &w);
}

static void maxpool_grad(gpu_plan *plan)
{
    gpu_window w = gpu_window_of(plan, gpu_out_shape(plan, 0), NULL, gpu_in_shape(plan, 0));
    begin(plan, "maxpool_grad", gpu_out_size(plan, 0));
    gpu_in(plan, 0);
    gpu_in(plan, 1);
    gpu_out(plan, 0);
    sizes(plan, gpu_out_size(plan, 0), &w);
}

static void avgpool(gpu_plan *plan)
{
    gpu_window w = gpu_window_of(plan, gpu_in_shape(plan, 0), NULL, gpu_out_shape(plan, 0));
    begin(plan, "avgpool", gpu_out_size(plan, 0));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    sizes(plan, gpu_out_size(plan, 0), &w);
}

static void avgpool_grad(gpu_plan *plan)
{
    gpu_window w = gpu_window_of(plan, gpu_out_shape(plan, 0), NULL, gpu_in_shape(plan, 0));
    begin(plan, "avgpool_grad", gpu_out_size(plan, 0));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    sizes(plan, gpu_out_size(plan, 0), &w);
}

static void global_avgpool(gpu_plan *plan)
{
    gpu_launch_add(plan, &gpu_text_window, "global_avgpool", gpu_rows(gpu_out_size(plan, 0)), "%s",
                   "");
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_int(plan, gpu_in_size(plan, 0) / gpu_out_size(plan, 0));
}

static void global_avgpool_grad(gpu_plan *plan)
{
    begin(plan, "global_avgpool_grad", gpu_out_size(plan, 0));
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_int(plan, gpu_out_size(plan, 0));
    gpu_int(plan, gpu_out_size(plan, 0) / gpu_in_size(plan, 0));
}

const gpu_entry gpu_window_entries[] = {
    {"maxpool", "windows", NULL, maxpool, false},
    {"maxpool_grad", "windows", NULL, maxpool_grad, false},
    {"avgpool", "windows", NULL, avgpool, false},
    {"avgpool_grad", "windows", NULL, avgpool_grad, false},
    {"global_avgpool", "rows", NULL, global_avgpool, false},
    {"global_avgpool_grad", "elements", NULL, global_avgpool_grad, false},
    {NULL, NULL, NULL, NULL, false},
};
