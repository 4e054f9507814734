/* Virtual workers: a batch is computed as by a fixed number of workers, which the ranks of the data
 * axis share out. Sums over them are made in a fixed tree, so that any number of ranks gives the
 * same bits: each rank adds up the micro-batches of its workers to subtree sums, which are then
 * added over the ranks. */
#include <stdio.h>

#include "base/tree_sum.h"
#include "rewrite/rewrite.h"

static weft_status check(const weft_plan *p)
{
    int workers = p->options.virtual_workers, ranks = p->size[AXIS_DATA];
    if (workers < 0 || workers % ranks)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%d virtual workers cannot be shared out to %d ranks; the data axis must "
                         "divide them",
                         workers, ranks);
    if (workers > 0 && p->options.bf16_sums)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "virtual workers have the same bits on any number of ranks, and "
                         "gradients that cross ranks in bf16 are rounded where ranks meet; give "
                         "--sum-dtype f32, or do without --virtual-workers");
    for (size_t i = 0; i < p->leaf_count && workers > 0; i++)
        if (p->leaves[i].split.at[AXIS_DATA] >= 0)
            return weft_fail(
                WEFT_ERR_ARGUMENT,
                "shard: '%s' is to be split over the data axis, whose ranks have virtual "
                "workers, each with all of the model; split it over another axis, or do "
                "without virtual workers",
                p->leaves[i].name);
    return WEFT_OK;
}

/* Counts the subtrees of this rank and of all ranks. Each rank checks the limit for all ranks, so
 * that all ranks fail alike. */
static weft_status count_subtrees(rewriter *r)
{
    int ranks = r->plan->size[AXIS_DATA];
    for (int rank = 0; rank < ranks && r->own_workers > 1; rank++) {
        int first = r->own_workers * rank, end = first + r->own_workers, unused, merges, depth;
        int parts = weft_tree_parts(r->workers, first, end);
        weft_tree_push(r->workers, first, end - 1, &unused, &merges, &depth);
        if (depth > WEFT_MAX_OUTPUTS)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "%d virtual workers on %d ranks: those of rank %d take %d sums at a "
                             "time, at most %d are possible; take %d times a power of two",
                             r->workers, ranks, rank, depth, WEFT_MAX_OUTPUTS, ranks);
        r->most_subtrees = WEFT_MAX(r->most_subtrees, parts);
        if (rank == r->coordinate[AXIS_DATA]) r->subtrees = parts;
    }
    if (r->most_subtrees == 1) r->subtrees = r->most_subtrees = 0;
    return WEFT_OK;
}

static weft_status begin(rewriter *r)
{
    r->workers = r->plan->options.virtual_workers;
    r->own_workers = r->workers / r->plan->size[AXIS_DATA];
    r->first_worker = r->own_workers * r->coordinate[AXIS_DATA];
    if (r->workers > 0) weft_rewrite_ask(r, ASKED_COORDINATE, AXIS_DATA, 0);
    return count_subtrees(r);
}

/* Sums the subtree sums of all ranks over the data axis. */
static weft_value reduce_tree(rewriter *r, weft_value v, weft_value local, int parts)
{
    weft_value in[WEFT_MAX_OUTPUTS];
    for (int p = 0; p < WEFT_MAX(parts, 1); p++) in[p] = local + p;
    return weft_move_sum(r, v, in, 1, 1 << AXIS_DATA, parts);
}

/* Adds a node that adds the value of each micro-batch (virtual worker) to a stack of subtree sums,
 * whose places are states named after the leaf `sum`. *local is the first of weft_tree_parts
 * sums. */
