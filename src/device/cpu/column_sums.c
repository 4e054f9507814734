/* Implements reduce_sum over the first axes of a tensor: sums of columns. Threads share the
 * columns, each of which is a sum in the order of the rows, so none depends on the number of
 * threads. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192, COLUMNS = 64 };

typedef struct sum_job {
    const float *x;
    float *y;
    int64_t rows, n;
} sum_job;

static bool is_over_first_axes(const weft_group *group)
{
    bool reduced[WEFT_MAX_RANK] = {false};
    const weft_attr *axes = weft_node_attr(group->node[0], "axes");
    int rank = weft_in(group->graph, group->node[0], 0)->shape.rank;
    if (group->count != 1) return false;
    for (int i = 0; i < axes->count; i++) reduced[axes->ints[i]] = true;
    for (int i = 1; i < rank; i++)
        if (reduced[i] && !reduced[i - 1]) return false;
    return reduced[0] && !reduced[rank - 1];
}

static WEFT_CLONES void sum_columns(const sum_job *j, int64_t begin, int64_t count)
{
    double sum[COLUMNS] = {0};
    for (int64_t r = 0; r < j->rows; r++) {
        const float *x = j->x + r * j->n + begin;
        for (int64_t i = 0; i < count; i++) sum[i] += (double)x[i];
    }
    for (int64_t i = 0; i < count; i++) j->y[begin + i] = (float)sum[i];
}

static void columns_part(void *user, int64_t begin, int64_t end)
{
    const sum_job *j = user;
    for (int64_t b = begin * COLUMNS; b < end * COLUMNS && b < j->n; b += COLUMNS)
        sum_columns(j, b, WEFT_MIN((int64_t)COLUMNS, j->n - b));
}

static void reduce_sum_loop(const cpu_loop *k)
{
    const weft_graph *g = k->group.graph;
    sum_job j = {.x = k->in[0], .y = k->out[0]};
    j.n = weft_shape_elements(&weft_out(g, k->group.node[0], 0)->shape);
    j.rows = weft_shape_elements(&weft_in(g, k->group.node[0], 0)->shape) / j.n;
    weft_parallel(k->threads, (j.n + COLUMNS - 1) / COLUMNS, GRAIN / (j.rows * COLUMNS) + 1,
                  columns_part, &j);
}

CPU_PLAIN(reduce_sum)

const cpu_entry cpu_column_sums_entries[] = {
    {"reduce_sum", "columns", is_over_first_axes, reduce_sum_make, NULL},
    {.op = NULL},
};
