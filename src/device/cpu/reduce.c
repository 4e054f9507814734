/* Implements reduce_sum, reduce_mean, reduce_max and broadcast over neighbouring axes of a tensor:
 * the rows of [outer, rows, columns] are reduced or repeated. Threads share the columns, each of
 * which is reduced in the order of the rows, so none depends on the number of threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192, COLUMNS = 64 };

typedef struct reduction {
    const float *x;
    float *y;
    int64_t outer, rows, n;
    double factor; /* of a sum */
    bool max;
} reduction;

/* Finds the rows; false if the axes are not neighbours. */
static bool rows_of(const weft_node *node, const weft_shape *full, reduction *j)
{
    bool gone[WEFT_MAX_RANK] = {false};
    const weft_attr *axes = weft_node_attr(node, "axes");
    int runs = 0;
    j->outer = j->rows = j->n = 1;
    for (int i = 0; i < axes->count; i++) gone[axes->ints[i]] = true;
    for (int i = 0; i < full->rank; i++) {
        runs += gone[i] && (i == 0 || !gone[i - 1]);
        *(gone[i] ? &j->rows : runs ? &j->n : &j->outer) *= full->dim[i];
    }
    return runs == 1;
}

static bool supports(const weft_group *group)
{
    reduction ignored;
    const weft_node *node = group->node[0];
    return group->count == 1 && rows_of(node, &weft_in(group->graph, node, 0)->shape, &ignored);
}

static bool broadcast_supports(const weft_group *group)
{
    reduction ignored;
    const weft_node *node = group->node[0];
    return group->count == 1 && rows_of(node, &weft_out(group->graph, node, 0)->shape, &ignored);
}

static WEFT_CLONES void sum_columns(const reduction *j, const float *x, float *y, int64_t count)
{
    double sum[COLUMNS] = {0};
    for (int64_t r = 0; r < j->rows; r++, x += j->n)
        for (int64_t i = 0; i < count; i++) sum[i] += (double)x[i];
    for (int64_t i = 0; i < count; i++) y[i] = (float)(sum[i] * j->factor);
}

/* The maximum of numbers of which one is NaN is NaN. */
static WEFT_CLONES void largest_of_columns(const reduction *j, const float *x, float *y,
                                           int64_t count)
{
    for (int64_t i = 0; i < count; i++) y[i] = x[i];
    for (int64_t r = 1; r < j->rows; r++)
        for (int64_t i = 0; i < count; i++) {
            float v = x[r * j->n + i];
            y[i] = v > y[i] || v != v ? v : y[i];
        }
}

static int64_t blocks_of(const reduction *j)
{
    return (j->n + COLUMNS - 1) / COLUMNS;
}

static void columns_part(void *user, int64_t begin, int64_t end)
{
    const reduction *j = user;
    for (int64_t b = begin; b < end; b++) {
        int64_t outer = b / blocks_of(j), first = b % blocks_of(j) * COLUMNS;
        (j->max ? largest_of_columns : sum_columns)(j, j->x + outer * j->rows * j->n + first,
                                                    j->y + outer * j->n + first,
                                                    WEFT_MIN((int64_t)COLUMNS, j->n - first));
    }
}

static void reduce(const cpu_loop *k, bool mean, bool max)
{
    reduction j = {.x = k->in[0], .y = k->out[0], .factor = 1, .max = max};
    (void)rows_of(k->group.node[0], &weft_in(k->group.graph, k->group.node[0], 0)->shape, &j);
    if (mean) j.factor = 1 / (double)j.rows;
    weft_parallel(k->threads, j.outer * blocks_of(&j), GRAIN / (j.rows * COLUMNS) + 1, columns_part,
                  &j);
}

static void reduce_sum_loop(const cpu_loop *k)
{
    reduce(k, false, false);
}
static void reduce_mean_loop(const cpu_loop *k)
{
    reduce(k, true, false);
}
static void reduce_max_loop(const cpu_loop *k)
{
    reduce(k, false, true);
}

/* Writes rows [begin, end) of the result. */
static void rows_part(void *user, int64_t begin, int64_t end)
{
    const reduction *j = user;
    for (int64_t r = begin; r < end; r++) {
        const float *x = j->x + r / j->rows * j->n;
        float *y = j->y + r * j->n;
        if (j->n == 1)
            *y = *x;
        else
            memcpy(y, x, (size_t)j->n * sizeof(*y));
    }
}

static void broadcast_loop(const cpu_loop *k)
{
    reduction j = {.x = k->in[0], .y = k->out[0]};
    (void)rows_of(k->group.node[0], &weft_out(k->group.graph, k->group.node[0], 0)->shape, &j);
    weft_parallel(k->threads, j.outer * j.rows, GRAIN / j.n + 1, rows_part, &j);
}

CPU_PLAIN(reduce_sum)
CPU_PLAIN(reduce_mean)
CPU_PLAIN(reduce_max)
CPU_PLAIN(broadcast)

const cpu_entry cpu_reduce_entries[] = {
    {"reduce_sum", "columns", supports, reduce_sum_make, NULL, CPU_WIDE},
    {"reduce_mean", "columns", supports, reduce_mean_make, NULL, CPU_WIDE},
    {"reduce_max", "columns", supports, reduce_max_make, NULL, CPU_WIDE},
    {"broadcast", "rows", broadcast_supports, broadcast_make, NULL, CPU_WIDE},
    {.op = NULL},
};
