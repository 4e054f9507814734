/* Softmax, and batch, layer and root mean square normalization, with their gradients. A group of
 * 256 work items has a row, or a channel; sums are in a fixed order. */

/* --- softmax over rows of n --- */

KERNEL(softmax, 256, 1)(BUFFER(x), BUFFER(y), const int n)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    GLOBAL real_t *to = AT(y, real_t) + GROUP_X * n;
    SUM_BEGIN(sum);
    real_t top = (real_t)-INFINITY;
    for (int i = ITEM_X; i < n; i += 256) top = larger_of(top, from[i]);
    top = group_max(table, ITEM_X, top);
    for (int i = ITEM_X; i < n; i += 256) SUM_ADD(sum, exp(from[i] - top));
    sum = group_sum(table, ITEM_X, sum);
    for (int i = ITEM_X; i < n; i += 256) to[i] = exp(from[i] - top) / sum;
}

KERNEL(softmax_grad, 256, 1)(BUFFER(y), BUFFER(dy), BUFFER(dx), const int n)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *p = AT(y, const real_t) + GROUP_X * n;
    GLOBAL const real_t *d = AT(dy, const real_t) + GROUP_X * n;
    SUM_BEGIN(sum);
    for (int i = ITEM_X; i < n; i += 256) SUM_ADD(sum, p[i] * d[i]);
    sum = group_sum(table, ITEM_X, sum);
    for (int i = ITEM_X; i < n; i += 256)
        AT(dx, real_t)[GROUP_X * n + i] = p[i] * (d[i] - sum);
}

/* --- batch normalization of x [batch, channels, inner] --- */

/* counts: the sum of the samples' weights, the samples with a weight, all samples. */
KERNEL(batch_count, 256, 1)(BUFFER(weights), BUFFER(counts), const int batch)
{
    LOCAL real_t table[256];
    SUM_BEGIN(sum);
    real_t samples = 0;
    for (int b = ITEM_X; b < batch; b += 256) {
        const real_t weight = AT(weights, const real_t)[b];
        SUM_ADD(sum, weight);
        samples += weight > 0 ? 1 : 0;
    }
    sum = group_sum(table, ITEM_X, sum);
    samples = group_sum(table, ITEM_X, samples);
    if (ITEM_X == 0) {
        AT(counts, real_t)[0] = sum;
        AT(counts, real_t)[1] = samples;
        AT(counts, real_t)[2] = (real_t)batch;
    }
}

/* A sample's share in the statistics of one position. In a batch of padding alone all samples count
 * equally. */
FUNCTION real_t share_of(GLOBAL const real_t *weights, GLOBAL const real_t *counts, const int b,
                        const int positions)
{
    const real_t part =
        counts[0] == 0 ? real(1) / counts[2] : weights[b] / counts[0];
    return part / (real_t)positions;
}

/* The mean of each channel or, if VARIANCE, the variance about it. */
KERNEL(statistic, 256, 1)
(BUFFER(x), BUFFER(weights), BUFFER(counts), BUFFER(mean), BUFFER(out), const int batch,
 const int channels, const int inner, const int positions, const int variance)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *of = AT(counts, const real_t);
    const int k = GROUP_X;
    const real_t middle = variance ? AT(mean, const real_t)[k] : real(0);
    SUM_BEGIN(sum);
    for (int e = ITEM_X; e < batch * inner; e += 256) {
        const int b = e / inner, i = e % inner;
        const real_t value = AT(x, const real_t)[(b * channels + k) * inner + i];
        const real_t off = value - middle;
        SUM_ADD(sum, share_of(AT(weights, const real_t), of, b, positions) *
                      (variance ? off * off : value));
    }
    sum = group_sum(table, ITEM_X, sum);
    if (ITEM_X == 0) {
        const int is_single = variance && of[1] == 1 && positions == 1;
        AT(out, real_t)[k] = is_single ? NAN_OF(real_t) : sum;
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
 const int positions, const int given, const real_t epsilon)
{
    LOCAL real_t table[256];
    const int k = GROUP_X;
    GLOBAL const real_t *from = AT(x, const real_t);
    const real_t middle = AT(mean, const real_t)[k];
    const real_t rstd = real(1) / sqrt(AT(variance, const real_t)[k] + epsilon);
    SUM_BEGIN(lost);
    if (!given) {
        GLOBAL const real_t *of = AT(counts, const real_t);
        for (int e = ITEM_X; e < batch * inner; e += 256) {
            const int b = e / inner, at = (b * channels + k) * inner + e % inner;
            SUM_ADD(lost, share_of(AT(weights, const real_t), of, b, positions) *
                           (from[at] - middle));
        }
        lost = group_sum(table, ITEM_X, lost);
        if (of[2] != (real_t)batch || positions != inner) lost = 0;
    }
    const real_t g = AT(gamma, const real_t)[k], offset = AT(beta, const real_t)[k];
    for (int e = ITEM_X; e < batch * inner; e += 256) {
        const int at = (e / inner * channels + k) * inner + e % inner;
        AT(y, real_t)[at] = (from[at] - middle - lost) * rstd * g + offset;
    }
}

