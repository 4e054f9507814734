/* Adds the nodes that move values between the ranks of a mesh: collectives over axes, sums, slices,
 * and ranges of the elements in memory order. */
#include <stdio.h>

#include "rewrite/rewrite.h"

void weft_rewrite_part(const rewriter *r, const weft_shape *whole, sharding split, weft_shape *part,
                       int64_t *start)
{
    *part = *whole;
    for (int d = 0; d < whole->rank; d++) start[d] = 0;
    for (int a = 0; a < SHARD_AXES; a++) {
        int dim = split.at[a], c = r->coordinate[a];
        if (dim < 0) continue;
        weft_rewrite_ask(r, ASKED_SIZE, a, whole->dim[dim]);
        start[dim] = weft_plan_part_start(r->plan, a, whole->dim[dim], c);
        part->dim[dim] = weft_plan_part_start(r->plan, a, whole->dim[dim], c + 1) - start[dim];
    }
    if (split.at[AXIS_DATA] != FLAT) return;
    int64_t count = weft_shape_elements(part);
    int n = r->plan->size[AXIS_DATA], c = r->coordinate[AXIS_DATA];
    weft_rewrite_ask(r, ASKED_RANGE, AXIS_DATA, count);
    start[0] = weft_part_start(count, c, n);
    *part = weft_shape_of(1, (int64_t[]){weft_part_start(count, c + 1, n) - start[0]});
}

weft_value weft_move_emit(rewriter *r, const char *op, weft_value v, const weft_value *in,
                          int count, const weft_attr *attrs, int attr_count)
{
    char *name = weft_graph_format(r->to, "%s/%s", r->from->values[v].name, op);
    weft_graph_set_phase(r->to, r->phase);
    weft_value out = weft_graph_node(r->to, op, name, in, count, attrs, attr_count);
    free(name);
    return out;
}

/* The bf16 value of which x is a widened copy; WEFT_NO_VALUE: x is none. */
static weft_value widened_from(const weft_graph *g, weft_value x)
{
    const weft_node *node = g->values[x].node < 0 ? NULL : g->nodes[g->values[x].node];
    bool widened = node && !weft_operator_computes(node->op) && node->in_count == 1 &&
                   g->values[x].type.dtype == WEFT_F32 && weft_in(g, node, 0)->dtype == WEFT_BF16;
    return widened ? node->in[0] : WEFT_NO_VALUE;
}

weft_value weft_move_cast(rewriter *r, weft_value v, weft_value x, weft_dtype dtype)
{
    weft_attr attr = WEFT_ATTR_INT("dtype", dtype);
    if (x == WEFT_NO_VALUE || r->to->values[x].type.dtype == dtype) return x;
    weft_value before = dtype == WEFT_BF16 ? widened_from(r->to, x) : WEFT_NO_VALUE;
    return before != WEFT_NO_VALUE ? before : weft_move_emit(r, "cast", v, &x, 1, &attr, 1);
}

weft_dtype weft_move_type(const rewriter *r, weft_value v)
{
    const value_state *s = &r->values[v];
    weft_dtype dtype = r->from->values[v].type.dtype;
    bool gradient = s->param != WEFT_NO_VALUE && !s->early && weft_dtype_is_float(dtype);
    return r->plan->options.bf16_sums && gradient ? WEFT_BF16 : dtype;
}

weft_dtype weft_move_type_of_part(const rewriter *r, weft_value v, sharding split)
{
    bool summed = false;
    for (int a = 0; a < SHARD_AXES; a++) summed = summed || split.at[a] == PARTIAL;
    return !summed && widened_from(r->from, v) != WEFT_NO_VALUE ? WEFT_BF16 : weft_move_type(r, v);
}

weft_value weft_move_slice(rewriter *r, weft_value v, weft_value x, int axis, int dim)
{
    int c = r->coordinate[axis];
    int64_t size = whole_dim(r, v, dim);
    weft_rewrite_ask(r, ASKED_CUT, axis, size);
    weft_attr attrs[] = {WEFT_ATTR_INT("axis", dim),
                         WEFT_ATTR_INT("start", weft_plan_part_start(r->plan, axis, size, c)),
                         WEFT_ATTR_INT("stop", weft_plan_part_start(r->plan, axis, size, c + 1))};
    return weft_move_emit(r, "slice", v, &x, 1, attrs, 3);
}

