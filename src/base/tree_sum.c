/* Adds V leaves in a fixed binary tree. The order of additions depends on V alone, and not on the
 * distribution of the leaves over ranks, so 1, 2, 4 .. V ranks get the same bits. */
#include "base/tree_sum.h"

enum { BLOCK = 256, LEVELS = 21 }; /* elements added at a time; tree levels, for V up to 2^20 */

static int subtree_end(int leaves, int first, int level)
{
    int64_t end = (int64_t)first + ((int64_t)1 << level);
    return (int)WEFT_MIN(end, (int64_t)leaves);
}

int weft_tree_next(int leaves, int first, int last)
{
    int level = 0;
    while (level + 1 < LEVELS && first % (1 << (level + 1)) == 0 &&
           subtree_end(leaves, first, level + 1) <= last &&
           subtree_end(leaves, first, level) < last)
        level++;
    return subtree_end(leaves, first, level);
}

/* Element `at` of the listed subtree [first, end), or NULL if the list does not have it. The list
 * is searched by bisection. */
static const void *listed(const weft_tree *t, int first, int end, int64_t at)
{
    int low = 0, high = t->listed;
    while (low < high) {
        int middle = (low + high) / 2;
        if (t->list[middle].first < first)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == t->listed || t->list[low].first != first || t->list[low].last != end) return NULL;
    return (const char *)t->list[low].data + (size_t)at * weft_dtype_size(t->dtype);
}

/* The rank that holds the subtree [first, end) as a whole, and as which one of its subtrees; -1:
 * none does. */
static weft_tree_step holder(int leaves, int ranks, int first, int end)
{
    int64_t rank = ((int64_t)first * ranks + ranks - 1) / leaves;
    while (rank > 0 && weft_part_start(leaves, (int)rank, ranks) > first) rank--;
    while (weft_part_start(leaves, (int)rank + 1, ranks) <= first) rank++;
    int begin = (int)weft_part_start(leaves, (int)rank, ranks);
    int last = (int)weft_part_start(leaves, (int)rank + 1, ranks);
    for (int part = 0; begin < last; part++) {
        int next = weft_tree_next(leaves, begin, last);
        if (begin == first && next == end) return (weft_tree_step){(int)rank, part};
        begin = next;
    }
    return (weft_tree_step){-1, 0};
}

/* Element `at` of the subtree [first, end), if one rank or the list holds that subtree as a whole;
 * else NULL. */
static const void *held(const weft_tree *t, int first, int end, int64_t at)
{
    if (t->ranks == 0) return listed(t, first, end, at);
    weft_tree_step h = holder(t->leaves, t->ranks, first, end);
    return h.rank < 0 ? NULL
                      : (const char *)t->source[h.rank] +
                            (size_t)(h.part * t->stride + at) * weft_dtype_size(t->dtype);
}

#define ADD(type)                                                                                  \
    do {                                                                                           \
        const type *x = a, *y = b;                                                                 \
        type *z = out;                                                                             \
        for (int64_t i = 0; i < n; i++) z[i] = x[i] + y[i];                                        \
    } while (0)

/* Adds in f32 and rounds each sum to bf16, so the tree rounds at each node as for other types. */
static void add_bf16(const uint16_t *x, const uint16_t *y, uint16_t *z, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        z[i] = weft_bf16_of(weft_bf16_float(x[i]) + weft_bf16_float(y[i]));
}

void weft_tree_add(weft_dtype dtype, const void *a, const void *b, void *out, int64_t n)
{
    if (dtype == WEFT_F32) ADD(float);
    if (dtype == WEFT_F64) ADD(double);
    if (dtype == WEFT_I32) ADD(int32_t);
    if (dtype == WEFT_I64) ADD(int64_t);
    if (dtype == WEFT_BF16) add_bf16(a, b, out, n);
}

/* Returns n elements, from `at`, of the sum of the subtree that begins with leaf `first`. If the
 * subtree is held as a whole, the result is a pointer to it; else the sum is computed into `room`,
 * which has a block for each level. */
static const void *sum(const weft_tree *t, int first, int level, int64_t at, int64_t n,
                       double *room)
{
    int end = subtree_end(t->leaves, first, level);
    const void *whole = held(t, first, end, at);
    if (whole) return whole;
    int middle = subtree_end(t->leaves, first, level - 1);
    if (middle == end) return sum(t, first, level - 1, at, n, room);
    const void *left = sum(t, first, level - 1, at, n, room + BLOCK);
    if (left == room + BLOCK) left = memcpy(room, left, (size_t)n * weft_dtype_size(t->dtype));
    const void *right = sum(t, middle, level - 1, at, n, room + BLOCK);
    weft_tree_add(t->dtype, left, right, room, n);
    return room;
}

