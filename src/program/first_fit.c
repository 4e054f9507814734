/* First fit by a segment tree over time. Each node of the tree has two sets of bytes: those that
 * are taken during its whole time by buffers whose lifetimes have it as one of their largest parts
 * (`whole`), and those that are taken at any moment of it by buffers whose parts are the node or
 * below it (`any`). The bytes that are taken in a part of a lifetime are `any` of its node, and
 * `whole` of the nodes above. A set is a sorted list of intervals, in which neighbours are joined:
 * since first fit leaves few gaps, lists stay short however many buffers there are. */
#include "program/first_fit.h"

enum { ALIGN = 64 };

typedef struct interval {
    size_t begin, end;
} interval;

typedef struct interval_set {
    interval *at;
    size_t count, capacity;
} interval_set;

struct weft_first_fit {
    int leaves; /* a power of two; node 1 is the root, 2 n and 2 n + 1 are below n */
    interval_set *whole, *any;
};

weft_status weft_first_fit_new(int times, weft_first_fit **out)
{
    weft_first_fit *f;
    WEFT_TRY(WEFT_NEW(&f, 1));
    for (f->leaves = 1; f->leaves < times;) f->leaves *= 2;
    weft_status status = WEFT_NEW(&f->whole, 2 * (size_t)f->leaves);
    if (status == WEFT_OK) status = WEFT_NEW(&f->any, 2 * (size_t)f->leaves);
    *out = f;
    if (status != WEFT_OK) weft_first_fit_free(out);
    return status;
}

void weft_first_fit_free(weft_first_fit **fit)
{
    weft_first_fit *f = *fit;
    for (int n = 1; f && f->any && n < 2 * f->leaves; n++) {
        free(f->whole[n].at);
        free(f->any[n].at);
    }
    if (f) free(f->whole);
    if (f) free(f->any);
    free(f);
    *fit = NULL;
}

/* The first interval that ends behind an offset. */
static size_t find(const interval_set *set, size_t offset)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->at[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds an interval, and joins it with those that it touches. */
static weft_status add(interval_set *set, interval what)
{
    size_t from = what.begin > 0 ? find(set, what.begin - 1) : 0, to = from;
    for (; to < set->count && set->at[to].begin <= what.end; to++) {
        what.begin = WEFT_MIN(what.begin, set->at[to].begin);
        what.end = WEFT_MAX(what.end, set->at[to].end);
    }
    if (to == from) WEFT_TRY(WEFT_GROW(&set->at, &set->capacity, set->count));
    if (to != from + 1)
        memmove(set->at + from + 1, set->at + to, (set->count - to) * sizeof(*set->at));
    set->at[from] = what;
    set->count = set->count + 1 - (to - from);
    return WEFT_OK;
}

/* Lifts *offset until so many bytes from there are free in a set; whether it has. */
static bool lift(const interval_set *set, size_t bytes, size_t *offset)
{
    bool lifted = false;
    for (size_t i = find(set, *offset); i < set->count && set->at[i].begin < *offset + bytes; i++) {
        *offset = set->at[i].end;
        lifted = true;
    }
    return lifted;
}

/* The nodes of the largest parts of a lifetime are, level by level from the leaves, those at the
 * left end that are right children, and those at the right end that are left children. */
static bool lift_part(const weft_first_fit *f, int node, size_t bytes, size_t *offset)
{
    bool lifted = lift(&f->any[node], bytes, offset);
    for (node /= 2; node > 0; node /= 2) lifted = lift(&f->whole[node], bytes, offset) || lifted;
    return lifted;
}

static bool lift_all(const weft_first_fit *f, int first, int last, size_t bytes, size_t *offset)
{
    bool lifted = false;
    int left = first + f->leaves, right = last + f->leaves + 1;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) lifted = lift_part(f, left++, bytes, offset) || lifted;
        if (right & 1) lifted = lift_part(f, --right, bytes, offset) || lifted;
    }
    return lifted;
}

static weft_status take_part(weft_first_fit *f, int node, interval what)
{
    WEFT_TRY(add(&f->whole[node], what));
    for (; node > 0; node /= 2) WEFT_TRY(add(&f->any[node], what));
    return WEFT_OK;
}

weft_status weft_first_fit_place(weft_first_fit *f, int first, int last, size_t bytes,
                                 size_t *offset)
{
    int left = first + f->leaves, right = last + f->leaves + 1;
    *offset = 0;
    if (bytes == 0) return WEFT_OK;
    while (lift_all(f, first, last, bytes, offset)) {
    }
    const interval what = {*offset, (*offset + bytes + ALIGN - 1) / ALIGN * ALIGN};
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) WEFT_TRY(take_part(f, left++, what));
        if (right & 1) WEFT_TRY(take_part(f, --right, what));
    }
    return WEFT_OK;
}