weft_value weft_move_collective(rewriter *r, const char *op, weft_value v, weft_value x, int axis,
                                int dim, int from)
{
    if (axis == AXIS_DATA && r->plan->shares)
        return weft_graph_stick(
            r->to,
            weft_fail(WEFT_ERR_UNSUPPORTED,
                      "'%s' would be exchanged between the ranks of the data axis by samples "
                      "(%s), which needs equal shares; leave --shares out",
                      r->from->values[v].name, op));
    weft_attr attrs[7] = {WEFT_ATTR_INT("axes", 1 << axis),
                          WEFT_ATTR_INT("ranks", r->plan->size[axis]),
                          WEFT_ATTR_INT("index", r->coordinate[axis]), WEFT_ATTR_INT("dim", dim)};
    const weft_attr more[] = {WEFT_ATTR_INT("leaves", r->plan->size[axis]),
                              WEFT_ATTR_INT("from", from),
                              WEFT_ATTR_INT("whole", from < 0 ? 0 : whole_dim(r, v, from))};
    bool in_tree = r->workers > 0 && axis == AXIS_DATA;
    int count = 4;
    weft_rewrite_ask(r, ASKED_SIZE, axis, whole_dim(r, v, dim));
    if (from >= 0) weft_rewrite_ask(r, ASKED_SIZE, axis, whole_dim(r, v, from));
    for (size_t i = in_tree ? 0 : 1; i < WEFT_COUNT(more); i++)
        if (weft_operator_has(r->to->context, op, more[i].name)) attrs[count++] = more[i];
    return weft_move_emit(r, op, v, &x, 1, attrs, count);
}

/* --- ranges of elements --- */

/* The parameter that a value belongs to: the value itself, the parameter of which it is the
 * gradient, for which an update computes it, or (or its state) to which it is assigned. */
static weft_value owner_of(const rewriter *r, weft_value v)
{
    const weft_graph *g = r->from;
    if (g->values[v].kind == WEFT_VALUE_PARAM) return v;
    if (r->values[v].param != WEFT_NO_VALUE) return r->values[v].param;
    if (r->values[v].owner != WEFT_NO_VALUE) return r->values[v].owner;
    weft_value leaf = g->values[v].next_of;
    return leaf == WEFT_NO_VALUE ? WEFT_NO_VALUE : owner_of(r, leaf);
}

/* Gives the operands and results of a node that have the shape of its first result the owner of one
 * of them. */
static void share_owner(rewriter *r, const weft_node *node)
{
    const weft_shape *whole = &r->from->values[node->out].type.shape;
    weft_value owner = WEFT_NO_VALUE;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < node->in_count + node->out_count; i++) {
            weft_value v = i < node->in_count ? node->in[i] : node->out + i - node->in_count;
            if (!weft_shape_equal(whole, &r->from->values[v].type.shape)) continue;
            if (owner == WEFT_NO_VALUE) owner = owner_of(r, v);
            if (r->values[v].owner == WEFT_NO_VALUE) r->values[v].owner = owner;
        }
    }
}

void weft_update_owners(rewriter *r)
{
    const weft_graph *g = r->from;
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].gradient_of != WEFT_NO_VALUE)
            r->values[v].owner = g->values[v].gradient_of;
    for (int forth = 0; forth < 3; forth++) /* forth, back and forth */
        for (size_t k = 0; k < g->node_count; k++) {
            const weft_node *node = g->nodes[forth == 1 ? g->node_count - 1 - k : k];
            if (node->phase == WEFT_PHASE_UPDATE) share_owner(r, node);
        }
}

weft_value weft_flat_like(const rewriter *r, weft_value param)
{
    if (param == WEFT_NO_VALUE || r->plan->options.plain_sums) return WEFT_NO_VALUE;
    /* Random numbers of stochastic_round are for elements in row-major order. */
    if (r->from->values[param].type.dtype == WEFT_BF16) return WEFT_NO_VALUE;
    return weft_graph_find(r->to, r->from->values[param].name);
}

static weft_value flatten(rewriter *r, weft_value v, weft_value x)
{
    weft_attr like = WEFT_ATTR_INT("like", weft_flat_like(r, owner_of(r, v)));
    return weft_move_emit(r, "flat", v, &x, 1, &like, 1);
}

weft_value weft_move_join(rewriter *r, weft_value v, weft_value x, sharding split)
{
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    split.at[AXIS_DATA] = WHOLE;
    weft_rewrite_part(r, &r->from->values[v].type.shape, split, &part, start);
    int64_t order = weft_flat_like(r, owner_of(r, v));
    weft_attr gather[] = {WEFT_ATTR_INT("axes", 1 << AXIS_DATA),
                          WEFT_ATTR_INT("ranks", r->plan->size[AXIS_DATA]),
                          WEFT_ATTR_INT("index", r->coordinate[AXIS_DATA]),
                          WEFT_ATTR_INT("dim", 0),
                          WEFT_ATTR_INT("whole", weft_shape_elements(&part)),
                          WEFT_ATTR_INT("like", order)};
    x = weft_move_emit(r, "all_gather", v, &x, 1, gather, 6);
    weft_attr attrs[] = {WEFT_ATTR_INT("like", order), {.name = "shape", .count = part.rank}};
    for (int d = 0; d < part.rank; d++) attrs[1].ints[d] = part.dim[d];
    return weft_move_emit(r, "unflat", v, &x, 1, attrs, 2);
}

