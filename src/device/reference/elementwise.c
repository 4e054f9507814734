#include <math.h>

#include "device/reference/reference.h"

#define EACH(i, n) for (int64_t i = 0, end_##i = (n); i < end_##i; i++)

static void scale(const weft_ref *a)
{
    const real *x = a->in[0];
    real *out = a->out[0], factor = (real)weft_node_real(a->node, "factor", 1);
    EACH (i, out_size(a, 0)) out[i] = factor * x[i];
}

static void bias(const weft_ref *a)
{
    const real *x = a->in[0], *b = a->in[1];
    real *y = a->out[0];
    const weft_shape *s = in_shape(a, 0);
    int end = (int)weft_node_int(a->node, "axis", 0, 1) + in_shape(a, 1)->rank;
    int64_t inner = 1, size = in_size(a, 1);
    for (int i = end; i < s->rank; i++) inner *= s->dim[i];
    EACH (i, out_size(a, 0)) y[i] = x[i] + b[i / inner % size];
}

static void relu(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    /* NaN stays NaN. */
    EACH (i, out_size(a, 0)) y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_grad(const weft_ref *a)
{
    const real *y = a->in[0], *dy = a->in[1];
    real *dx = a->out[0];
    EACH (i, out_size(a, 0)) dx[i] = y[i] > 0 ? dy[i] : y[i] < 0 ? 0 : y[i];
}

static void sigmoid(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    EACH (i, out_size(a, 0)) y[i] = (real)(1 / (1 + exp(-(double)x[i])));
}

static void sigmoid_grad(const weft_ref *a)
{
    const real *y = a->in[0], *dy = a->in[1];
    real *dx = a->out[0];
    EACH (i, out_size(a, 0)) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

static void tanh_(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    EACH (i, out_size(a, 0)) y[i] = (real)tanh((double)x[i]);
}

static void tanh_grad(const weft_ref *a)
{
    const real *y = a->in[0], *dy = a->in[1];
    real *dx = a->out[0];
    EACH (i, out_size(a, 0)) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

static const double sqrt_half = 0.70710678118654752440, inv_sqrt_2pi = 0.39894228040143267794;

static void gelu(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    EACH (i, out_size(a, 0))
        y[i] = (real)(0.5 * (double)x[i] * (1 + erf((double)x[i] * sqrt_half)));
}

static void gelu_grad(const weft_ref *a)
{
    const real *x = a->in[0], *dy = a->in[1];
    real *dx = a->out[0];
    EACH (i, out_size(a, 0)) {
        double v = (double)x[i], cdf = 0.5 * (1 + erf(v * sqrt_half));
        dx[i] = (real)((double)dy[i] * (cdf + v * inv_sqrt_2pi * exp(-0.5 * v * v)));
    }
}

static void silu(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    EACH (i, out_size(a, 0)) y[i] = (real)((double)x[i] / (1 + exp(-(double)x[i])));
}

static void silu_grad(const weft_ref *a)
{
    const real *x = a->in[0], *dy = a->in[1];
    real *dx = a->out[0];
    EACH (i, out_size(a, 0)) {
        double v = (double)x[i], s = 1 / (1 + exp(-v));
        dx[i] = (real)((double)dy[i] * s * (1 + v * (1 - s)));
    }
}

/* Rotates each pair of elements, see ops/rotary.c. */
static void rotary(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    const int64_t *dim = in_shape(a, 0)->dim, pairs = dim[3] / 2;
    bool interleaved = weft_node_int(a->node, "interleaved", 0, 0) != 0;
    double base = weft_node_real(a->node, "base", 10000);
    double sign = weft_node_int(a->node, "inverse", 0, 0) ? -1 : 1;
    int64_t first = weft_node_int(a->node, "first", 0, 0);
    const int32_t *added = a->node->in_count == 2 ? a->in[1] : NULL;
    int64_t each = added && in_shape(a, 1)->rank > 0; /* a number for each row of the batch */
    EACH (row, dim[0] * dim[1] * dim[2])
        EACH (i, pairs) {
            int64_t sample = row / (dim[1] * dim[2]);
            double position = (double)(first + row / dim[2] % dim[1]);
            if (added) position += added[each * sample];
            double angle = position * pow(base, -(double)i / (double)pairs);
            double c = cos(angle), s = sign * sin(angle);
            int64_t u = row * dim[3] + (interleaved ? 2 * i : i), v = u + (interleaved ? 1 : pairs);
            y[u] = (real)((double)x[u] * c - (double)x[v] * s);
            y[v] = (real)((double)x[v] * c + (double)x[u] * s);
        }
}

/* The index, in the whole sample, of element j of a part of a sample. */
static int64_t place_in_sample(const weft_ref *a, int64_t j)
{
    const weft_attr *start = weft_node_attr(a->node, "start");
    const weft_attr *whole = weft_node_attr(a->node, "whole");
    const weft_shape *s = in_shape(a, 0);
    int64_t place = 0, step = 1;
    if (!start || !whole) return j;
    for (int d = s->rank; d-- > 1; j /= s->dim[d]) {
        place += (j % s->dim[d] + start->ints[d]) * step;
        step *= whole->ints[d];
    }
    return place;
}

/* Dropout without a mask, see ops/dropout.c: the random number of element j of sample s is that of
 * counter (step, s, j). */
static void dropout(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    double rate = weft_node_real(a->node, "rate", 0.5);
    uint64_t key = weft_mix((uint64_t)weft_node_int(a->node, "seed", 0, 0),
                            (uint64_t)weft_node_int(a->node, "stream", 0, 0));
    uint64_t step = (uint64_t) * (const int32_t *)a->in[1];
    uint64_t first =
        (uint64_t) * (const int32_t *)a->in[2] + (uint64_t)weft_node_int(a->node, "start", 0, 0);
    int64_t samples = in_shape(a, 0)->dim[0], each = in_size(a, 0) / samples;
    uint32_t threshold = (uint32_t)(rate * 4294967296.0);
    real keep = (real)(1 / (1 - rate));
    for (int64_t s = 0; s < samples; s++)
        for (int64_t j = 0, block = -1; j < each; j++) {
            uint32_t draw[4];
            int64_t place = place_in_sample(a, j), i = s * each + j;
            if (place >> 2 != block) {
                block = place >> 2;
                weft_philox(key, step << 32 | (first + (uint64_t)s), (uint64_t)block, draw);
            }
            y[i] = draw[place & 3] < threshold ? 0 : x[i] * keep;
        }
}

/* Evaluates the element function of an operator in double. */
static void element(const weft_ref *a)
{
    const weft_element *e = a->node->op->element;
    double parameters[2], x[3] = {0}, y;
    const void *in[3];
    real *out = a->out[0];
    weft_node_parameters(a->node, parameters);
    for (int j = 0; j < 3; j++) in[j] = &x[j < e->count ? j : 0];
    EACH (i, out_size(a, 0)) {
        for (int j = 0; j < e->count; j++)
            x[j] = (double)((const real *)a->in[j])[weft_ref_element_of(a, j, i)];
        e->f64(in, parameters, &y, 1);
        out[i] = (real)y;
    }
}

const weft_ref_entry WEFT_REF_TABLE(element) = {NULL, element, 0};

const weft_ref_entry WEFT_REF_TABLE(elementwise)[] = {
    {"scale", scale, 0},         {"bias", bias, 0},           {"relu", relu, 0},
    {"relu_grad", relu_grad, 0}, {"sigmoid", sigmoid, 0},     {"sigmoid_grad", sigmoid_grad, 0},
    {"tanh", tanh_, 0},          {"tanh_grad", tanh_grad, 0}, {"gelu", gelu, 0},
    {"gelu_grad", gelu_grad, 0}, {"silu", silu, 0},           {"silu_grad", silu_grad, 0},
    {"rotary", rotary, 0},       {"dropout", dropout, 0},     {NULL, NULL, 0},
};
