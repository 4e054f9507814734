/* Implements lstm and gru, and their gradients: one row of the batch after the other, and in it one
 * position after the other. */
#include <math.h>

#include "device/reference/reference.h"

/* A row of the batch. */
typedef struct sequence {
    weft_recurrence r;
    int64_t b, length;
} sequence;

static sequence sequence_of(const weft_ref *a, const weft_recurrence *r, int64_t b)
{
    const int32_t *lengths = r->lengths >= 0 ? a->in[r->lengths] : NULL;
    return (sequence){*r, b, weft_recurrence_length(r, lengths, b)};
}

/* The position of a step, and the offset of a position in a tensor [b, t, width]. */
static int64_t position(const weft_recurrence *r, int64_t step)
{
    return r->backward ? r->positions - 1 - step : step;
}
static int64_t offset(const sequence *s, int64_t t, int64_t width)
{
    return (s->b * s->r.positions + t) * width;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Element j of a row of h times w [h, n]. */
static double times(const real *h, const real *w, int64_t units, int64_t n, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < units; k++) sum += (double)h[k] * (double)w[k * n + j];
    return sum;
}

/* Sets a state to its first value: that of input i, or zero; NaN if the row's length is wrong. */
static real *begin_state(const weft_ref *a, const sequence *s, int i, int out)
{
    real *state = (real *)a->out[out] + s->b * s->r.units;
    const real *first = i >= 0 ? (const real *)a->in[i] + s->b * s->r.units : NULL;
    for (int64_t u = 0; u < s->r.units; u++)
        state[u] = s->length < 0 ? (real)NAN : first ? first[u] : 0;
    return state;
}

static void clear(real *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = 0;
}

static void lstm_position(const weft_ref *a, const sequence *s, int64_t t, real *h, real *c)
{
    int64_t units = s->r.units;
    const real *g = (const real *)a->in[0] + offset(s, t, 4 * units), *w = a->in[1];
    real *y = (real *)a->out[0] + offset(s, t, units);
    real *gates = (real *)a->out[3] + offset(s, t, 4 * units);
    real *cells = (real *)a->out[4] + offset(s, t, units);
    for (int64_t j = 0; j < 4 * units; j++) {
        double x = (double)g[j] + times(h, w, units, 4 * units, j);
        gates[j] = (real)(j / units == 2 ? tanh(x) : sigmoid(x));
    }
    for (int64_t u = 0; u < units; u++) {
        const real *i = gates + u, *f = i + units, *z = f + units, *o = z + units;
        c[u] = cells[u] = (real)((double)*f * (double)c[u] + (double)*i * (double)*z);
        h[u] = y[u] = (real)((double)*o * tanh((double)c[u]));
    }
}

static void lstm(const weft_ref *a)
{
    weft_recurrence r = weft_node_recurrence(a->graph, a->node, 4, false);
    for (int64_t b = 0; b < r.batch; b++) {
        sequence s = sequence_of(a, &r, b);
        real *h = begin_state(a, &s, r.h0, 1), *c = begin_state(a, &s, r.c0, 2);
        for (int64_t step = 0, t; step < r.positions; step++) {
            t = position(&r, step);
            if (weft_recurrence_counts(s.length, t)) {
                lstm_position(a, &s, t, h, c);
                continue;
            }
            clear((real *)a->out[0] + offset(&s, t, r.units), r.units);
            clear((real *)a->out[3] + offset(&s, t, 4 * r.units), 4 * r.units);
            clear((real *)a->out[4] + offset(&s, t, r.units), r.units);
        }
    }
}

