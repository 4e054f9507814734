/* A learner's pass over the shared parameters. hogwild.c includes this file once for each number
 * type, with REAL, BITS (an integer of equal width), SET (elements in a word of 64 bits) and
 * NAME(function) defined.
 *
 * Only the shared parameters are atomic, with relaxed order, since other learners may write them at
 * the same time. Atomic accesses are words of 64 bits. So a pass reads a block word by word,
 * computes it in a loop that the compiler vectorizes, and then writes it. If a step has changed
 * only one of the two elements of a word, the other one keeps its present value. */

typedef struct NAME(block) {
    REAL took[BLOCK];   /* base: the learner's values before its step */
    REAL left[BLOCK];   /* local: the learner's values after its step */
    REAL common[BLOCK]; /* shared: the present shared values */
    REAL next[BLOCK];   /* the new shared values */
    BITS mine[BLOCK];   /* all bits set: the step has changed the element */
    int written, mixed; /* elements changed by the step; of these, changed by other learners, too */
} NAME(block);

static inline BITS NAME(bits)(REAL x)
{
    BITS bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline void NAME(load)(const _Atomic uint64_t *from, int64_t words, REAL *to)
{
    for (int64_t i = 0; i < words; i++) {
        uint64_t word = atomic_load_explicit(&from[i], memory_order_relaxed);
        memcpy(&to[i * SET], &word, sizeof(word));
    }
}

/* Computes the new values of a block: shared value plus the difference of the step. An element that
 * only this step has changed gets the local value, since adding the difference would round once
 * more. */
static inline void NAME(advance)(NAME(block) *restrict b)
{
    BITS written = 0, mixed = 0;
    for (int i = 0; i < BLOCK; i++) {
        BITS took = NAME(bits)(b->took[i]), left = NAME(bits)(b->left[i]);
        BITS common = NAME(bits)(b->common[i]);
        BITS sum = NAME(bits)(b->common[i] + (b->left[i] - b->took[i]));
        BITS mine = left != took ? (BITS)-1 : 0, others = common != took ? (BITS)-1 : 0;
        BITS next = (mine & others & sum) | (mine & ~others & left) | (~mine & common);
        memcpy(&b->next[i], &next, sizeof(next));
        b->mine[i] = mine;
        written += mine & 1;
        mixed += mine & others & 1;
    }
    b->written = (int)written;
    b->mixed = (int)mixed;
}

/* Writes those elements of word i that the step has changed, by compare-and-swap. Returns the lost
 * updates: written elements that other learners have changed since the block was read. */
static int NAME(merge)(const NAME(block) * b, int i, _Atomic uint64_t *to)
{
    BITS was[SET], is[SET];
    uint64_t old = atomic_load_explicit(to, memory_order_relaxed), word;
    int lost = 0;
    do {
        memcpy(was, &old, sizeof(old));
        for (int k = 0; k < SET; k++)
            is[k] = b->mine[i * SET + k] ? NAME(bits)(b->next[i * SET + k]) : was[k];
        memcpy(&word, is, sizeof(word));
    } while (!atomic_compare_exchange_weak_explicit(to, &old, word, memory_order_relaxed,
                                                    memory_order_relaxed));
    for (int k = 0; k < SET; k++)
        lost += b->mine[i * SET + k] && was[k] != NAME(bits)(b->common[i * SET + k]);
    return lost;
}

/* Writes only the words in which the step has changed an element, since another learner may be
 * writing the other words. Returns the lost updates; 0 without `look`. */
static int NAME(store_some)(const NAME(block) * b, int words, bool look, _Atomic uint64_t *to)
{
    int lost = 0;
    for (int i = 0; i < words; i++)
        if (b->mine[i * SET] | b->mine[i * SET + SET - 1]) lost += NAME(merge)(b, i, &to[i]);
    return look ? lost : 0;
}

static inline void NAME(store)(const NAME(block) * b, int words, _Atomic uint64_t *to)
{
    for (int i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, &b->next[i * SET], sizeof(word));
        atomic_store_explicit(&to[i], word, memory_order_relaxed);
    }
}

/* Prefetches the part of the three arrays that is AHEAD bytes further, for reading and writing:
 * hardware does not predict so many streams. */
static inline void NAME(call)(const void *common, const void *own, const void *took)
{
    enum { LINE = 64 };
    for (int at = AHEAD; at < AHEAD + BLOCK * (int)sizeof(REAL); at += LINE) {
        __builtin_prefetch((const char *)common + at, 1);
        __builtin_prefetch((const char *)own + at, 1);
        __builtin_prefetch((const char *)took + at, 1);
    }
}

/* Makes the pass over n elements: a block, or the last ones. With a constant n, each copy compiles
 * to a few instructions. */
static inline void NAME(visit)(NAME(block) *restrict b, _Atomic uint64_t *common,
                               REAL *restrict own, REAL *restrict took, int n, tally *t)
{
    int words = (n + SET - 1) / SET;
    bool look = t->skip-- == 0;
    NAME(call)(common, own, took);
    NAME(load)(common, words, b->common);
    memcpy(b->took, took, (size_t)n * sizeof(REAL));
    memcpy(b->left, own, (size_t)n * sizeof(REAL));
    NAME(advance)(b);
    if (b->written == words * SET && !look)
        NAME(store)(b, words, common);
    else if (b->written > 0)
        t->lost_updates += NAME(store_some)(b, words, look, common);
    if (look) t->skip = t->every - 1;
    t->checked += look ? b->written : 0;
    t->written += b->written;
    t->mixed += b->mixed;
    memcpy(own, b->next, (size_t)n * sizeof(REAL));
    memcpy(took, b->next, (size_t)n * sizeof(REAL));
}

/* Makes the pass of a step over the shared parameters `numbers`. own[count] has the learner's
 * parameters after the step, took[count] those before it. Afterwards both have the new shared
 * values, with which the next step begins. */
WEFT_CLONES static void NAME(pass)(void *numbers, void *own, void *took, int64_t count, tally *t)
{
    _Atomic uint64_t *common = numbers;
    REAL *left = own, *before = took;
    NAME(block) b = {.took = {0}};
    for (; count >= BLOCK; count -= BLOCK) {
        NAME(visit)(&b, common, left, before, BLOCK, t);
        common += BLOCK / SET;
        left += BLOCK;
        before += BLOCK;
    }
    b = (NAME(block)){.took = {0}};
    if (count > 0) NAME(visit)(&b, common, left, before, (int)count, t);
}

static void NAME(take)(const void *common, void *own, int64_t count)
{
    const _Atomic uint64_t *from = common;
    REAL last[SET];
    NAME(load)(from, count / SET, own);
    if (count % SET == 0) return;
    NAME(load)(from + count / SET, 1, last);
    ((REAL *)own)[count - 1] = last[0];
}

static void NAME(put)(void *common, const void *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i += SET) {
        uint64_t word = 0;
        memcpy(&word, (const REAL *)numbers + i,
               (size_t)WEFT_MIN(count - i, (int64_t)SET) * sizeof(REAL));
        atomic_store_explicit((_Atomic uint64_t *)common + i / SET, word, memory_order_relaxed);
    }
}

#undef REAL
#undef BITS
#undef SET
#undef NAME
