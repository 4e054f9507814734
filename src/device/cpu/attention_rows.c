/* Implements attention where each head has one query, as in incremental
 * decoding. Keys and values are read once, in the order in which they lie, for all heads of a
 * thread; the softmax is corrected from block to block as in attention.c. */
#include <math.h>

#include "device/cpu/attention.h"
#include "device/cpu/simd.h"

enum { BLOCK = 64 }; /* keys whose scores are computed before their values are read */

/* The memory of a thread, for each of its heads: the query in f32, the scores of a block, the sum
 * of values, the largest score, the sum of the exponentials. */
typedef struct state {
    float *q, *scores, *y, *top, *sum;
} state;

static size_t memory_of(const attention *p, void *base, state *m)
{
    size_t used = 0;
    m->q = cpu_take(base, &used, p->h * p->d);
    m->scores = cpu_take(base, &used, p->h * BLOCK);
    m->y = cpu_take(base, &used, p->h * p->e);
    m->top = cpu_take(base, &used, p->h);
    m->sum = cpu_take(base, &used, p->h);
    return used;
}

/* Adds the products of a vector of numbers with one from number i of data on. */
typedef uint16_t halves __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint32_t wholes __attribute__((vector_size(32), aligned(4), may_alias));
WEFT_INLINE void add_lanes(weft_lanes *sum, const float *a, const void *data, int64_t i,
                           bool narrow)
{
    const weft_lanes *x = (const weft_lanes *)a;
    if (narrow)
        *sum += *x * (weft_lanes)(__builtin_convertvector(
                                      *(const halves *)((const uint16_t *)data + i), wholes)
                                  << 16);
    else
        *sum += *x * *(const weft_lanes *)((const float *)data + i);
}

WEFT_INLINE float dot(const float *a, const void *b, int64_t n, bool narrow)
{
    weft_lanes even = {0}, odd = {0};
    float sum = 0;
    int64_t c = 0;
    for (; c + 2 * WEFT_LANES <= n; c += 2 * WEFT_LANES) {
        add_lanes(&even, a + c, b, c, narrow);
        add_lanes(&odd, a + c + WEFT_LANES, b, c + WEFT_LANES, narrow);
    }
    even += odd;
    for (int l = 0; l < WEFT_LANES; l++) sum += even[l];
    for (; c < n; c++) sum += a[c] * cpu_get(b, c, narrow);
    return sum;
}

/* The scores of `count` keys from `begin` on with the queries of heads of pairs [from, to), which
 * are of one row of the batch. */
WEFT_INLINE void score(const attention *p, const state *m, int64_t from, int64_t to, int64_t begin,
                       int64_t count, bool narrow)
{
    for (int64_t j = 0; j < count; j++)
        for (int64_t pair = from; pair < to; pair++) {
            const void *k = cpu_element(p->k, key_at(p, pair, begin + j, p->d), narrow);
            for (int64_t r = 0; r < p->group; r++) {
                int64_t head = (pair - from) * p->group + r;
                m->scores[head * BLOCK + j] = p->scale * dot(m->q + head * p->d, k, p->d, narrow);
            }
        }
}

/* Turns the scores of a head into exp(score - top), and corrects what was summed with an earlier
 * top. A NaN is not the largest score, but makes the sum NaN. */
static WEFT_CLONES void absorb(const state *m, int64_t head, int64_t count, int64_t width)
{
    float *x = m->scores + head * BLOCK, *y = m->y + head * width, top = m->top[head], sum = 0;
    for (int64_t j = 0; j < count; j++) top = x[j] > top ? x[j] : top;
    float before = weft_exp(m->top[head] - top);
    for (int64_t j = 0; j < count; j++) x[j] = weft_exp(x[j] - top);
    for (int64_t j = 0; j < count; j++) sum += x[j];
    for (int64_t c = 0; c < width; c++) y[c] *= before;
    m->sum[head] = m->sum[head] * before + sum;
    m->top[head] = top;
}