static weft_status add_up(rewriter *r, weft_value v, int place, weft_value index, weft_value sum,
                          weft_value *local)
{
    weft_value in[WEFT_MAX_OUTPUTS + 2], addend, count;
    int depth, unused, merges;
    WEFT_TRY(weft_rewrite_reshard(r, v, place, r->values[v].split, &addend));
    WEFT_TRY(weft_rewrite_reshard(r, index, place, all_whole, &count));
    *local = WEFT_NO_VALUE;
    if (!weft_rewrite_here(r, place)) return WEFT_OK;
    weft_tree_push(r->workers, r->first_worker, r->first_worker + r->own_workers - 1, &unused,
                   &merges, &depth);
    weft_type type = r->to->values[addend].type;
    const weft_value_info *leaf = &r->from->values[sum];
    weft_value of = leaf->role_of == WEFT_NO_VALUE
                        ? WEFT_NO_VALUE
                        : weft_graph_find(r->to, r->from->values[leaf->role_of].name);
    for (int p = 0; p < depth; p++) {
        char *full = weft_graph_format(r->to, "%s/workers%d", leaf->name, p);
        in[p] = weft_graph_own_leaf(r->to, r->from, full, &type, WEFT_ROLE_SUM, of);
        free(full);
    }
    in[depth] = addend;
    in[depth + 1] = count;
    weft_attr attrs[] = {WEFT_ATTR_INT("leaves", r->workers),
                         WEFT_ATTR_INT("first", r->first_worker)};
    weft_graph_set_phase(r->to, WEFT_PHASE_BACKWARD);
    *local = weft_graph_node(r->to, "accumulate_tree", leaf->name, in, depth + 2, attrs, 2);
    for (int p = 0; p < depth && *local != WEFT_NO_VALUE; p++)
        weft_graph_assign(r->to, in[p], *local + p);
    return weft_graph_status(r->to);
}

/* Whether a node adds up micro-batches: (sum so far, addend, index of the micro-batch), linear in
 * the first two. */
static bool adds_up(const weft_graph *g, const weft_node *node)
{
    return node->in_count == 3 && node->op->linear == 3 &&
           weft_graph_role(g, node->in[0], NULL) == WEFT_ROLE_SUM;
}

/* Emits a sum over micro-batches in the fixed tree over virtual workers instead of in the order of
 * time. The sum has the sharding of its addend. */
static weft_status visit(rewriter *r, const weft_node *node, int place, bool *done)
{
    const weft_graph *g = r->from;
    weft_value v = node->out, local = WEFT_NO_VALUE;
    value_state *s = &r->values[v];
    *done = r->workers > 0 && adds_up(g, node);
    if (!*done) return WEFT_OK;
    if (g->values[node->in[2]].kind != WEFT_VALUE_INPUT)
        return weft_node_fail(node, "input 2 is not an input of the graph; with virtual workers it "
                                    "counts the micro-batches of a step");
    *s = (value_state){.split = r->values[node->in[1]].split,
                       .known = true,
                       .place = place,
                       .param = r->values[node->in[1]].param,
                       .readers = s->readers,
                       .in_update = s->in_update,
                       .early = s->early,
                       .update_only = s->update_only,
                       .first_form = -1,
                       .last_form = -1};
    int parts = r->subtrees;
    WEFT_TRY(add_up(r, node->in[1], place, node->in[2], node->in[0], &local));
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = s->split, .local = local, .parts = parts});
}

/* Assigns a state, such as running statistics, that each virtual worker computes from its own
 * batch: the mean over all virtual workers of the step. */
static weft_status assign(rewriter *r, weft_value leaf, weft_value next, bool *done)
{
    const weft_graph *g = r->from;
    const char *name = g->values[leaf].name;
    weft_value local = WEFT_NO_VALUE, index = g->micro;
    int place = r->values[leaf].place;
    *done = r->workers > 0 && g->nodes[g->values[next].node]->phase != WEFT_PHASE_UPDATE;
    if (!*done) return WEFT_OK;
    r->phase = WEFT_PHASE_BACKWARD;
    if (r->own_workers > 1) {
        if (index == WEFT_NO_VALUE)
            return weft_fail(WEFT_ERR_ARGUMENT, "several virtual workers on a rank need the input "
                                                "of weft_optimizer_build that counts them");
        WEFT_TRY(add_up(r, next, place, index, leaf, &local));
    } else {
        WEFT_TRY(weft_rewrite_reshard(r, next, place, r->values[next].split, &local));
    }
    r->phase = WEFT_PHASE_UPDATE;
    if (!weft_rewrite_here(r, place)) return WEFT_OK;
    weft_attr factor = WEFT_ATTR_REAL("factor", 1.0 / r->workers);
    if (r->plan->size[AXIS_DATA] > 1) local = reduce_tree(r, next, local, r->subtrees);
    weft_graph_set_phase(r->to, WEFT_PHASE_UPDATE);
    local = weft_graph_node(r->to, "scale", name, &local, 1, &factor, 1);
    weft_graph_assign(r->to, weft_graph_find(r->to, name), local);
    return weft_graph_status(r->to);
}

const weft_strategy weft_strategy_virtual_workers = {
    .check = check, .begin = begin, .node = visit, .assign = assign};
