/* Describes reductions over axes, and means over sequences. */
#include "device/gpu/gpu.h"

/* The sizes and strides of some axes, in the order of memory; the last six. */
typedef struct axes {
    int count;
    int64_t n[6], stride[6];
} axes;

/* Adds an axis behind the others; joins it with the one before it where that is the same walk. */
static void add_axis(axes *a, int64_t n, int64_t stride)
{
    if (n == 1) return;
    if (a->count > 0 && a->stride[5] == n * stride) {
        a->n[5] *= n;
        a->stride[5] = stride;
        return;
    }
    for (int d = 0; d < 5; d++) {
        a->n[d] = a->n[d + 1];
        a->stride[d] = a->stride[d + 1];
    }
    a->n[5] = n;
    a->stride[5] = stride;
    a->count++;
}

static void split_axes(const gpu_plan *plan, axes *kept, axes *gone)
{
    const weft_shape *s = gpu_in_shape(plan, 0);
    const int64_t *list;
    int count = weft->node_ints(plan->node, "axes", &list);
    int64_t stride = 1, strides[WEFT_MAX_RANK];
    *kept = *gone = (axes){.n = {1, 1, 1, 1, 1, 1}};
    for (int d = s->rank; d-- > 0; stride *= s->dim[d]) strides[d] = stride;
    for (int d = 0; d < s->rank; d++) {
        bool is_gone = false;
        for (int i = 0; i < count; i++) is_gone = is_gone || list[i] == d;
        add_axis(is_gone ? gone : kept, s->dim[d], strides[d]);
    }
}

static void axes_arguments(gpu_plan *plan, const axes *a)
{
    gpu_ints(plan, 5, a->n + 1);
    gpu_ints(plan, 6, a->stride);
}

/* Enough groups for a device, and the fewest terms that are worth a group. */
enum { ENOUGH_GROUPS = 256, GROUP_TERMS = 64, SLICE_TERMS = 4096 };

static void by_group(gpu_plan *plan, int64_t outputs, int64_t terms, double factor, bool max,
                     const axes *kept, const axes *gone)
{
    int64_t slices = WEFT_MIN((terms + SLICE_TERMS - 1) / SLICE_TERMS,
                              WEFT_MAX(ENOUGH_GROUPS / outputs, (int64_t)1));
    int64_t slice = (terms + slices - 1) / slices;
    size_t partial =
        slices > 1 ? gpu_reserve(plan, sizeof(double) * (size_t)(outputs * slices)) : 0;
    gpu_launch_add(plan, &gpu_text_reduce, "by_group", gpu_rows(outputs * slices),
                   "#define MAX %d\n", max);
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    if (slices > 1)
        gpu_scratch(plan, partial);
    else
        gpu_out(plan, 0); /* not used */
    gpu_ints(plan, 3, (int64_t[]){terms, slices, slice});
    gpu_real(plan, factor);
    axes_arguments(plan, kept);
    axes_arguments(plan, gone);
    if (slices == 1) return;
    gpu_launch_add(plan, &gpu_text_reduce, "finish", gpu_line(outputs, 1024), "#define MAX %d\n",
                   max);
    gpu_scratch(plan, partial);
    gpu_out(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){outputs, slices});
    gpu_real(plan, factor);
}

static void reduce(gpu_plan *plan, double factor, bool max)
{
    axes kept, gone;
    split_axes(plan, &kept, &gone);
    int64_t outputs = gpu_out_size(plan, 0), terms = gpu_in_size(plan, 0) / outputs;
    bool few = outputs < ENOUGH_GROUPS * 16;
    if (terms >= GROUP_TERMS && (few || gone.stride[5] == 1)) {
        by_group(plan, outputs, terms, factor, max, &kept, &gone);
        return;
    }
    gpu_launch_add(plan, &gpu_text_reduce, "by_item", gpu_line(outputs, 4096), "#define MAX %d\n",
                   max);
    gpu_in(plan, 0);
    gpu_out(plan, 0);
    gpu_ints(plan, 2, (int64_t[]){outputs, terms});
    gpu_real(plan, factor);
    axes_arguments(plan, &kept);
    axes_arguments(plan, &gone);
}

static void reduce_sum(gpu_plan *plan)
{
    reduce(plan, 1, false);
}

static void reduce_mean(gpu_plan *plan)
{
    reduce(plan, (double)gpu_out_size(plan, 0) / (double)gpu_in_size(plan, 0), false);
}

static void reduce_max(gpu_plan *plan)
{
    reduce(plan, 1, true);
}

static void sequence(gpu_plan *plan, const char *function, const weft_shape *s, int64_t count)
{
    gpu_launch_add(plan, &gpu_text_reduce, function, gpu_line(count, 4096), "#define MAX 0\n");
    gpu_in(plan, 0);
    gpu_in(plan, 1);
    gpu_out(plan, 0);
    gpu_ints(plan, 3, s->dim);
}

static void sequence_mean(gpu_plan *plan)
{
    sequence(plan, "sequence_mean", gpu_in_shape(plan, 0), gpu_out_size(plan, 0));
}

static void sequence_mean_grad(gpu_plan *plan)
{
    sequence(plan, "sequence_mean_grad", gpu_out_shape(plan, 0), gpu_out_size(plan, 0));
}

const gpu_entry gpu_reduce_entries[] = {
    {"reduce_sum", "reduce", NULL, reduce_sum, false},
    {"reduce_mean", "reduce", NULL, reduce_mean, false},
    {"reduce_max", "reduce", NULL, reduce_max, false},
    {"sequence_mean", "sequences", NULL, sequence_mean, false},
    {"sequence_mean_grad", "sequences", NULL, sequence_mean_grad, false},
    {NULL, NULL, NULL, NULL, false},
};
