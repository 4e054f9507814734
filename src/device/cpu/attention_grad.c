/* Implements the gradient of attention in tiles of keys and queries. The probabilities are computed
 * again from the two parts of the log-sum-exp (FlashAttention, Dao et al. 2022). One thread
 * computes a pair of sample and head of keys: keys outside, queries inside, so each sum has a fixed
 * order. */
#include <math.h>

#include "device/cpu/attention.h"
#include "device/cpu/simd.h"

/* The memory of a thread. For all queries of a pair, it has q (in f32 times the scale), dy, dq, the
 * largest score and the logarithm of the sum of exponentials, dy times y, and the number of keys
 * that each query sees; for one tile of keys, k, k and v turned, dk and dv; for one tile of scores,
 * the probabilities and the derivative by the scores. Names with `mixed` are operands of products
 * that sum over rows; `ds_rows` of one that sums over columns; in f32 they are the same memory. */
typedef struct backward {
    void *q, *dy, *q_mixed, *dy_mixed;
    float *dq, *top, *log_sum, *mean;
    int64_t *seen;
    void *k_mixed, *k_turned, *v_turned;
    float *dk, *dv, *p, *ds;
    void *p_mixed, *ds_mixed, *ds_rows;
} backward;

static size_t backward_memory(const attention *p, void *base, backward *m)
{
    size_t used = 0;
    int64_t scores = (int64_t)MOST_QUERIES * TILE_STRIDE, rows = cpu_elements(p, p->rows);
    m->q = cpu_take(base, &used, p->rows * p->d_row);
    m->dy = cpu_take(base, &used, p->rows * p->e_row);
    m->q_mixed = p->narrow ? cpu_take(base, &used, rows * p->d_stride) : m->q;
    m->dy_mixed = p->narrow ? cpu_take(base, &used, rows * p->e_stride) : m->dy;
    m->dq = cpu_take(base, &used, p->rows * p->d_stride);
    m->top = cpu_take(base, &used, p->rows);
    m->log_sum = cpu_take(base, &used, p->rows);
    m->mean = cpu_take(base, &used, p->rows);
    m->seen = cpu_take(base, &used, 2 * p->rows);
    m->k_mixed = cpu_take(base, &used, cpu_elements(p, MOST_KEYS) * p->d_stride);
    m->k_turned = cpu_take(base, &used, cpu_elements(p, p->d) * TILE_STRIDE);
    m->v_turned = cpu_take(base, &used, cpu_elements(p, p->e) * TILE_STRIDE);
    m->dk = cpu_take(base, &used, MOST_KEYS * p->d_stride);
    m->dv = cpu_take(base, &used, MOST_KEYS * p->e_stride);
    m->p = cpu_take(base, &used, scores);
    m->ds = cpu_take(base, &used, scores);
    m->p_mixed = p->narrow ? cpu_take(base, &used, scores / 2) : m->p;
    m->ds_mixed = p->narrow ? cpu_take(base, &used, scores / 2) : m->ds;
    m->ds_rows = p->narrow ? cpu_take(base, &used, scores) : m->ds;
    return used;
}

WEFT_INLINE float row_product(const void *a, const void *b, int64_t n, bool narrow)
{
    float lane[TILE_COLUMNS] = {0}, sum = 0;
    int64_t whole = n / TILE_COLUMNS * TILE_COLUMNS;
    for (int64_t c = 0; c < whole; c += TILE_COLUMNS)
        for (int l = 0; l < TILE_COLUMNS; l++)
            lane[l] += cpu_get(a, c + l, narrow) * cpu_get(b, c + l, narrow);
    for (int l = 0; l < TILE_COLUMNS; l++) sum += lane[l];
    for (int64_t c = whole; c < n; c++) sum += cpu_get(a, c, narrow) * cpu_get(b, c, narrow);
    return sum;
}

