/* Implements the gradients of lstm and gru: at each position the gradients of the gates, and then
 * their product with the weight, which is added to the gradient of the state before. */
#include "device/cpu/recurrence.h"
#include "device/cpu/simd.h"

/* The rows of the operands at position t of row b, from the first unit on. All but c and those of
 * the states are of the type of sequences; `saved` is f32 for lstm. */
typedef struct operands {
    const void *gates, *saved, *dy;
    const void *h; /* the states before the position */
    const float *c;
    void *dg, *product, *before;
    float *dh, *dc;
    uint16_t *operand; /* the product as bf16, or NULL */
} operands;

static operands operands_of(const recurrence *j, int64_t b, int64_t t)
{
    const weft_recurrence *r = &j->r;
    const cpu_loop *k = j->k;
    bool lstm = r->gates == 4, narrow = j->narrow;
    int64_t h = r->units, all = r->gates * h;
    int64_t before = weft_recurrence_before(r, cpu_row_length(j, b), t);
    operands p = {
        .gates = cpu_row_at(r, k->in[0], b, t, all, narrow),
        .saved = cpu_row_at(r, k->in[1], b, t, h, narrow && !lstm),
        .dy = r->dy >= 0 ? cpu_row_at(r, k->in[r->dy], b, t, h, narrow) : j->zeros,
        .h = j->first_h ? cpu_element(j->first_h, b * h, narrow) : j->zeros,
        .c = j->first_c ? j->first_c + b * h : j->zeros,
        .dg = cpu_row_at(r, k->out[0], b, t, all, narrow),
        .product = cpu_row_at(r, k->out[lstm ? 0 : 1], b, t, all, narrow),
        .before = cpu_row_at(r, k->out[lstm ? 1 : 2], b, t, h, narrow),
        .dh = (float *)k->out[lstm ? 2 : 3] + b * h,
        .dc = lstm ? (float *)k->out[3] + b * h : NULL,
        .operand = narrow ? j->operand[0] + b * j->width : NULL,
    };
    if (before >= 0) {
        p.h = cpu_row_at(r, k->in[2], b, before, h, narrow);
        if (lstm) p.c = cpu_row_at(r, k->in[1], b, before, h, false);
    }
    return p;
}

/* The gates of some units of a row, copied, since the results may overlie them. */
typedef float chunk[CPU_TILE_GROUPS][CPU_TILE_UNITS];

WEFT_INLINE void load(chunk some, const void *gates, int64_t stride, int groups, int count,
                      bool narrow)
{
    for (int q = 0; q < groups; q++)
        for (int i = 0; i < count; i++) some[q][i] = cpu_get(gates, q * stride + i, narrow);
}

WEFT_INLINE void lstm_units(chunk some, int64_t stride, int count, bool narrow,
                            const float *restrict cell, const float *restrict c,
                            const void *restrict dy, void *restrict dg, float *restrict dh,
                            float *restrict dc)
{
    for (int u = 0; u < count; u++) {
        float i = some[0][u], f = some[1][u], z = some[2][u], o = some[3][u];
        float y = weft_tanh(cell[u]), d = cpu_get(dy, u, narrow) + dh[u];
        float dcell = dc[u] + d * o * (1 - y * y);
        cpu_put(dg, u, narrow, dcell * z * i * (1 - i));
        cpu_put(dg, stride + u, narrow, dcell * c[u] * f * (1 - f));
        cpu_put(dg, 2 * stride + u, narrow, dcell * i * (1 - z * z));
        cpu_put(dg, 3 * stride + u, narrow, d * y * o * (1 - o));
        dc[u] = dcell * f;
        dh[u] = 0;
    }
}

WEFT_INLINE void lstm_row(const operands *p, int64_t h, bool narrow)
{
    chunk some;
    const float *cell = p->saved;
    for (int64_t u = 0; u < h; u += CPU_TILE_UNITS)
        CPU_UNITS(WEFT_MIN(h - u, (int64_t)CPU_TILE_UNITS),
                  load(some, cpu_element(p->gates, u, narrow), h, 4, count, narrow);
                  lstm_units(some, h, count, narrow, cell + u, p->c + u,
                             cpu_element(p->dy, u, narrow), cpu_element(p->dg, u, narrow),
                             p->dh + u, p->dc + u));
}

