/* Sums the updates block by block over the fixed tree, so that the bits of the mean do not depend
 * on timing. */
#include "exchange/ps/range/weighted_mean.h"

#include "base/target_clones.h"
#include "base/tree_sum.h"

/* Numbers in a block. A few blocks fit into the cache of a core. */
enum { BLOCK = 2048 };

void weft_weighted_mean_free(weft_weighted_mean *m)
{
    free(m->leaves);
    free(m->blocks);
    *m = (weft_weighted_mean){0};
}

/* Levels of a tree of n leaves: the largest number of partial sums that exist at a time. */
static int levels_of(int n)
{
    int levels = 1;
    while (n > 1) {
        n = (n + 1) / 2;
        levels++;
    }
    return levels;
}

weft_status weft_weighted_mean_begin(weft_weighted_mean *m, weft_dtype dtype, int64_t count,
                                     int updates)
{
    int levels = levels_of(updates);
    m->dtype = dtype;
    m->count = count;
    m->updates = updates;
    while (m->leaf_capacity < (size_t)updates)
        WEFT_TRY(WEFT_GROW(&m->leaves, &m->leaf_capacity, m->leaf_capacity));
    if (m->levels >= levels) return WEFT_OK;
    free(m->blocks);
    m->levels = 0;
    WEFT_TRY(weft_new_aligned((size_t)levels * BLOCK * sizeof(double), &m->blocks));
    m->levels = levels;
    return WEFT_OK;
}

void weft_weighted_mean_take(weft_weighted_mean *m, int v, const weft_encoded *message,
                             double weight)
{
    m->leaves[v].weight = weight;
    m->leaves[v].message = *message;
}

WEFT_CLONES static void divide_f32(float *restrict x, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i++) x[i] /= by;
}

WEFT_CLONES static void divide_f64(double *restrict x, int64_t n, double by)
{
    for (int64_t i = 0; i < n; i++) x[i] /= by;
}

/* Decodes and sums the next n numbers of all updates into `first`. */
static void add_up(weft_weighted_mean *m, int64_t n, char *first)
{
    size_t size = weft_dtype_size(m->dtype);
    for (int v = 0; v < m->updates; v++) {
        int place, merges;
        weft_tree_push(m->updates, 0, v, &place, &merges, NULL);
        char *to = place ? (char *)m->blocks + (size_t)place * BLOCK * sizeof(double) : first;
        memset(to, 0, (size_t)n * size);
        weft_encoded_add(&m->leaves[v].message, n, m->leaves[v].weight, to);
        for (; merges > 0; merges--, place--) {
            char *right = (char *)m->blocks + (size_t)place * BLOCK * sizeof(double);
            char *left = place > 1 ? right - BLOCK * sizeof(double) : first;
            weft_tree_add(m->dtype, left, right, left, n);
        }
    }
}

const void *weft_weighted_mean_in_place(const weft_weighted_mean *m)
{
    const weft_encoded *only = &m->leaves[0].message;
    bool plain = weft_encoded_is_plain(only) && m->leaves[0].weight == 1;
    return m->updates == 1 && plain ? only->body : NULL;
}

void weft_weighted_mean_make(weft_weighted_mean *m, void *out)
{
    for (int64_t at = 0; at < m->count; at += BLOCK) {
        int64_t n = WEFT_MIN((int64_t)BLOCK, m->count - at);
        char *to = (char *)out + (size_t)at * weft_dtype_size(m->dtype);
        add_up(m, n, to);
        if (m->updates == 1) continue;
        if (m->dtype == WEFT_F64)
            divide_f64((double *)(void *)to, n, m->updates);
        else
            divide_f32((float *)(void *)to, n, (float)m->updates);
    }
}