/* Reads what belongs to the queries of a pair; returns the number of keys that some query sees. */
static int64_t read_queries(const cpu_loop *k, const attention *p, const backward *m, int64_t pair)
{
    const void *dy = k->in[0], *y = k->in[4];
    const float *sums = (const float *)k->in[5] + 2 * pair * p->rows;
    int64_t reach = 0;
    cpu_queries_copy(p, p->q, p->d, pair, 0, p->rows, p->scale, m->q);
    cpu_queries_copy(p, dy, p->e, pair, 0, p->rows, 1, m->dy);
    if (p->narrow) {
        cpu_queries_mix(p, p->q, p->d, pair, p->rows, m->q_mixed);
        cpu_queries_mix(p, dy, p->e, pair, p->rows, m->dy_mixed);
    }
    memset(m->dq, 0, (size_t)(p->rows * p->d_stride) * sizeof(float));
    for (int64_t r = 0; r < p->rows; r++) {
        const void *row = cpu_element(y, query_at(p, pair, r, p->e), p->narrow);
        const float *by = (const float *)m->dy + r * p->e_row;
        m->mean[r] =
            p->narrow ? row_product(row, by, p->e, true) : row_product(row, by, p->e, false);
        m->seen[r] = cpu_attention_seen(p, pair, r);
        m->top[r] = m->seen[r] ? sums[2 * r] : 0;
        m->log_sum[r] = sums[2 * r + 1];
        reach = WEFT_MAX(reach, m->seen[r]);
    }
    return reach;
}

/* Turns the scores of queries `begin` on and `count` keys from `at` on, times a factor, into
 * probabilities, and dp into the derivative by the scores. Both are 0 for keys that the query does
 * not see, since other queries may see them. */
static WEFT_CLONES void differentiate(const backward *m, int64_t begin, int64_t rows, int64_t at,
                                      int64_t count, float factor)
{
    for (int64_t r = 0; r < rows; r++) {
        float *p = m->p + r * TILE_STRIDE, *ds = m->ds + r * TILE_STRIDE;
        float top = m->top[begin + r], log_sum = m->log_sum[begin + r], mean = m->mean[begin + r];
        int64_t n = WEFT_MIN(WEFT_MAX(m->seen[begin + r] - at, (int64_t)0), count);
        int64_t whole = tile_columns(n); /* so that no loop ends in single numbers */
        for (int64_t c = 0; c < whole && factor != 1; c++) p[c] *= factor;
        for (int64_t c = 0; c < whole; c++) p[c] = weft_exp((p[c] - top) - log_sum);
        for (int64_t c = 0; c < whole; c++) ds[c] = p[c] * (ds[c] - mean);
        for (int64_t c = n; c < count; c++) p[c] = ds[c] = 0;
    }
}

