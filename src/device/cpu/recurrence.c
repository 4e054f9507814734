/* Implements lstm and gru. At each position a product of the states with the packed weight gives
 * tiles, on which the gates are computed while they are in the first cache. Threads divide the
 * batch, so they do not wait for each other at each position, and results do not depend on their
 * number. */
#include "device/cpu/recurrence.h"

#include <math.h>

#include "device/cpu/simd.h"

/* The weight [h, gates h] as it is multiplied: by the state, or, for the gradient, by the gradient
 * of the gates. */
static cpu_packed weight_of(const weft_recurrence *r, bool gradient)
{
    int64_t all = r->gates * r->units;
    if (gradient)
        return (cpu_packed){.depth = all, .units = r->units, .by_depth = 1, .by_unit = all};
    return (cpu_packed){.depth = r->units,
                        .units = r->units,
                        .groups = r->gates,
                        .by_depth = all,
                        .by_group = r->units,
                        .by_unit = 1};
}

static size_t scratch_bytes(const weft_recurrence *r, const cpu_packed *w)
{
    return cpu_packed_bytes(w) + (size_t)((2 * r->batch + 1) * r->units) * sizeof(float);
}

recurrence cpu_recurrence_of(const cpu_loop *k, int gates, bool gradient)
{
    recurrence j = {.k = k,
                    .r = weft_node_recurrence(k->group.graph, k->group.node[0], gates, gradient)};
    j.w = weight_of(&j.r, gradient);
    j.w.w = k->in[gradient ? 3 : 1];
    j.w.panels = k->scratch;
    j.zeros = j.w.panels + cpu_packed_bytes(&j.w) / sizeof(float);
    j.states[0] = j.zeros + j.r.units;
    j.states[1] = j.states[0] + j.r.batch * j.r.units;
    memset(j.zeros, 0, (size_t)j.r.units * sizeof(float));
    cpu_pack(&j.w, k->threads);
    return j;
}

/* --- the states --- */

/* Sets a state of rows [begin, end) to its first value: that of input i, or zero; NaN in a row
 * whose length is wrong. */
static void begin_state(const recurrence *j, int i, int64_t begin, int64_t end, float *state)
{
    int64_t units = j->r.units;
    const float *first = i >= 0 ? j->k->in[i] : NULL;
    for (int64_t b = begin; b < end; b++)
        for (int64_t u = 0; u < units; u++)
            state[b * units + u] = cpu_row_length(j, b) < 0 ? NAN
                                   : first                  ? first[b * units + u]
                                                            : 0;
}

/* Takes rows [begin, end) through all positions. */
static void run_rows(const recurrence *j, int64_t begin, int64_t end,
                     void (*take)(void *user, cpu_tile *tile))
{
    int64_t units = j->r.units, steps = j->r.positions;
    begin_state(j, j->r.h0, begin, end, j->states[0]);
    if (j->r.gates == 4) begin_state(j, j->r.c0, begin, end, j->k->out[2]);
    for (int64_t s = 0; s < steps; s++) {
        recurrence_step step = {j, cpu_position(&j->r, s), j->states[s % 2],
                                j->states[(s + 1) % 2]};
        cpu_packed_product(&j->w, step.h, units, begin, end, take, &step);
    }
    memcpy((float *)j->k->out[1] + begin * units, j->states[steps % 2] + begin * units,
           (size_t)((end - begin) * units) * sizeof(float));
}

/* The offsets of a row of a tile in tensors [b, t, units], [b, t, gates units] and [b, units]. */
typedef struct place {
    int64_t sequence, gates, state;
    bool counts;
} place;

static place place_of(const recurrence_step *s, const cpu_tile *tile, int row)
{
    const weft_recurrence *r = &s->j->r;
    int64_t b = tile->row + row, at = (b * r->positions + s->t) * r->units;
    return (place){at + tile->unit, at * r->gates + tile->unit, b * r->units + tile->unit,
                   cpu_row_counts(s->j, b, s->t)};
}

/* Prefetches what the next tile of the row reads and writes: that of the next units, or behind the
 * last ones the first tile of the next position. */