static int levels(int leaves)
{
    int level = 0;
    while ((1 << level) < leaves) level++;
    return level;
}

/* The order of additions is that of `sum`. */
static int list_steps(int leaves, int ranks, int first, int level, weft_tree_step *out, int count)
{
    int end = subtree_end(leaves, first, level);
    weft_tree_step whole = holder(leaves, ranks, first, end);
    if (whole.rank >= 0) {
        if (out) out[count] = whole;
        return count + 1;
    }
    int middle = subtree_end(leaves, first, level - 1);
    count = list_steps(leaves, ranks, first, level - 1, out, count);
    if (middle == end) return count;
    count = list_steps(leaves, ranks, middle, level - 1, out, count);
    if (out) out[count] = (weft_tree_step){-1, 0};
    return count + 1;
}

int weft_tree_steps(int leaves, int ranks, weft_tree_step *out)
{
    return list_steps(leaves, ranks, 0, levels(leaves), out, 0);
}

size_t weft_tree_room(int leaves, int out_count)
{
    return (size_t)(levels(leaves) + 1 + out_count) * BLOCK * sizeof(double);
}

void weft_tree_sum(const weft_tree *tree, int64_t begin, int64_t end, void *out)
{
    const int level = levels(tree->leaves);
    size_t size = weft_dtype_size(tree->dtype);
    if (tree->ranks == 2 && tree->leaves == 2) { /* common case, at memory speed */
        weft_tree_add(tree->dtype, (const char *)tree->source[0] + (size_t)begin * size,
                      (const char *)tree->source[1] + (size_t)begin * size, out, end - begin);
        return;
    }
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = WEFT_MIN((int64_t)BLOCK, end - at);
        const void *whole = sum(tree, 0, level, at, n, tree->room);
        char *to = (char *)out + (size_t)(at - begin) * size;
        if (whole != to) memmove(to, whole, (size_t)n * size);
    }
}

void weft_tree_join(const weft_tree *tree, const weft_subtree *out, int out_count, int64_t count)
{
    const int leaves = tree->leaves;
    double *room = tree->room, *sums = room + (size_t)(levels(leaves) + 1) * BLOCK;
    size_t size = weft_dtype_size(tree->dtype);
    if (tree->listed == 2 && out_count == 1) { /* common case, at memory speed */
        weft_tree_add(tree->dtype, tree->list[0].data, tree->list[1].data, out[0].data, count);
        return;
    }
    for (int64_t at = 0; at < count; at += BLOCK) {
        size_t n = (size_t)WEFT_MIN((int64_t)BLOCK, count - at);
        for (int k = 0; k < out_count; k++) {
            int level = 0;
            while (subtree_end(leaves, out[k].first, level) < out[k].last) level++;
            memcpy(sums + (size_t)k * BLOCK, sum(tree, out[k].first, level, at, (int64_t)n, room),
                   n * size);
        }
        /* Results are written last, since a result may overlie an operand of another result. */
        for (int k = 0; k < out_count; k++)
            memcpy((char *)out[k].data + (size_t)at * size, sums + (size_t)k * BLOCK, n * size);
    }
}

/* Whether [a, b) and [b, c) are the two halves of a subtree. */
static bool siblings(int leaves, int a, int b, int c)
{
    int level = 0;
    while ((1 << level) < b - a) level++;
    return b - a == 1 << level && a % (2 << level) == 0 && c == subtree_end(leaves, a, level + 1);
}

void weft_tree_push(int leaves, int first, int v, int *place, int *merges, int *deepest)
{
    /* The sizes of the subtrees on the stack rise while their starts are aligned ever better, and
     * then fall, each time with at most one of each of the 31 levels of an int; the leaf that is
     * added comes on top. */
    int start[2 * 31 + 1], depth = 0, most = 0;
    *place = *merges = 0;
    for (int leaf = first; leaf <= v; leaf++) {
        *place = depth;
        *merges = 0;
        start[depth++] = leaf;
        most = WEFT_MAX(most, depth);
        while (depth > 1 && siblings(leaves, start[depth - 2], start[depth - 1], leaf + 1)) {
            depth--;
            (*merges)++;
        }
    }
    if (deepest) *deepest = most;
}
