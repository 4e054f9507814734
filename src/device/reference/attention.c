/* Implements attention and its gradient (see src/ops/attention.c) pair by pair of a query and a
 * key. */
#include <math.h>

#include "device/reference/reference.h"

/* Sums over a row are in double, for so many elements of the row at a time. */
enum { CHUNK = 64 };

typedef struct attention {
    int64_t b, t, s, h, g, d, e, group;    /* group: heads of queries for each head of keys */
    const real *q, *k, *v, *y, *dy, *sums; /* sums: [b, h, t, 2], see src/ops/attention.c */
    const int32_t *lengths;                /* NULL: all keys are valid */
    bool causal;
    int64_t first;
    double scale;
} attention;

/* Reads the operands, of which the queries are input `at`. */
static attention attention_of(const weft_ref *a, int at, int lengths)
{
    const weft_shape *q = in_shape(a, at), *v = in_shape(a, at + 2);
    return (attention){.b = q->dim[0],
                       .t = q->dim[1],
                       .s = v->dim[1],
                       .h = q->dim[2],
                       .g = v->dim[2],
                       .d = q->dim[3],
                       .e = v->dim[3],
                       .group = q->dim[2] / v->dim[2],
                       .q = a->in[at],
                       .k = a->in[at + 1],
                       .v = a->in[at + 2],
                       .lengths = a->node->in_count > lengths ? a->in[lengths] : NULL,
                       .causal = weft_node_int(a->node, "causal", 0, 0) != 0,
                       .first = weft_node_int(a->node, "first", 0, 0),
                       .scale = weft_node_real(a->node, "scale", 1)};
}

/* Row i of head h of a tensor [b, t, h, width], and row j of head g of one [b, s, g, width]. */
static const real *query_row(const attention *p, const real *x, int64_t width, int64_t b, int64_t h,
                             int64_t i)
{
    return x + ((b * p->t + i) * p->h + h) * width;
}
static const real *key_row(const attention *p, const real *x, int64_t width, int64_t b, int64_t h,
                           int64_t j)
{
    return x + ((b * p->s + j) * p->g + h / p->group) * width;
}

/* The number of keys that query i sees: a prefix of the keys. A length that is out of range counts
 * as the nearest possible one. */
static int64_t seen(const attention *p, int64_t b, int64_t i)
{
    int64_t n = p->s;
    if (p->lengths) n = WEFT_MIN(n, (int64_t)p->lengths[b]);
    if (p->causal) n = WEFT_MIN(n, p->first + i + 1);
    return WEFT_MAX(n, (int64_t)0);
}

/* A score has the precision of the operands, so that the largest one is kept without a loss. */
static real score(const attention *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const real *q = query_row(p, p->q, p->d, b, h, i), *k = key_row(p, p->k, p->d, b, h, j);
    double sum = 0;
    for (int64_t c = 0; c < p->d; c++) sum += (double)q[c] * (double)k[c];
    return (real)(sum * p->scale);
}

/* The probability by the sums that forward has kept. The difference of the scores comes first, so
 * that a large score swallows no digits of the logarithm. */
static double probability(const attention *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const real *sums = p->sums + ((b * p->h + h) * p->t + i) * 2;
    return exp((double)score(p, b, h, i, j) - (double)sums[0] - (double)sums[1]);
}

/* The largest score of a query, and the sum of exp(score - top) over its keys. -inf: the query sees
 * no key. */
static double row_sum(const attention *p, int64_t b, int64_t h, int64_t i, double *top)
{
    double sum = 0;
    int64_t n = seen(p, b, i);
    *top = -INFINITY;
    for (int64_t j = 0; j < n; j++) *top = fmax(*top, (double)score(p, b, h, i, j));
    for (int64_t j = 0; j < n; j++) sum += exp((double)score(p, b, h, i, j) - *top);
    return sum;
}

/* The derivative of the loss by the score of query i and key j: the probability times (dp - the
 * mean of the query's dp), where dp is dy times the value, and the mean is dy times y. */
static double dscore(const attention *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const real *dy = query_row(p, p->dy, p->e, b, h, i), *y = query_row(p, p->y, p->e, b, h, i);
    const real *v = key_row(p, p->v, p->e, b, h, j);
    double sum = 0;
    for (int64_t c = 0; c < p->e; c++) sum += (double)dy[c] * ((double)v[c] - (double)y[c]);
    return sum * probability(p, b, h, i, j);
}

