/* Implements attention in tiles of queries and keys, with a softmax that is
 * corrected from tile to tile (online softmax; FlashAttention, Dao et al. 2022), so that scratch
 * memory is linear in the length. Keys that no query of a tile sees are skipped. */
#include "device/cpu/attention.h"

#include <math.h>

#include "device/cpu/simd.h"

/* --- operands --- */

attention cpu_attention_of(const weft_group *group, const void *const *in, int at,
                           tile_operands pairs)
{
    const weft_node *node = group->node[0];
    const weft_shape *q = &weft_in(group->graph, node, at)->shape;
    const weft_shape *v = &weft_in(group->graph, node, at + 2)->shape;
    attention p = {.b = q->dim[0],
                   .t = q->dim[1],
                   .s = v->dim[1],
                   .h = q->dim[2],
                   .g = v->dim[2],
                   .d = q->dim[3],
                   .e = v->dim[3],
                   .group = q->dim[2] / v->dim[2],
                   .d_stride = tile_stride(q->dim[3]),
                   .e_stride = tile_stride(v->dim[3]),
                   .causal = weft_node_int(node, "causal", 0, 0) != 0,
                   .first = weft_node_int(node, "first", 0, 0),
                   .scale = (float)weft_node_real(node, "scale", 1)};
    p.rows = p.group * p.t;
    p.narrow = weft_in(group->graph, node, at)->dtype == WEFT_BF16;
    p.of = p.narrow ? pairs : TILE_SINGLE;
    p.d_row = tile_stride(cpu_elements(&p, p.d));
    p.e_row = tile_stride(cpu_elements(&p, p.e));
    if (!in) return p;
    p.q = in[at];
    p.k = in[at + 1];
    p.v = in[at + 2];
    if (node->in_count > (at ? 6 : 3)) p.lengths = in[at ? 6 : 3];
    return p;
}

int64_t cpu_attention_valid(const attention *p, int64_t pair)
{
    return p->lengths ? WEFT_MIN(p->s, WEFT_MAX((int64_t)p->lengths[pair / p->g], (int64_t)0))
                      : p->s;
}

int64_t cpu_attention_seen(const attention *p, int64_t pair, int64_t r)
{
    int64_t n = cpu_attention_valid(p, pair);
    if (p->causal) n = WEFT_MIN(n, p->first + r % p->t + 1);
    return WEFT_MAX(n, (int64_t)0);
}

/* --- threads --- */

typedef struct job {
    const cpu_loop *k;
    const attention *p;
    int64_t items, parts;
    size_t bytes;
    attention_work work;
} job;

/* The number of threads that are worth while: each has about a tile of work. */
static int64_t parts_of(const attention *p, int threads, int64_t items)
{
    int64_t tiles = p->b * p->g * p->rows * p->s / ((int64_t)MOST_QUERIES * MOST_KEYS);
    return WEFT_MIN(WEFT_MIN((int64_t)threads, items), tiles + 1);
}

static void run_parts(void *user, int64_t begin, int64_t end)
{
    const job *j = user;
    for (int64_t part = begin; part < end; part++)
        j->work(j->k, j->p, (char *)j->k->scratch + (size_t)part * j->bytes,
                j->items * part / j->parts, j->items * (part + 1) / j->parts);
}

void cpu_attention_run(const cpu_loop *k, const attention *p, int64_t items, size_t bytes,
                       attention_work work)
{
    job j = {k, p, items, parts_of(p, k->threads, items), bytes, work};
    weft_parallel(k->threads, j.parts, 1, run_parts, &j);
}

weft_status cpu_attention_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                               const attention *p, int64_t items, size_t bytes, weft_kernel **out)
{
    cpu_loop *k;
    WEFT_TRY(cpu_loop_make(device, group, fn, &k));
    weft_status status = WEFT_OK;
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++)
        status =
            weft_layout_plain(device, weft_value_type(group->graph, group->in[i]), &k->head.in[i]);
    for (int i = 0; i < group->out_count && status == WEFT_OK; i++)
        status = weft_layout_plain(device, weft_value_type(group->graph, group->out[i]),
                                   &k->head.out[i]);
    if (status != WEFT_OK) {
        k->head.ops->destroy(&k->head);
        return status;
    }
    memcpy(k->head.text, "tiles", sizeof("tiles"));
    k->head.scratch = (size_t)parts_of(p, k->threads, items) * bytes;
    weft_kernel_unread_size(group, &k->head);
    *out = &k->head;
    return WEFT_OK;
}

/* --- attention --- */

