/* Implements sums over axes, and what spreads and writes numbers: reduce_sum, reduce_mean,
 * reduce_max, broadcast, sequence_mean, write_rows. */
#include <math.h>

#include "device/reference/reference.h"

/* Strides of a dense shape, in elements. */
static void dense_strides(const weft_shape *s, int64_t *stride)
{
    int64_t step = 1;
    for (int i = s->rank; i-- > 0; step *= s->dim[i]) stride[i] = step;
}

/* An iterator over the full shape; `place` is the index of the present element in the shape without
 * the reduced axes. */
typedef struct fold {
    const weft_shape *full;
    int64_t step[WEFT_MAX_RANK]; /* 0 for a reduced axis */
    int64_t at[WEFT_MAX_RANK];
    int64_t place;
} fold;

static fold fold_start(const weft_ref *a, const weft_shape *full)
{
    fold f = {.full = full};
    const weft_attr *axes = weft_node_attr(a->node, "axes");
    bool gone[WEFT_MAX_RANK] = {false};
    for (int i = 0; i < axes->count; i++) gone[axes->ints[i]] = true;
    int64_t step = 1;
    for (int i = full->rank; i-- > 0;) {
        if (gone[i]) continue;
        f.step[i] = step;
        step *= full->dim[i];
    }
    return f;
}

static void fold_next(fold *f)
{
    for (int d = f->full->rank; d-- > 0;) {
        f->place += f->step[d];
        if (++f->at[d] < f->full->dim[d]) return;
        f->place -= f->step[d] * f->full->dim[d];
        f->at[d] = 0;
    }
}

/* An iterator over some axes of a tensor; `place` is the offset of the present position. A
 * reduction computes one output after the other: `kept` walks the kept axes, and for each position
 * `gone` walks the reduced axes in memory order. */
typedef struct walk {
    int rank;
    int64_t dim[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], at[WEFT_MAX_RANK], place;
} walk;

static int64_t walk_count(const walk *w)
{
    int64_t count = 1;
    for (int i = 0; i < w->rank; i++) count *= w->dim[i];
    return count;
}

static void walk_next(walk *w)
{
    for (int d = w->rank; d-- > 0;) {
        w->place += w->stride[d];
        if (++w->at[d] < w->dim[d]) return;
        w->place -= w->stride[d] * w->dim[d];
        w->at[d] = 0;
    }
}

/* Reduces numbers to their sum times a factor, or to the largest one, which is NaN if one is. */
static void reduce(const weft_ref *a, double factor, bool max)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    const weft_shape *full = in_shape(a, 0);
    int64_t stride[WEFT_MAX_RANK];
    walk kept = {0}, gone = {0};
    fold f = fold_start(a, full);
    dense_strides(full, stride);
    for (int i = 0; i < full->rank; i++) {
        walk *w = f.step[i] ? &kept : &gone;
        w->dim[w->rank] = full->dim[i];
        w->stride[w->rank++] = stride[i];
    }
    int64_t outputs = walk_count(&kept), terms = walk_count(&gone);
    for (int64_t o = 0; o < outputs; o++, walk_next(&kept)) {
        double all = max ? -(double)INFINITY : 0;
        for (int64_t i = 0; i < terms; i++, walk_next(&gone)) {
            double v = (double)x[kept.place + gone.place];
            all = !max ? all + v : v > all || v != v ? v : all;
        }
        y[o] = (real)(all * factor);
    }
}

static void reduce_sum(const weft_ref *a)
{
    reduce(a, 1, false);
}

static void reduce_mean(const weft_ref *a)
{
    reduce(a, (double)out_size(a, 0) / (double)in_size(a, 0), false);
}

static void reduce_max(const weft_ref *a)
{
    reduce(a, 1, true);
}

static void broadcast(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    fold f = fold_start(a, out_shape(a, 0));
    for (int64_t i = 0; i < out_size(a, 0); i++, fold_next(&f)) y[i] = x[f.place];
}

/* The positions of sample b that count, of t. */
static int64_t length_of(const weft_ref *a, int64_t b, int64_t t)
{
    const int32_t *lengths = a->in[1];
    return WEFT_MIN(WEFT_MAX((int64_t)lengths[b], (int64_t)0), t);
}

static void sequence_mean(const weft_ref *a)
{
    const weft_shape *s = in_shape(a, 0);
    const real *x = a->in[0];
    real *y = a->out[0];
    int64_t t = s->dim[1], w = s->dim[2];
    for (int64_t b = 0; b < s->dim[0]; b++)
        for (int64_t c = 0; c < w; c++) {
            int64_t n = length_of(a, b, t);
            double sum = 0;
            for (int64_t p = 0; p < n; p++) sum += (double)x[(b * t + p) * w + c];
            y[b * w + c] = n > 0 ? (real)(sum / (double)n) : 0;
        }
}

static void sequence_mean_grad(const weft_ref *a)
{
    const weft_shape *s = out_shape(a, 0);
    const real *dy = a->in[0];
    real *dx = a->out[0];
    int64_t t = s->dim[1], w = s->dim[2];
    for (int64_t b = 0; b < s->dim[0]; b++)
        for (int64_t p = 0; p < t; p++)
            for (int64_t c = 0; c < w; c++) {
                int64_t n = length_of(a, b, t);
                dx[(b * t + p) * w + c] = p < n ? dy[b * w + c] / (real)n : 0;
            }
}

static void write_rows(const weft_ref *a)
{
    const int32_t *position = a->in[2];
    int64_t rows = in_shape(a, 0)->dim[0], most = in_shape(a, 0)->dim[1],
            width = in_size(a, 1) / rows;
    const real *x = a->in[1];
    real *table = a->out[0];
    if (a->in[0] != table) memcpy(table, a->in[0], (size_t)in_size(a, 0) * sizeof(real));
    for (int64_t b = 0; b < rows; b++)
        if (position[b] >= 0 && position[b] < most)
            memcpy(table + (b * most + position[b]) * width, x + b * width,
                   (size_t)width * sizeof(real));
}

const weft_ref_entry WEFT_REF_TABLE(shape)[] = {
    {"reduce_sum", reduce_sum, 0},
    {"reduce_mean", reduce_mean, 0},
    {"reduce_max", reduce_max, 0},
    {"broadcast", broadcast, 0},
    {"write_rows", write_rows, 0},
    {"sequence_mean", sequence_mean, 0},
    {"sequence_mean_grad", sequence_mean_grad, 0},
    {NULL, NULL, 0},
};
