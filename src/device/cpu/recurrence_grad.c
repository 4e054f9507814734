/* Implements the gradients of lstm and gru: at each position the gradients of the gates, and then
 * their product with the weight, which is added to the gradient of the state before. */
#include "device/cpu/recurrence.h"
#include "device/cpu/simd.h"

/* The rows of the operands at position t of row b, from the first unit on. */
typedef struct operands {
    const float *gates, *saved, *dy;
    const float *h, *c; /* the states before the position */
    float *dg, *product, *before, *dh, *dc;
} operands;

/* The state before position t: of the sequence at the position before, or the first state. */
static const float *state_before(const recurrence *j, const void *sequence, int first, int64_t b,
                                 int64_t t)
{
    int64_t before = weft_recurrence_before(&j->r, cpu_row_length(j, b), t);
    if (before >= 0) return cpu_row_at(&j->r, sequence, b, before, j->r.units);
    return first >= 0 ? (const float *)j->k->in[first] + b * j->r.units : j->zeros;
}

static operands operands_of(const recurrence *j, int64_t b, int64_t t)
{
    const weft_recurrence *r = &j->r;
    const cpu_loop *k = j->k;
    bool lstm = r->gates == 4;
    int64_t h = r->units, all = r->gates * h;
    return (operands){
        .gates = cpu_row_at(r, k->in[0], b, t, all),
        .saved = cpu_row_at(r, k->in[1], b, t, h),
        .dy = r->dy >= 0 ? cpu_row_at(r, k->in[r->dy], b, t, h) : j->zeros,
        .h = state_before(j, k->in[2], r->h0, b, t),
        .c = lstm ? state_before(j, k->in[1], r->c0, b, t) : NULL,
        .dg = cpu_row_at(r, k->out[0], b, t, all),
        .product = cpu_row_at(r, k->out[lstm ? 0 : 1], b, t, all),
        .before = cpu_row_at(r, k->out[lstm ? 1 : 2], b, t, h),
        .dh = (float *)k->out[lstm ? 2 : 3] + b * h,
        .dc = lstm ? (float *)k->out[3] + b * h : NULL,
    };
}

/* The gates of some units of a row, copied, since the results may overlie them. */
typedef float chunk[CPU_TILE_GROUPS][CPU_TILE_UNITS];

WEFT_INLINE void load(chunk some, const float *gates, int64_t stride, int groups, int count)
{
    for (int q = 0; q < groups; q++)
        for (int i = 0; i < count; i++) some[q][i] = gates[q * stride + i];
}

WEFT_INLINE void lstm_units(chunk some, int64_t stride, int count, const float *restrict cell,
                            const float *restrict c, const float *restrict dy, float *restrict dg,
                            float *restrict dh, float *restrict dc)
{
    for (int u = 0; u < count; u++) {
        float i = some[0][u], f = some[1][u], z = some[2][u], o = some[3][u];
        float y = weft_tanh(cell[u]), d = dy[u] + dh[u], dcell = dc[u] + d * o * (1 - y * y);
        dg[u] = dcell * z * i * (1 - i);
        dg[stride + u] = dcell * c[u] * f * (1 - f);
        dg[2 * stride + u] = dcell * i * (1 - z * z);
        dg[3 * stride + u] = d * y * o * (1 - o);
        dc[u] = dcell * f;
        dh[u] = 0;
    }
}

WEFT_CLONES static void lstm_row(const operands *p, int64_t h)
{
    chunk some;
    for (int64_t u = 0; u < h; u += CPU_TILE_UNITS)
        CPU_UNITS(WEFT_MIN(h - u, (int64_t)CPU_TILE_UNITS), load(some, p->gates + u, h, 4, count);
                  lstm_units(some, h, count, p->saved + u, p->c + u, p->dy + u, p->dg + u,
                             p->dh + u, p->dc + u));
}

WEFT_INLINE void gru_units(chunk some, int64_t stride, int count, const float *restrict inner,
                           const float *restrict h, const float *restrict dy, float *restrict dg,
                           float *restrict product, float *restrict dh)
{
    for (int u = 0; u < count; u++) {
        float r = some[0][u], z = some[1][u], n = some[2][u];
        float d = dy[u] + dh[u], dn = d * (1 - z) * (1 - n * n);
        float dr = dn * inner[u] * r * (1 - r), dz = d * (h[u] - n) * z * (1 - z);
        dg[u] = dr;
        dg[stride + u] = dz;
        dg[2 * stride + u] = dn;
        product[u] = dr;
        product[stride + u] = dz;
        product[2 * stride + u] = dn * r;
        dh[u] = d * z;
    }
}

