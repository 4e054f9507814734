#include "base/base.h"

/* Philox4x32-10: two multiplications and four exclusive-ors a round, ten rounds. */
void weft_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t out[4])
{
    uint32_t x0 = (uint32_t)counter_low, x1 = (uint32_t)(counter_low >> 32);
    uint32_t x2 = (uint32_t)counter_high, x3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* FNV-1a. */
uint64_t weft_hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        hash = (hash ^ *c) * 0x100000001b3u;
    return hash;
}

uint64_t weft_mix(uint64_t a, uint64_t b)
{
    uint32_t out[4];
    weft_philox(a, 0x77656674u, b, out);
    return ((uint64_t)out[1] << 32) | out[0];
}

void weft_random_start(weft_random *random, uint64_t key, uint64_t stream)
{
    *random = (weft_random){.key = key, .stream = stream};
}

uint32_t weft_random_u32(weft_random *random)
{
    unsigned lane = (unsigned)(random->position & 3);
    if (lane == 0) weft_philox(random->key, random->stream, random->position >> 2, random->block);
    random->position++;
    return random->block[lane];
}

double weft_random_unit(weft_random *random)
{
    return (double)(weft_random_u32(random) >> 8) / 16777216.0;
}

double weft_random_between(weft_random *random, double low, double high)
{
    return low + (high - low) * weft_random_unit(random);
}

/* One pass of an eight-round Feistel network over 2 * half bits. */
static uint64_t feistel(uint64_t key, unsigned half, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = value >> half, right = value & mask;
    for (unsigned round = 0; round < 8; round++) {
        uint32_t out[4];
        weft_philox(key, round, right, out);
        uint64_t next = left ^ ((((uint64_t)out[1] << 32) | out[0]) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

int64_t weft_permute(uint64_t key, int64_t count, int64_t i)
{
    if (count < 2) return i;
    unsigned half = 1;
    while ((uint64_t)1 << (2 * half) < (uint64_t)count) half++;
    /* Cycle walking: the network permutes a domain of at most 4 * count values, and is applied
     * again until the value is below count. This takes at most four passes on average, and it ends
     * because the cycle of i returns to i. */
    uint64_t value = (uint64_t)i;
    do value = feistel(key, half, value);
    while (value >= (uint64_t)count);
    return (int64_t)value;
}
