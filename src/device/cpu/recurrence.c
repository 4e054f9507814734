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

/* Divides scratch memory; returns the number of its bytes. */
static size_t lay_out(recurrence *j, bool gradient, void *base)
{
    const weft_recurrence *r = &j->r;
    size_t used = 0;
    int64_t states = r->batch * r->units, all = r->gates * r->units;
    j->width = (gradient ? all : r->units) + 1;
    j->width -= j->width % 2;
    j->w.panels = cpu_take(base, &used, cpu_packed_count(&j->w));
    j->zeros = cpu_take(base, &used, r->units);
    j->bias = cpu_take(base, &used, all);
    for (int i = 0; i < 2; i++) j->states[i] = cpu_take(base, &used, states);
    for (int i = 0; i < 2 && j->narrow; i++)
        j->operand[i] = cpu_take(base, &used, r->batch * j->width / 2);
    return used;
}

static recurrence describe(const weft_group *group, int gates, bool gradient, tile_operands pairs)
{
    const weft_node *node = group->node[0];
    recurrence j = {.r = weft_node_recurrence(group->graph, node, gates, gradient),
                    .narrow = weft_in(group->graph, node, 0)->dtype == WEFT_BF16};
    j.w = weight_of(&j.r, gradient);
    j.w.of = j.narrow ? pairs : TILE_SINGLE;
    return j;
}

/* The first states of a gradient, where they are of another type in memory for the states. */
static void read_first(recurrence *j)
{
    const weft_recurrence *r = &j->r;
    int64_t count = r->batch * r->units;
    if (r->h0 >= 0) {
        bool narrow = cpu_is_narrow(j, r->h0);
        j->first_h = narrow == j->narrow ? j->k->in[r->h0] : j->states[0];
        for (int64_t i = 0; i < count && narrow != j->narrow; i++)
            cpu_put(j->states[0], i, j->narrow, cpu_get(j->k->in[r->h0], i, narrow));
    }
    if (r->c0 >= 0) {
        bool narrow = cpu_is_narrow(j, r->c0);
        j->first_c = narrow ? j->states[1] : j->k->in[r->c0];
        if (narrow) weft_widen_from(j->k->in[r->c0], j->states[1], count);
    }
}

recurrence cpu_recurrence_of(const cpu_loop *k, int gates, bool gradient)
{
    recurrence j = describe(&k->group, gates, gradient, k->pairs);
    j.k = k;
    (void)lay_out(&j, gradient, k->scratch);
    memset(j.zeros, 0, (size_t)j.r.units * sizeof(float));
    for (int i = 0; i < 2 && j.narrow; i++)
        memset(j.operand[i], 0, (size_t)(j.r.batch * j.width) * sizeof(uint16_t));
    for (int64_t i = 0; !gradient && gates == 3 && i < gates * j.r.units; i++)
        j.bias[i] = cpu_get(k->in[2], i, cpu_is_narrow(&j, 2));
    if (gradient) read_first(&j);
    j.w.w = k->in[gradient ? 3 : 1];
    j.w.narrow = cpu_is_narrow(&j, gradient ? 3 : 1);
    cpu_pack(&j.w, k->threads);
    return j;
}

/* --- the states --- */

/* Sets a state of rows [begin, end) to its first value: that of input i, or zero; NaN in a row
 * whose length is wrong. */
static void begin_state(const recurrence *j, int i, int64_t begin, int64_t end, float *state)
{
    int64_t units = j->r.units;
    bool narrow = i >= 0 && cpu_is_narrow(j, i);
    const void *first = i >= 0 ? j->k->in[i] : NULL;
    for (int64_t b = begin; b < end; b++)
        for (int64_t at = b * units; at < (b + 1) * units; at++)
            state[at] = cpu_row_length(j, b) < 0 ? NAN : first ? cpu_get(first, at, narrow) : 0;
}

/* The states as the first product reads them. */
static void begin_operand(const recurrence *j, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end && j->narrow; b++)
        weft_widen_to(j->states[0] + b * j->r.units, j->operand[0] + b * j->width, j->r.units);
}

/* Takes rows [begin, end) through all positions. */
static void run_rows(const recurrence *j, int64_t begin, int64_t end,
                     void (*take)(void *user, cpu_tile *tile))
{
    int64_t units = j->r.units, steps = j->r.positions;
    begin_state(j, j->r.h0, begin, end, j->states[0]);
    begin_operand(j, begin, end);
    if (j->r.gates == 4) begin_state(j, j->r.c0, begin, end, j->k->out[2]);
    for (int64_t s = 0; s < steps; s++) {
        recurrence_step step = {j, cpu_position(&j->r, s), j->states[s % 2], j->states[(s + 1) % 2],
                                j->operand[(s + 1) % 2]};
        if (j->narrow)
            cpu_packed_product(&j->w, j->operand[s % 2], j->width / 2, begin, end, take, &step);
        else
            cpu_packed_product(&j->w, step.h, units, begin, end, take, &step);
    }
    memcpy((float *)j->k->out[1] + begin * units, j->states[steps % 2] + begin * units,
           (size_t)((end - begin) * units) * sizeof(float));
}

