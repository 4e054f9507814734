/* Implements pooling by oneDNN. The layout of the result follows from the layout of the input; the
 * index of maxpool is oneDNN's workspace. The maxima of windows with NaN or infinite numbers, which
 * oneDNN leaves out, are computed again. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

/* --- numbers that are not finite --- */

enum { SCAN_GRAIN = 32768 };

typedef struct scan {
    weft_dtype dtype;
    const void *x;
    bool found;
} scan;

WEFT_CLONES static uint32_t has_infinite(const float *x, int64_t begin, int64_t end)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t found = 0;
    for (int64_t i = begin; i < end; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof(bits));
        found |= (bits & exponent) == exponent;
    }
    return found;
}

static void scan_part(void *user, int64_t begin, int64_t end)
{
    scan *s = user;
    bool narrow = s->dtype == WEFT_BF16;
    if (narrow ? cpu_narrow_infinite((const uint16_t *)s->x + begin, end - begin)
               : has_infinite(s->x, begin, end) != 0)
        __atomic_store_n(&s->found, true, __ATOMIC_RELAXED);
}

/* The sizes of the window and of the planes of x and y, with dimensions of size 1 in front of fewer
 * than three. */
typedef struct sizes {
    int64_t x[WEFT_MAX_SPACE], y[WEFT_MAX_SPACE];
    int64_t kernel[WEFT_MAX_SPACE], stride[WEFT_MAX_SPACE], padding[WEFT_MAX_SPACE];
} sizes;

static sizes sizes_of(const cpu_primitive *k)
{
    const weft_shape *x = &weft_in(k->graph, k->node, 0)->shape;
    const weft_shape *y = &weft_out(k->graph, k->node, 0)->shape;
    weft_window window = weft_node_window(k->node, x->rank - 2);
    sizes s;
    for (int i = 0, missing = WEFT_MAX_SPACE - window.dims; i < WEFT_MAX_SPACE; i++) {
        int from = i - missing;
        s.x[i] = from < 0 ? 1 : x->dim[2 + from];
        s.y[i] = from < 0 ? 1 : y->dim[2 + from];
        s.kernel[i] = from < 0 ? 1 : window.kernel[from];
        s.stride[i] = from < 0 ? 1 : window.stride[from];
        s.padding[i] = from < 0 ? 0 : window.padding[from];
    }
    return s;
}

/* The largest number in the window at an output position; NaN if there is one. */
static double window_max(const sizes *s, weft_dtype dtype, const void *plane, int64_t step,
                         const int64_t at[3])
{
    int64_t begin[WEFT_MAX_SPACE], end[WEFT_MAX_SPACE];
    double top = -INFINITY;
    for (int i = 0; i < WEFT_MAX_SPACE; i++) {
        int64_t first = at[i] * s->stride[i] - s->padding[i];
        begin[i] = WEFT_MAX(first, (int64_t)0);
        end[i] = WEFT_MIN(first + s->kernel[i], s->x[i]);
    }
    for (int64_t d = begin[0]; d < end[0]; d++)
        for (int64_t h = begin[1]; h < end[1]; h++)
            for (int64_t w = begin[2]; w < end[2]; w++) {
                double value =
                    weft_number_get(dtype, plane, ((d * s->x[1] + h) * s->x[2] + w) * step);
                if (isnan(value)) return value;
                top = WEFT_MAX(top, value);
            }
    return top;
}

static void pool_planes(const cpu_primitive *k, const char *x, char *y)
{
    cpu_planes from, to;
    sizes s = sizes_of(k);
    weft_dtype dtype = weft_in(k->graph, k->node, 0)->dtype;
    const weft_layout *x_layout = k->head.in[0], *y_layout = k->head.out[k->after_out];
    if (!cpu_planes_of(weft_in(k->graph, k->node, 0), x_layout, &from) ||
        !cpu_planes_of(weft_out(k->graph, k->node, 0), y_layout, &to))
        return; /* pool_make has refused such layouts */
    for (int64_t p = 0; p < from.batch_count * from.channel_count; p++) {
        int64_t b = p / from.channel_count, c = p % from.channel_count;
        int64_t first = b * from.batch + c / from.block * from.channel + c % from.block;
        int64_t out = b * to.batch + c / to.block * to.channel + c % to.block;
        const char *plane = x + first * (int64_t)weft_dtype_size(dtype);
        for (int64_t d = 0; d < s.y[0]; d++)
            for (int64_t h = 0; h < s.y[1]; h++)
                for (int64_t w = 0; w < s.y[2]; w++, out += to.step)
                    weft_number_put(dtype, y, out,
                                    window_max(&s, dtype, plane, from.step, (int64_t[]){d, h, w}));
    }
}

static void maxpool_after(const cpu_primitive *k, const void *x, void *y)
{
    scan s = {weft_in(k->graph, k->node, 0)->dtype, x, false};
    int64_t size = (int64_t)(k->head.in[0]->bytes / weft_dtype_size(s.dtype));
    weft_parallel(k->device->threads, size, SCAN_GRAIN, scan_part, &s);
    if (s.found) pool_planes(k, x, y);
}