/* Adds what the queries from `begin` on, and n keys from `at` on, contribute to dq, dk and dv. */
static void backward_tile(const attention *p, const backward *m, int64_t begin, int64_t at,
                          int64_t n)
{
    int64_t count = WEFT_MIN(p->rows - begin, (int64_t)MOST_QUERIES), reach = 0;
    int64_t d = cpu_elements(p, p->d), e = cpu_elements(p, p->e), half = cpu_elements(p, begin);
    const float *q = (const float *)m->q + begin * p->d_row,
                *dy = (const float *)m->dy + begin * p->e_row;
    const float *q_mixed = (const float *)m->q_mixed + half * p->d_stride,
                *dy_mixed = (const float *)m->dy_mixed + half * p->e_stride;
    for (int64_t r = 0; r < count; r++) reach = WEFT_MAX(reach, m->seen[begin + r]);
    n = WEFT_MIN(n, reach - at);
    if (n <= 0) return;
    tile_multiply(&(tile_product){count, n, d, q, m->k_turned, m->p, p->d_row, 1, TILE_STRIDE,
                                  TILE_STRIDE, false, p->of, NULL, 0});
    tile_multiply(&(tile_product){count, n, e, dy, m->v_turned, m->ds, p->e_row, 1, TILE_STRIDE,
                                  TILE_STRIDE, false, p->of, NULL, 0});
    differentiate(m, begin, count, at, n, p->narrow ? p->scale : 1);
    if (p->narrow) {
        cpu_scores_mix(m->p, count, n, m->p_mixed);
        cpu_scores_mix(m->ds, count, n, m->ds_mixed);
        cpu_scores_round(m->ds, count, n, m->ds_rows);
    }
    tile_multiply(&(tile_product){n, p->e, cpu_elements(p, count), m->p_mixed, dy_mixed, m->dv, 1,
                                  TILE_STRIDE, p->e_stride, p->e_stride, true, p->of, NULL, 0});
    tile_multiply(&(tile_product){n, p->d, cpu_elements(p, count), m->ds_mixed, q_mixed, m->dk, 1,
                                  TILE_STRIDE, p->d_stride, p->d_stride, true, p->of, NULL, 0});
    tile_multiply(&(tile_product){count, p->d, cpu_elements(p, n), m->ds_rows, m->k_mixed,
                                  m->dq + begin * p->d_stride, TILE_STRIDE, 1, p->d_stride,
                                  p->d_stride, true, p->of, NULL, 0});
}

/* Computes the gradients of the tile of keys from `at` on, of which queries see n. */
static void backward_keys(const cpu_loop *k, const attention *p, const backward *m, int64_t pair,
                          int64_t at, int64_t n)
{
    float scale = p->narrow ? p->scale : 1;
    if (n > 0) {
        cpu_keys_mix(p, p->k, p->d, pair, at, n, m->k_mixed);
        cpu_keys_turn(p, p->k, p->d, pair, at, n, m->k_turned);
        cpu_keys_turn(p, p->v, p->e, pair, at, n, m->v_turned);
        memset(m->dk, 0, (size_t)(MOST_KEYS * p->d_stride) * sizeof(float));
        memset(m->dv, 0, (size_t)(MOST_KEYS * p->e_stride) * sizeof(float));
    }
    for (int64_t begin = 0; begin < p->rows; begin += MOST_QUERIES)
        backward_tile(p, m, begin, at, n);
    for (int64_t j = 0; j < MOST_KEYS && at + j < p->s; j++) {
        float factor = j < n;
        cpu_row_write(p, k->out[1], key_at(p, pair, at + j, p->d), m->dk + j * p->d_stride, p->d,
                      factor * scale);
        cpu_row_write(p, k->out[2], key_at(p, pair, at + j, p->e), m->dv + j * p->e_stride, p->e,
                      factor);
    }
}

static void backward_work(const cpu_loop *k, const attention *p, void *memory, int64_t begin,
                          int64_t end)
{
    backward m;
    (void)backward_memory(p, memory, &m);
    for (int64_t pair = begin; pair < end; pair++) {
        int64_t reach = read_queries(k, p, &m, pair);
        for (int64_t at = 0; at < p->s; at += MOST_KEYS)
            backward_keys(k, p, &m, pair, at, WEFT_MIN(reach - at, (int64_t)MOST_KEYS));
        for (int64_t r = 0; r < p->rows; r++)
            cpu_row_write(p, k->out[0], query_at(p, pair, r, p->d), m.dq + r * p->d_stride, p->d,
                          p->scale);
    }
}

static void backward_loop(const cpu_loop *k)
{
    backward m;
    attention p = cpu_attention_of(&k->group, k->in, 1, k->pairs);
    cpu_attention_run(k, &p, p.b * p.g, backward_memory(&p, NULL, &m), backward_work);
}

weft_status cpu_attention_grad_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    backward m;
    attention p = cpu_attention_of(group, NULL, 1, TILE_PAIRS);
    return cpu_attention_make(device, group, backward_loop, &p, p.b * p.g,
                              backward_memory(&p, NULL, &m), out);
}