WEFT_INLINE void add_values(const attention *p, const state *m, int64_t from, int64_t to,
                            int64_t begin, int64_t count, bool narrow)
{
    for (int64_t j = 0; j < count; j++)
        for (int64_t pair = from; pair < to; pair++) {
            const void *v = cpu_element(p->v, key_at(p, pair, begin + j, p->e), narrow);
            for (int64_t r = 0; r < p->group; r++) {
                int64_t head = (pair - from) * p->group + r;
                float share = m->scores[head * BLOCK + j], *restrict y = m->y + head * p->e;
                for (int64_t c = 0; c < p->e; c++) y[c] += share * cpu_get(v, c, narrow);
            }
        }
}

#define BOTH(name, narrow)                                                                         \
    static WEFT_CLONES void score_##name(const attention *p, const state *m, int64_t from,         \
                                         int64_t to, int64_t begin, int64_t count)                 \
    {                                                                                              \
        score(p, m, from, to, begin, count, narrow);                                               \
    }                                                                                              \
    static WEFT_CLONES void add_values_##name(const attention *p, const state *m, int64_t from,    \
                                              int64_t to, int64_t begin, int64_t count)            \
    {                                                                                              \
        add_values(p, m, from, to, begin, count, narrow);                                          \
    }
BOTH(single, false)
BOTH(pairs, true)

/* Writes the results of the heads: 0, and as the largest score -inf, where no key counts. */
static void write(const cpu_loop *k, const attention *p, const state *m, int64_t from, int64_t to,
                  int64_t seen)
{
    float *sums = k->out[1];
    for (int64_t head = 0; head < (to - from) * p->group; head++) {
        const float *x = m->y + head * p->e;
        void *out = cpu_element(k->out[0], (from * p->group + head) * p->e, p->narrow);
        float *lse = sums + 2 * (from * p->group + head);
        float factor = seen ? 1 / m->sum[head] : 0;
        for (int64_t c = 0; c < p->e; c++) cpu_put(out, c, p->narrow, x[c] * factor);
        lse[0] = isnan(m->sum[head]) ? NAN : m->top[head];
        lse[1] = seen ? logf(m->sum[head]) : 0;
    }
}

/* Pairs [from, to) of one row of the batch. */
static void run_pairs(const cpu_loop *k, const attention *p, const state *m, int64_t from,
                      int64_t to)
{
    int64_t heads = (to - from) * p->group, seen = cpu_attention_seen(p, from, 0);
    memset(m->y, 0, (size_t)(heads * p->e) * sizeof(float));
    for (int64_t head = 0; head < heads; head++) {
        int64_t at = query_at(p, from + head / p->group, head % p->group, p->d);
        for (int64_t c = 0; c < p->d; c++) m->q[head * p->d + c] = cpu_get(p->q, at + c, p->narrow);
        m->top[head] = -INFINITY;
        m->sum[head] = 0;
    }
    for (int64_t at = 0; at < seen; at += BLOCK) {
        int64_t count = WEFT_MIN(seen - at, (int64_t)BLOCK);
        (p->narrow ? score_pairs : score_single)(p, m, from, to, at, count);
        for (int64_t head = 0; head < heads; head++) absorb(m, head, count, p->e);
        (p->narrow ? add_values_pairs : add_values_single)(p, m, from, to, at, count);
    }
    write(k, p, m, from, to, seen);
}

static void attend_rows(const cpu_loop *k, const attention *p, void *memory, int64_t begin,
                        int64_t end)
{
    state m;
    (void)memory_of(p, memory, &m);
    for (int64_t from = begin, to; from < end; from = to) {
        to = WEFT_MIN((from / p->g + 1) * p->g, end);
        run_pairs(k, p, &m, from, to);
    }
}

static void rows_loop(const cpu_loop *k)
{
    state m;
    attention p = cpu_attention_of(&k->group, k->in, 0, k->pairs);
    cpu_attention_run(k, &p, p.b * p.g, memory_of(&p, NULL, &m), attend_rows);
}

bool cpu_attention_has_one_query(const weft_group *group)
{
    return cpu_one_precision(group) && cpu_attention_of(group, NULL, 0, TILE_PAIRS).t == 1;
}

weft_status cpu_attention_rows_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    state m;
    attention p = cpu_attention_of(group, NULL, 0, TILE_PAIRS);
    WEFT_TRY(
        cpu_attention_make(device, group, rows_loop, &p, p.b * p.g, memory_of(&p, NULL, &m), out));
    memcpy((*out)->text, "rows", sizeof("rows"));
    return WEFT_OK;
}
