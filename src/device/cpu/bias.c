/* Implements bias where it is not fused into the operator before it: one pass over plain memory. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192 };

/* A tensor as [outer, size, inner], where size is the number of elements of the bias. A row has
 * `width` elements: the whole bias if inner is 1, else the elements that get one number of it. */
typedef struct bias_job {
    const void *x; /* f32, or if `narrow` bf16 */
    const float *bias;
    void *y;
    bool narrow;
    int64_t size, inner, width;
} bias_job;

WEFT_INLINE void bias_part_of(void *user, int64_t begin, int64_t end, bool narrow)
{
    const bias_job *j = user;
    const float *bias = j->bias;
    int64_t width = j->width;
    for (int64_t r = begin; r < end; r++) {
        const void *x = cpu_element(j->x, r * width, narrow);
        void *y = cpu_element(j->y, r * width, narrow);
        float number = bias[r % j->size];
        for (int64_t i = 0; i < width && j->inner == 1; i++)
            cpu_put(y, i, narrow, cpu_get(x, i, narrow) + bias[i]);
        for (int64_t i = 0; i < width && j->inner > 1; i++)
            cpu_put(y, i, narrow, cpu_get(x, i, narrow) + number);
    }
}
CPU_PRECISIONS(static, bias_part, ((const bias_job *)user)->narrow,
               (void *user, int64_t begin, int64_t end), user, begin, end)

static void bias_loop(const cpu_loop *k)
{
    const weft_graph *g = k->group.graph;
    const weft_node *node = k->group.node[0];
    const weft_shape *x = &weft_in(g, node, 0)->shape, *bias = &weft_in(g, node, 1)->shape;
    bias_job j = {k->in[0],
                  k->in[1],
                  k->out[0],
                  weft_in(g, node, 0)->dtype == WEFT_BF16,
                  weft_shape_elements(bias),
                  1,
                  0};
    for (int i = (int)weft_node_int(node, "axis", 0, 1) + bias->rank; i < x->rank; i++)
        j.inner *= x->dim[i];
    j.width = j.inner == 1 ? j.size : j.inner;
    weft_parallel(k->threads, weft_shape_elements(x) / j.width, GRAIN / j.width + 1, bias_part, &j);
}

CPU_PLAIN(bias)

const cpu_entry cpu_bias_entries[] = {
    {"bias", "loop", cpu_one_precision, bias_make, NULL, CPU_ANY},
    {.op = NULL},
};
