/* Computes the gates of lstm and gru on tiles of the product of the states with the weight, while
 * these are in the first cache. */
#include "device/cpu/recurrence.h"
#include "device/cpu/simd.h"

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

cpu_gates cpu_gates_of(const recurrence *j)
{
    if (j->r.gates == 4) return j->narrow ? lstm_take_narrow : lstm_take;
    return j->narrow ? gru_take_narrow : gru_take;
}
