/* Implements reduce_sum, reduce_mean, reduce_max and broadcast over neighbouring axes of a tensor:
 * the rows of [outer, rows, columns] are reduced or repeated. Threads share the columns, each of
 * which is reduced in the order of the rows, so none depends on the number of threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192, COLUMNS = 64 };

typedef struct reduction {
    const void *x;
    void *y;
    bool narrow, narrow_out; /* x, y is bf16 */
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
    return cpu_one_precision(group) &&
           rows_of(node, &weft_in(group->graph, node, 0)->shape, &ignored);
}

static bool broadcast_supports(const weft_group *group)
{
    reduction ignored;
    const weft_node *node = group->node[0];
    return cpu_one_precision(group) &&
           rows_of(node, &weft_out(group->graph, node, 0)->shape, &ignored);
}

/* Reduces `count` columns from `from` on to numbers of the result from `at` on. */
WEFT_INLINE void sum_columns_of(const reduction *j, int64_t from, int64_t at, int64_t count,
                                bool narrow)
{
    double sum[COLUMNS] = {0};
    for (int64_t r = 0; r < j->rows; r++, from += j->n)
        for (int64_t i = 0; i < count; i++) sum[i] += (double)cpu_get(j->x, from + i, narrow);
    for (int64_t i = 0; i < count; i++)
        cpu_put(j->y, at + i, j->narrow_out, (float)(sum[i] * j->factor));
}
CPU_PRECISIONS(static, sum_columns, j->narrow,
               (const reduction *j, int64_t from, int64_t at, int64_t count), j, from, at, count)

/* The maximum of numbers of which one is NaN is NaN. */
WEFT_INLINE void largest_of_columns_of(const reduction *j, int64_t from, int64_t at, int64_t count,
                                       bool narrow)
{
    float most[COLUMNS];
    for (int64_t i = 0; i < count; i++) most[i] = cpu_get(j->x, from + i, narrow);
    for (int64_t r = 1; r < j->rows; r++)
        for (int64_t i = 0; i < count; i++) {
            float v = cpu_get(j->x, from + r * j->n + i, narrow);
            most[i] = v > most[i] || v != v ? v : most[i];
        }
    for (int64_t i = 0; i < count; i++) cpu_put(j->y, at + i, j->narrow_out, most[i]);
}
CPU_PRECISIONS(static, largest_of_columns, j->narrow,
               (const reduction *j, int64_t from, int64_t at, int64_t count), j, from, at, count)

static int64_t blocks_of(const reduction *j)
{
    return (j->n + COLUMNS - 1) / COLUMNS;
}

static void columns_part(void *user, int64_t begin, int64_t end)
{
    const reduction *j = user;
    for (int64_t b = begin; b < end; b++) {
        int64_t outer = b / blocks_of(j), first = b % blocks_of(j) * COLUMNS;
        (j->max ? largest_of_columns : sum_columns)(j, outer * j->rows * j->n + first,
                                                    outer * j->n + first,
                                                    WEFT_MIN((int64_t)COLUMNS, j->n - first));
    }
}

static reduction start(const cpu_loop *k)
{
    const weft_graph *g = k->group.graph;
    const weft_node *node = k->group.node[0];
    return (reduction){.x = k->in[0],
                       .y = k->out[0],
                       .narrow = weft_in(g, node, 0)->dtype == WEFT_BF16,
                       .narrow_out = weft_out(g, node, 0)->dtype == WEFT_BF16};
}

static void reduce(const cpu_loop *k, bool mean, bool max)
{
    reduction j = start(k);
    j.factor = 1;
    j.max = max;
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
        const void *x = cpu_element(j->x, r / j->rows * j->n, j->narrow);
        void *y = cpu_element(j->y, r * j->n, j->narrow);
        if (j->n == 1 && !j->narrow)
            *(float *)y = *(const float *)x;
        else
            memcpy(y, x, (size_t)j->n * (j->narrow ? sizeof(uint16_t) : sizeof(float)));
    }
}

static void broadcast_loop(const cpu_loop *k)
{
    reduction j = start(k);
    (void)rows_of(k->group.node[0], &weft_out(k->group.graph, k->group.node[0], 0)->shape, &j);
    weft_parallel(k->threads, j.outer * j.rows, GRAIN / j.n + 1, rows_part, &j);
}

CPU_PLAIN(reduce_sum)
CPU_PLAIN(reduce_mean)
CPU_PLAIN(reduce_max)
CPU_PLAIN(broadcast)

const cpu_entry cpu_reduce_entries[] = {
    {"reduce_sum", "columns", supports, reduce_sum_make, NULL, CPU_ANY},
    {"reduce_mean", "columns", supports, reduce_mean_make, NULL, CPU_ANY},
    {"reduce_max", "columns", supports, reduce_max_make, NULL, CPU_ANY},
    {"broadcast", "rows", broadcast_supports, broadcast_make, NULL, CPU_ANY},
    {.op = NULL},
};