static void gru_position(const weft_ref *a, const sequence *s, int64_t t, real *h)
{
    int64_t units = s->r.units, all = 3 * units;
    const real *g = (const real *)a->in[0] + offset(s, t, all), *w = a->in[1], *bias = a->in[2];
    real *y = (real *)a->out[0] + offset(s, t, units), *gates = (real *)a->out[2];
    real *inner = (real *)a->out[3] + offset(s, t, units);
    gates += offset(s, t, all);
    for (int64_t j = 0; j < all; j++) {
        double product = (double)bias[j] + times(h, w, units, all, j);
        if (j >= 2 * units) inner[j - 2 * units] = (real)product;
        gates[j] = j < 2 * units
                       ? (real)sigmoid((double)g[j] + product)
                       : (real)tanh((double)g[j] + (double)gates[j - 2 * units] * product);
    }
    for (int64_t u = 0; u < units; u++) {
        double z = (double)gates[units + u], n = (double)gates[2 * units + u];
        h[u] = y[u] = (real)((1 - z) * n + z * (double)h[u]);
    }
}

static void gru(const weft_ref *a)
{
    weft_recurrence r = weft_node_recurrence(a->graph, a->node, 3, false);
    for (int64_t b = 0; b < r.batch; b++) {
        sequence s = sequence_of(a, &r, b);
        real *h = begin_state(a, &s, r.h0, 1);
        for (int64_t step = 0, t; step < r.positions; step++) {
            t = position(&r, step);
            if (weft_recurrence_counts(s.length, t)) {
                gru_position(a, &s, t, h);
                continue;
            }
            clear((real *)a->out[0] + offset(&s, t, r.units), r.units);
            clear((real *)a->out[2] + offset(&s, t, 3 * r.units), 3 * r.units);
            clear((real *)a->out[3] + offset(&s, t, r.units), r.units);
        }
    }
}

/* --- gradients --- */

/* The gradient of a state after the last position, in the output that becomes that of the first
 * state. */
static real *begin_gradient(const weft_ref *a, const sequence *s, int i, int out)
{
    real *d = (real *)a->out[out] + s->b * s->r.units;
    const real *last = i >= 0 ? (const real *)a->in[i] + s->b * s->r.units : NULL;
    for (int64_t u = 0; u < s->r.units; u++) d[u] = last ? last[u] : 0;
    return d;
}

/* Element u of the state before position t: of input `sequence` at the position before, or of the
 * first state. */
static double state_before(const weft_ref *a, const sequence *s, int all, int first, int64_t t,
                           int64_t u)
{
    int64_t before = weft_recurrence_before(&s->r, s->length, t), units = s->r.units;
    if (before >= 0) return (double)((const real *)a->in[all])[offset(s, before, units) + u];
    return first >= 0 ? (double)((const real *)a->in[first])[s->b * units + u] : 0;
}

static double dy_at(const weft_ref *a, const sequence *s, int64_t t, int64_t u)
{
    return s->r.dy >= 0 ? (double)((const real *)a->in[s->r.dy])[offset(s, t, s->r.units) + u] : 0;
}

/* Adds the gradient of the product h w, [n], times the weight [h, n] to that of the state. */
static void add_product(real *dh, const real *d, const real *w, int64_t units, int64_t n)
{
    for (int64_t u = 0; u < units; u++) {
        double sum = (double)dh[u];
        for (int64_t j = 0; j < n; j++) sum += (double)d[j] * (double)w[u * n + j];
        dh[u] = (real)sum;
    }
}

