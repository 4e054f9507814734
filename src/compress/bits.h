/* Bit streams, lowest bit first, and the codes in them. */
#ifndef WEFT_COMPRESS_BITS_H
#define WEFT_COMPRESS_BITS_H

#include "compress/compress.h"

typedef struct weft_bits {
    uint8_t *at, *end;
    uint64_t hold;
    int held;
    bool full; /* no room was left; the rest is not written */
} weft_bits;

/* n at most 32. */
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

/* Completes a byte. */
static inline void weft_bits_flush(weft_bits *b)
{
    if (b->held) weft_bits_put(b, 0, 8 - b->held);
}

/* Bits below the highest one of an integer. */
static inline int weft_log2(uint64_t x)
{
    return 63 - __builtin_clzll(x);
}

/* Elias gamma code (Elias 1975) of a multiple, 1 to 2^30: as many ones as there are bits below the
 * highest one, a zero, and those bits. 1 takes one bit. */
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

/* Gaps have an adaptive Golomb-Rice code (as in Weinberger, Seroussi and Sapiro 2000): as many ones
 * as 2^k goes into the gap, a zero, and k bits. k is not sent, as it follows from the gaps before.
 * A gap far beyond these is written in 32 bits, after as many ones as no other gap has. */
enum { WEFT_GAP_ONES = 24, WEFT_GAP_MEMORY = 64 };

typedef struct weft_gaps {
    uint64_t sum;
    uint32_t count;
} weft_gaps;

static inline weft_gaps weft_gaps_begin(int64_t count, uint32_t hits)
{
    return (weft_gaps){(uint64_t)count / (hits ? hits : 1), 1};
}

/* One more bit pays where the mean is beyond 25/12 of 2^k: for geometrically distributed gaps both
 * codes are equally long there (Kiely 2004). */
static inline int weft_gaps_bits(const weft_gaps *g)
{
    int k = 0;
    while ((uint64_t)g->count * 25 << k < g->sum * 12) k++;
    return k;
}

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
