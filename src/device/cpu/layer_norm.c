/* Implements layer_norm and its gradient. Threads share the rows, and for the gradients of gamma
 * and beta the columns, each of which is a sum in the order of the rows. So no sum depends on the
 * number of threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

/* A row is summed up in LANES sums, columns in blocks of COLUMNS. */
enum { GRAIN = 8192, LANES = 16, COLUMNS = 64 };

typedef struct norm_job {
    const float *dy, *x, *gamma, *beta, *mean_in, *rstd_in;
    float *y, *mean, *rstd, *dx, *dgamma, *dbeta;
    int64_t rows, n;
    double epsilon;
} norm_job;

/* The sum of x - shift or, if `square`, of its square. */
WEFT_INLINE double sum_row(const float *x, double shift, bool square, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double d = (double)x[i + l] - shift;
            lane[l] += square ? d * d : d;
        }
    for (; i < n; i++) {
        double d = (double)x[i] - shift;
        sum += square ? d * d : d;
    }
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static WEFT_CLONES void norm_row(const norm_job *j, int64_t r)
{
    const float *restrict x = j->x + r * j->n;
    const float *restrict gamma = j->gamma, *restrict beta = j->beta;
    float *restrict y = j->y + r * j->n;
    double mean = sum_row(x, 0, false, j->n) / (double)j->n;
    double variance = sum_row(x, mean, true, j->n) / (double)j->n;
    float m = (float)mean, s = (float)(1 / sqrt(variance + j->epsilon));
    for (int64_t i = 0; i < j->n; i++) y[i] = (x[i] - m) * s * gamma[i] + beta[i];
    j->mean[r] = m;
    j->rstd[r] = s;
}

static void norm_part(void *user, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) norm_row(user, r);
}

static void layer_norm_loop(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    const weft_graph *g = k->group.graph;
    norm_job j = {.x = k->in[0],
                  .gamma = k->in[1],
                  .beta = k->in[2],
                  .y = k->out[0],
                  .mean = k->out[1],
                  .rstd = k->out[2]};
    j.n = weft_in(g, node, 1)->shape.dim[0];
    j.rows = weft_shape_elements(&weft_in(g, node, 0)->shape) / j.n;
    j.epsilon = weft_node_real(node, "epsilon", 1e-5);
    weft_parallel(k->threads, j.rows, GRAIN / j.n + 1, norm_part, &j);
}

/* --- the gradient --- */

/* dx = rstd (dy gamma - mean(dy gamma) - hat mean(dy gamma hat)), hat = (x - mean) rstd. */
static WEFT_CLONES void gradient_row(const norm_job *j, int64_t r)
{
    const float *restrict dy = j->dy + r * j->n, *restrict x = j->x + r * j->n;
    const float *restrict gamma = j->gamma;
    float *restrict dx = j->dx + r * j->n, m = j->mean_in[r], s = j->rstd_in[r];
    double plain[LANES] = {0}, hats[LANES] = {0}, sum = 0, sum_hat = 0;
    int64_t i = 0;
    for (; i + LANES <= j->n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float d = dy[i + l] * gamma[i + l];
            plain[l] += (double)d;
            hats[l] += (double)(d * ((x[i + l] - m) * s));
        }
    for (; i < j->n; i++) {
        float d = dy[i] * gamma[i];
        sum += (double)d;
        sum_hat += (double)(d * ((x[i] - m) * s));
    }
    for (int l = 0; l < LANES; l++) {
        sum += plain[l];
        sum_hat += hats[l];
    }
    float a = (float)(sum / (double)j->n), b = (float)(sum_hat / (double)j->n);
    for (i = 0; i < j->n; i++) dx[i] = s * (dy[i] * gamma[i] - a - (x[i] - m) * s * b);
}

static void gradient_part(void *user, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) gradient_row(user, r);
}

static WEFT_CLONES void sum_columns(const norm_job *j, int64_t begin, int64_t count)
{
    double gamma[COLUMNS] = {0}, beta[COLUMNS] = {0};
    for (int64_t r = 0; r < j->rows; r++) {
        const float *dy = j->dy + r * j->n + begin, *x = j->x + r * j->n + begin;
        float m = j->mean_in[r], s = j->rstd_in[r];
        for (int64_t i = 0; i < count; i++) {
            gamma[i] += (double)(dy[i] * ((x[i] - m) * s));
            beta[i] += (double)dy[i];
        }
    }
    for (int64_t i = 0; i < count; i++) {
        j->dgamma[begin + i] = (float)gamma[i];
        j->dbeta[begin + i] = (float)beta[i];
    }
}

static void columns_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    for (int64_t b = begin * COLUMNS; b < end * COLUMNS && b < j->n; b += COLUMNS)
        sum_columns(j, b, WEFT_MIN((int64_t)COLUMNS, j->n - b));
}

static void layer_norm_grad_loop(const cpu_loop *k)
{
    norm_job j = {.dy = k->in[0],
                  .x = k->in[1],
                  .gamma = k->in[2],
                  .mean_in = k->in[3],
                  .rstd_in = k->in[4],
                  .dx = k->out[0],
                  .dgamma = k->out[1],
                  .dbeta = k->out[2]};
    const weft_node *node = k->group.node[0];
    j.n = weft_in(k->group.graph, node, 2)->shape.dim[0];
    j.rows = weft_shape_elements(&weft_in(k->group.graph, node, 0)->shape) / j.n;
    weft_parallel(k->threads, j.rows, GRAIN / j.n + 1, gradient_part, &j);
    weft_parallel(k->threads, (j.n + COLUMNS - 1) / COLUMNS, GRAIN / (j.rows * COLUMNS) + 1,
                  columns_part, &j);
}

CPU_PLAIN(layer_norm)
CPU_PLAIN(layer_norm_grad)

const cpu_entry cpu_layer_norm_entries[] = {
    {"layer_norm", "loop", cpu_single, layer_norm_make, NULL},
    {"layer_norm_grad", "loop", cpu_single, layer_norm_grad_make, NULL},
    {.op = NULL},
};
