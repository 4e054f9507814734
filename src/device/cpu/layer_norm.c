/* Implements layer_norm, rms_norm and their gradients. Threads share the rows, and for the
 * gradients of gamma and beta the columns, each of which is a sum in the order of the rows. So no
 * sum depends on the number of threads. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

/* A row is summed up in LANES sums, columns in blocks of COLUMNS. */
enum { GRAIN = 8192, LANES = 16, COLUMNS = 64 };

/* The operands; mean and beta, and what is made for them, are those of layer_norm alone. */
typedef struct norm_job {
    const void *dy, *x; /* these, y and dx: f32, or if `narrow` bf16 */
    const float *gamma, *beta, *mean_in, *rstd_in;
    void *y, *dx;
    float *mean, *rstd, *dgamma, *dbeta;
    bool narrow;
    int64_t rows, n;
    double epsilon;
} norm_job;

/* `centred`, below, is a constant in each call: whether the mean is subtracted. */

/* The sum of x or, if `square`, of the square of x - shift. */
WEFT_INLINE double sum_row(const void *x, double shift, bool square, int64_t n, bool narrow)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double d = (double)cpu_get(x, i + l, narrow) - shift;
            lane[l] += square ? d * d : d;
        }
    for (; i < n; i++) {
        double d = (double)cpu_get(x, i, narrow) - shift;
        sum += square ? d * d : d;
    }
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

WEFT_INLINE void norm_row(const norm_job *j, int64_t r, bool centred, bool narrow)
{
    const void *restrict x = cpu_element(j->x, r * j->n, narrow);
    const float *restrict gamma = j->gamma, *restrict beta = j->beta;
    void *restrict y = cpu_element(j->y, r * j->n, narrow);
    double mean = centred ? sum_row(x, 0, false, j->n, narrow) / (double)j->n : 0;
    double variance = sum_row(x, mean, true, j->n, narrow) / (double)j->n;
    float m = (float)mean, s = (float)(1 / sqrt(variance + j->epsilon));
    for (int64_t i = 0; i < j->n; i++) {
        float v = cpu_get(x, i, narrow);
        cpu_put(y, i, narrow, centred ? (v - m) * s * gamma[i] + beta[i] : v * s * gamma[i]);
    }
    if (centred) j->mean[r] = m;
    j->rstd[r] = s;
}

/* dx = rstd (dy gamma - mean(dy gamma) - hat mean(dy gamma hat)) with hat = (x - mean) rstd;
 * without the means of x and of dy gamma if it is not centred. */
WEFT_INLINE void gradient_row(const norm_job *j, int64_t r, bool centred, bool narrow)
{
    const void *restrict dy = cpu_element(j->dy, r * j->n, narrow);
    const void *restrict x = cpu_element(j->x, r * j->n, narrow);
    const float *restrict gamma = j->gamma;
    void *restrict dx = cpu_element(j->dx, r * j->n, narrow);
    float m = centred ? j->mean_in[r] : 0, s = j->rstd_in[r];
    double plain[LANES] = {0}, hats[LANES] = {0}, sum = 0, sum_hat = 0;
    int64_t i = 0;
    for (; i + LANES <= j->n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float d = cpu_get(dy, i + l, narrow) * gamma[i + l];
            plain[l] += (double)d;
            hats[l] += (double)(d * ((cpu_get(x, i + l, narrow) - m) * s));
        }
    for (; i < j->n; i++) {
        float d = cpu_get(dy, i, narrow) * gamma[i];
        sum += (double)d;
        sum_hat += (double)(d * ((cpu_get(x, i, narrow) - m) * s));
    }
    for (int l = 0; l < LANES; l++) {
        sum += plain[l];
        sum_hat += hats[l];
    }
    float a = centred ? (float)(sum / (double)j->n) : 0, b = (float)(sum_hat / (double)j->n);
    for (i = 0; i < j->n; i++) {
        float d = cpu_get(dy, i, narrow) * gamma[i];
        cpu_put(dx, i, narrow, s * (d - a - (cpu_get(x, i, narrow) - m) * s * b));
    }
}