KERNEL(batch_norm_sums, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(mean), BUFFER(variance), BUFFER(dgamma), BUFFER(dbeta),
 const int batch, const int channels, const int inner, const real_t epsilon)
{
    LOCAL real_t table[256];
    const int k = GROUP_X;
    const real_t middle = AT(mean, const real_t)[k];
    const real_t rstd = real(1) / sqrt(AT(variance, const real_t)[k] + epsilon);
    SUM_BEGIN(sum);
    SUM_BEGIN(sum_hat);
    for (int e = ITEM_X; e < batch * inner; e += 256) {
        const int at = (e / inner * channels + k) * inner + e % inner;
        const real_t d = AT(dy, const real_t)[at];
        SUM_ADD(sum, d);
        SUM_ADD(sum_hat, d * (AT(x, const real_t)[at] - middle) * rstd);
    }
    sum = group_sum(table, ITEM_X, sum);
    sum_hat = group_sum(table, ITEM_X, sum_hat);
    if (ITEM_X == 0) {
        AT(dgamma, real_t)[k] = sum_hat;
        AT(dbeta, real_t)[k] = sum;
    }
}

KERNEL(batch_norm_dx, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(gamma), BUFFER(weights), BUFFER(counts), BUFFER(mean),
 BUFFER(variance), BUFFER(dgamma), BUFFER(dbeta), BUFFER(dx), const int count, const int channels,
 const int inner, const int positions, const real_t epsilon)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int k = at / inner % channels, b = at / (inner * channels);
        const real_t rstd = real(1) / sqrt(AT(variance, const real_t)[k] + epsilon);
        const real_t part =
            share_of(AT(weights, const real_t), AT(counts, const real_t), b, positions);
        const real_t hat =
            (AT(x, const real_t)[at] - AT(mean, const real_t)[k]) * rstd;
        const real_t around = part * (AT(dbeta, const real_t)[k] +
                                     hat * AT(dgamma, const real_t)[k]);
        AT(dx, real_t)[at] = AT(gamma, const real_t)[k] * rstd *
                                      (AT(dy, const real_t)[at] - around);
    }
}

/* --- layer and root mean square normalization of rows of n --- */

KERNEL(layer_norm, 256, 1)
(BUFFER(x), BUFFER(gamma), BUFFER(beta), BUFFER(y), BUFFER(means), BUFFER(rstds), const int n,
 const real_t epsilon)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    /* Numbers count from the first one, so that a mean far from zero takes no digits of them. */
    const real_t base = from[0];
    SUM_BEGIN(mean);
    SUM_BEGIN(variance);
    for (int i = ITEM_X; i < n; i += 256) SUM_ADD(mean, from[i] - base);
    mean = group_sum(table, ITEM_X, mean) / (real_t)n;
    for (int i = ITEM_X; i < n; i += 256)
        SUM_ADD(variance, (from[i] - base - mean) * (from[i] - base - mean));
    variance = group_sum(table, ITEM_X, variance) / (real_t)n;
    const real_t rstd = real(1) / sqrt(variance + epsilon);
    for (int i = ITEM_X; i < n; i += 256)
        AT(y, real_t)[GROUP_X * n + i] =
            (from[i] - base - mean) * rstd * AT(gamma, const real_t)[i] +
            AT(beta, const real_t)[i];
    if (ITEM_X == 0) {
        AT(means, real_t)[GROUP_X] = base + mean;
        AT(rstds, real_t)[GROUP_X] = rstd;
    }
}

KERNEL(layer_norm_dx, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(gamma), BUFFER(means), BUFFER(rstds), BUFFER(dx), const int n)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    GLOBAL const real_t *d = AT(dy, const real_t) + GROUP_X * n;
    const real_t m = AT(means, const real_t)[GROUP_X];
    const real_t s = AT(rstds, const real_t)[GROUP_X];
    SUM_BEGIN(sum);
    SUM_BEGIN(sum_hat);
    for (int i = ITEM_X; i < n; i += 256) {
        const real_t g = d[i] * AT(gamma, const real_t)[i];
        SUM_ADD(sum, g);
        SUM_ADD(sum_hat, g * (from[i] - m) * s);
    }
    sum = group_sum(table, ITEM_X, sum) / (real_t)n;
    sum_hat = group_sum(table, ITEM_X, sum_hat) / (real_t)n;
    for (int i = ITEM_X; i < n; i += 256) {
        const real_t hat = (from[i] - m) * s;
        const real_t g = d[i] * AT(gamma, const real_t)[i];
        AT(dx, real_t)[GROUP_X * n + i] = s * (g - sum - hat * sum_hat);
    }
}

