/* Softmax, and batch, layer and root mean square normalization, with their gradients. A group of
 * 256 work items has a row, or a channel; sums are of type acc_t, in a fixed tree. */

/* --- softmax over rows of n --- */

KERNEL(softmax, 256, 1)(BUFFER(x), BUFFER(y), const int n)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    GLOBAL real_t *to = AT(y, real_t) + GROUP_X * n;
    acc_t top = (acc_t)-INFINITY, sum = 0;
    for (int i = ITEM_X; i < n; i += 256) top = larger_of(top, (acc_t)from[i]);
    top = group_max(table, ITEM_X, top);
    for (int i = ITEM_X; i < n; i += 256) sum += exp((acc_t)from[i] - top);
    sum = group_sum(table, ITEM_X, sum);
    for (int i = ITEM_X; i < n; i += 256) to[i] = (real_t)(exp((acc_t)from[i] - top) / sum);
}

KERNEL(softmax_grad, 256, 1)(BUFFER(y), BUFFER(dy), BUFFER(dx), const int n)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *p = AT(y, const real_t) + GROUP_X * n;
    GLOBAL const real_t *d = AT(dy, const real_t) + GROUP_X * n;
    acc_t sum = 0;
    for (int i = ITEM_X; i < n; i += 256) sum += (acc_t)p[i] * (acc_t)d[i];
    sum = group_sum(table, ITEM_X, sum);
    for (int i = ITEM_X; i < n; i += 256)
        AT(dx, real_t)[GROUP_X * n + i] = (real_t)((acc_t)p[i] * ((acc_t)d[i] - sum));
}

/* --- batch normalization of x [batch, channels, inner] --- */

/* counts: the sum of the samples' weights, the samples with a weight, all samples. */
KERNEL(batch_count, 256, 1)(BUFFER(weights), BUFFER(counts), const int batch)
{
    LOCAL acc_t table[256];
    acc_t sum = 0, samples = 0;
    for (int b = ITEM_X; b < batch; b += 256) {
        const real_t weight = AT(weights, const real_t)[b];
        sum += (acc_t)weight;
        samples += weight > 0 ? 1 : 0;
    }
    sum = group_sum(table, ITEM_X, sum);
    samples = group_sum(table, ITEM_X, samples);
    if (ITEM_X == 0) {
        AT(counts, real_t)[0] = (real_t)sum;
        AT(counts, real_t)[1] = (real_t)samples;
        AT(counts, real_t)[2] = (real_t)batch;
    }
}

/* A sample's share in the statistics of one position. In a batch of padding alone all samples count
 * equally. */
FUNCTION acc_t share_of(GLOBAL const real_t *weights, GLOBAL const real_t *counts, const int b,
                        const int positions)
{
    const acc_t part =
        counts[0] == 0 ? acc(1) / (acc_t)counts[2] : (acc_t)weights[b] / (acc_t)counts[0];
    return part / (acc_t)positions;
}

/* The mean of each channel or, if VARIANCE, the variance about it. */
KERNEL(statistic, 256, 1)
(BUFFER(x), BUFFER(weights), BUFFER(counts), BUFFER(mean), BUFFER(out), const int batch,
 const int channels, const int inner, const int positions, const int variance)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *of = AT(counts, const real_t);
    const int k = GROUP_X;
    const acc_t middle = variance ? (acc_t)AT(mean, const real_t)[k] : acc(0);
    acc_t sum = 0;
    for (int e = ITEM_X; e < batch * inner; e += 256) {
        const int b = e / inner, i = e % inner;
        const acc_t value = (acc_t)AT(x, const real_t)[(b * channels + k) * inner + i];
        const acc_t off = value - middle;
        sum += share_of(AT(weights, const real_t), of, b, positions) *
               (variance ? off * off : value);
    }
    sum = group_sum(table, ITEM_X, sum);
    if (ITEM_X == 0) {
        const int is_single = variance && of[1] == 1 && positions == 1;
        AT(out, real_t)[k] = is_single ? NAN_OF(real_t) : (real_t)sum;
    }
}

