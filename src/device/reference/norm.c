/* batch_norm, layer_norm, softmax. */
#include <math.h>

#include "device/reference/reference.h"

/* Sizes of [b, c, inner]. */
typedef struct channels {
    int64_t batch, count, inner;
} channels;

static channels channels_of(const weft_shape *x)
{
    return (channels){x->dim[0], x->dim[1], weft_shape_elements(x) / (x->dim[0] * x->dim[1])};
}

/* A sample's share in the statistics of one position: weights that add up to 1. A batch of
 * padding alone counts its samples alike, so that nothing divides by zero. */
static double share(const real *weights, const channels *c, int64_t b, double total)
{
    double part = total > 0 ? (double)weights[b] / total : 1.0 / (double)c->batch;
    return part / (double)c->inner;
}

static double total_weight(const real *weights, const channels *c, int64_t *samples)
{
    double total = 0;
    *samples = 0;
    for (int64_t b = 0; b < c->batch; b++) {
        total += (double)weights[b];
        *samples += weights[b] > 0;
    }
    return total;
}

static void batch_norm(const weft_ref *a)
{
    const real *x = a->in[0], *gamma = a->in[1], *beta = a->in[2], *weights = a->in[3];
    const real *old_mean = a->in[4], *old_variance = a->in[5];
    real *y = a->out[0], *mean_out = a->out[1], *rstd_out = a->out[2];
    real *new_mean = a->out[3], *new_variance = a->out[4];
    channels c = channels_of(in_shape(a, 0));
    double epsilon = weft_node_real(a->node, "epsilon", 1e-5);
    double momentum = weft_node_real(a->node, "momentum", 0.1);
    int64_t samples;
    double total = total_weight(weights, &c, &samples);
    for (int64_t k = 0; k < c.count; k++) {
        double mean = 0, variance = 0;
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++)
                mean += share(weights, &c, b, total) * (double)x[(b * c.count + k) * c.inner + i];
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++) {
                double d = (double)x[(b * c.count + k) * c.inner + i] - mean;
                variance += share(weights, &c, b, total) * d * d;
            }
        double rstd = 1 / sqrt(variance + epsilon);
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++) {
                int64_t at = (b * c.count + k) * c.inner + i;
                y[at] = (real)(((double)x[at] - mean) * rstd * (double)gamma[k] + (double)beta[k]);
            }
        mean_out[k] = (real)mean;
        rstd_out[k] = (real)rstd;
        double n = (double)(samples * c.inner), step = samples > 0 ? momentum : 0;
        double unbiased = n > 1 ? variance * n / (n - 1) : variance;
        new_mean[k] = (real)((1 - step) * (double)old_mean[k] + step * mean);
        new_variance[k] = (real)((1 - step) * (double)old_variance[k] + step * unbiased);
    }
}

static void batch_norm_grad(const weft_ref *a)
{
    const real *dy = a->in[0], *x = a->in[1], *gamma = a->in[2], *weights = a->in[3];
    const real *mean = a->in[4], *rstd = a->in[5];
    real *dx = a->out[0], *dgamma = a->out[1], *dbeta = a->out[2];
    channels c = channels_of(in_shape(a, 0));
    int64_t samples;
    double total = total_weight(weights, &c, &samples);
    for (int64_t k = 0; k < c.count; k++) {
        double sum = 0, sum_hat = 0, m = (double)mean[k], r = (double)rstd[k];
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++) {
                int64_t at = (b * c.count + k) * c.inner + i;
                sum += (double)dy[at];
                sum_hat += (double)dy[at] * ((double)x[at] - m) * r;
            }
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++) {
                int64_t at = (b * c.count + k) * c.inner + i;
                double hat = ((double)x[at] - m) * r, part = share(weights, &c, b, total);
                dx[at] =
                    (real)((double)gamma[k] * r * ((double)dy[at] - part * (sum + hat * sum_hat)));
            }
        dgamma[k] = (real)sum_hat;
        dbeta[k] = (real)sum;
    }
}