WEFT_INLINE void prefetch_next(const recurrence_step *s, const cpu_tile *tile, const place *p,
                               const float *y, const float *saved, const float *in,
                               const float *gates)
{
    const weft_recurrence *r = &s->j->r;
    int64_t step = r->backward ? -1 : 1, next = tile->units, at = p->gates + next;
    if (tile->unit + tile->units == r->units) {
        if (s->t + step < 0 || s->t + step >= r->positions) return;
        next = step * r->units - tile->unit;
        at = p->gates + step * r->gates * r->units - tile->unit;
    }
    cpu_prefetch(y + p->sequence + next, CPU_TILE_UNITS);
    cpu_prefetch(saved + p->sequence + next, CPU_TILE_UNITS);
    for (int q = 0; q < r->gates; q++, at += r->units) {
        cpu_prefetch(in + at, CPU_TILE_UNITS);
        if (gates != in) cpu_prefetch(gates + at, CPU_TILE_UNITS);
    }
}

/* Writes zeros for a position that does not count, and keeps the state. */
static void pass_over(const recurrence_step *s, const place *p, int units, float *y, float *saved,
                      float *gates)
{
    size_t bytes = (size_t)units * sizeof(float);
    memset(y + p->sequence, 0, bytes);
    memset(saved + p->sequence, 0, bytes);
    for (int g = 0; g < s->j->r.gates; g++) memset(gates + p->gates + g * s->j->r.units, 0, bytes);
    memcpy(s->next + p->state, s->h + p->state, bytes);
}

/* Adds the projected inputs to the product, gates that the result may overlie. */
WEFT_INLINE void add_inputs(float at[CPU_TILE_GROUPS][CPU_TILE_UNITS], const float *g, int groups,
                            int64_t stride, int units)
{
    for (int q = 0; q < groups; q++)
        for (int u = 0; u < units; u++) at[q][u] += g[q * stride + u];
}

/* --- lstm --- */

/* The gates may overlie the inputs, which are therefore added before. */
WEFT_INLINE void lstm_row(float at[CPU_TILE_GROUPS][CPU_TILE_UNITS], int units, int64_t stride,
                          float *restrict gates, float *restrict cells, float *restrict c,
                          float *restrict y, float *restrict next)
{
    for (int u = 0; u < units; u++) {
        float i = weft_sigmoid(at[0][u]), f = weft_sigmoid(at[1][u]);
        float z = weft_tanh(at[2][u]), o = weft_sigmoid(at[3][u]);
        float cell = f * c[u] + i * z, h = o * weft_tanh(cell);
        gates[u] = i;
        gates[stride + u] = f;
        gates[2 * stride + u] = z;
        gates[3 * stride + u] = o;
        c[u] = cell;
        cells[u] = cell;
        y[u] = h;
        next[u] = h;
    }
}

WEFT_CLONES static void lstm_take(void *user, cpu_tile *tile)
{
    const recurrence_step *s = user;
    const cpu_loop *k = s->j->k;
    const float *in = k->in[0];
    float *y = k->out[0], *c = k->out[2], *gates = k->out[3], *cells = k->out[4];
    int64_t units = s->j->r.units;
    for (int row = 0; row < tile->rows; row++) {
        place p = place_of(s, tile, row);
        prefetch_next(s, tile, &p, y, cells, in, gates);
        if (!p.counts) {
            pass_over(s, &p, tile->units, y, cells, gates);
            continue;
        }
        CPU_UNITS(tile->units, add_inputs(tile->at[row], in + p.gates, 4, units, count);
                  lstm_row(tile->at[row], count, units, gates + p.gates, cells + p.sequence,
                           c + p.state, y + p.sequence, s->next + p.state));
    }
}

static void lstm_part(void *user, int64_t begin, int64_t end)
{
    run_rows(user, begin, end, lstm_take);
}

static void lstm_loop(const cpu_loop *k)
{
    recurrence j = cpu_recurrence_of(k, 4, false);
    weft_parallel(k->threads, j.r.batch, 1, lstm_part, &j);
}

/* --- gru --- */