WEFT_CLONES static void gru_row(const operands *p, int64_t h)
{
    chunk some;
    for (int64_t u = 0; u < h; u += CPU_TILE_UNITS)
        CPU_UNITS(WEFT_MIN(h - u, (int64_t)CPU_TILE_UNITS), load(some, p->gates + u, h, 3, count);
                  gru_units(some, h, count, p->saved + u, p->h + u, p->dy + u, p->dg + u,
                            p->product + u, p->dh + u));
}

/* The gradients of the gates at position t of row b: zero if it does not count. */
static void gates_at(const recurrence *j, int64_t b, int64_t t)
{
    operands p = operands_of(j, b, t);
    int64_t h = j->r.units, all = j->r.gates * h;
    size_t bytes = (size_t)h * sizeof(float);
    if (!cpu_row_counts(j, b, t)) {
        memset(p.dg, 0, (size_t)all * sizeof(float));
        memset(p.product, 0, (size_t)all * sizeof(float));
        memset(p.before, 0, bytes);
        return;
    }
    if (j->r.gates == 4)
        lstm_row(&p, h);
    else
        gru_row(&p, h);
    memcpy(p.before, p.h, bytes);
}

/* Prefetches what the position before t, which is computed next, reads and writes in row b. */
static void prefetch_before(const recurrence *j, int64_t b, int64_t t)
{
    const weft_recurrence *r = &j->r;
    const cpu_loop *k = j->k;
    bool lstm = r->gates == 4;
    int64_t step = r->backward ? -1 : 1, next = t - step, before = next - step, h = r->units;
    if (next < 0 || next >= r->positions) return;
    cpu_prefetch(cpu_row_at(r, k->in[0], b, next, r->gates * h), r->gates * h);
    if (k->out[0] != k->in[0])
        cpu_prefetch(cpu_row_at(r, k->out[0], b, next, r->gates * h), r->gates * h);
    if (!lstm) cpu_prefetch(cpu_row_at(r, k->out[1], b, next, r->gates * h), r->gates * h);
    cpu_prefetch(cpu_row_at(r, k->out[lstm ? 1 : 2], b, next, h), h);
    if (r->dy >= 0) cpu_prefetch(cpu_row_at(r, k->in[r->dy], b, next, h), h);
    if (!lstm) cpu_prefetch(cpu_row_at(r, k->in[1], b, next, h), h);
    if (before < 0 || before >= r->positions) return;
    cpu_prefetch(cpu_row_at(r, k->in[2], b, before, h), h);
    if (lstm) cpu_prefetch(cpu_row_at(r, k->in[1], b, before, h), h);
}

/* Adds a tile of the product to the gradient of the state. */
WEFT_CLONES static void take(void *user, cpu_tile *tile)
{
    const recurrence_step *step = user;
    const recurrence *j = step->j;
    bool last = tile->unit + tile->units == j->r.units;
    float *dh = (float *)j->k->out[j->r.gates == 4 ? 2 : 3] + tile->row * j->r.units + tile->unit;
    for (int row = 0; row < tile->rows; row++, dh += j->r.units) {
        const float *restrict at = (const float *)tile->at[row];
        for (int u = 0; u < tile->units; u++) dh[u] += at[u];
        if (last) prefetch_before(j, tile->row + row, step->t);
    }
}

static void begin_gradient(const recurrence *j, int i, int out, int64_t begin, int64_t end)
{
    int64_t h = j->r.units;
    float *to = (float *)j->k->out[out] + begin * h;
    size_t bytes = (size_t)((end - begin) * h) * sizeof(float);
    if (i >= 0)
        memcpy(to, (const float *)j->k->in[i] + begin * h, bytes);
    else
        memset(to, 0, bytes);
}

static void part(void *user, int64_t begin, int64_t end)
{
    const recurrence *j = user;
    const weft_recurrence *r = &j->r;
    int64_t all = r->gates * r->units;
    const float *product = j->k->out[r->gates == 4 ? 0 : 1];
    begin_gradient(j, r->dh, r->gates == 4 ? 2 : 3, begin, end);
    if (r->gates == 4) begin_gradient(j, r->dc, 3, begin, end);
    for (int64_t s = r->positions - 1; s >= 0; s--) {
        recurrence_step step = {.j = j, .t = cpu_position(r, s)};
        for (int64_t b = begin; b < end; b++) gates_at(j, b, step.t);
        cpu_packed_product(&j->w, product + step.t * all, r->positions * all, begin, end, take,
                           &step);
    }
}

static void run(const cpu_loop *k, int gates)
{
    recurrence j = cpu_recurrence_of(k, gates, true);
    weft_parallel(k->threads, j.r.batch, 1, part, &j);
}

void cpu_lstm_grad(const cpu_loop *k)
{
    run(k, 4);
}

void cpu_gru_grad(const cpu_loop *k)
{
    run(k, 3);
}