/* The memory of a thread: the keys (in turned tiles) and values of a pair; and of one tile the
 * queries, scores, the exponentials as the product reads them, sums of values, and of each query
 * the largest score, the sum of the exponentials and the number of keys that it sees. */
typedef struct forward {
    void *keys, *values, *queries, *shares;
    float *scores, *y, *top, *sum;
    int64_t *seen;
} forward;

static size_t forward_memory(const attention *p, void *base, forward *m)
{
    size_t used = 0;
    int64_t blocks = (p->s + MOST_KEYS - 1) / MOST_KEYS;
    m->keys = cpu_take(base, &used, blocks * cpu_elements(p, p->d) * TILE_STRIDE);
    m->values = cpu_take(base, &used, cpu_elements(p, p->s) * p->e_stride);
    m->queries = cpu_take(base, &used, MOST_QUERIES * p->d_row);
    m->scores = cpu_take(base, &used, (int64_t)MOST_QUERIES * TILE_STRIDE);
    m->shares = p->narrow ? cpu_take(base, &used, (int64_t)MOST_QUERIES * TILE_STRIDE) : m->scores;
    m->y = cpu_take(base, &used, MOST_QUERIES * p->e_stride);
    m->top = cpu_take(base, &used, MOST_QUERIES);
    m->sum = cpu_take(base, &used, MOST_QUERIES);
    m->seen = (int64_t *)(void *)cpu_take(base, &used, 2 * (int64_t)MOST_QUERIES);
    return used;
}

static inline void keep_larger(weft_lanes *most, const float *x)
{
    weft_lanes next = *(const weft_lanes *)x;
    weft_mask more = next > *most;
    *most = (weft_lanes)((more & (weft_mask)next) | (~more & (weft_mask)*most));
}

/* The largest of `top` and n scores, and the sum of exp(score - top), which replace the scores. A
 * NaN is not the largest, but makes the sum NaN. n is a multiple of TILE_COLUMNS. */
static inline float row_top(const float *x, int64_t n, float top)
{
    weft_lanes even = {0}, odd;
    even += top;
    odd = even;
    for (int64_t c = 0; c < n; c += 2 * (int64_t)WEFT_LANES) {
        keep_larger(&even, x + c);
        keep_larger(&odd, x + c + WEFT_LANES);
    }
    for (int l = 0; l < WEFT_LANES; l++) top = WEFT_MAX(top, WEFT_MAX(even[l], odd[l]));
    return top;
}
static inline float row_exp(float *x, int64_t n, float top)
{
    weft_lanes even = {0}, odd = {0};
    float sum = 0;
    for (int64_t c = 0; c < n; c++) x[c] = weft_exp(x[c] - top);
    for (int64_t c = 0; c < n; c += 2 * (int64_t)WEFT_LANES) {
        even += *(const weft_lanes *)(x + c);
        odd += *(const weft_lanes *)(x + c + WEFT_LANES);
    }
    even += odd;
    for (int l = 0; l < WEFT_LANES; l++) sum += even[l];
    return sum;
}

/* Turns the scores of `rows` queries and keys from `begin` on, times a factor, into exp(score -
 * top), 0 for keys that the query does not see, and corrects what was summed with an earlier top.
 */
static WEFT_CLONES void absorb(const forward *m, int64_t rows, int64_t begin, int64_t count,
                               int64_t stride, float factor)
{
    for (int64_t r = 0; r < rows; r++) {
        float *x = m->scores + r * TILE_STRIDE, *y = m->y + r * stride;
        int64_t n = WEFT_MIN(WEFT_MAX(m->seen[r] - begin, (int64_t)0), count);
        int64_t whole = tile_columns(n);
        for (int64_t c = 0; c < n && factor != 1; c++) x[c] *= factor;
        for (int64_t c = n; c < whole; c++) x[c] = -INFINITY;
        for (int64_t c = whole; c < count; c++) x[c] = 0;
        if (n == 0) continue;
        float top = row_top(x, whole, m->top[r]), before = weft_exp(m->top[r] - top);
        m->sum[r] = m->sum[r] * before + row_exp(x, whole, top);
        m->top[r] = top;
        for (int64_t c = 0; c < stride; c++) y[c] *= before;
    }
}

/* Writes the results of the tile's queries: 0, and as the largest score -inf, for a query that sees
 * no key. */
