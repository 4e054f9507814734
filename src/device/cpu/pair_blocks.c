/* Rounds weights from blocks of f32 numbers, in which oneDNN makes their gradients and updates
 * leave them, to the blocks of pairs of bf16 numbers that its products read. Its own reorder takes
 * two to four times as long. */
#include "device/cpu/pair_blocks.h"

/* GRAIN: numbers that a thread rounds at least. */
enum { LANES = 16, GRAIN = 1 << 14 };

/* A block is [rows, columns] of f32. Pairs are [rows / 2, columns, 2], of neighbours in a column,
 * or if `turned` [columns / 2, rows, 2], of neighbours in a row. */
typedef struct pair_blocks {
    int axes;
    int64_t count[ONEDNN_MOST_DIMS], from[ONEDNN_MOST_DIMS], to[ONEDNN_MOST_DIMS];
    int64_t rows, columns, blocks;
    bool turned;
} pair_blocks;

static bool fill(cpu_md from, cpu_md to, pair_blocks *out)
{
    cpu_blocks f = cpu_blocks_of(from), t = cpu_blocks_of(to);
    if (onednn_md_dtype(from) != WEFT_F32 || onednn_md_dtype(to) != WEFT_BF16 || !f.blocked ||
        !t.blocked || f.count != 2 || t.count != 3 || f.offset != 0 || t.offset != 0 ||
        f.axis[0] == f.axis[1] || t.axis[0] != t.axis[2] || t.size[2] != 2)
        return false;
    pair_blocks p = {.axes = f.ndims, .rows = f.size[0], .columns = f.size[1], .blocks = 1};
    p.turned = t.axis[0] == f.axis[1];
    int paired = p.turned ? 1 : 0;
    if (t.axis[0] != f.axis[paired] || t.axis[1] != f.axis[1 - paired] ||
        2 * t.size[0] != f.size[paired] || t.size[1] != f.size[1 - paired] ||
        (p.turned ? p.rows != LANES || p.columns != LANES : p.columns % LANES != 0) ||
        f.ndims != t.ndims || !onednn_has_avx512(true))
        return false;
    for (int i = 0; i < f.ndims; i++) {
        int64_t size = i == f.axis[0] ? p.rows : i == f.axis[1] ? p.columns : 1;
        if (f.dims[i] != t.dims[i]) return false;
        p.count[i] = (f.dims[i] + size - 1) / size;
        p.from[i] = f.strides[i];
        p.to[i] = t.strides[i];
        p.blocks *= p.count[i];
    }
    *out = p;
    return true;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define DOT __attribute__((target("avx512f,avx512bw,avx512bf16")))

/* Two vectors as bf16, the first one in the lower half. */
DOT static inline __m512i rounded(const float *one, const float *two)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(two), _mm512_loadu_ps(one));
}

DOT static void round_block(const pair_blocks *p, const float *from, uint32_t *to)
{
    uint16_t order[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++) order[i] = (uint16_t)(i / 2 + i % 2 * LANES);
    const __m512i pairs = _mm512_loadu_si512(order);
    for (int64_t r = 0; r < p->rows; r += 2, from += p->columns)
        for (int64_t c = 0; c < p->columns; c += LANES, from += LANES, to += LANES)
            _mm512_storeu_si512(to,
                                _mm512_permutexvar_epi16(pairs, rounded(from, from + p->columns)));
}

/* Transposes 16 rows of 8 pairs: row r and row r + 8 are the halves of a vector, in which pairs are
 * first brought in sequence by two rows, then by four, and then by eight. */
DOT static void turn_block(const float *from, uint32_t *to)
{
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512i a[8], b[8];
    for (int r = 0; r < 8; r++) a[r] = rounded(from + r * LANES, from + (r + 8) * LANES);
    for (int r = 0; r < 8; r += 2) {
        b[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]);
        b[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
    }
    for (int r = 0; r < 8; r++) {
        const __m512i one = b[r / 4 * 4 + r / 2 % 2], two = b[r / 4 * 4 + r / 2 % 2 + 2];
        a[r] = r % 2 ? _mm512_unpackhi_epi64(one, two) : _mm512_unpacklo_epi64(one, two);
    }
    for (int c = 0; c < 8; c++)
        _mm512_storeu_si512(to + c * LANES,
                            _mm512_permutex2var_epi64(a[c % 4], c < 4 ? even : odd, a[c % 4 + 4]));
}
#else
static void round_block(const pair_blocks *p, const float *from, uint32_t *to)
{
    (void)p, (void)from, (void)to;
}

static void turn_block(const float *from, uint32_t *to)
{
    (void)from, (void)to;
}
#endif

static void part(void *user, int64_t begin, int64_t end)
{
    const cpu_loop *k = user;
    const pair_blocks *p = k->table;
    for (int64_t b = begin; b < end; b++) {
        const float *from = k->in[0];
        uint16_t *to = k->result;
        for (int64_t i = p->axes, at = b; i-- > 0; at /= p->count[i]) {
            from += at % p->count[i] * p->from[i];
            to += at % p->count[i] * p->to[i];
        }
        if (p->turned)
            turn_block(from, (uint32_t *)(void *)to);
        else
            round_block(p, from, (uint32_t *)(void *)to);
    }
}

static void loop(const cpu_loop *k)
{
    const pair_blocks *p = k->table;
    cpu_loop copy = *k;
    weft_parallel(k->threads, p->blocks, WEFT_MAX(GRAIN / (p->rows * p->columns), 1), part, &copy);
}

bool cpu_pair_blocks_has(cpu_md from, cpu_md to)
{
    pair_blocks p;
    return fill(from, to, &p);
}

weft_status cpu_pair_blocks_make(weft_device *device, cpu_md from, cpu_md to, weft_kernel **out)
{
    const weft_group none = {0};
    cpu_loop *k;
    WEFT_TRY(cpu_loop_make(device, &none, loop, &k));
    *out = &k->head;
    pair_blocks *p = NULL;
    weft_status status = WEFT_NEW(&p, 1);
    k->table = p;
    if (status == WEFT_OK)
        (void)fill(from, to, p);
    else
        k->head.ops->destroy(&k->head);
    return status;
}
