/* Makes the parts of the ranks of a learner that differ: ranks that would have the same program are
 * of one kind, and the learner's graph is built once. */
#include "program/program.h"
#include "train/trainer.h"

static weft_status find_alike(const weft_rank *r, const weft_program *program, int mesh, int number,
                              int *kind)
{
    bool blocks = weft_program_cuts_blocks(program);
    for (int other = r->rank; other < mesh; other++) {
        bool alike = other == r->rank;
        if (kind[other] >= 0) continue;
        if (!alike) WEFT_TRY(weft_rank_alike(r, blocks, other, &alike));
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

/* *kinds: the number of kinds so far. */
static weft_status plan(weft_rank *r, int mesh, int *kinds, int *kind, const weft_planned *list,
                        int count)
{
    weft_store *store = NULL;
    weft_program *program = NULL;
    bool counts = list[0].stays;
    size_t before = counts ? weft_allocated_memory() : 0, others = 0;
    WEFT_TRY(weft_rank_store(r, NULL, &store));
    weft_status status = weft_rank_dry_program_on(r, store, &program);
    if (status == WEFT_OK && kind[r->rank] < 0)
        status = find_alike(r, program, mesh, (*kinds)++, kind);
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        if (list[i].fn) status = list[i].fn(list[i].user, r, store, program, before, kind);
        if (i == 0 && counts) others = weft_allocated_memory();
    }
    if (counts) others = weft_allocated_memory() - others;
    weft_program_destroy(&program);
    weft_store_destroy(&store);
    if (counts && status == WEFT_OK)
        list[0].stays(list[0].user, r->rank,
                      (double)weft_allocated_memory() - (double)before - (double)others, kind);
    return status;
}

weft_status weft_trainer_plan_kinds(weft_trainer *t, bool all, int also, int *kind,
                                    const weft_planned *list, int count)
{
    weft_status status = WEFT_OK;
    int kinds = 0;
    for (int r = 0; r < t->mesh; r++) kind[r] = -1;
    for (int r = 0; r < t->mesh && status == WEFT_OK; r++) {
        weft_rank own = {.run_spec = &t->run_spec, .rank = r};
        weft_rank *rank = r == 0 ? &t->runs[0].rank : &own;
        if (kind[r] >= 0 && !all && r != also) continue;
        *rank = own;
        status = rewrite(t, rank);
        if (status == WEFT_OK) status = plan(rank, t->mesh, &kinds, kind, list, count);
        weft_rewritten_destroy(&rank->mine);
        if (r > 0) weft_rank_free_shared(rank);
    }
    return status;
}
