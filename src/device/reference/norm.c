/* Implements batch, layer and root mean square normalization and softmax, with their gradients. */
#include <math.h>

#include "device/reference/reference.h"

/* The sizes of a tensor as [b, c, inner]. */
typedef struct channels {
    int64_t batch, count, inner;
} channels;

static channels channels_of(const weft_shape *x)
{
    return (channels){x->dim[0], x->dim[1], weft_shape_elements(x) / (x->dim[0] * x->dim[1])};
}

static void batch_count(const weft_ref *a)
{
    const real *weights = a->in[0];
    double sum = 0, samples = 0;
    for (int64_t b = 0; b < in_size(a, 0); b++) {
        sum += (double)weights[b];
        samples += weights[b] > 0;
    }
    real *counts = a->out[0];
    counts[0] = (real)sum;
    counts[1] = (real)samples;
    counts[2] = (real)in_size(a, 0);
}

/* A sample's share in the statistics of one position; the shares of a batch add up to 1. In a batch
 * of padding alone all samples count equally, which avoids a division by zero. */
static double share(const weft_ref *a, const real *weights, const real *counts, int64_t b)
{
    double part = counts[0] == 0 ? 1.0 / (double)counts[2] : (double)weights[b] / (double)counts[0];
    return part / (double)weft_node_int(a->node, "positions", 0, 1);
}

static double rstd_of(const weft_ref *a, real variance)
{
    return 1 / sqrt((double)variance + weft_node_real(a->node, "epsilon", 1e-5));
}

/* Computes the mean of each channel or, if `mean` is given, the variance about it. */
static void statistic(const weft_ref *a, const real *mean)
{
    const real *x = a->in[0];
    real *out = a->out[0];
    channels c = channels_of(in_shape(a, 0));
    for (int64_t k = 0; k < c.count; k++) {
        double sum = 0;
        for (int64_t b = 0; b < c.batch; b++) {
            double part = share(a, a->in[1], a->in[2], b);
            for (int64_t i = 0; i < c.inner; i++) {
                double value = (double)x[(b * c.count + k) * c.inner + i];
                double off = mean ? value - (double)mean[k] : 0;
                sum += part * (mean ? off * off : value);
            }
        }
        out[k] = (real)sum;
    }
}

/* Whether a single value of each channel counts, which has no variance. */
static bool is_single(const weft_ref *a, const real *counts)
{
    return counts[1] == 1 && weft_node_int(a->node, "positions", 0, 1) == 1;
}

static void batch_mean(const weft_ref *a)
{
    statistic(a, NULL);
}

static void batch_variance(const weft_ref *a)
{
    statistic(a, a->in[3]);
    for (int64_t k = 0; is_single(a, a->in[2]) && k < in_size(a, 3); k++)
        ((real *)a->out[0])[k] = NAN;
}

static void batch_running(const weft_ref *a)
{
    const real *mean = a->in[0], *variance = a->in[1], *counts = a->in[2];
    const real *old_mean = a->in[3], *old_variance = a->in[4];
    real *new_mean = a->out[0], *new_variance = a->out[1];
    double n = (double)counts[1] * (double)weft_node_int(a->node, "positions", 0, 1);
    double step = counts[1] > 0 ? weft_node_real(a->node, "momentum", 0.1) : 0;
    for (int64_t k = 0; k < in_size(a, 0); k++) {
        double unbiased = n > 1 ? (double)variance[k] * n / (n - 1) : (double)variance[k];
        new_mean[k] = (real)((1 - step) * (double)old_mean[k] + step * (double)mean[k]);
        new_variance[k] = (real)((1 - step) * (double)old_variance[k] + step * unbiased);
    }
}

/* The rounding error of a channel's mean; 0 if this rank does not have the whole batch. With few
 * samples that are close to each other, the error is a large part of their distance, so it is
 * corrected. */
static double lost(const weft_ref *a, int64_t k)
{
    const real *x = a->in[0], *counts = a->in[4], *mean = a->in[5];
    channels c = channels_of(in_shape(a, 0));
    double sum = 0;
    if ((double)counts[2] != (double)c.batch ||
        weft_node_int(a->node, "positions", 0, 1) != c.inner)
        return 0;
    for (int64_t b = 0; b < c.batch; b++) {
        double part = share(a, a->in[3], counts, b);
        for (int64_t i = 0; i < c.inner; i++)
            sum += part * ((double)x[(b * c.count + k) * c.inner + i] - (double)mean[k]);
    }
    return sum;
}

/* Normalises each channel. low: returns the rounding error of a channel's mean; NULL: not
 * corrected. */
