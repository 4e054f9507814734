/* Implements gather, embedding and their gradient on plain memory. The gradient is shared out by
 * rows of the tensor, so that each row gets its addends in the order of the indices, whatever the
 * threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192 };

/* The tensor is [outer, rows, width], of which `count` indices select rows. */
typedef struct gather_job {
    weft_dtype id_type, dtype;
    bool narrow; /* dy is bf16 */
    const void *ids;
    const void *from; /* the tensor, or dy */
    void *to;         /* y, or the gradient of the tensor */
    int64_t outer, count, rows, width;
} gather_job;

static int64_t id_at(const gather_job *j, int64_t i)
{
    return weft_index_at(j->id_type, j->ids, i);
}

/* Selects rows [begin, end) of the result. */
static void select_part(void *user, int64_t begin, int64_t end)
{
    const gather_job *j = user;
    size_t row = (size_t)j->width * weft_dtype_size(j->dtype);
    for (int64_t i = begin; i < end; i++) {
        char *y = (char *)j->to + (size_t)i * row;
        int64_t id = id_at(j, i % j->count);
        if (id >= 0 && id < j->rows)
            memcpy(y, (const char *)j->from + (size_t)(i / j->count * j->rows + id) * row, row);
        else
            weft_fill_unknown(j->dtype, y, j->width);
    }
}

WEFT_INLINE void add_row_of(const gather_job *j, int64_t at, float *restrict y, bool narrow)
{
    const void *restrict x = cpu_element(j->from, at, narrow);
    for (int64_t i = 0; i < j->width; i++) y[i] += cpu_get(x, i, narrow);
}
CPU_PRECISIONS(static, add_row, j->narrow, (const gather_job *j, int64_t at, float *y), j, at, y)

/* Adds up the gradients of rows [begin, end) of each of the outer parts. */
static void add_part(void *user, int64_t begin, int64_t end)
{
    const gather_job *j = user;
    for (int64_t o = 0; o < j->outer; o++) {
        float *to = (float *)j->to + o * j->rows * j->width;
        memset(to + begin * j->width, 0, (size_t)((end - begin) * j->width) * sizeof(*to));
        for (int64_t i = 0; i < j->count; i++) {
            int64_t id = id_at(j, i);
            if (id >= begin && id < end)
                add_row(j, (o * j->count + i) * j->width, to + id * j->width);
        }
    }
}

static gather_job job_of(const cpu_loop *k, const weft_type *tensor)
{
    const weft_node *node = k->group.node[0];
    const weft_shape *x = &tensor->shape;
    int axis = (int)weft_node_int(node, "axis", 0, 0);
    gather_job j = {.id_type = weft_in(k->group.graph, node, 0)->dtype,
                    .dtype = tensor->dtype,
                    .narrow = weft_in(k->group.graph, node, 1)->dtype == WEFT_BF16,
                    .ids = k->in[0],
                    .from = k->in[1],
                    .to = k->out[0],
                    .outer = 1,
                    .count = weft_shape_elements(&weft_in(k->group.graph, node, 0)->shape),
                    .rows = x->dim[axis],
                    .width = 1};
    for (int d = 0; d < x->rank; d++)
        *(d < axis ? &j.outer : &j.width) *= d == axis ? 1 : x->dim[d];
    return j;
}

static void gather_loop(const cpu_loop *k)
{
    gather_job j = job_of(k, weft_in(k->group.graph, k->group.node[0], 1));
    weft_parallel(k->threads, j.outer * j.count, GRAIN / j.width + 1, select_part, &j);
}

static void gather_grad_loop(const cpu_loop *k)
{
    gather_job j = job_of(k, weft_out(k->group.graph, k->group.node[0], 0));
    /* Each part reads all indices, so there are no more parts than threads. */
    int64_t share = WEFT_MAX(j.rows / k->threads, GRAIN / j.width + 1);
    weft_parallel(k->threads, j.rows, share, add_part, &j);
}

CPU_PLAIN(gather)
CPU_PLAIN(gather_grad)

const cpu_entry cpu_embedding_entries[] = {
    {"gather", "loop", cpu_single_of_any, gather_make, NULL, CPU_ANY},
    {"embedding", "loop", cpu_single, gather_make, NULL, CPU_WIDE},
    {"embedding_grad", "loop", cpu_one_precision, gather_grad_make, NULL, CPU_ANY},
    {.op = NULL},
};