static void lstm_grad_position(const weft_ref *a, const sequence *s, int64_t t, real *dh, real *dc)
{
    int64_t units = s->r.units;
    const real *gates = (const real *)a->in[0] + offset(s, t, 4 * units);
    const real *cells = (const real *)a->in[1] + offset(s, t, units);
    real *dg = (real *)a->out[0] + offset(s, t, 4 * units);
    real *before = (real *)a->out[1] + offset(s, t, units);
    for (int64_t u = 0; u < units; u++) {
        double i = (double)gates[u], f = (double)gates[units + u], z = (double)gates[2 * units + u];
        double o = (double)gates[3 * units + u], c = tanh((double)cells[u]);
        double d = dy_at(a, s, t, u) + (double)dh[u];
        double dcell = (double)dc[u] + d * o * (1 - c * c);
        before[u] = (real)state_before(a, s, 2, s->r.h0, t, u);
        dg[u] = (real)(dcell * z * i * (1 - i));
        dg[units + u] = (real)(dcell * state_before(a, s, 1, s->r.c0, t, u) * f * (1 - f));
        dg[2 * units + u] = (real)(dcell * i * (1 - z * z));
        dg[3 * units + u] = (real)(d * c * o * (1 - o));
        dc[u] = (real)(dcell * f);
        dh[u] = 0;
    }
    add_product(dh, dg, a->in[3], units, 4 * units);
}

static void lstm_grad(const weft_ref *a)
{
    weft_recurrence r = weft_node_recurrence(a->graph, a->node, 4, true);
    for (int64_t b = 0; b < r.batch; b++) {
        sequence s = sequence_of(a, &r, b);
        real *dh = begin_gradient(a, &s, r.dh, 2), *dc = begin_gradient(a, &s, r.dc, 3);
        for (int64_t step = r.positions - 1, t; step >= 0; step--) {
            t = position(&r, step);
            if (weft_recurrence_counts(s.length, t)) {
                lstm_grad_position(a, &s, t, dh, dc);
                continue;
            }
            clear((real *)a->out[0] + offset(&s, t, 4 * r.units), 4 * r.units);
            clear((real *)a->out[1] + offset(&s, t, r.units), r.units);
        }
    }
}

static void gru_grad_position(const weft_ref *a, const sequence *s, int64_t t, real *dh)
{
    int64_t units = s->r.units;
    const real *gates = (const real *)a->in[0] + offset(s, t, 3 * units);
    const real *inner = (const real *)a->in[1] + offset(s, t, units);
    real *dg = (real *)a->out[0] + offset(s, t, 3 * units);
    real *product = (real *)a->out[1] + offset(s, t, 3 * units);
    real *before = (real *)a->out[2] + offset(s, t, units);
    for (int64_t u = 0; u < units; u++) {
        double r = (double)gates[u], z = (double)gates[units + u], n = (double)gates[2 * units + u];
        double h = state_before(a, s, 2, s->r.h0, t, u), d = dy_at(a, s, t, u) + (double)dh[u];
        double dn = d * (1 - z) * (1 - n * n);
        before[u] = (real)h;
        dg[u] = product[u] = (real)(dn * (double)inner[u] * r * (1 - r));
        dg[units + u] = product[units + u] = (real)(d * (h - n) * z * (1 - z));
        dg[2 * units + u] = (real)dn;
        product[2 * units + u] = (real)(dn * r);
        dh[u] = (real)(d * z);
    }
    add_product(dh, product, a->in[3], units, 3 * units);
}

static void gru_grad(const weft_ref *a)
{
    weft_recurrence r = weft_node_recurrence(a->graph, a->node, 3, true);
    for (int64_t b = 0; b < r.batch; b++) {
        sequence s = sequence_of(a, &r, b);
        real *dh = begin_gradient(a, &s, r.dh, 3);
        for (int64_t step = r.positions - 1, t; step >= 0; step--) {
            t = position(&r, step);
            if (weft_recurrence_counts(s.length, t)) {
                gru_grad_position(a, &s, t, dh);
                continue;
            }
            for (int o = 0; o < 2; o++)
                clear((real *)a->out[o] + offset(&s, t, 3 * r.units), 3 * r.units);
            clear((real *)a->out[2] + offset(&s, t, r.units), r.units);
        }
    }
}

const weft_ref_entry WEFT_REF_TABLE(recurrence)[] = {
    {"lstm", lstm, 0}, {"lstm_grad", lstm_grad, 0}, {"gru", gru, 0}, {"gru_grad", gru_grad, 0},
    {NULL, NULL, 0},
};