static void normalize(const weft_ref *a, const real *mean, const real *variance,
                      double (*low)(const weft_ref *, int64_t))
{
    const real *x = a->in[0], *gamma = a->in[1], *beta = a->in[2];
    real *y = a->out[0];
    channels c = channels_of(in_shape(a, 0));
    for (int64_t k = 0; k < c.count; k++) {
        double r = rstd_of(a, variance[k]), off = low ? low(a, k) : 0;
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++) {
                int64_t at = (b * c.count + k) * c.inner + i;
                double hat = ((double)x[at] - (double)mean[k] - off) * r;
                y[at] = (real)(hat * (double)gamma[k] + (double)beta[k]);
            }
    }
}

static void batch_norm(const weft_ref *a)
{
    normalize(a, a->in[5], a->in[6], lost);
}

static void batch_norm_infer(const weft_ref *a)
{
    normalize(a, a->in[3], a->in[4], NULL);
}

static void batch_norm_sums(const weft_ref *a)
{
    const real *dy = a->in[0], *x = a->in[1], *mean = a->in[2], *variance = a->in[3];
    real *dgamma = a->out[0], *dbeta = a->out[1];
    channels c = channels_of(in_shape(a, 0));
    for (int64_t k = 0; k < c.count; k++) {
        double sum = 0, sum_hat = 0, r = rstd_of(a, variance[k]);
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t i = 0; i < c.inner; i++) {
                int64_t at = (b * c.count + k) * c.inner + i;
                sum += (double)dy[at];
                sum_hat += (double)dy[at] * ((double)x[at] - (double)mean[k]) * r;
            }
        dgamma[k] = (real)sum_hat;
        dbeta[k] = (real)sum;
    }
}

static void batch_norm_dx(const weft_ref *a)
{
    const real *dy = a->in[0], *x = a->in[1], *gamma = a->in[2], *mean = a->in[5];
    const real *variance = a->in[6], *dgamma = a->in[7], *dbeta = a->in[8];
    real *dx = a->out[0];
    channels c = channels_of(in_shape(a, 0));
    for (int64_t k = 0; k < c.count; k++) {
        double r = rstd_of(a, variance[k]);
        for (int64_t b = 0; b < c.batch; b++) {
            double part = share(a, a->in[3], a->in[4], b);
            for (int64_t i = 0; i < c.inner; i++) {
                int64_t at = (b * c.count + k) * c.inner + i;
                double hat = ((double)x[at] - (double)mean[k]) * r;
                double around = part * ((double)dbeta[k] + hat * (double)dgamma[k]);
                dx[at] = (real)((double)gamma[k] * r * ((double)dy[at] - around));
            }
        }
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

static void rms_norm(const weft_ref *a)
{
    const real *x = a->in[0], *gamma = a->in[1];
    real *y = a->out[0], *rstd_out = a->out[1];
    int64_t n = in_size(a, 1), rows = in_size(a, 0) / n;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double square = 0;
        for (int64_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i] / (double)n;
        double rstd = 1 / sqrt(square + weft_node_real(a->node, "epsilon", 1e-5));
        for (int64_t i = 0; i < n; i++) y[i] = (real)((double)x[i] * rstd * (double)gamma[i]);
        rstd_out[r] = (real)rstd;
    }
}

static void rms_norm_grad(const weft_ref *a)
{
    const real *dy = a->in[0], *x = a->in[1], *gamma = a->in[2], *rstd = a->in[3];
    real *dx = a->out[0], *dgamma = a->out[1];
    int64_t n = in_size(a, 2), rows = in_size(a, 0) / n;
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, s = (double)rstd[r]; /* mean: of dy gamma xhat, with xhat = x rstd */
        for (int64_t i = r * n; i < (r + 1) * n; i++)
            mean += (double)dy[i] * (double)gamma[i - r * n] * (double)x[i] * s / (double)n;
        for (int64_t i = r * n; i < (r + 1) * n; i++)
            dx[i] =
                (real)(s * ((double)dy[i] * (double)gamma[i - r * n] - (double)x[i] * s * mean));
    }
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += (double)dy[r * n + i] * (double)x[r * n + i] * (double)rstd[r];
        dgamma[i] = (real)sum;
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
    {"batch_count", batch_count, 0},
    {"batch_mean", batch_mean, 0},
    {"batch_variance", batch_variance, 0},
    {"batch_norm", batch_norm, 0},
    {"batch_running", batch_running, 0},
    {"batch_norm_sums", batch_norm_sums, 0},
    {"batch_norm_dx", batch_norm_dx, 0},
    {"batch_norm_infer", batch_norm_infer, 0},
    {"layer_norm", layer_norm, 0},
    {"layer_norm_grad", layer_norm_grad, 0},
    {"rms_norm", rms_norm, 0},
    {"rms_norm_grad", rms_norm_grad, 0},
    {"softmax", softmax, 0},
    {"softmax_grad", softmax_grad, 0},
    {NULL, NULL, 0},
};