weft_value weft_move_range(rewriter *r, weft_value v, weft_value x, sharding split, bool sum)
{
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    int n = r->plan->size[AXIS_DATA], c = r->coordinate[AXIS_DATA];
    split.at[AXIS_DATA] = WHOLE;
    weft_rewrite_part(r, &r->from->values[v].type.shape, split, &part, start);
    int64_t count = weft_shape_elements(&part);
    weft_rewrite_ask(r, ASKED_RANGE, AXIS_DATA, count);
    x = flatten(r, v, x);
    weft_attr cut[] = {WEFT_ATTR_INT("axis", 0),
                       WEFT_ATTR_INT("start", weft_part_start(count, c, n)),
                       WEFT_ATTR_INT("stop", weft_part_start(count, c + 1, n))};
    if (!sum) return weft_move_emit(r, "slice", v, &x, 1, cut, 3);
    weft_attr attrs[] = {WEFT_ATTR_INT("axes", 1 << AXIS_DATA),
                         WEFT_ATTR_INT("ranks", n),
                         WEFT_ATTR_INT("index", c),
                         WEFT_ATTR_INT("dim", 0),
                         WEFT_ATTR_INT("compare", !r->plan->options.plain_sums),
                         WEFT_ATTR_INT("leaves", n)};
    x = weft_move_cast(r, v, x, weft_move_type(r, v));
    x = weft_move_emit(r, "reduce_scatter", v, &x, 1, attrs, r->workers > 0 ? 6 : 5);
    return weft_move_cast(r, v, x, r->from->values[v].type.dtype);
}

/* In rank order, with the tensor axis innermost. */
int64_t weft_plan_index(const weft_plan *plan, int mask, int rank, int64_t *ranks)
{
    static const int order[SHARD_AXES] = {AXIS_TENSOR, AXIS_DOMAIN, AXIS_DATA};
    int64_t index = 0;
    *ranks = 1;
    for (int i = 0; i < SHARD_AXES; i++) {
        if (!(mask & 1 << order[i])) continue;
        index += *ranks * weft_plan_coordinate(plan, rank, order[i]);
        *ranks *= plan->size[order[i]];
    }
    return index;
}

static weft_value reduce_over(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                              int leaves, int parts)
{
    int64_t ranks, index = weft_plan_index(r->plan, mask, r->rank, &ranks);
    weft_attr attrs[] = {WEFT_ATTR_INT("axes", mask),
                         WEFT_ATTR_INT("ranks", ranks),
                         WEFT_ATTR_INT("index", index),
                         WEFT_ATTR_INT("plain", r->plan->options.plain_sums),
                         WEFT_ATTR_INT("compare", !r->plan->options.plain_sums),
                         WEFT_ATTR_INT("leaves", leaves),
                         WEFT_ATTR_INT("parts", parts)};
    return weft_move_emit(r, "all_reduce", v, x, count, attrs, leaves ? 7 : 5);
}

weft_value weft_move_sum(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                         int parts)
{
    weft_value rest[WEFT_MAX_OUTPUTS];
    weft_dtype dtype = r->from->values[v].type.dtype, crossing = weft_move_type(r, v);
    int data = mask & 1 << AXIS_DATA, others = mask & ~(1 << AXIS_DATA);
    int each = WEFT_MAX(parts, 1), leaves = parts > 0 ? r->workers : r->plan->size[AXIS_DATA];
    for (int i = 0; i < count * each; i++) rest[i] = weft_move_cast(r, v, x[i], crossing);
    if (!r->workers || !data) {
        weft_value out = reduce_over(r, v, rest, count * each, mask, 0, 1), first = out;
        for (int i = 0; i < count * each; i++) {
            weft_value wide = weft_move_cast(r, v, out + i, dtype);
            if (i == 0) first = wide; /* the others follow, since a cast has one result */
        }
        return first;
    }
    if (others) {
        weft_value first = reduce_over(r, v, rest, count * each, others, 0, 1);
        for (int i = 0; i < count * each; i++) rest[i] = first + i;
    }
    return reduce_over(r, v, rest, count * each, data, leaves, each);
}