static void batch_norm_infer(const weft_ref *a)
{
    const real *x = a->in[0], *gamma = a->in[1], *beta = a->in[2], *mean = a->in[3];
    const real *variance = a->in[4];
    real *y = a->out[0];
    channels c = channels_of(in_shape(a, 0));
    double epsilon = weft_node_real(a->node, "epsilon", 1e-5);
    for (int64_t i = 0; i < in_size(a, 0); i++) {
        int64_t k = i / c.inner % c.count;
        double rstd = 1 / sqrt((double)variance[k] + epsilon);
        y[i] = (real)(((double)x[i] - (double)mean[k]) * rstd * (double)gamma[k] + (double)beta[k]);
    }
}

static void layer_norm(const weft_ref *a)
{
    const real *x = a->in[0], *gamma = a->in[1], *beta = a->in[2];
    real *y = a->out[0], *mean_out = a->out[1], *rstd_out = a->out[2];
    int64_t n = in_size(a, 1), rows = in_size(a, 0) / n;
    double epsilon = weft_node_real(a->node, "epsilon", 1e-5);
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        double rstd = 1 / sqrt(variance + epsilon);
        for (int64_t i = 0; i < n; i++)
            y[i] = (real)(((double)x[i] - mean) * rstd * (double)gamma[i] + (double)beta[i]);
        mean_out[r] = (real)mean;
        rstd_out[r] = (real)rstd;
    }
}

static void layer_norm_grad(const weft_ref *a)
{
    const real *dy = a->in[0], *x = a->in[1], *gamma = a->in[2], *mean = a->in[3], *rstd = a->in[4];
    real *dx = a->out[0], *dgamma = a->out[1], *dbeta = a->out[2];
    int64_t n = in_size(a, 2), rows = in_size(a, 0) / n;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, sum_hat = 0, m = (double)mean[r], s = (double)rstd[r];
        for (int64_t i = 0; i < n; i++) {
            double g = (double)dy[r * n + i] * (double)gamma[i];
            sum += g / (double)n;
            sum_hat += g * ((double)x[r * n + i] - m) * s / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double hat = ((double)x[r * n + i] - m) * s;
            dx[r * n + i] =
                (real)(s * ((double)dy[r * n + i] * (double)gamma[i] - sum - hat * sum_hat));
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double g = 0, b = 0;
        for (int64_t r = 0; r < rows; r++) {
            double hat = ((double)x[r * n + i] - (double)mean[r]) * (double)rstd[r];
            g += (double)dy[r * n + i] * hat;
            b += (double)dy[r * n + i];
        }
        dgamma[i] = (real)g;
        dbeta[i] = (real)b;
    }
}

static void softmax(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    const weft_shape *s = in_shape(a, 0);
    int64_t n = s->dim[s->rank - 1], rows = in_size(a, 0) / n;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double top = (double)x[0], sum = 0;
        for (int64_t i = 1; i < n; i++) top = fmax(top, (double)x[i]);
        for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
        for (int64_t i = 0; i < n; i++) y[i] = (real)(exp((double)x[i] - top) / sum);
    }
}

static void softmax_grad(const weft_ref *a)
{
    const real *y = a->in[0], *dy = a->in[1];
    real *dx = a->out[0];
    const weft_shape *s = in_shape(a, 0);
    int64_t n = s->dim[s->rank - 1], rows = in_size(a, 0) / n;
    for (int64_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += (double)y[i] * (double)dy[i];
        for (int64_t i = 0; i < n; i++) dx[i] = (real)((double)y[i] * ((double)dy[i] - sum));
    }
}

const weft_ref_entry WEFT_REF_TABLE(norm)[] = {
    {"batch_norm", batch_norm},
    {"batch_norm_grad", batch_norm_grad},
    {"batch_norm_infer", batch_norm_infer},
    {"layer_norm", layer_norm},
    {"layer_norm_grad", layer_norm_grad},
    {"softmax", softmax},
    {"softmax_grad", softmax_grad},
    {NULL, NULL},
};