/* --- kernels --- */

typedef struct pool {
    onednn_spec any; /* x plain, y in the layout that follows from x */
    cpu_md x, y;     /* plain */
} pool;

static weft_status pool_of(weft_device *device, const weft_node *node, const weft_type *x,
                           const weft_type *y, pool *out)
{
    bool max = strncmp(node->op->name, "max", 3) == 0;
    pool p = {.any = {.kind = max ? ONEDNN_MAXPOOL : ONEDNN_AVGPOOL}};
    weft_window window = weft_node_window(node, x->shape.rank - 2);
    for (int i = 0; i < window.dims; i++) {
        p.any.stride[i] = window.stride[i];
        p.any.kernel[i] = window.kernel[i];
        p.any.padding[i] = window.padding[i];
        p.any.padding_end[i] = window.padding_end[i];
    }
    WEFT_TRY(cpu_md_of_type(device, x, &p.x));
    WEFT_TRY(cpu_md_of_type(device, y, &p.y));
    p.any.x = p.x;
    WEFT_TRY(onednn_md_any(cpu_onednn(device), p.y, y->dtype, &p.any.y));
    *out = p;
    return WEFT_OK;
}

static weft_status finish_maxpool(const weft_group *group, weft_kernel **out)
{
    cpu_planes planes;
    cpu_primitive *k = (cpu_primitive *)*out;
    k->graph = group->graph;
    k->node = group->node[0];
    k->after = maxpool_after;
    k->after_out = weft_group_out(group, k->node->out);
    if (cpu_planes_of(weft_in(k->graph, k->node, 0), k->head.in[0], &planes) &&
        cpu_planes_of(weft_out(k->graph, k->node, 0), k->head.out[k->after_out], &planes))
        return WEFT_OK;
    k->head.ops->destroy(&k->head);
    return weft_fail(WEFT_ERR_UNSUPPORTED, "'%s' has a layout without planes",
                     group->node[0]->name);
}

static weft_status pool_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p;
    WEFT_TRY(pool_of(device, node, weft_in(g, node, 0), weft_out(g, node, 0), &p));
    p.any.x = cpu_md_of(in[0], p.x);
    int index = node->out_count > 1 ? weft_group_out(group, node->out + 1) : -1;
    p.any.pass = index >= 0 ? ONEDNN_FORWARD : ONEDNN_INFERENCE;
    cpu_arg args[3] = {
        {ONEDNN_X, CPU_IN, 0, p.x, false},
        {ONEDNN_Y, CPU_OUT, weft_group_out(group, node->out), p.y, false},
        /* The opaque layout of the index records the layout of the input, which the gradient
         * needs. */
        {ONEDNN_INDEX, CPU_OUT, index, p.any.x, true},
    };
    WEFT_TRY(cpu_spec_make(device, &p.any, args, index >= 0 ? 3 : 2, out));
    return p.any.kind == ONEDNN_MAXPOOL ? finish_maxpool(group, out) : WEFT_OK;
}

/* Creates a kernel for the gradient of pooling. maxpool_grad is refused unless this device has made
 * the index, since the format of the index is oneDNN's. */
static weft_status grad_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    pool p;
    WEFT_TRY(pool_of(device, node, weft_out(g, node, 0), weft_in(g, node, 0), &p));
    bool indexed = node->in_count > 1;
    int at = indexed ? weft_group_in(group, node->in[1]) : -1;
    const weft_layout *index = indexed ? in[at] : NULL;
    if (indexed && (!index || !index->opaque))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "'%s' reads an index that no maxpool has made",
                         node->name);
    if (indexed)
        p.any.x = ((const cpu_layout *)index)->plain;
    else if (cpu_in_channel_blocks(cpu_md_of(in[0], p.y))) /* in the layout of dy */
        WEFT_TRY(onednn_md_blocked(cpu_onednn(device), weft_out(g, node, 0), &p.any.x));
    p.any.pass = ONEDNN_BACKWARD;
    cpu_arg args[3] = {
        {ONEDNN_DY, CPU_IN, weft_group_in(group, node->in[0]), p.y, false},
        {ONEDNN_DX, CPU_OUT, 0, p.x, false},
        {ONEDNN_INDEX, CPU_IN, at, p.any.x, true},
    };
    return cpu_spec_make(device, &p.any, args, 2 + indexed, out);
}

const cpu_entry cpu_pool_entries[] = {
    {"maxpool", "onednn", cpu_single, pool_make, NULL, CPU_HARDWARE},
    {"maxpool_grad", "onednn", cpu_single, grad_make, NULL, CPU_HARDWARE},
    {"avgpool", "onednn", cpu_single, pool_make, NULL, CPU_HARDWARE},
    {"avgpool_grad", "onednn", cpu_single, grad_make, NULL, CPU_HARDWARE},
    {.op = NULL},
};