/* The offsets of a row of a tile in tensors [b, t, units], [b, t, gates units] and [b, units], and
 * in the operand of the next product. */
typedef struct place {
    int64_t sequence, gates, state, operand;
    bool counts;
} place;

static place place_of(const recurrence_step *s, const cpu_tile *tile, int row)
{
    const weft_recurrence *r = &s->j->r;
    int64_t b = tile->row + row, at = (b * r->positions + s->t) * r->units;
    return (place){at + tile->unit, at * r->gates + tile->unit, b * r->units + tile->unit,
                   b * s->j->width + tile->unit, cpu_row_counts(s->j, b, s->t)};
}

/* The sequences of a run: those of results, and the inputs of the gates, which the gates may
 * overlie. `saved` is f32 for lstm. */
typedef struct sequences {
    const void *in;
    void *y, *gates, *saved;
    bool narrow, narrow_saved;
} sequences;

static sequences sequences_of(const recurrence *j)
{
    const cpu_loop *k = j->k;
    bool lstm = j->r.gates == 4;
    return (sequences){k->in[0],  k->out[0],         k->out[lstm ? 3 : 2], k->out[lstm ? 4 : 3],
                       j->narrow, j->narrow && !lstm};
}

/* Prefetches what the next tile of the row reads and writes: that of the next units, or behind the
 * last ones the first tile of the next position. */
WEFT_INLINE void prefetch_next(const recurrence_step *s, const cpu_tile *tile, const place *p,
                               const sequences *q)
{
    const weft_recurrence *r = &s->j->r;
    int64_t step = r->backward ? -1 : 1, next = tile->units, at = p->gates + next;
    if (tile->unit + tile->units == r->units) {
        if (s->t + step < 0 || s->t + step >= r->positions) return;
        next = step * r->units - tile->unit;
        at = p->gates + step * r->gates * r->units - tile->unit;
    }
    cpu_prefetch(cpu_element(q->y, p->sequence + next, q->narrow), CPU_TILE_UNITS, q->narrow);
    cpu_prefetch(cpu_element(q->saved, p->sequence + next, q->narrow_saved), CPU_TILE_UNITS,
                 q->narrow_saved);
    for (int g = 0; g < r->gates; g++, at += r->units) {
        cpu_prefetch(cpu_element(q->in, at, q->narrow), CPU_TILE_UNITS, q->narrow);
        if (q->gates != q->in)
            cpu_prefetch(cpu_element(q->gates, at, q->narrow), CPU_TILE_UNITS, q->narrow);
    }
}

static void clear(void *data, int64_t at, int units, bool narrow)
{
    memset(cpu_element(data, at, narrow), 0,
           (size_t)units * (narrow ? sizeof(uint16_t) : sizeof(float)));
}

/* Writes zeros for a position that does not count, and keeps the state. */
static void pass_over(const recurrence_step *s, const place *p, int units, const sequences *q)
{
    clear(q->y, p->sequence, units, q->narrow);
    clear(q->saved, p->sequence, units, q->narrow_saved);
    for (int g = 0; g < s->j->r.gates; g++)
        clear(q->gates, p->gates + g * s->j->r.units, units, q->narrow);
    memcpy(s->next + p->state, s->h + p->state, (size_t)units * sizeof(float));
    if (s->operand) weft_widen_to(s->h + p->state, s->operand + p->operand, units);
}

/* Adds the projected inputs to the product, gates that the result may overlie. */
WEFT_INLINE void add_inputs(float at[CPU_TILE_GROUPS][CPU_TILE_UNITS], const void *g, int groups,
                            int64_t stride, int units, bool narrow)
{
    for (int q = 0; q < groups; q++)
        for (int u = 0; u < units; u++) at[q][u] += cpu_get(g, q * stride + u, narrow);
}

/* --- lstm --- */

/* The gates may overlie the inputs, which are therefore added before. */
WEFT_INLINE void lstm_row(float at[CPU_TILE_GROUPS][CPU_TILE_UNITS], int units, int64_t stride,
                          bool narrow, void *restrict gates, float *restrict cells,
                          float *restrict c, void *restrict y, float *restrict next,
                          uint16_t *restrict operand)
{
    for (int u = 0; u < units; u++) {
        float i = weft_sigmoid(at[0][u]), f = weft_sigmoid(at[1][u]);
        float z = weft_tanh(at[2][u]), o = weft_sigmoid(at[3][u]);
        float cell = f * c[u] + i * z, h = o * weft_tanh(cell);
        cpu_put(gates, u, narrow, i);
        cpu_put(gates, stride + u, narrow, f);
        cpu_put(gates, 2 * stride + u, narrow, z);
        cpu_put(gates, 3 * stride + u, narrow, o);
        c[u] = cell;
        cells[u] = cell;
        cpu_put(y, u, narrow, h);
        next[u] = h;
        if (narrow) cpu_put(operand, u, true, h);
    }
}