/* The weight of a pair: its probability or dscore. */
typedef double (*weight)(const attention *p, int64_t b, int64_t h, int64_t i, int64_t j);

static void add_row(double *sum, double factor, const real *row, int64_t count)
{
    for (int64_t c = 0; c < count; c++) sum[c] += factor * (double)row[c];
}
static void put_row(real *to, double factor, const double *sum, int64_t count)
{
    for (int64_t c = 0; c < count; c++) to[c] = (real)(factor * sum[c]);
}

/* Row i of out [b, t, h, width] is the sum of the rows of x [b, s, g, width] that query i sees, by
 * weight, times the factor. */
static void sum_over_keys(const attention *p, weight of, double factor, const real *x,
                          int64_t width, real *out)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->t; i++)
            for (int64_t h = 0; h < p->h; h++)
                for (int64_t c = 0; c < width; c += CHUNK) {
                    double sum[CHUNK] = {0};
                    int64_t count = WEFT_MIN(width - c, (int64_t)CHUNK);
                    for (int64_t j = 0; j < seen(p, b, i); j++)
                        add_row(sum, of(p, b, h, i, j), key_row(p, x, width, b, h, j) + c, count);
                    put_row(out, factor, sum, count);
                    out += count;
                }
}

/* Row j of out [b, s, g, width] is the sum of the rows of x [b, t, h, width] of all queries that
 * see key j, of all heads of its group, by weight, times the factor. */
static void sum_over_queries(const attention *p, weight of, double factor, const real *x,
                             int64_t width, real *out)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t j = 0; j < p->s; j++)
            for (int64_t g = 0; g < p->g; g++)
                for (int64_t c = 0; c < width; c += CHUNK) {
                    double sum[CHUNK] = {0};
                    int64_t count = WEFT_MIN(width - c, (int64_t)CHUNK);
                    for (int64_t h = g * p->group; h < (g + 1) * p->group; h++)
                        for (int64_t i = 0; i < p->t; i++)
                            if (j < seen(p, b, i))
                                add_row(sum, of(p, b, h, i, j), query_row(p, x, width, b, h, i) + c,
                                        count);
                    put_row(out, factor, sum, count);
                    out += count;
                }
}

/* The result of one query, by probabilities in double, which add up to 1 at any size of scores. */
static void attend_row(const attention *p, int64_t b, int64_t h, int64_t i, double top, double sum,
                       real *out)
{
    for (int64_t c = 0; c < p->e; c += CHUNK) {
        double y[CHUNK] = {0};
        int64_t count = WEFT_MIN(p->e - c, (int64_t)CHUNK);
        for (int64_t j = 0; j < seen(p, b, i); j++)
            add_row(y, exp((double)score(p, b, h, i, j) - top) / sum,
                    key_row(p, p->v, p->e, b, h, j) + c, count);
        put_row(out + c, 1, y, count);
    }
}

static void attend(const weft_ref *a)
{
    attention p = attention_of(a, 0, 3);
    real *y = a->out[0], *sums = a->out[1];
    for (int64_t b = 0; b < p.b; b++)
        for (int64_t h = 0; h < p.h; h++)
            for (int64_t i = 0; i < p.t; i++, sums += 2) {
                double top, sum = row_sum(&p, b, h, i, &top);
                sums[0] = isnan(sum) ? (real)NAN : (real)top;
                sums[1] = seen(&p, b, i) ? (real)log(sum) : 0;
                attend_row(&p, b, h, i, top, sum, y + ((b * p.t + i) * p.h + h) * p.e);
            }
}

static void attention_grad(const weft_ref *a)
{
    attention p = attention_of(a, 1, 6);
    p.dy = a->in[0];
    p.y = a->in[4];
    p.sums = a->in[5];
    sum_over_keys(&p, dscore, p.scale, p.k, p.d, a->out[0]);
    sum_over_queries(&p, dscore, p.scale, p.q, p.d, a->out[1]);
    sum_over_queries(&p, probability, 1, p.dy, p.e, a->out[2]);
}

const weft_ref_entry WEFT_REF_TABLE(attention)[] = {
    {"attention", attend, 0},
    {"attention_grad", attention_grad, 0},
    {NULL, NULL, 0},
};
