/* A learner's pass over common parameters, of one type: included by hogwild.c once for each, with
 * REAL, WORD (an integer as wide) and NAME(function) defined.
 *
 * Only what others may write at the same time is atomic, and without any order. That is one number
 * at a time, so blocks are read first, then computed with, which the compiler turns into vector
 * code, then written. */

typedef struct NAME(block) {
    REAL took[BLOCK];              /* as the learner has taken them, */
    REAL left[BLOCK];              /* as its step has left them, */
    REAL common[BLOCK];            /* as they are now, */
    REAL next[BLOCK];              /* and as they are to be */
    WORD mine[BLOCK], both[BLOCK]; /* whether the step has changed it; and others have, too */
} NAME(block);

static inline WORD NAME(bits)(REAL x)
{
    WORD bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static void NAME(load)(const _Atomic WORD *from, int64_t n, REAL *to)
{
    for (int64_t i = 0; i < n; i++) {
        WORD bits = atomic_load_explicit(&from[i], memory_order_relaxed);
        memcpy(&to[i], &bits, sizeof(bits));
    }
}

/* What nobody else has changed becomes what the step has made of it: added up it would be rounded
 * once more. */
WEFT_CLONES static void NAME(advance)(NAME(block) *restrict b)
{
    for (int i = 0; i < BLOCK; i++) {
        WORD took = NAME(bits)(b->took[i]), left = NAME(bits)(b->left[i]);
        WORD common = NAME(bits)(b->common[i]);
        WORD sum = NAME(bits)(b->common[i] + (b->left[i] - b->took[i]));
        WORD mine = left != took ? (WORD)-1 : 0, others = common != took ? (WORD)-1 : 0;
        WORD next = (mine & others & sum) | (mine & ~others & left) | (~mine & common);
        memcpy(&b->next[i], &next, sizeof(next));
        b->mine[i] = mine & 1;
        b->both[i] = mine & others & 1;
    }
}

/* What the step has left alone is not written: it may be another learner's at this moment. */
static void NAME(store)(const NAME(block) * b, int n, _Atomic WORD *to)
{
    for (int i = 0; i < n; i++)
        if (b->mine[i]) atomic_store_explicit(&to[i], NAME(bits)(b->next[i]), memory_order_relaxed);
}

/* The same with a look at what is written over: what others have written since is lost. */
static int NAME(swap)(const NAME(block) * b, int n, _Atomic WORD *to)
{
    int lost = 0;
    for (int i = 0; i < n; i++)
        if (b->mine[i])
            lost += atomic_exchange_explicit(&to[i], NAME(bits)(b->next[i]),
                                             memory_order_relaxed) != NAME(bits)(b->common[i]);
    return lost;
}

/* own[count]: the parameters after the step, and then those that the next one begins with;
 * took[count]: those that it began with. */
static void NAME(pass)(void *common, void *own, const void *took, int64_t count, tally *t)
{
    NAME(block) b = {.took = {0}};
    for (int64_t at = 0; at < count; at += BLOCK) {
        int n = (int)WEFT_MIN(count - at, (int64_t)BLOCK);
        _Atomic WORD *words = (_Atomic WORD *)common + at;
        REAL *left = (REAL *)own + at;
        WORD written = 0, mixed = 0;
        NAME(load)(words, n, b.common);
        memcpy(b.took, (const REAL *)took + at, (size_t)n * sizeof(REAL));
        memcpy(b.left, left, (size_t)n * sizeof(REAL));
        NAME(advance)(&b);
        for (int i = 0; i < n; i++) written += b.mine[i];
        for (int i = 0; i < n; i++) mixed += b.both[i];
        bool look = t->skip-- == 0;
        if (look) t->lost += NAME(swap)(&b, n, words);
        if (!look && written > 0) NAME(store)(&b, n, words);
        if (look) t->skip = t->every - 1;
        t->checked += look ? (int64_t)written : 0;
        t->written += (int64_t)written;
        t->mixed += (int64_t)mixed;
        memcpy(left, b.next, (size_t)n * sizeof(REAL));
    }
}

static void NAME(take)(const void *common, void *own, int64_t count)
{
    NAME(load)((const _Atomic WORD *)common, count, own);
}

static void NAME(put)(void *common, const void *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        atomic_store_explicit((_Atomic WORD *)common + i, NAME(bits)(((const REAL *)numbers)[i]),
                              memory_order_relaxed);
}

#undef REAL
#undef WORD
#undef NAME
