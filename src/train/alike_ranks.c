/* Makes the parts of the ranks of a learner that differ: ranks that would have the same program are
 * of one kind, and the learner's graph is built once. */
#include "train/trainer.h"

static weft_status find_alike(const weft_rank *r, int mesh, int number, int *kind)
{
    for (int other = r->rank; other < mesh; other++) {
        bool alike = other == r->rank;
        if (kind[other] >= 0) continue;
        if (!alike) WEFT_TRY(weft_rank_alike(r, other, &alike));
        if (alike) kind[other] = number;
    }
    return WEFT_OK;
}

/* Rank 0 keeps the graph that the others read. */
static weft_status rewrite(weft_trainer *t, weft_rank *r)
{
    const weft_rank *first = &t->runs[0].rank;
    return r == first ? weft_rank_rewrite(r) : weft_rank_rewrite_shared(r, first);
}

weft_status weft_trainer_each_kind(weft_trainer *t, bool all, int *kind, int *count,
                                   weft_kind_fn *fn, void *user)
{
    weft_status status = WEFT_OK;
    *count = 0;
    for (int r = 0; r < t->mesh; r++) kind[r] = -1;
    for (int r = 0; r < t->mesh && status == WEFT_OK; r++) {
        weft_rank own = {.run_spec = &t->run_spec, .rank = r};
        weft_rank *rank = r == 0 ? &t->runs[0].rank : &own;
        if (kind[r] >= 0 && !all) continue;
        *rank = own;
        status = rewrite(t, rank);
        if (status == WEFT_OK && kind[r] < 0) status = find_alike(rank, t->mesh, (*count)++, kind);
        if (status == WEFT_OK) status = fn(user, rank);
        if (r > 0) weft_rank_free_shared(rank);
    }
    return status;
}
