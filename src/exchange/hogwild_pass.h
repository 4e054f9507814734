/* A learner's pass over common parameters, of one type: included by hogwild.c once for each, with
 * REAL, BITS (an integer as wide), SET (so many of them are a word of 64 bits) and NAME(function)
 * defined.
 *
 * Only what others may write at the same time is atomic, and without any order. That is a word at a
 * time, as wide as a core takes at once, so blocks are read first, then computed with, which the
 * compiler turns into vector code, then written. Where a step has left one number of a word alone
 * the other is written beside what is there. */

typedef struct NAME(block) {
    REAL took[BLOCK];   /* as the learner has taken them, */
    REAL left[BLOCK];   /* as its step has left them, */
    REAL common[BLOCK]; /* as they are now, */
    REAL next[BLOCK];   /* and as they are to be */
    BITS mine[BLOCK];   /* all bits: the step has changed it */
    int written, mixed; /* numbers that it has changed; and others have, too */
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

/* What nobody else has changed becomes what the step has made of it: added up it would be rounded
 * once more. */
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

/* Writes what the step has changed of word i, and nothing else of it; counts what is lost, which is
 * what others have written since it was read. */
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

/* What the step has left alone is not written: it may be another learner's at this moment. Returns
 * what was lost, if somebody looks. */
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

/* What is soon read, and then written, begins to come: no core guesses so many rows at once. */
static inline void NAME(call)(const void *common, const void *own, const void *took)
{
    enum { LINE = 64 };
    for (int at = AHEAD; at < AHEAD + BLOCK * (int)sizeof(REAL); at += LINE) {
        __builtin_prefetch((const char *)common + at, 1);
        __builtin_prefetch((const char *)own + at, 1);
        __builtin_prefetch((const char *)took + at, 1);
    }
}

/* n numbers: a block of them, or the last ones. Where that is known copies are a few instructions.
 */
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
        t->lost += NAME(store_some)(b, words, look, common);
    if (look) t->skip = t->every - 1;
    t->checked += look ? b->written : 0;
    t->written += b->written;
    t->mixed += b->mixed;
    memcpy(own, b->next, (size_t)n * sizeof(REAL));
    memcpy(took, b->next, (size_t)n * sizeof(REAL));
}

/* own[count]: the parameters after the step, and then those that the next one begins with;
 * took[count]: those that it began with, and then the same. */
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