WEFT_INLINE void lstm_rows(void *user, cpu_tile *tile, bool narrow)
{
    const recurrence_step *s = user;
    sequences q = sequences_of(s->j);
    float *c = s->j->k->out[2], *cells = q.saved;
    int64_t units = s->j->r.units;
    for (int row = 0; row < tile->rows; row++) {
        place p = place_of(s, tile, row);
        void *gates = cpu_element(q.gates, p.gates, narrow);
        prefetch_next(s, tile, &p, &q);
        if (!p.counts) {
            pass_over(s, &p, tile->units, &q);
            continue;
        }
        CPU_UNITS(tile->units, add_inputs(tile->at[row], cpu_element(q.in, p.gates, narrow), 4,
                                          units, count, narrow);
                  lstm_row(tile->at[row], count, units, narrow, gates, cells + p.sequence,
                           c + p.state, cpu_element(q.y, p.sequence, narrow), s->next + p.state,
                           s->operand + p.operand));
    }
}

WEFT_CLONES static void lstm_take(void *user, cpu_tile *tile)
{
    lstm_rows(user, tile, false);
}

WEFT_CLONES static void lstm_take_narrow(void *user, cpu_tile *tile)
{
    lstm_rows(user, tile, true);
}

static void lstm_part(void *user, int64_t begin, int64_t end)
{
    run_rows(user, begin, end, ((const recurrence *)user)->narrow ? lstm_take_narrow : lstm_take);
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
                         bool narrow, const float *restrict bias, void *restrict gates,
                         const float *restrict inner, void *restrict saved, const float *restrict h,
                         void *restrict y, float *restrict next, uint16_t *restrict operand)
{
    for (int u = 0; u < units; u++) {
        float r = weft_sigmoid(at[0][u] + bias[u]), z = weft_sigmoid(at[1][u] + bias[stride + u]);
        float n = weft_tanh(at[2][u] + r * inner[u]), state = (1 - z) * n + z * h[u];
        cpu_put(gates, u, narrow, r);
        cpu_put(gates, stride + u, narrow, z);
        cpu_put(gates, 2 * stride + u, narrow, n);
        cpu_put(saved, u, narrow, inner[u]);
        cpu_put(y, u, narrow, state);
        next[u] = state;
        if (narrow) cpu_put(operand, u, true, state);
    }
}

WEFT_INLINE void gru_rows(void *user, cpu_tile *tile, bool narrow)
{
    const recurrence_step *s = user;
    sequences q = sequences_of(s->j);
    const float *bias = s->j->bias + tile->unit;
    int64_t units = s->j->r.units;
    float inner[CPU_TILE_UNITS];
    for (int row = 0; row < tile->rows; row++) {
        place p = place_of(s, tile, row);
        float(*at)[CPU_TILE_UNITS] = tile->at[row];
        void *gates = cpu_element(q.gates, p.gates, narrow);
        prefetch_next(s, tile, &p, &q);
        if (!p.counts) {
            pass_over(s, &p, tile->units, &q);
            continue;
        }
        CPU_UNITS(tile->units, take_inner(at, count, bias + 2 * units, inner);
                  add_inputs(at, cpu_element(q.in, p.gates, narrow), 3, units, count, narrow);
                  gru_row(at, count, units, narrow, bias, gates, inner,
                          cpu_element(q.saved, p.sequence, narrow), s->h + p.state,
                          cpu_element(q.y, p.sequence, narrow), s->next + p.state,
                          s->operand + p.operand));
    }
}

WEFT_CLONES static void gru_take(void *user, cpu_tile *tile)
{
    gru_rows(user, tile, false);
}

WEFT_CLONES static void gru_take_narrow(void *user, cpu_tile *tile)
{
    gru_rows(user, tile, true);
}

static void gru_part(void *user, int64_t begin, int64_t end)
{
    run_rows(user, begin, end, ((const recurrence *)user)->narrow ? gru_take_narrow : gru_take);
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
    recurrence j = describe(group, gates, gradient, TILE_PAIRS);
    WEFT_TRY(cpu_plain_make(device, group, fn, lay_out(&j, gradient, NULL), &k));
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

/* Sequences are f32, and so are all other operands; or bf16, but for the cells. */
static bool supports(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    if (weft_in(g, node, 0)->dtype != WEFT_BF16) return cpu_one_type(group);
    return cpu_single_of_any(group) && weft_out(g, node, 0)->dtype == WEFT_BF16;
}

const cpu_entry cpu_recurrence_entries[] = {
    {"lstm", "steps", supports, lstm_make, NULL, CPU_ANY},
    {"lstm_grad", "steps", supports, lstm_grad_make, NULL, CPU_ANY},
    {"gru", "steps", supports, gru_make, NULL, CPU_ANY},
    {"gru_grad", "steps", supports, gru_grad_make, NULL, CPU_ANY},
    {.op = NULL},
};