KERNEL(batch_running, 256, 1)
(BUFFER(mean), BUFFER(variance), BUFFER(counts), BUFFER(old_mean), BUFFER(old_variance),
 BUFFER(new_mean), BUFFER(new_variance), const int channels, const int positions,
 const acc_t momentum, GUARD)
{
    if (STOPPED) return;
    const acc_t samples = (acc_t)AT(counts, const real_t)[1];
    const acc_t n = samples * (acc_t)positions, step = samples > 0 ? momentum : acc(0);
    for (int k = GROUP_X * 256 + ITEM_X; k < channels; k += GROUPS_X * 256) {
        const acc_t v = (acc_t)AT(variance, const real_t)[k];
        const acc_t unbiased = n > 1 ? v * n / (n - 1) : v;
        const acc_t m = (1 - step) * (acc_t)AT(old_mean, const real_t)[k] +
                        step * (acc_t)AT(mean, const real_t)[k];
        const acc_t s = (1 - step) * (acc_t)AT(old_variance, const real_t)[k] + step * unbiased;
        AT(new_mean, real_t)[k] = (real_t)m;
        AT(new_variance, real_t)[k] = (real_t)s;
    }
}

/* Normalizes a channel. If this rank has the whole batch (exact), the rounding error of the
 * channel's mean is corrected: with few samples that are close to each other it is a large part of
 * their distance. */
KERNEL(batch_norm, 256, 1)
(BUFFER(x), BUFFER(gamma), BUFFER(beta), BUFFER(mean), BUFFER(variance), BUFFER(weights),
 BUFFER(counts), BUFFER(y), const int batch, const int channels, const int inner,
 const int positions, const int given, const acc_t epsilon)
{
    LOCAL acc_t table[256];
    const int k = GROUP_X;
    GLOBAL const real_t *from = AT(x, const real_t);
    const acc_t middle = (acc_t)AT(mean, const real_t)[k];
    const acc_t rstd = acc(1) / sqrt((acc_t)AT(variance, const real_t)[k] + epsilon);
    acc_t lost = 0;
    if (!given) {
        GLOBAL const real_t *of = AT(counts, const real_t);
        for (int e = ITEM_X; e < batch * inner; e += 256) {
            const int b = e / inner, at = (b * channels + k) * inner + e % inner;
            lost += share_of(AT(weights, const real_t), of, b, positions) *
                    ((acc_t)from[at] - middle);
        }
        lost = group_sum(table, ITEM_X, lost);
        if (of[2] != (real_t)batch || positions != inner) lost = 0;
    }
    const acc_t g = (acc_t)AT(gamma, const real_t)[k], offset = (acc_t)AT(beta, const real_t)[k];
    for (int e = ITEM_X; e < batch * inner; e += 256) {
        const int at = (e / inner * channels + k) * inner + e % inner;
        AT(y, real_t)[at] = (real_t)(((acc_t)from[at] - middle - lost) * rstd * g + offset);
    }
}

KERNEL(batch_norm_sums, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(mean), BUFFER(variance), BUFFER(dgamma), BUFFER(dbeta),
 const int batch, const int channels, const int inner, const acc_t epsilon)
{
    LOCAL acc_t table[256];
    const int k = GROUP_X;
    const acc_t middle = (acc_t)AT(mean, const real_t)[k];
    const acc_t rstd = acc(1) / sqrt((acc_t)AT(variance, const real_t)[k] + epsilon);
    acc_t sum = 0, sum_hat = 0;
    for (int e = ITEM_X; e < batch * inner; e += 256) {
        const int at = (e / inner * channels + k) * inner + e % inner;
        const acc_t d = (acc_t)AT(dy, const real_t)[at];
        sum += d;
        sum_hat += d * ((acc_t)AT(x, const real_t)[at] - middle) * rstd;
    }
    sum = group_sum(table, ITEM_X, sum);
    sum_hat = group_sum(table, ITEM_X, sum_hat);
    if (ITEM_X == 0) {
        AT(dgamma, real_t)[k] = (real_t)sum_hat;
        AT(dbeta, real_t)[k] = (real_t)sum;
    }
}

