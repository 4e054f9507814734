#include <math.h>

#include "device/reference/reference.h"

/* The cross entropy of one sample; rest: the logarithm of the sum of exp(row - top), to which
 * differences of logits are added, since it could be lost in a large logit. */
static double row_loss(const real *row, int64_t n, int64_t label, double top, double rest,
                       double smoothing)
{
    double even = 0, own = rest + (top - (double)row[label]);
    if (smoothing == 0) return own;
    for (int64_t i = 0; i < n; i++) even += (rest + (top - (double)row[i])) / (double)n;
    return (1 - smoothing) * own + smoothing * even;
}

/* The loss of a sample of weight zero is ignored, since padding may contain anything. A label out
 * of range makes the loss NaN, which stops the run with a message. */
static void softmax_xent(const weft_ref *a)
{
    const real *x = a->in[0], *weights = a->in[2];
    const int32_t *labels = a->in[1];
    real *loss = a->out[0], *p = a->out[1];
    const weft_shape *s = in_shape(a, 0);
    int64_t n = s->dim[s->rank - 1], rows = in_size(a, 0) / n;
    double total = 0, smoothing = weft_node_real(a->node, "smoothing", 0);
    for (int64_t r = 0; r < rows; r++) {
        const real *row = x + r * n;
        double top = (double)row[0], sum = 0;
        for (int64_t i = 1; i < n; i++) top = fmax(top, (double)row[i]);
        for (int64_t i = 0; i < n; i++) sum += exp((double)row[i] - top);
        for (int64_t i = 0; i < n; i++) p[r * n + i] = (real)(exp((double)row[i] - top) / sum);
        if (weights[r] == 0) continue;
        bool known = labels[r] >= 0 && labels[r] < n;
        total += known ? (double)weights[r] * row_loss(row, n, labels[r], top, log(sum), smoothing)
                       : NAN;
    }
    *loss = (real)total;
}

static void softmax_xent_grad(const weft_ref *a)
{
    const real *p = a->in[0], *weights = a->in[2], dloss = *(const real *)a->in[3];
    const int32_t *labels = a->in[1];
    real *dx = a->out[0];
    const weft_shape *s = in_shape(a, 0);
    int64_t n = s->dim[s->rank - 1], rows = in_size(a, 0) / n;
    double smoothing = weft_node_real(a->node, "smoothing", 0);
    real other = (real)(smoothing / (double)n), own = (real)(1 - smoothing + smoothing / (double)n);
    for (int64_t r = 0; r < rows; r++) {
        real factor = weights[r] * dloss;
        for (int64_t i = 0; i < n; i++) {
            real target = labels[r] == i ? own : other;
            dx[r * n + i] = weights[r] == 0 ? 0 : factor * (p[r * n + i] - target);
        }
    }
}

static void mse(const weft_ref *a)
{
    const real *x = a->in[0], *t = a->in[1], *weights = a->in[2];
    real *loss = a->out[0], *said = a->out[1];
    int64_t rows = in_shape(a, 0)->dim[0], n = in_size(a, 0) / rows;
    double total = 0;
    for (int64_t i = 0; i < rows * n; i++) {
        double d = (double)x[i] - (double)t[i];
        said[i] = x[i];
        if (weights[i / n] != 0) total += (double)weights[i / n] * d * d / (double)n;
    }
    *loss = (real)total;
}

static void mse_grad(const weft_ref *a)
{
    const real *x = a->in[0], *t = a->in[1], *weights = a->in[2], dloss = *(const real *)a->in[3];
    real *dx = a->out[0];
    int64_t rows = in_shape(a, 0)->dim[0], n = in_size(a, 0) / rows;
    for (int64_t i = 0; i < rows * n; i++) {
        real factor = 2 * weights[i / n] * dloss / (real)n;
        dx[i] = factor == 0 ? 0 : factor * (x[i] - t[i]);
    }
}

const weft_ref_entry WEFT_REF_TABLE(loss)[] = {
    {"softmax_xent", softmax_xent, 0},
    {"softmax_xent_grad", softmax_xent_grad, 0},
    {"mse", mse, 0},
    {"mse_grad", mse_grad, 0},
    {NULL, NULL, 0},
};
