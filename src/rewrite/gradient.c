/* Gradients on their way to the update: sums over micro-batches in the order of virtual workers,
 * and sums over ranks, several in one message, begun as soon as the last of them is there. */
#include <stdio.h>

#include "comm/comm.h"

#include "rewrite/rewrite.h"

enum { BUCKET_BYTES = 1 << 20 };

weft_value weft_rewrite_reduce_tree(rewriter *r, weft_value v, weft_value local, int parts)
{
    weft_value in[WEFT_MAX_OUTPUTS];
    for (int p = 0; p < parts; p++) in[p] = local + p;
    return weft_move_sum(r, v, in, 1, 1 << AXIS_DATA, parts);
}

weft_status weft_rewrite_add_up(rewriter *r, weft_value v, int place, weft_value index,
                                const char *name, weft_value *local)
{
    weft_value in[WEFT_MAX_OUTPUTS + 2], addend, count;
    int depth, unused, merges;
    WEFT_TRY(weft_rewrite_reshard(r, v, place, r->values[v].split, &addend));
    WEFT_TRY(weft_rewrite_reshard(r, index, place, all_whole, &count));
    *local = WEFT_NO_VALUE;
    if (!weft_rewrite_here(r, place)) return WEFT_OK;
    weft_tree_push(r->workers, r->first_worker, r->first_worker + r->own_workers - 1, &unused,
                   &merges, &depth);
    if (depth > WEFT_MAX_OUTPUTS)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "%d virtual workers are too many", r->workers);
    weft_type type = r->to->values[addend].type;
    for (int p = 0; p < depth; p++) {
        char full[256];
        (void)snprintf(full, sizeof(full), "%.200s/workers%d", name, p);
        in[p] = weft_graph_leaf(r->to, WEFT_VALUE_STATE, full, type.dtype, &type.shape,
                                (weft_init){WEFT_INIT_CONSTANT, 0});
        weft_graph_set_transient(r->to, in[p]);
    }
    in[depth] = addend;
    in[depth + 1] = count;
    weft_attr attrs[] = {WEFT_ATTR_INT("leaves", r->workers),
                         WEFT_ATTR_INT("first", r->first_worker)};
    weft_graph_set_phase(r->to, WEFT_PHASE_BACKWARD);
    *local = weft_graph_node(r->to, "accumulate_tree", name, in, depth + 2, attrs, 2);
    for (int p = 0; p < depth && *local != WEFT_NO_VALUE; p++)
        weft_graph_assign(r->to, in[p], *local + p);
    return weft_graph_status(r->to);
}

/* --- gradients --- */

/* Not what has fewer elements than there are ranks. Ranks of other axes must come to the same. */
bool weft_zero_spreads(const rewriter *r, weft_value param)
{
    const weft_value_info *info = &r->from->values[param];
    int64_t count = weft_shape_elements(&info->type.shape);
    for (int a = 0; a < SHARD_AXES; a++) {
        int dim = r->values[param].split.at[a];
        if (a == AXIS_DATA && dim >= 0) return false; /* the user has split it */
        if (dim >= 0)
            count =
                count / info->type.shape.dim[dim] * (info->type.shape.dim[dim] / r->plan->size[a]);
    }
    return r->plan->options.zero > 0 && count >= r->plan->size[AXIS_DATA];
}

static int partial_mask(sharding s)
{
    int mask = 0;
    for (int a = 0; a < SHARD_AXES; a++) mask |= s.at[a] == PARTIAL ? 1 << a : 0;
    return mask;
}

static sharding summed(sharding s)
{
    for (int a = 0; a < SHARD_AXES; a++)
        if (s.at[a] == PARTIAL) s.at[a] = WHOLE;
    return s;
}

/* Subtrees of virtual workers that a gradient has. */
static int bucket_parts(const rewriter *r, weft_value v)
{
    const form *f = weft_rewrite_form(r, v, r->place, r->values[v].split, r->phase);
    return f ? WEFT_MAX(f->parts, 1) : 1;
}

/* Whether each rank of the data axis keeps its range of the sum. */
static bool scatters(const rewriter *r, weft_value v)
{
    const value_state *s = &r->values[v];
    return s->split.at[AXIS_DATA] == PARTIAL && weft_zero_spreads(r, s->param);
}

static weft_status scatter(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    weft_value local;
    sharding want = r->values[s->param].split;
    want.at[AXIS_DATA] = FLAT;
    WEFT_TRY(weft_rewrite_reshard(r, v, s->place, want, &local));
    s->split = want;
    if (r->plan->options.zero >= 2) weft_rewrite_mark_gradient(r, v);
    return WEFT_OK;
}

/* One message for all that waits. */
static weft_status reduce(rewriter *r)
{
    weft_value in[WEFT_MAX_OUTPUTS] = {0};
    int mask = partial_mask(r->values[r->bucket[0]].split), parts = 1;
    for (int i = 0; i < r->bucket_count; i++) {
        const form *f =
            weft_rewrite_form(r, r->bucket[i], r->place, r->values[r->bucket[i]].split, r->phase);
        parts = WEFT_MAX(f->parts, 1);
        for (int p = 0; p < parts; p++) in[i * parts + p] = f->local + p;
    }
    weft_value out = weft_move_sum(r, r->bucket[0], in, r->bucket_count, mask, parts);
    WEFT_TRY(weft_graph_status(r->to));
    for (int i = 0; i < r->bucket_count; i++) {
        value_state *s = &r->values[r->bucket[i]];
        s->split = summed(s->split);
        WEFT_TRY(weft_rewrite_add_form(
            r,
            (form){.value = r->bucket[i], .place = r->place, .split = s->split, .local = out + i}));
    }
    return WEFT_OK;
}

/* Sums what waits in the bucket. */
weft_status weft_rewrite_flush(rewriter *r)
{
    if (r->bucket_count == 0) return WEFT_OK;
    if (scatters(r, r->bucket[0]))
        for (int i = 0; i < r->bucket_count; i++) WEFT_TRY(scatter(r, r->bucket[i]));
    else
        WEFT_TRY(reduce(r));
    r->bucket_count = 0;
    r->bucket_bytes = 0;
    return WEFT_OK;
}

/* A gradient over all ranks, in the form in which the update will want it. Sums wait for others, so
 * that one message carries them or, where ranks keep ranges, so that what makes two gradients of a
 * layer can be one kernel; they start as soon as the last of them is there. What is read before the
 * update does not wait. */
weft_status weft_rewrite_gradient(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    int mask = partial_mask(s->split);
    if (!mask) return WEFT_OK;
    bool spreads = scatters(r, v);
    if (spreads && (s->place != r->place || !s->update_only)) return scatter(r, v);
    if (s->place != r->place) {
        s->split = summed(s->split);
        return weft_rewrite_add_form(
            r, (form){.value = v, .place = s->place, .split = s->split, .local = WEFT_NO_VALUE});
    }
    if (r->bucket_count > 0 && (partial_mask(r->values[r->bucket[0]].split) != mask ||
                                scatters(r, r->bucket[0]) != spreads))
        WEFT_TRY(weft_rewrite_flush(r));
    r->bucket[r->bucket_count++] = v;
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    weft_rewrite_part(r, &r->from->values[v].type.shape, s->split, &part, start);
    r->bucket_bytes += weft_shape_elements(&part) * (int64_t)weft_dtype_size(r->from->real);
    if (r->bucket_bytes >= BUCKET_BYTES ||
        (r->bucket_count + 1) * bucket_parts(r, v) > WEFT_MAX_OUTPUTS)
        return weft_rewrite_flush(r);
    return WEFT_OK;
}