/* The gradients of gamma and beta: sums over rows, 16 columns for each group, in 16 parts. */
#define COLUMN_SUMS(first, second)                                                                 \
    const int column = GROUP_X * 16 + ITEM_X;                                                      \
    SUM_BEGIN(g);                                                                                  \
    SUM_BEGIN(b);                                                                                  \
    for (int r = ITEM_Y; r < rows && column < n; r += 16) {                                        \
        const real_t d = AT(dy, const real_t)[r * n + column];                                     \
        const real_t v = AT(x, const real_t)[r * n + column];                                      \
        SUM_ADD(g, first);                                                                         \
        SUM_ADD(b, second);                                                                        \
    }                                                                                              \
    of_gamma[ITEM_Y][ITEM_X] = g;                                                                  \
    of_beta[ITEM_Y][ITEM_X] = b;                                                                   \
    BARRIER;                                                                                       \
    for (int stride = 8; stride > 0; stride /= 2) {                                                \
        if (ITEM_Y < stride) {                                                                     \
            of_gamma[ITEM_Y][ITEM_X] += of_gamma[ITEM_Y + stride][ITEM_X];                         \
            of_beta[ITEM_Y][ITEM_X] += of_beta[ITEM_Y + stride][ITEM_X];                           \
        }                                                                                          \
        BARRIER;                                                                                   \
    }

KERNEL(layer_norm_sums, 16, 16)
(BUFFER(dy), BUFFER(x), BUFFER(means), BUFFER(rstds), BUFFER(dgamma), BUFFER(dbeta), const int n,
 const int rows)
{
    LOCAL real_t of_gamma[16][17], of_beta[16][17];
    COLUMN_SUMS(
        d * (v - AT(means, const real_t)[r]) * AT(rstds, const real_t)[r], d)
    if (ITEM_Y == 0 && column < n) {
        AT(dgamma, real_t)[column] = of_gamma[0][ITEM_X];
        AT(dbeta, real_t)[column] = of_beta[0][ITEM_X];
    }
}

KERNEL(rms_norm, 256, 1)
(BUFFER(x), BUFFER(gamma), BUFFER(y), BUFFER(rstds), const int n, const real_t epsilon)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    SUM_BEGIN(square);
    for (int i = ITEM_X; i < n; i += 256) SUM_ADD(square, from[i] * from[i]);
    square = group_sum(table, ITEM_X, square) / (real_t)n;
    const real_t rstd = real(1) / sqrt(square + epsilon);
    for (int i = ITEM_X; i < n; i += 256)
        AT(y, real_t)[GROUP_X * n + i] =
            from[i] * rstd * AT(gamma, const real_t)[i];
    if (ITEM_X == 0) AT(rstds, real_t)[GROUP_X] = rstd;
}

KERNEL(rms_norm_dx, 256, 1)
(BUFFER(dy), BUFFER(x), BUFFER(gamma), BUFFER(rstds), BUFFER(dx), const int n)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * n;
    GLOBAL const real_t *d = AT(dy, const real_t) + GROUP_X * n;
    const real_t s = AT(rstds, const real_t)[GROUP_X];
    SUM_BEGIN(mean);
    for (int i = ITEM_X; i < n; i += 256)
        SUM_ADD(mean, d[i] * AT(gamma, const real_t)[i] * from[i] * s);
    mean = group_sum(table, ITEM_X, mean) / (real_t)n;
    for (int i = ITEM_X; i < n; i += 256) {
        const real_t g = d[i] * AT(gamma, const real_t)[i];
        AT(dx, real_t)[GROUP_X * n + i] = s * (g - from[i] * s * mean);
    }
}

KERNEL(rms_norm_sums, 16, 16)
(BUFFER(dy), BUFFER(x), BUFFER(rstds), BUFFER(dgamma), const int n, const int rows)
{
    LOCAL real_t of_gamma[16][17], of_beta[16][17];
    COLUMN_SUMS(d * v * AT(rstds, const real_t)[r], 0)
    if (ITEM_Y == 0 && column < n) AT(dgamma, real_t)[column] = of_gamma[0][ITEM_X];
}
