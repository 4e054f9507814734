/* Estimates that have been made, in a hash table with open addressing that is at most half full. */
#include "cost/times.h"

typedef struct known_entry {
    uint64_t key; /* 0: free */
    weft_estimate estimate;
} known_entry;

struct weft_known {
    const weft_times *times;
    known_entry *entries;
    size_t count, capacity;
};

weft_status weft_known_new(const weft_times *times, weft_known **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    (*out)->times = times;
    return WEFT_OK;
}

void weft_known_free(weft_known **known)
{
    if (*known) free((*known)->entries);
    free(*known);
    *known = NULL;
}

size_t weft_known_count(const weft_known *known)
{
    return known->count;
}

static uint64_t mix_real(uint64_t hash, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return weft_mix(hash, bits);
}

static uint64_t key_of(const weft_timed *what)
{
    uint64_t key = weft_mix(weft_hash_text(what->kind), weft_hash_text(what->group));
    key = weft_mix(key, (uint64_t)what->threads);
    key = weft_mix(key, (uint64_t)what->ranks);
    key = mix_real(mix_real(key, what->flops), what->bytes);
    return key ? key : 1;
}

static size_t place_of(const known_entry *entries, size_t capacity, uint64_t key)
{
    size_t at = (size_t)key & (capacity - 1);
    while (entries[at].key && entries[at].key != key) at = (at + 1) & (capacity - 1);
    return at;
}

static weft_status make_room(weft_known *k)
{
    known_entry *larger;
    size_t capacity = WEFT_MAX(2 * k->capacity, (size_t)256);
    if (2 * (k->count + 1) <= k->capacity) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&larger, capacity));
    for (size_t i = 0; i < k->capacity; i++)
        if (k->entries[i].key)
            larger[place_of(larger, capacity, k->entries[i].key)] = k->entries[i];
    free(k->entries);
    k->entries = larger;
    k->capacity = capacity;
    return WEFT_OK;
}

weft_status weft_known_estimate(weft_known *k, const weft_timed *what, weft_estimate *out)
{
    WEFT_TRY(make_room(k));
    uint64_t key = key_of(what);
    known_entry *e = &k->entries[place_of(k->entries, k->capacity, key)];
    if (!e->key) {
        *e = (known_entry){.key = key, .estimate = weft_times_estimate(k->times, what)};
        k->count++;
    }
    *out = e->estimate;
    return WEFT_OK;
}
