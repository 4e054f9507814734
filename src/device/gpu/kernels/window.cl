/* Pooling: a work item for each element of the result. Gradients are gathered from the windows that
 * an element of x lies in, in the order of their positions, so that they need no atomics. */
#define SIZES                                                                                      \
    const int x0, const int x1, const int x2, const int y0, const int y1, const int y2,            \
        const int k0, const int k1, const int k2, const int s0, const int s1, const int s2,        \
        const int q0, const int q1, const int q2

KERNEL(maxpool, 256, 1)(BUFFER(x), BUFFER(y), BUFFER(index), const int count, SIZES)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int ow = at % y2, oh = at / y2 % y1, od = at / (y2 * y1) % y0;
        GLOBAL const real_t *plane = AT(x, const real_t) + at / (y0 * y1 * y2) * x0 * x1 * x2;
        int best = -1;
        for (int a = 0; a < k0; a++)
            for (int b = 0; b < k1; b++)
                for (int c = 0; c < k2; c++) {
                    const int d = od * s0 - q0 + a, h = oh * s1 - q1 + b, w = ow * s2 - q2 + c;
                    if (d < 0 || h < 0 || w < 0 || d >= x0 || h >= x1 || w >= x2) continue;
                    const int i = (d * x1 + h) * x2 + w;
                    if (best < 0 || plane[i] > plane[best] || plane[i] != plane[i]) best = i;
                }
        AT(y, real_t)[at] = plane[best];
        AT(index, int)[at] = best;
    }
}

/* The windows over position u of x along a dimension: outputs from FIRST to LAST. */
#define FIRST(u, k, s, q) ((u) + (q) - (k) + 1 <= 0 ? 0 : ((u) + (q) - (k) + (s)) / (s))
#define LAST(u, s, q, y) (((u) + (q)) / (s) < (y) ? ((u) + (q)) / (s) : (y)-1)
#define EACH_WINDOW(body)                                                                          \
    for (int od = FIRST(d, k0, s0, q0); od <= LAST(d, s0, q0, y0); od++)                           \
        for (int oh = FIRST(h, k1, s1, q1); oh <= LAST(h, s1, q1, y1); oh++)                       \
            for (int ow = FIRST(w, k2, s2, q2); ow <= LAST(w, s2, q2, y2); ow++) {                 \
                const int o = plane * y0 * y1 * y2 + (od * y1 + oh) * y2 + ow;                     \
                body                                                                               \
            }

KERNEL(maxpool_grad, 256, 1)(BUFFER(dy), BUFFER(index), BUFFER(dx), const int count, SIZES)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int own = at % (x0 * x1 * x2), plane = at / (x0 * x1 * x2);
        const int w = own % x2, h = own / x2 % x1, d = own / (x2 * x1);
        real_t sum = 0;
        EACH_WINDOW(if (AT(index, const int)[o] == own) sum += AT(dy, const real_t)[o];)
        AT(dx, real_t)[at] = sum;
    }
}

/* The positions of a window along a dimension that are inside of x. */
FUNCTION int inside(const int o, const int k, const int s, const int q, const int x)
{
    int begin = o * s - q, end = begin + k;
    begin = begin < 0 ? 0 : begin;
    end = end > x ? x : end;
    return end - begin;
}

KERNEL(avgpool, 256, 1)(BUFFER(x), BUFFER(y), const int count, SIZES)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int ow = at % y2, oh = at / y2 % y1, od = at / (y2 * y1) % y0;
        GLOBAL const real_t *plane = AT(x, const real_t) + at / (y0 * y1 * y2) * x0 * x1 * x2;
        real_t sum = 0;
        for (int a = 0; a < k0; a++)
            for (int b = 0; b < k1; b++)
                for (int c = 0; c < k2; c++) {
                    const int d = od * s0 - q0 + a, h = oh * s1 - q1 + b, w = ow * s2 - q2 + c;
                    if (d < 0 || h < 0 || w < 0 || d >= x0 || h >= x1 || w >= x2) continue;
                    sum += plane[(d * x1 + h) * x2 + w];
                }
        const int number = inside(od, k0, s0, q0, x0) * inside(oh, k1, s1, q1, x1) *
                           inside(ow, k2, s2, q2, x2);
        AT(y, real_t)[at] = sum / (real_t)number;
    }
}

KERNEL(avgpool_grad, 256, 1)(BUFFER(dy), BUFFER(dx), const int count, SIZES)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int own = at % (x0 * x1 * x2), plane = at / (x0 * x1 * x2);
        const int w = own % x2, h = own / x2 % x1, d = own / (x2 * x1);
        real_t sum = 0;
        EACH_WINDOW(const int number = inside(od, k0, s0, q0, x0) * inside(oh, k1, s1, q1, x1) *
                                       inside(ow, k2, s2, q2, x2);
                    sum += AT(dy, const real_t)[o] / (real_t)number;)
        AT(dx, real_t)[at] = sum;
    }
}

KERNEL(global_avgpool, 256, 1)(BUFFER(x), BUFFER(y), const int plane)
{
    LOCAL real_t table[256];
    GLOBAL const real_t *from = AT(x, const real_t) + GROUP_X * plane;
    SUM_BEGIN(sum);
    for (int i = ITEM_X; i < plane; i += 256) SUM_ADD(sum, from[i]);
    sum = group_sum(table, ITEM_X, sum);
    if (ITEM_X == 0) AT(y, real_t)[GROUP_X] = sum / (real_t)plane;
}

KERNEL(global_avgpool_grad, 256, 1)(BUFFER(dy), BUFFER(dx), const int count, const int plane)
{
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256)
        AT(dx, real_t)[i] = AT(dy, const real_t)[i / plane] / (real_t)plane;
}