static void forward_write(const cpu_loop *k, const attention *p, const forward *m, int64_t pair,
                          int64_t begin, int64_t count)
{
    float *sums = k->out[1];
    sums += 2 * (pair * p->rows + begin);
    for (int64_t r = 0; r < count; r++) {
        cpu_row_write(p, k->out[0], query_at(p, pair, begin + r, p->e), m->y + r * p->e_stride,
                      p->e, m->seen[r] ? 1 / m->sum[r] : 0);
        sums[2 * r] = isnan(m->sum[r]) ? NAN : m->top[r];
        sums[2 * r + 1] = m->seen[r] ? logf(m->sum[r]) : 0;
    }
}

static void forward_tile(const cpu_loop *k, const attention *p, const forward *m, int64_t pair,
                         int64_t begin)
{
    int64_t count = WEFT_MIN(p->rows - begin, (int64_t)MOST_QUERIES), reach = 0;
    cpu_queries_copy(p, p->q, p->d, pair, begin, count, p->scale, m->queries);
    memset(m->y, 0, (size_t)(MOST_QUERIES * p->e_stride) * sizeof(float));
    for (int64_t r = 0; r < count; r++) {
        m->seen[r] = cpu_attention_seen(p, pair, begin + r);
        m->top[r] = -INFINITY;
        m->sum[r] = 0;
        reach = WEFT_MAX(reach, m->seen[r]);
    }
    for (int64_t at = 0; at < reach; at += MOST_KEYS) {
        int64_t n = WEFT_MIN(reach - at, (int64_t)MOST_KEYS), d = cpu_elements(p, p->d);
        const float *keys = (const float *)m->keys + at / MOST_KEYS * d * TILE_STRIDE;
        const float *values = (const float *)m->values + cpu_elements(p, at) * p->e_stride;
        tile_multiply(&(tile_product){count, n, d, m->queries, keys, m->scores, p->d_row, 1,
                                      TILE_STRIDE, TILE_STRIDE, false, p->of, NULL, 0});
        absorb(m, count, at, n, p->e_stride, p->narrow ? p->scale : 1);
        if (p->narrow) cpu_scores_round(m->scores, count, n, m->shares);
        tile_multiply(&(tile_product){count, p->e, cpu_elements(p, n), m->shares, values, m->y,
                                      TILE_STRIDE, 1, p->e_stride, p->e_stride, true, p->of, NULL,
                                      0});
    }
    forward_write(k, p, m, pair, begin, count);
}

static int64_t forward_tiles(const attention *p)
{
    return (p->rows + MOST_QUERIES - 1) / MOST_QUERIES;
}

/* Items are the tiles of queries of each pair. Consecutive tiles share the copies of keys and
 * values. */
static void forward_work(const cpu_loop *k, const attention *p, void *memory, int64_t begin,
                         int64_t end)
{
    forward m;
    int64_t tiles = forward_tiles(p), there = -1;
    (void)forward_memory(p, memory, &m);
    for (int64_t item = begin; item < end; item++) {
        int64_t pair = item / tiles;
        for (int64_t at = 0; at < p->s && pair != there; at += MOST_KEYS)
            cpu_keys_turn(p, p->k, p->d, pair, at, WEFT_MIN(p->s - at, (int64_t)MOST_KEYS),
                          (float *)m.keys + at / MOST_KEYS * cpu_elements(p, p->d) * TILE_STRIDE);
        if (pair != there)
            cpu_keys_mix(p, p->v, p->e, pair, 0, cpu_attention_valid(p, pair), m.values);
        there = pair;
        forward_tile(k, p, &m, pair, item % tiles * MOST_QUERIES);
    }
}

static void forward_loop(const cpu_loop *k)
{
    forward m;
    attention p = cpu_attention_of(&k->group, k->in, 0, k->pairs);
    cpu_attention_run(k, &p, p.b * p.g * forward_tiles(&p), forward_memory(&p, NULL, &m),
                      forward_work);
}

static weft_status attention_make(weft_device *device, const weft_group *group,
                                  const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    forward m;
    attention p = cpu_attention_of(group, NULL, 0, TILE_PAIRS);
    return cpu_attention_make(device, group, forward_loop, &p, p.b * p.g * forward_tiles(&p),
                              forward_memory(&p, NULL, &m), out);
}

static bool has_tiles(const weft_group *group)
{
    return cpu_one_precision(group) && !cpu_attention_has_one_query(group);
}

const cpu_entry cpu_attention_entries[] = {
    {"attention", "tiles", has_tiles, attention_make, NULL, CPU_ANY},
    {"attention", "rows", cpu_attention_has_one_query, cpu_attention_rows_make, NULL, CPU_ANY},
    {"attention_grad", "tiles", cpu_one_precision, cpu_attention_grad_make, NULL, CPU_ANY},
    {.op = NULL},
};
