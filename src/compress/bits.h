/* Writes bit streams, lowest bit first, with Elias gamma codes of multiples and Golomb-Rice codes
 * of gaps. */
#ifndef WEFT_COMPRESS_BITS_H
#define WEFT_COMPRESS_BITS_H

#include "compress/compress.h"

typedef struct weft_bits {
    uint8_t *at, *end;
    uint64_t hold; /* the last `held` bits, fewer than 8, which are not written yet */
    int held;
    bool full; /* no room was left, so later bits are lost */
} weft_bits;

/* Appends the lowest n bits of value; n is at most 32. */
static inline void weft_bits_put(weft_bits *b, uint64_t value, int n)
{
    b->hold |= value << b->held;
    b->held += n;
    while (b->held >= 8) {
        if (b->at == b->end) {
            b->full = true;
            b->hold = 0;
            b->held = 0;
            return;
        }
        *b->at++ = (uint8_t)b->hold;
        b->hold >>= 8;
        b->held -= 8;
    }
}

/* Fills the last byte with zeros, and writes it. */
static inline void weft_bits_flush(weft_bits *b)
{
    if (b->held) weft_bits_put(b, 0, 8 - b->held);
}

/* The number of bits below the highest set bit of x, which is not 0. */
static inline int weft_log2(uint64_t x)
{
    return 63 - __builtin_clzll(x);
}

/* Elias gamma code (Elias 1975) of a multiple from 1 to 2^30: as many ones as the multiple has bits
 * below its highest set bit, a zero, and those bits. The multiple 1 takes one bit. */
enum { WEFT_TIMES_BITS = 30 };
static inline int weft_times_size(uint32_t times)
{
    return 2 * weft_log2(times) + 1;
}
static inline void weft_times_put(weft_bits *b, uint32_t times)
{
    int low = weft_log2(times);
    weft_bits_put(b, (UINT64_C(1) << low) - 1, low + 1);
    weft_bits_put(b, times & ((UINT64_C(1) << low) - 1), low);
}

/* Gaps between nonzero elements have an adaptive Golomb-Rice code (as in Weinberger, Seroussi and
 * Sapiro 2000): gap / 2^k ones, a zero, and the lowest k bits of the gap. k is not sent, since the
 * receiver computes it from the previous gaps. A gap of WEFT_GAP_ONES 2^k or more is written in 32
 * bits, after WEFT_GAP_ONES ones without a zero. */
enum { WEFT_GAP_ONES = 24, WEFT_GAP_MEMORY = 64 };

typedef struct weft_gaps {
    uint64_t sum;
    uint32_t count;
} weft_gaps;

static inline weft_gaps weft_gaps_begin(int64_t count, uint32_t hits)
{
    return (weft_gaps){(uint64_t)count / (hits ? hits : 1), 1};
}

/* Chooses k from the mean of the previous gaps: the smallest k with a mean of at most 25/12 of 2^k.
 * For geometrically distributed gaps of that mean, the codes with k and k + 1 are equally long
 * (Kiely 2004). */
static inline int weft_gaps_bits(const weft_gaps *g)
{
    int k = 0;
    while ((uint64_t)g->count * 25 << k < g->sum * 12) k++;
    return k;
}

/* Adds a gap to the mean; after WEFT_GAP_MEMORY gaps the old ones count half. */
static inline void weft_gaps_note(weft_gaps *g, uint64_t gap)
{
    g->sum += gap;
    if (++g->count < WEFT_GAP_MEMORY) return;
    g->sum >>= 1;
    g->count >>= 1;
}

static inline void weft_gaps_put(weft_gaps *g, weft_bits *b, uint64_t gap)
{
    int k = weft_gaps_bits(g);
    uint64_t ones = gap >> k;
    if (ones < WEFT_GAP_ONES) {
        weft_bits_put(b, (UINT64_C(1) << ones) - 1, (int)ones + 1);
        weft_bits_put(b, gap & ((UINT64_C(1) << k) - 1), k);
    } else {
        weft_bits_put(b, (UINT64_C(1) << WEFT_GAP_ONES) - 1, WEFT_GAP_ONES);
        weft_bits_put(b, gap, 32);
    }
    weft_gaps_note(g, gap);
}

#endif
