/* Sums in a fixed binary tree over V leaves, see tree_sum.c. */
#ifndef WEFT_BASE_TREE_SUM_H
#define WEFT_BASE_TREE_SUM_H

#include "base/base.h"

/* A sum of elements begin .. end over the fixed tree. source[r] has weft_tree_parts subtrees of
 * `stride` elements each; out[0] is element `begin`. out may be source[r] + begin for one r with a
 * single part. */
typedef struct weft_subtree {
    int first, last; /* leaves [first, last) */
    void *data;
} weft_subtree;
typedef struct weft_tree {
    weft_dtype dtype;
    int ranks, leaves;
    const void *const *source;
    int64_t stride;
    const weft_subtree *list; /* subtrees in order, instead of ranks (then 0) and sources */
    int listed;
    void *room; /* workspace of weft_tree_room bytes; for weft_tree_sum, out_count 0 */
} weft_tree;
/* Bytes of workspace for weft_tree_join to so many subtrees. */
size_t weft_tree_room(int leaves, int out_count);
void weft_tree_sum(const weft_tree *tree, int64_t begin, int64_t end, void *out);
/* Adds `count` elements of the listed subtrees, which are neighbours, to larger ones, which may
 * overlie some of them. */
void weft_tree_join(const weft_tree *tree, const weft_subtree *out, int out_count, int64_t count);
/* out[i] = a[i] + b[i] for n elements; out may be a or b. */
void weft_tree_add(weft_dtype dtype, const void *a, const void *b, void *out, int64_t n);
/* The end of the largest subtree that begins at `first` and ends at or before `last`. */
int weft_tree_next(int leaves, int first, int last);

/* Adds leaf v to a stack of subtrees that begins with leaf `first`: the place that it goes to, and
 * how often the topmost two are then added. *deepest (may be NULL): most places in use. */
void weft_tree_push(int leaves, int first, int v, int *place, int *merges, int *deepest);

#endif
