/* Implements dropout on plain memory. Random numbers are those of ops/dropout.c, a function of the
 * element's place in its sample; they are drawn for many elements at a time (Philox4x32-10, Salmon
 * et al. 2011). */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"
#include "device/cpu/update.h"

/* Random numbers come in blocks of four, of which BLOCKS are drawn together. */
enum { BLOCKS = CPU_PHILOX, SEGMENT = 4 * BLOCKS * 8 };

/* A tensor as rows of `n` elements with consecutive places; a sample has `each` rows. */
typedef struct dropout_job {
    const void *x; /* f32, or if `narrow` bf16 */
    void *y;
    bool narrow;
    const weft_node *node;
    const weft_shape *shape;
    uint64_t key, step, first;
    uint32_t threshold;
    float keep;
    int64_t each, n, segments; /* segments of a row */
    bool whole;                /* a sample is one row, and the whole of a sample */
} dropout_job;

static WEFT_CLONES void philox_clones(uint64_t key, uint64_t high, uint64_t first,
                                      uint32_t out[4 * CPU_PHILOX])
{
    uint32_t x0[BLOCKS], x1[BLOCKS], x2[BLOCKS], x3[BLOCKS];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < BLOCKS; i++) {
        x0[i] = (uint32_t)(first + (uint64_t)i);
        x1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        x2[i] = (uint32_t)high;
        x3[i] = (uint32_t)(high >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * x0[i], p1 = (uint64_t)0xCD9E8D57u * x2[i];
            x0[i] = (uint32_t)(p1 >> 32) ^ x1[i] ^ k0;
            x1[i] = (uint32_t)p1;
            x2[i] = (uint32_t)(p0 >> 32) ^ x3[i] ^ k1;
            x3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < BLOCKS; i++) {
        out[4 * i] = x0[i];
        out[4 * i + 1] = x1[i];
        out[4 * i + 2] = x2[i];
        out[4 * i + 3] = x3[i];
    }
}

void cpu_philox(uint64_t key, uint64_t high, uint64_t first, uint32_t out[4 * CPU_PHILOX])
{
    philox_clones(key, high, first, out);
}

/* The place in the whole sample of the first element of a row of the sample. */
static int64_t place_of(const dropout_job *j, int64_t row)
{
    const weft_attr *start = weft_node_attr(j->node, "start");
    const weft_attr *whole = weft_node_attr(j->node, "whole");
    int last = j->shape->rank - 1;
    if (j->whole) return 0;
    int64_t place = start->ints[last], step = whole->ints[last];
    for (int d = last - 1; d > 0; d--) {
        place += (row % j->shape->dim[d] + start->ints[d]) * step;
        row /= j->shape->dim[d];
        step *= whole->ints[d];
    }
    return place;
}

WEFT_INLINE void apply_of(const dropout_job *j, int64_t at, const uint32_t *number, int64_t count,
                          bool narrow)
{
    const void *x = cpu_element(j->x, at, narrow);
    void *y = cpu_element(j->y, at, narrow);
    uint32_t threshold = j->threshold;
    float keep = j->keep;
    for (int64_t i = 0; i < count; i++)
        cpu_put(y, i, narrow, number[i] < threshold ? 0 : cpu_get(x, i, narrow) * keep);
}
CPU_PRECISIONS(static, apply, j->narrow,
               (const dropout_job *j, int64_t at, const uint32_t *number, int64_t count), j, at,
               number, count)

static void part(void *user, int64_t begin, int64_t end)
{
    const dropout_job *j = user;
    uint32_t number[4 * BLOCKS];
    for (int64_t k = begin; k < end; k++) {
        int64_t row = k / j->segments, at = k % j->segments * SEGMENT;
        int64_t stop = WEFT_MIN(at + SEGMENT, j->n), place = place_of(j, row % j->each);
        uint64_t high = j->step << 32 | (j->first + (uint64_t)(row / j->each));
        while (at < stop) {
            int64_t skipped = (place + at) & 3, count = WEFT_MIN(4 * BLOCKS - skipped, stop - at);
            cpu_philox(j->key, high, (uint64_t)((place + at) >> 2), number);
            apply(j, row * j->n + at, number + skipped, count);
            at += count;
        }
    }
}

/* Whether this is the whole tensor in all dimensions but the samples. */
static bool is_whole(const weft_node *node, const weft_shape *shape)
{
    const weft_attr *whole = weft_node_attr(node, "whole");
    for (int d = 1; whole && d < shape->rank; d++)
        if (whole->ints[d] != shape->dim[d]) return false;
    return true;
}

static void dropout_loop(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    const weft_shape *shape = &weft_in(k->group.graph, node, 0)->shape;
    int64_t samples = shape->dim[0], size = weft_shape_elements(shape) / samples;
    double rate = weft_node_real(node, "rate", 0.5);
    dropout_job j = {.x = k->in[0], .y = k->out[0], .node = node, .shape = shape};
    j.narrow = weft_in(k->group.graph, node, 0)->dtype == WEFT_BF16;
    j.key = weft_mix((uint64_t)weft_node_int(node, "seed", 0, 0),
                     (uint64_t)weft_node_int(node, "stream", 0, 0));
    j.step = (uint64_t) * (const int32_t *)k->in[1];
    j.first = (uint64_t) * (const int32_t *)k->in[2] + (uint64_t)weft_node_int(node, "start", 0, 0);
    j.threshold = (uint32_t)(rate * 4294967296.0);
    j.keep = (float)(1 / (1 - rate));
    j.whole = is_whole(node, shape);
    j.n = j.whole ? size : shape->dim[shape->rank - 1];
    j.each = size / j.n;
    j.segments = (j.n + SEGMENT - 1) / SEGMENT;
    weft_parallel(k->threads, samples * j.each * j.segments, SEGMENT / WEFT_MIN(j.n, SEGMENT), part,
                  &j);
}

CPU_PLAIN(dropout)

const cpu_entry cpu_dropout_entries[] = {
    {"dropout", "loop", cpu_one_precision, dropout_make, NULL, CPU_ANY},
    {.op = NULL},
};
