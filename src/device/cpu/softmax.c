/* Implements softmax, its cross entropy and the gradients of both, over rows of plain memory.
 * Threads share the rows, and the loss is a sum in the order of the rows, so no result depends on
 * their number. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

/* A row is summed up in LANES sums. */
enum { GRAIN = 2048, LANES = 16 };

typedef struct softmax_job {
    const float *x, *dy, *weights; /* x: the logits, or for the gradients the probabilities */
    const int32_t *labels;
    float *y;
    double *losses; /* [rows]: weighted */
    int64_t rows, n;
    double smoothing;
    float factor; /* the gradient of the loss */
} softmax_job;

WEFT_INLINE float largest(const float *x, int64_t n)
{
    float lane[LANES], top = -INFINITY;
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int l = 0; l < LANES; l++) top = lane[l] > top ? lane[l] : top;
    return top;
}

/* The sum of a, or with b of the products. */
WEFT_INLINE double sum_row(const float *a, const float *b, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += b ? (double)a[i + l] * (double)b[i + l] : (double)a[i + l];
    for (; i < n; i++) sum += b ? (double)a[i] * (double)b[i] : (double)a[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

/* Writes the probabilities, and returns the logarithm of the sum of exp(x - top). */
WEFT_INLINE double softmax_row(const float *restrict x, int64_t n, float top, float *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] = weft_exp(x[i] - top);
    double sum = sum_row(y, NULL, n);
    float share = (float)(1 / sum);
    for (int64_t i = 0; i < n; i++) y[i] *= share;
    return log(sum);
}

static WEFT_CLONES void softmax_part(void *user, int64_t begin, int64_t end)
{
    const softmax_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        const float *x = j->x + r * j->n;
        (void)softmax_row(x, j->n, largest(x, j->n), j->y + r * j->n);
    }
}

/* dx = p (dy - sum(dy p)) */
static WEFT_CLONES void softmax_grad_part(void *user, int64_t begin, int64_t end)
{
    const softmax_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        const float *restrict p = j->x + r * j->n, *restrict dy = j->dy + r * j->n;
        float *restrict dx = j->y + r * j->n, mean = (float)sum_row(p, dy, j->n);
        for (int64_t i = 0; i < j->n; i++) dx[i] = p[i] * (dy[i] - mean);
    }
}

/* Logits are subtracted from the largest one before the logarithm is added, which could be lost in
 * a large logit. The loss of a row of weight zero is ignored, since padding may contain anything. A
 * label out of range makes the loss NaN, which stops the run with a message. */
static WEFT_CLONES void xent_part(void *user, int64_t begin, int64_t end)
{
    const softmax_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        const float *x = j->x + r * j->n;
        int32_t label = j->labels[r];
        float top = largest(x, j->n);
        double rest = softmax_row(x, j->n, top, j->y + r * j->n), loss = NAN, high = (double)top;
        if (label >= 0 && label < j->n)
            loss = rest + (1 - j->smoothing) * (high - (double)x[label]);
        if (j->smoothing > 0) loss += j->smoothing * (high - sum_row(x, NULL, j->n) / (double)j->n);
        j->losses[r] = j->weights[r] == 0 ? 0 : (double)j->weights[r] * loss;
    }
}

static WEFT_CLONES void xent_grad_part(void *user, int64_t begin, int64_t end)
{
    const softmax_job *j = user;
    float other = (float)(j->smoothing / (double)j->n), own = (float)(1 - j->smoothing) + other;
    for (int64_t r = begin; r < end; r++) {
        const float *restrict p = j->x + r * j->n;
        float *restrict dx = j->y + r * j->n, factor = j->weights[r] * j->factor;
        int32_t label = j->labels[r];
        if (j->weights[r] == 0) {
            memset(dx, 0, (size_t)j->n * sizeof(*dx));
            continue;
        }
        for (int64_t i = 0; i < j->n; i++) dx[i] = factor * (p[i] - other);
        if (label >= 0 && label < j->n) dx[label] = factor * (p[label] - own);
    }
}

static softmax_job job_of(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    const weft_shape *s = &weft_in(k->group.graph, node, 0)->shape;
    softmax_job j = {.x = k->in[0], .n = s->dim[s->rank - 1]};
    j.rows = weft_shape_elements(s) / j.n;
    j.smoothing = weft_node_real(node, "smoothing", 0);
    return j;
}

static void share_rows(const cpu_loop *k, softmax_job *j, void (*part)(void *, int64_t, int64_t))
{
    weft_parallel(k->threads, j->rows, GRAIN / j->n + 1, part, j);
}

static void softmax_loop(const cpu_loop *k)
{
    softmax_job j = job_of(k);
    j.y = k->out[0];
    share_rows(k, &j, softmax_part);
}

static void softmax_grad_loop(const cpu_loop *k)
{
    softmax_job j = job_of(k);
    j.dy = k->in[1];
    j.y = k->out[0];
    share_rows(k, &j, softmax_grad_part);
}

static void softmax_xent_loop(const cpu_loop *k)
{
    softmax_job j = job_of(k);
    double total = 0;
    j.labels = k->in[1];
    j.weights = k->in[2];
    j.y = k->out[1];
    j.losses = k->scratch;
    share_rows(k, &j, xent_part);
    for (int64_t r = 0; r < j.rows; r++) total += j.losses[r];
    *(float *)k->out[0] = (float)total;
}

static void softmax_xent_grad_loop(const cpu_loop *k)
{
    softmax_job j = job_of(k);
    j.labels = k->in[1];
    j.weights = k->in[2];
    j.factor = *(const float *)k->in[3];
    j.y = k->out[0];
    share_rows(k, &j, xent_grad_part);
}

CPU_PLAIN(softmax)
CPU_PLAIN(softmax_grad)
CPU_PLAIN(softmax_xent_grad)

static weft_status softmax_xent_make(weft_device *device, const weft_group *group,
                                     const weft_layout *const *in, weft_kernel **out)
{
    cpu_loop *k;
    const weft_node *node = group->node[0];
    size_t rows = (size_t)weft_shape_elements(&weft_in(group->graph, node, 1)->shape);
    (void)in;
    WEFT_TRY(cpu_plain_make(device, group, softmax_xent_loop, rows * sizeof(double), &k));
    *out = &k->head;
    return WEFT_OK;
}

const cpu_entry cpu_softmax_entries[] = {
    {"softmax", "loop", cpu_single, softmax_make, NULL, CPU_WIDE},
    {"softmax_grad", "loop", cpu_single, softmax_grad_make, NULL, CPU_WIDE},
    {"softmax_xent", "loop", cpu_single, softmax_xent_make, NULL, CPU_WIDE},
    {"softmax_xent_grad", "loop", cpu_single, softmax_xent_grad_make, NULL, CPU_WIDE},
    {.op = NULL},
};
