#include "device/reference/reference.h"

/* A product c [m, n] = a [m, k] b [k, n]. Element (i, p) of a is at a[i * ai + p * ap], element (p,
 * j) of b at b[p * bp + j * bj]. */
typedef struct product {
    const real *a, *b;
    real *c;
    int64_t m, n, k, ai, ap, bp, bj;
} product;

static void multiply(const product *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < p->k; q++)
                sum += (double)p->a[i * p->ai + q * p->ap] * (double)p->b[q * p->bp + j * p->bj];
            p->c[i * p->n + j] = (real)sum;
        }
}

/* y [r, n] = x [r, k] w [k, n] */
static void dense(const weft_ref *a)
{
    int64_t k = in_shape(a, 1)->dim[0], n = in_shape(a, 1)->dim[1];
    multiply(&(product){a->in[0], a->in[1], a->out[0], in_size(a, 0) / k, n, k, k, 1, n, 1});
}

/* dx [r, k] = dy [r, n] w^T */
static void dense_dx(const weft_ref *a)
{
    int64_t k = in_shape(a, 1)->dim[0], n = in_shape(a, 1)->dim[1];
    multiply(&(product){a->in[0], a->in[1], a->out[0], in_size(a, 0) / n, k, n, n, 1, 1, n});
}

/* dw [k, n] = x^T dy */
static void dense_dw(const weft_ref *a)
{
    int64_t k = out_shape(a, 0)->dim[0], n = out_shape(a, 0)->dim[1];
    multiply(&(product){a->in[0], a->in[1], a->out[0], k, n, in_size(a, 0) / k, 1, k, n, 1});
}

static void matmul(const weft_ref *a)
{
    const weft_shape *left = in_shape(a, 0), *out = out_shape(a, 0);
    bool ta = weft_node_int(a->node, "ta", 0, 0) != 0, tb = weft_node_int(a->node, "tb", 0, 0) != 0;
    int64_t m = out->dim[out->rank - 2], n = out->dim[out->rank - 1];
    int64_t k = left->dim[ta ? left->rank - 2 : left->rank - 1];
    int64_t batch = out_size(a, 0) / (m * n);
    for (int64_t b = 0; b < batch; b++)
        multiply(&(product){(const real *)a->in[0] + b * m * k, (const real *)a->in[1] + b * k * n,
                            (real *)a->out[0] + b * m * n, m, n, k, ta ? 1 : k, ta ? m : 1,
                            tb ? 1 : n, tb ? k : 1});
}

/* A tensor as [outer, rows, width]: indices select its rows. */
typedef struct rows {
    int64_t outer, rows, width;
} rows;

static rows rows_of(const weft_ref *a, const weft_shape *x)
{
    int axis = (int)weft_node_int(a->node, "axis", 0, 0);
    rows r = {1, x->dim[axis], 1};
    for (int d = 0; d < x->rank; d++)
        *(d < axis ? &r.outer : &r.width) *= d == axis ? 1 : x->dim[d];
    return r;
}

static void gather_grad(const weft_ref *a)
{
    weft_dtype ids = weft_in(a->graph, a->node, 0)->dtype;
    const real *dy = a->in[1];
    real *dx = a->out[0];
    rows r = rows_of(a, out_shape(a, 0));
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    for (int64_t o = 0; o < r.outer; o++, dx += r.rows * r.width)
        for (int64_t i = 0; i < in_size(a, 0); i++, dy += r.width) {
            int64_t id = weft_index_at(ids, a->in[0], i);
            for (int64_t j = 0; j < r.width && id >= 0 && id < r.rows; j++)
                dx[id * r.width + j] += dy[j];
        }
}

const weft_ref_entry WEFT_REF_TABLE(matrix)[] = {
    {"dense", dense, 0},   {"dense_dx", dense_dx, 0},          {"dense_dw", dense_dw, 0},
    {"matmul", matmul, 0}, {"embedding_grad", gather_grad, 0}, {NULL, NULL, 0},
};
