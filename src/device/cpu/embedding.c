/* Implements embedding and its gradient on plain memory. The gradient is shared out by rows of the
 * table, so that each row gets its addends in the order of the indices, whatever the threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192 };

typedef struct embedding_job {
    const int32_t *ids;
    const float *from; /* the table, or dy */
    float *to;         /* y, or the gradient of the table */
    int64_t count, rows, width;
} embedding_job;

/* Selects the rows of indices [begin, end). */
static void select_part(void *user, int64_t begin, int64_t end)
{
    const embedding_job *j = user;
    for (int64_t i = begin; i < end; i++) {
        float *y = j->to + i * j->width;
        if (j->ids[i] >= 0 && j->ids[i] < j->rows)
            memcpy(y, j->from + j->ids[i] * j->width, (size_t)j->width * sizeof(*y));
        else
            for (int64_t k = 0; k < j->width; k++) y[k] = NAN;
    }
}

static WEFT_CLONES void add_row(const float *restrict x, float *restrict y, int64_t width)
{
    for (int64_t i = 0; i < width; i++) y[i] += x[i];
}

/* Adds up the gradients of rows [begin, end) of the table. */
static void add_part(void *user, int64_t begin, int64_t end)
{
    const embedding_job *j = user;
    memset(j->to + begin * j->width, 0, (size_t)((end - begin) * j->width) * sizeof(*j->to));
    for (int64_t i = 0; i < j->count; i++)
        if (j->ids[i] >= begin && j->ids[i] < end)
            add_row(j->from + i * j->width, j->to + j->ids[i] * j->width, j->width);
}

static embedding_job job_of(const cpu_loop *k, const weft_type *table)
{
    const weft_type *ids = weft_in(k->group.graph, k->group.node[0], 0);
    return (embedding_job){.ids = k->in[0],
                           .from = k->in[1],
                           .to = k->out[0],
                           .count = weft_shape_elements(&ids->shape),
                           .rows = table->shape.dim[0],
                           .width = table->shape.dim[1]};
}

static void embedding_loop(const cpu_loop *k)
{
    embedding_job j = job_of(k, weft_in(k->group.graph, k->group.node[0], 1));
    weft_parallel(k->threads, j.count, GRAIN / j.width + 1, select_part, &j);
}

static void embedding_grad_loop(const cpu_loop *k)
{
    embedding_job j = job_of(k, weft_out(k->group.graph, k->group.node[0], 0));
    /* Each part reads all indices, so there are no more parts than threads. */
    int64_t share = WEFT_MAX(j.rows / k->threads, GRAIN / j.width + 1);
    weft_parallel(k->threads, j.rows, share, add_part, &j);
}

CPU_PLAIN(embedding)
CPU_PLAIN(embedding_grad)

const cpu_entry cpu_embedding_entries[] = {
    {"embedding", "loop", cpu_single, embedding_make, NULL},
    {"embedding_grad", "loop", cpu_single, embedding_grad_make, NULL},
    {.op = NULL},
};
