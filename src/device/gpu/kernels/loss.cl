/* Losses, which are weighted sums over the samples, and their gradients. A sample of weight zero is
 * ignored, since padding may contain anything. */

/* Probabilities of a row of n logits, and its weighted loss. A label out of range
 * makes the loss NaN, which stops the run. */
KERNEL(xent_rows, 256, 1)
(BUFFER(x), BUFFER(labels), BUFFER(weights), BUFFER(p), BUFFER(losses), const int n,
 const real_t smoothing)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *row = AT(x, const real_t) + GROUP_X * n;
    SUM_BEGIN(sum);
    SUM_BEGIN(even);
    real_t top = (real_t)-INFINITY;
    for (int i = ITEM_X; i < n; i += 256) top = larger_of(top, row[i]);
    top = group_max(table, ITEM_X, top);
    for (int i = ITEM_X; i < n; i += 256) SUM_ADD(sum, exp(row[i] - top));
    sum = group_sum(table, ITEM_X, sum);
    /* Differences of logits are added to the logarithm, which could be lost in a large logit. */
    const real_t rest = log(sum);
    for (int i = ITEM_X; i < n; i += 256) {
        AT(p, real_t)[GROUP_X * n + i] = exp(row[i] - top) / sum;
        if (smoothing != 0) SUM_ADD(even, rest + (top - row[i]));
    }
    if (smoothing != 0) even = group_sum(table, ITEM_X, even) / (real_t)n;
    if (ITEM_X == 0) {
        const real_t weight = AT(weights, const real_t)[GROUP_X];
        const int label = AT(labels, const int)[GROUP_X];
        real_t loss = 0;
        if (weight != 0) {
            loss = NAN_OF(real_t);
            if (label >= 0 && label < n) {
                const real_t own = rest + (top - row[label]);
                loss = weight *
                       (smoothing == 0 ? own : (1 - smoothing) * own + smoothing * even);
            }
        }
        AT(losses, real_t)[GROUP_X] = loss;
    }
}

/* The sum of `count` numbers. */
KERNEL(total, 256, 1)(BUFFER(losses), BUFFER(loss), const int count)
{
    LOCAL real_t table[256];
    SUM_BEGIN(sum);
    for (int i = ITEM_X; i < count; i += 256) SUM_ADD(sum, AT(losses, const real_t)[i]);
    sum = group_sum(table, ITEM_X, sum);
    if (ITEM_X == 0) AT(loss, real_t)[0] = sum;
}

KERNEL(xent_grad, 256, 1)
(BUFFER(p), BUFFER(labels), BUFFER(weights), BUFFER(dloss), BUFFER(dx), const int count,
 const int n, const real_t other, const real_t own)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int r = at / n;
        const real_t weight = AT(weights, const real_t)[r];
        const real_t factor = weight * AT(dloss, const real_t)[0];
        const real_t target = AT(labels, const int)[r] == at % n ? own : other;
        AT(dx, real_t)[at] =
            weight == 0 ? real(0) : factor * (AT(p, const real_t)[at] - target);
    }
}

KERNEL(mse_rows, 256, 1)
(BUFFER(x), BUFFER(t), BUFFER(weights), BUFFER(said), BUFFER(losses), const int n)
{
    LOCAL real_t table[256];
    const real_t weight = AT(weights, const real_t)[GROUP_X];
    SUM_BEGIN(sum);
    for (int i = ITEM_X; i < n; i += 256) {
        const int at = GROUP_X * n + i;
        const real_t v = AT(x, const real_t)[at];
        const real_t d = v - AT(t, const real_t)[at];
        AT(said, real_t)[at] = v;
        if (weight != 0) SUM_ADD(sum, weight * d * d / (real_t)n);
    }
    sum = group_sum(table, ITEM_X, sum);
    if (ITEM_X == 0) AT(losses, real_t)[GROUP_X] = sum;
}

KERNEL(mse_grad, 256, 1)
(BUFFER(x), BUFFER(t), BUFFER(weights), BUFFER(dloss), BUFFER(dx), const int count, const int n)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const real_t factor =
            2 * AT(weights, const real_t)[at / n] * AT(dloss, const real_t)[0] / (real_t)n;
        AT(dx, real_t)[at] =
            factor == 0 ? real(0)
                        : factor * (AT(x, const real_t)[at] - AT(t, const real_t)[at]);
    }
}