KERNEL(batch_norm_dx, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(gamma), BUFFER(weights), BUFFER(counts), BUFFER(mean),
 BUFFER(variance), BUFFER(dgamma), BUFFER(dbeta), BUFFER(dx), const int count, const int channels,
 const int inner, const int positions, const acc_t epsilon)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int k = at / inner % channels, b = at / (inner * channels);
        const acc_t rstd = acc(1) / sqrt((acc_t)AT(variance, const real_t)[k] + epsilon);
        const acc_t part =
            share_of(AT(weights, const real_t), AT(counts, const real_t), b, positions);
        const acc_t hat =
            ((acc_t)AT(x, const real_t)[at] - (acc_t)AT(mean, const real_t)[k]) * rstd;
        const acc_t around = part * ((acc_t)AT(dbeta, const real_t)[k] +
                                     hat * (acc_t)AT(dgamma, const real_t)[k]);
        AT(dx, real_t)[at] = (real_t)((acc_t)AT(gamma, const real_t)[k] * rstd *
                                      ((acc_t)AT(dy, const real_t)[at] - around));
    }
}

/* --- layer and root mean square normalization of rows of n --- */

KERNEL(layer_norm, 256, 1)
(BUFFER(x), BUFFER(gamma), BUFFER(beta), BUFFER(y), BUFFER(means), BUFFER(rstds), const int n,
 const acc_t epsilon)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    acc_t mean = 0, variance = 0;
    for (int i = ITEM_X; i < n; i += 256) mean += (acc_t)from[i];
    mean = group_sum(table, ITEM_X, mean) / (acc_t)n;
    for (int i = ITEM_X; i < n; i += 256)
        variance += ((acc_t)from[i] - mean) * ((acc_t)from[i] - mean);
    variance = group_sum(table, ITEM_X, variance) / (acc_t)n;
    const acc_t rstd = acc(1) / sqrt(variance + epsilon);
    for (int i = ITEM_X; i < n; i += 256)
        AT(y, real_t)[GROUP_X * n + i] =
            (real_t)(((acc_t)from[i] - mean) * rstd * (acc_t)AT(gamma, const real_t)[i] +
                     (acc_t)AT(beta, const real_t)[i]);
    if (ITEM_X == 0) {
        AT(means, real_t)[GROUP_X] = (real_t)mean;
        AT(rstds, real_t)[GROUP_X] = (real_t)rstd;
    }
}

KERNEL(layer_norm_dx, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(gamma), BUFFER(means), BUFFER(rstds), BUFFER(dx), const int n)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    GLOBAL const real_t *d = AT(dy, const real_t) + GROUP_X * n;
    const acc_t m = (acc_t)AT(means, const real_t)[GROUP_X];
    const acc_t s = (acc_t)AT(rstds, const real_t)[GROUP_X];
    acc_t sum = 0, sum_hat = 0;
    for (int i = ITEM_X; i < n; i += 256) {
        const acc_t g = (acc_t)d[i] * (acc_t)AT(gamma, const real_t)[i];
        sum += g;
        sum_hat += g * ((acc_t)from[i] - m) * s;
    }
    sum = group_sum(table, ITEM_X, sum) / (acc_t)n;
    sum_hat = group_sum(table, ITEM_X, sum_hat) / (acc_t)n;
    for (int i = ITEM_X; i < n; i += 256) {
        const acc_t hat = ((acc_t)from[i] - m) * s;
        const acc_t g = (acc_t)d[i] * (acc_t)AT(gamma, const real_t)[i];
        AT(dx, real_t)[GROUP_X * n + i] = (real_t)(s * (g - sum - hat * sum_hat));
    }
}