WEFT_INLINE void sum_columns(const norm_job *j, int64_t begin, int64_t count, bool centred,
                             bool narrow)
{
    double gamma[COLUMNS] = {0}, beta[COLUMNS] = {0};
    for (int64_t r = 0; r < j->rows; r++) {
        const void *dy = cpu_element(j->dy, r * j->n + begin, narrow);
        const void *x = cpu_element(j->x, r * j->n + begin, narrow);
        float m = centred ? j->mean_in[r] : 0, s = j->rstd_in[r];
        for (int64_t i = 0; i < count; i++) {
            float d = cpu_get(dy, i, narrow);
            gamma[i] += (double)(d * ((cpu_get(x, i, narrow) - m) * s));
            if (centred) beta[i] += (double)d;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        j->dgamma[begin + i] = (float)gamma[i];
        if (centred) j->dbeta[begin + i] = (float)beta[i];
    }
}

static void share_rows(const cpu_loop *k, norm_job *j, void (*part)(void *, int64_t, int64_t))
{
    weft_parallel(k->threads, j->rows, GRAIN / j->n + 1, part, j);
}

static void share_columns(const cpu_loop *k, norm_job *j, void (*part)(void *, int64_t, int64_t))
{
    weft_parallel(k->threads, (j->n + COLUMNS - 1) / COLUMNS, GRAIN / (j->rows * COLUMNS) + 1, part,
                  j);
}

/* gamma: the index of this operand, which has the length of a row. */
static norm_job job_of(const cpu_loop *k, int gamma)
{
    const weft_node *node = k->group.node[0];
    const weft_graph *g = k->group.graph;
    norm_job j = {.gamma = k->in[gamma],
                  .narrow = weft_in(g, node, 0)->dtype == WEFT_BF16,
                  .n = weft_in(g, node, gamma)->shape.dim[0]};
    j.rows = weft_shape_elements(&weft_in(g, node, 0)->shape) / j.n;
    j.epsilon = weft_node_real(node, "epsilon", 1e-5);
    return j;
}

/* The parts of the work of an operator for threads: rows forward, rows and columns of the gradient.
 */
#define PARTS(name, centred)                                                                       \
    WEFT_INLINE void name##_rows_of(void *user, int64_t begin, int64_t end, bool narrow)           \
    {                                                                                              \
        for (int64_t r = begin; r < end; r++) norm_row(user, r, centred, narrow);                  \
    }                                                                                              \
    PRECISIONS(name##_rows)                                                                        \
    WEFT_INLINE void name##_grad_rows_of(void *user, int64_t begin, int64_t end, bool narrow)      \
    {                                                                                              \
        for (int64_t r = begin; r < end; r++) gradient_row(user, r, centred, narrow);              \
    }                                                                                              \
    PRECISIONS(name##_grad_rows)                                                                   \
    WEFT_INLINE void name##_grad_columns_of(void *user, int64_t begin, int64_t end, bool narrow)   \
    {                                                                                              \
        const norm_job *j = user;                                                                  \
        for (int64_t b = begin * COLUMNS; b < end * COLUMNS && b < j->n; b += COLUMNS)             \
            sum_columns(j, b, WEFT_MIN((int64_t)COLUMNS, j->n - b), centred, narrow);              \
    }                                                                                              \
    PRECISIONS(name##_grad_columns)
#define PRECISIONS(name)                                                                           \
    CPU_PRECISIONS(static, name, ((const norm_job *)user)->narrow,                                 \
                   (void *user, int64_t begin, int64_t end), user, begin, end)
PARTS(layer_norm, true)
PARTS(rms_norm, false)

static void layer_norm_loop(const cpu_loop *k)
{
    norm_job j = job_of(k, 1);
    j.x = k->in[0];
    j.beta = k->in[2];
    j.y = k->out[0];
    j.mean = k->out[1];
    j.rstd = k->out[2];
    share_rows(k, &j, layer_norm_rows);
}

static void layer_norm_grad_loop(const cpu_loop *k)
{
    norm_job j = job_of(k, 2);
    j.dy = k->in[0];
    j.x = k->in[1];
    j.mean_in = k->in[3];
    j.rstd_in = k->in[4];
    j.dx = k->out[0];
    j.dgamma = k->out[1];
    j.dbeta = k->out[2];
    share_rows(k, &j, layer_norm_grad_rows);
    share_columns(k, &j, layer_norm_grad_columns);
}

static void rms_norm_loop(const cpu_loop *k)
{
    norm_job j = job_of(k, 1);
    j.x = k->in[0];
    j.y = k->out[0];
    j.rstd = k->out[1];
    share_rows(k, &j, rms_norm_rows);
}

static void rms_norm_grad_loop(const cpu_loop *k)
{
    norm_job j = job_of(k, 2);
    j.dy = k->in[0];
    j.x = k->in[1];
    j.rstd_in = k->in[3];
    j.dx = k->out[0];
    j.dgamma = k->out[1];
    share_rows(k, &j, rms_norm_grad_rows);
    share_columns(k, &j, rms_norm_grad_columns);
}

CPU_PLAIN(layer_norm)
CPU_PLAIN(layer_norm_grad)
CPU_PLAIN(rms_norm)
CPU_PLAIN(rms_norm_grad)

const cpu_entry cpu_layer_norm_entries[] = {
    {"layer_norm", "loop", cpu_one_precision, layer_norm_make, NULL, CPU_ANY},
    {"layer_norm_grad", "loop", cpu_one_precision, layer_norm_grad_make, NULL, CPU_ANY},
    {"rms_norm", "loop", cpu_one_precision, rms_norm_make, NULL, CPU_ANY},
    {"rms_norm_grad", "loop", cpu_one_precision, rms_norm_grad_make, NULL, CPU_ANY},
    {.op = NULL},
};
