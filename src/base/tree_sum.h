/* Declares sums over a fixed binary tree with V leaves (virtual workers), whose bits do not depend
 * on the number of ranks; see tree_sum.c. */
#ifndef WEFT_BASE_TREE_SUM_H
#define WEFT_BASE_TREE_SUM_H

#include "base/base.h"

/* A subtree and the array that holds its sum. */
typedef struct weft_subtree {
    int first, last; /* leaves [first, last) */
    void *data;
} weft_subtree;
/* A fixed tree, and where the sums of its subtrees are. Either each rank r holds its leaves as
 * subtrees one after the other in source[r], `stride` elements each (the subtrees that
 * weft_tree_next finds); or, with ranks = 0, `list` holds `listed` subtrees. */
typedef struct weft_tree {
    weft_dtype dtype;
    int ranks, leaves;
    const void *const *source;
    int64_t stride;
    const weft_subtree *list; /* ordered by first leaf; used if ranks is 0 */
    int listed;
    void *room; /* workspace of weft_tree_room bytes */
} weft_tree;
/* Bytes of workspace for weft_tree_join to out_count subtrees; weft_tree_sum needs those of 0. */
size_t weft_tree_room(int leaves, int out_count);
/* Writes elements [begin, end) of the sum over all leaves to `out`, whose first element is element
 * `begin`. out may be source[r] + begin for one r with a single subtree. */
void weft_tree_sum(const weft_tree *tree, int64_t begin, int64_t end, void *out);
/* A step of the same sum: subtree `part` of rank `rank` is put on a stack or, with rank -1, the
 * topmost two sums are added. */
typedef struct weft_tree_step {
    int rank, part;
} weft_tree_step;
/* Lists the steps, and returns their number; out may be NULL. */
int weft_tree_steps(int leaves, int ranks, weft_tree_step *out);
/* Adds neighbouring subtrees of the list to the larger subtrees `out`, `count` elements each. The
 * arrays of `out` may overlie arrays of the list. */
void weft_tree_join(const weft_tree *tree, const weft_subtree *out, int out_count, int64_t count);
/* out[i] = a[i] + b[i] for n elements; out may be a or b. */
void weft_tree_add(weft_dtype dtype, const void *a, const void *b, void *out, int64_t n);
/* The end of the largest subtree that begins at `first` and ends at or before `last`. */
int weft_tree_next(int leaves, int first, int last);

/* Where a leaf goes if leaves are added one after the other, with a stack of subtree sums in which
 * two siblings are added as soon as both are complete. The stack begins with leaf `first`. *place:
 * the place of the stack into which leaf v is written; *merges: how often the topmost two places
 * are then added. *deepest (may be NULL): the most places in use up to leaf v. */
void weft_tree_push(int leaves, int first, int v, int *place, int *merges, int *deepest);

#endif