/* The gradients of gamma and beta: sums over rows, 16 columns for each group, in 16 parts. */
#define COLUMN_SUMS(first, second)                                                                 \
    const int column = GROUP_X * 16 + ITEM_X;                                                      \
    acc_t g = 0, b = 0;                                                                            \
    for (int r = ITEM_Y; r < rows && column < n; r += 16) {                                        \
        const acc_t d = (acc_t)AT(dy, const real_t)[r * n + column];                               \
        const acc_t v = (acc_t)AT(x, const real_t)[r * n + column];                                \
        g += first;                                                                                \
        b += second;                                                                               \
    }                                                                                              \
    of_gamma[ITEM_Y][ITEM_X] = g;                                                                  \
    of_beta[ITEM_Y][ITEM_X] = b;                                                                   \
    BARRIER;                                                                                       \
    for (int stride = 8; stride > 0; stride /= 2) {                                                      \
        if (ITEM_Y < stride) {                                                                       \
            of_gamma[ITEM_Y][ITEM_X] += of_gamma[ITEM_Y + stride][ITEM_X];                           \
            of_beta[ITEM_Y][ITEM_X] += of_beta[ITEM_Y + stride][ITEM_X];                             \
        }                                                                                          \
        BARRIER;                                                                                   \
    }

KERNEL(layer_norm_sums, 16, 16)
(BUFFER(dy), BUFFER(x), BUFFER(means), BUFFER(rstds), BUFFER(dgamma), BUFFER(dbeta), const int n,
 const int rows)
{
    LOCAL acc_t of_gamma[16][17], of_beta[16][17];
    COLUMN_SUMS(
        d * (v - (acc_t)AT(means, const real_t)[r]) * (acc_t)AT(rstds, const real_t)[r], d)
    if (ITEM_Y == 0 && column < n) {
        AT(dgamma, real_t)[column] = (real_t)of_gamma[0][ITEM_X];
        AT(dbeta, real_t)[column] = (real_t)of_beta[0][ITEM_X];
    }
}

KERNEL(rms_norm, 256, 1)
(BUFFER(x), BUFFER(gamma), BUFFER(y), BUFFER(rstds), const int n, const acc_t epsilon)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    acc_t square = 0;
    for (int i = ITEM_X; i < n; i += 256) square += (acc_t)from[i] * (acc_t)from[i];
    square = group_sum(table, ITEM_X, square) / (acc_t)n;
    const acc_t rstd = acc(1) / sqrt(square + epsilon);
    for (int i = ITEM_X; i < n; i += 256)
        AT(y, real_t)[GROUP_X * n + i] =
            (real_t)((acc_t)from[i] * rstd * (acc_t)AT(gamma, const real_t)[i]);
    if (ITEM_X == 0) AT(rstds, real_t)[GROUP_X] = (real_t)rstd;
}

KERNEL(rms_norm_dx, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(gamma), BUFFER(rstds), BUFFER(dx), const int n)
{
    LOCAL acc_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    GLOBAL const real_t *d = AT(dy, const real_t) + GROUP_X * n;
    const acc_t s = (acc_t)AT(rstds, const real_t)[GROUP_X];
    acc_t mean = 0;
    for (int i = ITEM_X; i < n; i += 256)
        mean += (acc_t)d[i] * (acc_t)AT(gamma, const real_t)[i] * (acc_t)from[i] * s;
    mean = group_sum(table, ITEM_X, mean) / (acc_t)n;
    for (int i = ITEM_X; i < n; i += 256) {
        const acc_t g = (acc_t)d[i] * (acc_t)AT(gamma, const real_t)[i];
        AT(dx, real_t)[GROUP_X * n + i] = (real_t)(s * (g - (acc_t)from[i] * s * mean));
    }
}

KERNEL(rms_norm_sums, 16, 16)
(BUFFER(dy), BUFFER(x), BUFFER(rstds), BUFFER(dgamma), const int n, const int rows)
{
    LOCAL acc_t of_gamma[16][17], of_beta[16][17];
    COLUMN_SUMS(d *v *(acc_t)AT(rstds, const real_t)[r], 0)
    if (ITEM_Y == 0 && column < n) AT(dgamma, real_t)[column] = (real_t)of_gamma[0][ITEM_X];
}