/* Moves the inner product, which enters times r, out of the tile. */
WEFT_INLINE void take_inner(float at[CPU_TILE_GROUPS][CPU_TILE_UNITS], int units,
                            const float *restrict bias, float *restrict inner)
{
    for (int u = 0; u < units; u++) {
        inner[u] = at[2][u] + bias[u];
        at[2][u] = 0;
    }
}

WEFT_INLINE void gru_row(float at[CPU_TILE_GROUPS][CPU_TILE_UNITS], int units, int64_t stride,
                         const float *restrict bias, float *restrict gates,
                         const float *restrict inner, const float *restrict h, float *restrict y,
                         float *restrict next)
{
    for (int u = 0; u < units; u++) {
        float r = weft_sigmoid(at[0][u] + bias[u]), z = weft_sigmoid(at[1][u] + bias[stride + u]);
        float n = weft_tanh(at[2][u] + r * inner[u]), state = (1 - z) * n + z * h[u];
        gates[u] = r;
        gates[stride + u] = z;
        gates[2 * stride + u] = n;
        y[u] = state;
        next[u] = state;
    }
}

WEFT_CLONES static void gru_take(void *user, cpu_tile *tile)
{
    const recurrence_step *s = user;
    const cpu_loop *k = s->j->k;
    const float *in = k->in[0], *bias = (const float *)k->in[2] + tile->unit;
    float *y = k->out[0], *gates = k->out[2], *inner = k->out[3];
    int64_t units = s->j->r.units;
    for (int row = 0; row < tile->rows; row++) {
        place p = place_of(s, tile, row);
        float(*at)[CPU_TILE_UNITS] = tile->at[row];
        prefetch_next(s, tile, &p, y, inner, in, gates);
        if (!p.counts) {
            pass_over(s, &p, tile->units, y, inner, gates);
            continue;
        }
        CPU_UNITS(tile->units, take_inner(at, count, bias + 2 * units, inner + p.sequence);
                  add_inputs(at, in + p.gates, 3, units, count);
                  gru_row(at, count, units, bias, gates + p.gates, inner + p.sequence,
                          s->h + p.state, y + p.sequence, s->next + p.state));
    }
}

static void gru_part(void *user, int64_t begin, int64_t end)
{
    run_rows(user, begin, end, gru_take);
}

static void gru_loop(const cpu_loop *k)
{
    recurrence j = cpu_recurrence_of(k, 3, false);
    weft_parallel(k->threads, j.r.batch, 1, gru_part, &j);
}

/* --- kernels --- */

static weft_status make(weft_device *device, const weft_group *group, cpu_loop_fn fn, int gates,
                        bool gradient, weft_kernel **out)
{
    cpu_loop *k;
    weft_recurrence r = weft_node_recurrence(group->graph, group->node[0], gates, gradient);
    cpu_packed w = weight_of(&r, gradient);
    WEFT_TRY(cpu_plain_make(device, group, fn, scratch_bytes(&r, &w), &k));
    *out = &k->head;
    return WEFT_OK;
}

#define KERNEL(name, gates, gradient, fn)                                                          \
    static weft_status name##_make(weft_device *device, const weft_group *group,                   \
                                   const weft_layout *const *in, weft_kernel **out)                \
    {                                                                                              \
        (void)in;                                                                                  \
        return make(device, group, fn, gates, gradient, out);                                      \
    }
KERNEL(lstm, 4, false, lstm_loop)
KERNEL(lstm_grad, 4, true, cpu_lstm_grad)
KERNEL(gru, 3, false, gru_loop)
KERNEL(gru_grad, 3, true, cpu_gru_grad)

const cpu_entry cpu_recurrence_entries[] = {
    {"lstm", "steps", cpu_single, lstm_make, NULL, CPU_WIDE},
    {"lstm_grad", "steps", cpu_single, lstm_grad_make, NULL, CPU_WIDE},
    {"gru", "steps", cpu_single, gru_make, NULL, CPU_WIDE},
    {"gru_grad", "steps", cpu_single, gru_grad_make, NULL, CPU_WIDE},
    {.op = NULL},
};
