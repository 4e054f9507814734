/* Merges the tokens of a piece of text in the order of byte-pair encoding, with a heap of the pairs
 * of neighbours. A pair whose tokens have changed since it was put into the heap is passed over. */
#include "data/bpe_merge.h"

/* A slot of the table of merges by their two tokens; rank -1: empty. */
typedef struct slot {
    uint64_t key;
    int32_t rank, result;
} slot;

struct weft_bpe_merges {
    slot *slots;
    size_t mask;
};

/* The tokens at `at` and behind it, which are merged in the order of (rank, at). */
typedef struct weft_bpe_pair {
    int32_t rank, result, left, right;
    int64_t at;
} pair;

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static slot *find(const weft_bpe_merges *m, uint64_t key)
{
    size_t at = (size_t)weft_mix(key, 1) & m->mask;
    while (m->slots[at].rank >= 0 && m->slots[at].key != key) at = (at + 1) & m->mask;
    return &m->slots[at];
}

weft_status weft_bpe_merges_create(const weft_bpe_merge *merge, int count, weft_bpe_merges **out)
{
    weft_bpe_merges *m;
    size_t size = 16;
    while (size < 2 * (size_t)count) size *= 2;
    WEFT_TRY(WEFT_NEW(&m, 1));
    weft_status status = WEFT_NEW(&m->slots, size);
    if (status != WEFT_OK) {
        free(m);
        return status;
    }
    m->mask = size - 1;
    for (size_t i = 0; i < size; i++) m->slots[i].rank = -1;
    for (int i = 0; i < count; i++) {
        slot *s = find(m, key_of(merge[i].left, merge[i].right));
        /* As in other implementations, the last one of two equal merges counts. */
        *s = (slot){key_of(merge[i].left, merge[i].right), i, merge[i].result};
    }
    *out = m;
    return WEFT_OK;
}

void weft_bpe_merges_free(weft_bpe_merges **merges)
{
    if (*merges) free((*merges)->slots);
    free(*merges);
    *merges = NULL;
}

void weft_bpe_scratch_free(weft_bpe_scratch *s)
{
    free(s->before);
    free(s->after);
    free(s->heap);
    *s = (weft_bpe_scratch){0};
}

static bool comes_first(const pair *a, const pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(pair *heap, int64_t *count, pair p)
{
    int64_t i = (*count)++;
    for (; i > 0 && comes_first(&p, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = p;
}

static pair pop(pair *heap, int64_t *count)
{
    pair first = heap[0], last = heap[--*count];
    int64_t i = 0;
    for (int64_t child = 1; child < *count; child = 2 * i + 1) {
        if (child + 1 < *count && comes_first(&heap[child + 1], &heap[child])) child++;
        if (!comes_first(&heap[child], &last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

/* Pushes the pair of the tokens at `at` and `next`, if they can be merged. */
static void consider(const weft_bpe_merges *m, const int32_t *token, int64_t at, int64_t next,
                     pair *heap, int64_t *count)
{
    const slot *s = find(m, key_of(token[at], token[next]));
    if (s->rank < 0) return;
    push(heap, count, (pair){s->rank, s->result, token[at], token[next], at});
}

/* Makes room for n tokens, of which each merge pushes two pairs at the most. */
static weft_status reserve(weft_bpe_scratch *s, size_t n)
{
    if (n <= s->capacity) return WEFT_OK;
    weft_bpe_scratch_free(s);
    WEFT_TRY(WEFT_NEW(&s->before, n));
    WEFT_TRY(WEFT_NEW(&s->after, n));
    WEFT_TRY(WEFT_NEW(&s->heap, 3 * n));
    s->capacity = n;
    return WEFT_OK;
}

weft_status weft_bpe_merge_all(const weft_bpe_merges *m, weft_bpe_scratch *s, int32_t *token,
                               int64_t *count)
{
    int64_t n = *count, pairs = 0, kept = 0;
    WEFT_TRY(reserve(s, (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        s->before[i] = (int32_t)(i - 1);
        s->after[i] = (int32_t)(i + 1);
    }
    for (int64_t i = 0; i + 1 < n; i++) consider(m, token, i, i + 1, s->heap, &pairs);
    while (pairs > 0) {
        pair p = pop(s->heap, &pairs);
        int64_t next = s->after[p.at];
        if (token[p.at] != p.left || next >= n || token[next] != p.right) continue;
        token[p.at] = p.result;
        token[next] = -1; /* gone */
        int64_t behind = s->after[p.at] = s->after[next];
        if (behind < n) s->before[behind] = (int32_t)p.at;
        if (s->before[p.at] >= 0) consider(m, token, s->before[p.at], p.at, s->heap, &pairs);
        if (behind < n) consider(m, token, p.at, behind, s->heap, &pairs);
    }
    for (int64_t i = 0; i < n; i = s->after[i]) token[kept++] = token[i];
    *count = kept;
    return WEFT_OK;
}
