/* Implements bias where it is not fused into the operator before it: one pass over plain memory. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192 };

/* A tensor as [outer, size, inner], where size is the number of elements of the bias. A row has
 * `width` elements: the whole bias if inner is 1, else the elements that get one number of it. */
typedef struct bias_job {
    const float *x, *bias;
    float *y;
    int64_t size, inner, width;
} bias_job;

static WEFT_CLONES void add_row(const float *x, const float *bias, float *y, int64_t width)
{
    for (int64_t i = 0; i < width; i++) y[i] = x[i] + bias[i];
}

static WEFT_CLONES void add_number(const float *x, float number, float *y, int64_t width)
{
    for (int64_t i = 0; i < width; i++) y[i] = x[i] + number;
}

static void bias_part(void *user, int64_t begin, int64_t end)
{
    const bias_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        const float *x = j->x + r * j->width;
        float *y = j->y + r * j->width;
        if (j->inner == 1)
            add_row(x, j->bias, y, j->width);
        else
            add_number(x, j->bias[r % j->size], y, j->width);
    }
}

static void bias_loop(const cpu_loop *k)
{
    const weft_graph *g = k->group.graph;
    const weft_node *node = k->group.node[0];
    const weft_shape *x = &weft_in(g, node, 0)->shape, *bias = &weft_in(g, node, 1)->shape;
    bias_job j = {k->in[0], k->in[1], k->out[0], weft_shape_elements(bias), 1, 0};
    for (int i = (int)weft_node_int(node, "axis", 0, 1) + bias->rank; i < x->rank; i++)
        j.inner *= x->dim[i];
    j.width = j.inner == 1 ? j.size : j.inner;
    weft_parallel(k->threads, weft_shape_elements(x) / j.width, GRAIN / j.width + 1, bias_part, &j);
}

CPU_PLAIN(bias)

const cpu_entry cpu_bias_entries[] = {
    {"bias", "loop", cpu_single, bias_make, NULL, CPU_WIDE},
    {.op = NULL},
};
