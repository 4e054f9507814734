/* Implements rms_norm and its gradient. Threads share the rows, and for the gradient of gamma the
 * columns, each of which is a sum in the order of the rows. So no sum depends on the number of
 * threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

/* A row is summed up in LANES sums, columns in blocks of COLUMNS. */
enum { GRAIN = 8192, LANES = 16, COLUMNS = 64 };

typedef struct rms_job {
    const float *dy, *x, *gamma, *rstd_in;
    float *y, *rstd, *dx, *dgamma;
    int64_t rows, n;
    double epsilon;
} rms_job;

static WEFT_CLONES double sum_squares(const float *x, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static WEFT_CLONES void scale_row(const float *restrict x, const float *restrict gamma,
                                  float *restrict y, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor * gamma[i];
}

static void norm_part(void *user, int64_t begin, int64_t end)
{
    const rms_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        const float *x = j->x + r * j->n;
        j->rstd[r] = (float)(1 / sqrt(sum_squares(x, j->n) / (double)j->n + j->epsilon));
        scale_row(x, j->gamma, j->y + r * j->n, j->rstd[r], j->n);
    }
}

static void rms_norm_loop(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    const weft_graph *g = k->group.graph;
    rms_job j = {.x = k->in[0], .gamma = k->in[1], .y = k->out[0], .rstd = k->out[1]};
    j.n = weft_in(g, node, 1)->shape.dim[0];
    j.rows = weft_shape_elements(&weft_in(g, node, 0)->shape) / j.n;
    j.epsilon = weft_node_real(node, "epsilon", 1e-5);
    weft_parallel(k->threads, j.rows, GRAIN / j.n + 1, norm_part, &j);
}

/* The sum of dy gamma x. */
static WEFT_CLONES double sum_products(const float *dy, const float *gamma, const float *x,
                                       int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)(dy[i + l] * gamma[i + l]) * (double)x[i + l];
    for (; i < n; i++) sum += (double)(dy[i] * gamma[i]) * (double)x[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static WEFT_CLONES void gradient_row(const rms_job *j, int64_t r, float factor)
{
    const float *restrict dy = j->dy + r * j->n, *restrict x = j->x + r * j->n;
    const float *restrict gamma = j->gamma;
    float *restrict dx = j->dx + r * j->n, rstd = j->rstd_in[r];
    for (int64_t i = 0; i < j->n; i++) dx[i] = rstd * (dy[i] * gamma[i] - x[i] * factor);
}

static void gradient_part(void *user, int64_t begin, int64_t end)
{
    const rms_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        double rstd = (double)j->rstd_in[r];
        double sum = sum_products(j->dy + r * j->n, j->gamma, j->x + r * j->n, j->n);
        gradient_row(j, r, (float)(sum / (double)j->n * rstd * rstd));
    }
}

static WEFT_CLONES void sum_columns(const rms_job *j, int64_t begin, int64_t count)
{
    double sum[COLUMNS] = {0};
    for (int64_t r = 0; r < j->rows; r++) {
        const float *dy = j->dy + r * j->n + begin, *x = j->x + r * j->n + begin;
        double rstd = (double)j->rstd_in[r];
        for (int64_t i = 0; i < count; i++) sum[i] += (double)dy[i] * (double)x[i] * rstd;
    }
    for (int64_t i = 0; i < count; i++) j->dgamma[begin + i] = (float)sum[i];
}

static void columns_part(void *user, int64_t begin, int64_t end)
{
    const rms_job *j = user;
    for (int64_t b = begin * COLUMNS; b < end * COLUMNS; b += COLUMNS)
        sum_columns(j, b, WEFT_MIN((int64_t)COLUMNS, j->n - b));
}

static void rms_norm_grad_loop(const cpu_loop *k)
{
    rms_job j = {.dy = k->in[0],
                 .x = k->in[1],
                 .gamma = k->in[2],
                 .rstd_in = k->in[3],
                 .dx = k->out[0],
                 .dgamma = k->out[1]};
    const weft_node *node = k->group.node[0];
    j.n = weft_in(k->group.graph, node, 2)->shape.dim[0];
    j.rows = weft_shape_elements(&weft_in(k->group.graph, node, 0)->shape) / j.n;
    weft_parallel(k->threads, j.rows, GRAIN / j.n + 1, gradient_part, &j);
    weft_parallel(k->threads, (j.n + COLUMNS - 1) / COLUMNS, GRAIN / (j.rows * COLUMNS) + 1,
                  columns_part, &j);
}

CPU_PLAIN(rms_norm)
CPU_PLAIN(rms_norm_grad)

const cpu_entry cpu_rms_norm_entries[] = {
    {"rms_norm", "loop", cpu_single, rms_norm_make, NULL},
    {"rms_norm_grad", "loop", cpu_single, rms_norm_grad_make, NULL},
    {.op = NULL},
};