WEFT_INLINE void gru_units(chunk some, int64_t stride, int count, bool narrow,
                           const void *restrict inner, const void *restrict h,
                           const void *restrict dy, void *restrict dg, void *restrict product,
                           float *restrict dh)
{
    for (int u = 0; u < count; u++) {
        float r = some[0][u], z = some[1][u], n = some[2][u];
        float d = cpu_get(dy, u, narrow) + dh[u], dn = d * (1 - z) * (1 - n * n);
        float dr = dn * cpu_get(inner, u, narrow) * r * (1 - r);
        float dz = d * (cpu_get(h, u, narrow) - n) * z * (1 - z);
        cpu_put(dg, u, narrow, dr);
        cpu_put(dg, stride + u, narrow, dz);
        cpu_put(dg, 2 * stride + u, narrow, dn);
        cpu_put(product, u, narrow, dr);
        cpu_put(product, stride + u, narrow, dz);
        cpu_put(product, 2 * stride + u, narrow, dn * r);
        dh[u] = d * z;
    }
}

WEFT_INLINE void gru_row(const operands *p, int64_t h, bool narrow)
{
    chunk some;
    for (int64_t u = 0; u < h; u += CPU_TILE_UNITS)
        CPU_UNITS(WEFT_MIN(h - u, (int64_t)CPU_TILE_UNITS),
                  load(some, cpu_element(p->gates, u, narrow), h, 3, count, narrow);
                  gru_units(some, h, count, narrow, cpu_element(p->saved, u, narrow),
                            cpu_element(p->h, u, narrow), cpu_element(p->dy, u, narrow),
                            cpu_element(p->dg, u, narrow), cpu_element(p->product, u, narrow),
                            p->dh + u));
}

#define ROW(op, name, narrow)                                                                      \
    WEFT_CLONES static void name(const operands *p, int64_t h)                                     \
    {                                                                                              \
        op##_row(p, h, narrow);                                                                    \
    }
ROW(lstm, lstm_single, false)
ROW(lstm, lstm_narrow, true)
ROW(gru, gru_single, false)
ROW(gru, gru_narrow, true)

/* The gradients of the gates at position t of row b: zero if it does not count. */
static void gates_at(const recurrence *j, int64_t b, int64_t t)
{
    operands p = operands_of(j, b, t);
    int64_t h = j->r.units, all = j->r.gates * h;
    size_t size = j->narrow ? sizeof(uint16_t) : sizeof(float), bytes = (size_t)h * size;
    if (!cpu_row_counts(j, b, t)) {
        memset(p.dg, 0, (size_t)all * size);
        memset(p.product, 0, (size_t)all * size);
        memset(p.before, 0, bytes);
    } else {
        if (j->r.gates == 4)
            (j->narrow ? lstm_narrow : lstm_single)(&p, h);
        else
            (j->narrow ? gru_narrow : gru_single)(&p, h);
        memcpy(p.before, p.h, bytes);
    }
    if (p.operand) memcpy(p.operand, p.product, (size_t)all * size);
}

/* Prefetches what the position before t, which is computed next, reads and writes in row b. */
static void prefetch_before(const recurrence *j, int64_t b, int64_t t)
{
    const weft_recurrence *r = &j->r;
    const cpu_loop *k = j->k;
    bool lstm = r->gates == 4, narrow = j->narrow;
    int64_t step = r->backward ? -1 : 1, next = t - step, before = next - step, h = r->units;
    int64_t all = r->gates * h;
    if (next < 0 || next >= r->positions) return;
    cpu_prefetch(cpu_row_at(r, k->in[0], b, next, all, narrow), all, narrow);
    if (k->out[0] != k->in[0])
        cpu_prefetch(cpu_row_at(r, k->out[0], b, next, all, narrow), all, narrow);
    if (!lstm) cpu_prefetch(cpu_row_at(r, k->out[1], b, next, all, narrow), all, narrow);
    cpu_prefetch(cpu_row_at(r, k->out[lstm ? 1 : 2], b, next, h, narrow), h, narrow);
    if (r->dy >= 0) cpu_prefetch(cpu_row_at(r, k->in[r->dy], b, next, h, narrow), h, narrow);
    if (!lstm) cpu_prefetch(cpu_row_at(r, k->in[1], b, next, h, narrow), h, narrow);
    if (before < 0 || before >= r->positions) return;
    cpu_prefetch(cpu_row_at(r, k->in[2], b, before, h, narrow), h, narrow);
    if (lstm) cpu_prefetch(cpu_row_at(r, k->in[1], b, before, h, false), h, false);
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
    if (i >= 0 && cpu_is_narrow(j, i))
        weft_widen_from((const uint16_t *)j->k->in[i] + begin * h, to, (end - begin) * h);
    else if (i >= 0)
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
        if (j->narrow)
            cpu_packed_product(&j->w, j->operand[0], j->width / 2, begin, end, take, &step);
        else
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
