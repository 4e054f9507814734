/* Brings values into the form that a node needs: sums of partial results, parts joined or cut, rows
 * of neighbours, messages between places. A form is made once and kept. */
#include <stdio.h>

#include "comm/comm.h"

#include "rewrite/rewrite.h"

enum { BUCKET_BYTES = 1 << 20 };

static bool here(const rewriter *r, int place)
{
    return place == ANYWHERE || place == r->place;
}

void weft_rewrite_part(const rewriter *r, const weft_shape *whole, sharding split, weft_shape *part,
                       int64_t *start)
{
    *part = *whole;
    for (int d = 0; d < whole->rank; d++) start[d] = 0;
    for (int a = 0; a < SHARD_AXES; a++) {
        int dim = split.at[a], n = r->plan->size[a], c = r->coordinate[a];
        if (dim < 0) continue;
        start[dim] = weft_part_start(whole->dim[dim], c, n);
        part->dim[dim] = weft_part_start(whole->dim[dim], c + 1, n) - start[dim];
    }
    if (split.at[AXIS_DATA] != FLAT) return;
    int64_t count = weft_shape_elements(part);
    int n = r->plan->size[AXIS_DATA], c = r->coordinate[AXIS_DATA];
    start[0] = weft_part_start(count, c, n);
    *part = weft_shape_of(1, (int64_t[]){weft_part_start(count, c + 1, n) - start[0]});
}

/* --- forms --- */

static bool matches(const rewriter *r, const form *f, weft_value v, int place, weft_phase phase)
{
    const value_state *s = &r->values[v];
    if (f->value != v || (f->place != place && f->place != ANYWHERE)) return false;
    /* What is stored in parts is joined anew in each phase, and rows of others are asked for anew,
     * so that only the own part is kept from forward to backward. */
    bool kept = !f->halo && (!s->weak || sharding_same(f->split, s->split));
    return kept || f->phase == phase;
}

form *weft_rewrite_form(const rewriter *r, weft_value v, int place, sharding split,
                        weft_phase phase)
{
    for (size_t i = 0; i < r->form_count; i++) {
        form *f = &r->forms[i];
        if (!f->halo && sharding_same(f->split, split) && matches(r, f, v, place, phase)) return f;
    }
    return NULL;
}

weft_status weft_rewrite_add_form(rewriter *r, form f)
{
    WEFT_TRY(WEFT_GROW(&r->forms, &r->form_capacity, r->form_count));
    f.phase = r->phase;
    r->forms[r->form_count++] = f;
    return WEFT_OK;
}

/* --- nodes --- */

static weft_value emit(rewriter *r, const char *op, weft_value v, const weft_value *in, int count,
                       const weft_attr *attrs, int attr_count)
{
    char name[256];
    (void)snprintf(name, sizeof(name), "%.200s/%s", r->from->values[v].name, op);
    weft_graph_set_phase(r->to, r->phase);
    return weft_graph_node(r->to, op, name, in, count, attrs, attr_count);
}

static int64_t whole_dim(const rewriter *r, weft_value v, int dim)
{
    return r->from->values[v].type.shape.dim[dim];
}

static weft_value slice(rewriter *r, weft_value v, weft_value x, int axis, int dim)
{
    int n = r->plan->size[axis], c = r->coordinate[axis];
    int64_t size = whole_dim(r, v, dim);
    weft_attr attrs[] = {WEFT_ATTR_INT("axis", dim),
                         WEFT_ATTR_INT("start", weft_part_start(size, c, n)),
                         WEFT_ATTR_INT("stop", weft_part_start(size, c + 1, n))};
    return emit(r, "slice", v, &x, 1, attrs, 3);
}

/* A collective over one axis. */
static weft_value collective(rewriter *r, const char *op, weft_value v, weft_value x, int axis,
                             int dim, int from)
{
    weft_attr attrs[6] = {WEFT_ATTR_INT("axes", 1 << axis),
                          WEFT_ATTR_INT("ranks", r->plan->size[axis]),
                          WEFT_ATTR_INT("index", r->coordinate[axis]), WEFT_ATTR_INT("dim", dim)};
    int count = 4;
    if (strcmp(op, "reduce_scatter") == 0 && r->workers > 0 && axis == AXIS_DATA)
        attrs[count++] = (weft_attr)WEFT_ATTR_INT("leaves", r->workers);
    if (strcmp(op, "all_gather") == 0)
        attrs[count++] = (weft_attr)WEFT_ATTR_INT("whole", whole_dim(r, v, dim));
    if (strcmp(op, "all_to_all") == 0) {
        attrs[count++] = (weft_attr)WEFT_ATTR_INT("from", from);
        attrs[count++] = (weft_attr)WEFT_ATTR_INT("whole", whole_dim(r, v, from));
    }
    return emit(r, op, v, &x, 1, attrs, count);
}

/* Whether the ranks of a mask may see different shapes, and so lay the same value differently. */
static bool uneven(const rewriter *r, int mask)
{
    if (mask & (1 << AXIS_DOMAIN | 1 << AXIS_TENSOR)) return true;
    for (size_t v = 0; v < r->from->value_count; v++) {
        int dim = r->values[v].split.at[AXIS_DATA];
        if (r->from->values[v].kind == WEFT_VALUE_INPUT && dim >= 0 &&
            r->from->values[v].type.shape.dim[dim] % r->plan->size[AXIS_DATA])
            return true;
    }
    return false;
}

/* --- ranges of elements --- */

/* What a value belongs to: itself, the parameter whose gradient it is, or the one it becomes. */
static weft_value owner_of(const rewriter *r, weft_value v)
{
    const weft_graph *g = r->from;
    if (g->values[v].kind == WEFT_VALUE_PARAM) return v;
    if (r->values[v].param != WEFT_NO_VALUE) return r->values[v].param;
    for (size_t p = 0; p < g->value_count; p++)
        if (g->values[p].assigned == v) return owner_of(r, (weft_value)p);
    return WEFT_NO_VALUE;
}

weft_value weft_flat_like(const rewriter *r, weft_value param)
{
    if (param == WEFT_NO_VALUE || r->values[param].split.at[AXIS_DATA] == FLAT)
        return WEFT_NO_VALUE;
    if (r->plan->options.plain_sums && uneven(r, 1 << AXIS_DATA)) return WEFT_NO_VALUE;
    return weft_graph_find(r->to, r->from->values[param].name);
}

static weft_value flatten(rewriter *r, weft_value v, weft_value x)
{
    weft_attr like = WEFT_ATTR_INT("like", weft_flat_like(r, owner_of(r, v)));
    return emit(r, "flat", v, &x, 1, &like, 1);
}

/* All ranks' ranges joined, as a part split like this. */
static weft_value join_ranges(rewriter *r, weft_value v, weft_value x, sharding split)
{
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    split.at[AXIS_DATA] = WHOLE;
    weft_rewrite_part(r, &r->from->values[v].type.shape, split, &part, start);
    weft_attr gather[] = {WEFT_ATTR_INT("axes", 1 << AXIS_DATA),
                          WEFT_ATTR_INT("ranks", r->plan->size[AXIS_DATA]),
                          WEFT_ATTR_INT("index", r->coordinate[AXIS_DATA]), WEFT_ATTR_INT("dim", 0),
                          WEFT_ATTR_INT("whole", weft_shape_elements(&part))};
    x = emit(r, "all_gather", v, &x, 1, gather, 5);
    weft_attr attrs[] = {WEFT_ATTR_INT("like", weft_flat_like(r, owner_of(r, v))),
                         {.name = "shape", .count = part.rank}};
    for (int d = 0; d < part.rank; d++) attrs[1].ints[d] = part.dim[d];
    return emit(r, "unflat", v, &x, 1, attrs, 2);
}

/* This rank's range: of the sum over the data axis, or of what all of it hold. */
static weft_value take_range(rewriter *r, weft_value v, weft_value x, sharding split, bool sum)
{
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    int n = r->plan->size[AXIS_DATA], c = r->coordinate[AXIS_DATA];
    split.at[AXIS_DATA] = WHOLE;
    weft_rewrite_part(r, &r->from->values[v].type.shape, split, &part, start);
    int64_t count = weft_shape_elements(&part);
    x = flatten(r, v, x);
    weft_attr cut[] = {WEFT_ATTR_INT("axis", 0),
                       WEFT_ATTR_INT("start", weft_part_start(count, c, n)),
                       WEFT_ATTR_INT("stop", weft_part_start(count, c + 1, n))};
    if (!sum) return emit(r, "slice", v, &x, 1, cut, 3);
    weft_attr attrs[] = {
        WEFT_ATTR_INT("axes", 1 << AXIS_DATA),
        WEFT_ATTR_INT("ranks", n),
        WEFT_ATTR_INT("index", c),
        WEFT_ATTR_INT("dim", 0),
        WEFT_ATTR_INT("compare", uneven(r, 1 << AXIS_DATA) && !r->plan->options.plain_sums),
        WEFT_ATTR_INT("leaves", r->workers)};
    return emit(r, "reduce_scatter", v, &x, 1, attrs, r->workers > 0 ? 6 : 5);
}

/* Ranks of a mask, and which of them this one is; the communicator is split in rank order, which is
 * tensor first. */
static void mask_ranks(const rewriter *r, int mask, int64_t *ranks, int64_t *index)
{
    static const int order[SHARD_AXES] = {AXIS_TENSOR, AXIS_DOMAIN, AXIS_DATA};
    *ranks = 1;
    *index = 0;
    for (int i = 0; i < SHARD_AXES; i++) {
        if (!(mask & 1 << order[i])) continue;
        *index += *ranks * r->coordinate[order[i]];
        *ranks *= r->plan->size[order[i]];
    }
}

static weft_value reduce_over(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                              int leaves, int parts)
{
    int64_t ranks, index;
    mask_ranks(r, mask, &ranks, &index);
    weft_attr attrs[] = {WEFT_ATTR_INT("axes", mask),
                         WEFT_ATTR_INT("ranks", ranks),
                         WEFT_ATTR_INT("index", index),
                         WEFT_ATTR_INT("plain", r->plan->options.plain_sums && uneven(r, mask)),
                         WEFT_ATTR_INT("compare", uneven(r, mask)),
                         WEFT_ATTR_INT("leaves", leaves),
                         WEFT_ATTR_INT("parts", parts)};
    return emit(r, "all_reduce", v, x, count, attrs, leaves ? 7 : 5);
}

/* Virtual workers add up in their own order, after the other axes. parts: subtrees of each value.
 */
static weft_value all_reduce(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                             int parts)
{
    weft_value rest[WEFT_MAX_OUTPUTS];
    int data = mask & 1 << AXIS_DATA, others = mask & ~(1 << AXIS_DATA);
    if (!r->workers || !data) return reduce_over(r, v, x, count * parts, mask, 0, 1);
    if (others) {
        weft_value first = reduce_over(r, v, x, count * parts, others, 0, 1);
        for (int i = 0; i < count * parts; i++) rest[i] = first + i;
        x = rest;
    }
    return reduce_over(r, v, x, count * parts, data, r->workers, parts);
}

weft_value weft_rewrite_reduce_tree(rewriter *r, weft_value v, weft_value local, int parts)
{
    weft_value in[WEFT_MAX_OUTPUTS];
    for (int p = 0; p < parts; p++) in[p] = local + p;
    return all_reduce(r, v, in, 1, 1 << AXIS_DATA, parts);
}

weft_status weft_rewrite_add_up(rewriter *r, weft_value v, int place, weft_value index,
                                const char *name, weft_value *local)
{
    weft_value in[WEFT_MAX_OUTPUTS + 2], addend, count;
    int depth, unused, merges;
    WEFT_TRY(weft_rewrite_reshard(r, v, place, r->values[v].split, &addend));
    WEFT_TRY(weft_rewrite_reshard(r, index, place, all_whole, &count));
    *local = WEFT_NO_VALUE;
    if (!here(r, place)) return WEFT_OK;
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

/* --- messages between places --- */

weft_status weft_rewrite_send(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    if (s->place == ANYWHERE) return WEFT_OK;
    uint64_t others = s->readers & ~((uint64_t)1 << s->place);
    if (!others) return WEFT_OK;
    s->tag = r->tags++;
    if (s->tag > 30000)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "more than 30000 values go from place to place");
    if (r->place != s->place) return WEFT_OK;
    const form *f = weft_rewrite_form(r, v, s->place, s->split, r->phase);
    for (int q = 0; q < r->plan->places; q++) {
        if (!(others & (uint64_t)1 << q)) continue;
        weft_attr attrs[] = {WEFT_ATTR_INT("peer", weft_plan_rank_at(r->plan, r->rank, q)),
                             WEFT_ATTR_INT("tag", s->tag)};
        weft_value local = f->local;
        (void)emit(r, "send", v, &local, 1, attrs, 2);
    }
    return weft_graph_status(r->to);
}

static weft_status receive(rewriter *r, weft_value v, int place, weft_value *local)
{
    const value_state *s = &r->values[v];
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    *local = WEFT_NO_VALUE;
    if (here(r, place)) {
        weft_rewrite_part(r, &r->from->values[v].type.shape, s->split, &part, start);
        weft_attr attrs[] = {WEFT_ATTR_INT("peer", weft_plan_rank_at(r->plan, r->rank, s->place)),
                             WEFT_ATTR_INT("tag", s->tag),
                             {.name = "shape", .count = part.rank}};
        for (int d = 0; d < part.rank; d++) attrs[2].ints[d] = part.dim[d];
        *local = emit(r, "receive", v, NULL, 0, attrs, 3);
    }
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = s->split, .local = *local});
}

/* --- resharding --- */

static bool other_axis_splits(sharding s, int axis, int dim)
{
    for (int a = 0; a < SHARD_AXES; a++)
        if (a != axis && s.at[a] == dim) return true;
    return false;
}

/* From `have` to `want`, at this place. Ranges are of the part that the other axes leave, so they
 * are joined first and taken last. */
static weft_value convert(rewriter *r, weft_value v, weft_value x, sharding have, sharding want,
                          int parts)
{
    int mask = 0;
    if (have.at[AXIS_DATA] == FLAT) {
        x = join_ranges(r, v, x, have);
        have.at[AXIS_DATA] = WHOLE;
    }
    for (int a = 0; a < SHARD_AXES; a++) {
        if (have.at[a] != PARTIAL || want.at[a] == PARTIAL) continue;
        if (want.at[a] == FLAT && parts == 1) continue;
        if (want.at[a] < 0 || other_axis_splits(have, a, want.at[a]) || parts > 1) {
            mask |= 1 << a;
            continue;
        }
        x = collective(r, "reduce_scatter", v, x, a, want.at[a], 0);
        have.at[a] = want.at[a];
    }
    if (mask) {
        weft_value in[WEFT_MAX_OUTPUTS];
        for (int p = 0; p < parts; p++) in[p] = x + p;
        x = all_reduce(r, v, in, 1, mask, parts);
    }
    for (int a = 0; a < SHARD_AXES; a++)
        if (mask & 1 << a) have.at[a] = WHOLE;
    for (int a = 0; a < SHARD_AXES; a++) {
        if (have.at[a] < 0 || have.at[a] == want.at[a]) continue;
        bool direct = want.at[a] >= 0 && !other_axis_splits(have, a, want.at[a]);
        x = direct ? collective(r, "all_to_all", v, x, a, want.at[a], have.at[a])
                   : collective(r, "all_gather", v, x, a, have.at[a], 0);
        have.at[a] = direct ? want.at[a] : WHOLE;
    }
    for (int a = 0; a < SHARD_AXES; a++)
        if (have.at[a] == WHOLE && want.at[a] >= 0) x = slice(r, v, x, a, want.at[a]);
    if (want.at[AXIS_DATA] == FLAT) x = take_range(r, v, x, want, have.at[AXIS_DATA] == PARTIAL);
    return x;
}

weft_status weft_rewrite_reshard(rewriter *r, weft_value v, int place, sharding want,
                                 weft_value *local)
{
    const form *f = weft_rewrite_form(r, v, place, want, r->phase);
    *local = f ? f->local : WEFT_NO_VALUE;
    if (f) return WEFT_OK;
    weft_value x;
    int parts = 1;
    const form *own = weft_rewrite_form(r, v, place, r->values[v].split, r->phase);
    if (own) {
        x = own->local;
        parts = WEFT_MAX(own->parts, 1);
    } else {
        WEFT_TRY(receive(r, v, place, &x));
    }
    sharding have = r->values[v].split;
    for (int a = 0; a < SHARD_AXES; a++)
        if (want.at[a] == PARTIAL && have.at[a] != PARTIAL)
            return weft_fail(WEFT_ERR_INTERNAL, "'%s' is no partial sum", r->from->values[v].name);
    *local = x;
    if (sharding_same(have, want)) return WEFT_OK;
    if (here(r, place)) *local = convert(r, v, x, have, want, parts);
    WEFT_TRY(weft_graph_status(r->to));
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = want, .local = *local});
}

/* --- rows of neighbours --- */

static void halo_attrs(const rewriter *r, int64_t whole, int axis, int dim, const int64_t window[4],
                       weft_attr attrs[6])
{
    attrs[0] = (weft_attr)WEFT_ATTR_INT("axes", 1 << axis);
    attrs[1] = (weft_attr)WEFT_ATTR_INT("ranks", r->plan->size[axis]);
    attrs[2] = (weft_attr)WEFT_ATTR_INT("index", r->coordinate[axis]);
    attrs[3] = (weft_attr)WEFT_ATTR_INT("dim", dim);
    attrs[4] = (weft_attr)WEFT_ATTR_INT("whole", whole);
    attrs[5] = (weft_attr){.name = "window", .count = 4};
    for (int i = 0; i < 4; i++) attrs[5].ints[i] = window[i];
}

weft_status weft_rewrite_halo(rewriter *r, weft_value v, int place, sharding split, int axis,
                              int dim, const int64_t window[4], weft_value *local)
{
    weft_attr attrs[6];
    weft_value x;
    for (size_t i = 0; i < r->form_count; i++) {
        const form *f = &r->forms[i];
        if (!f->halo || f->axis != axis || f->dim != dim || !sharding_same(f->split, split) ||
            memcmp(f->window, window, sizeof(f->window)) != 0 || !matches(r, f, v, place, r->phase))
            continue;
        *local = f->local;
        return WEFT_OK;
    }
    WEFT_TRY(weft_rewrite_reshard(r, v, place, split, &x));
    *local = WEFT_NO_VALUE;
    halo_attrs(r, whole_dim(r, v, dim), axis, dim, window, attrs);
    if (here(r, place)) *local = emit(r, "halo", v, &x, 1, attrs, 6);
    WEFT_TRY(weft_graph_status(r->to));
    form f = {.value = v,
              .place = place,
              .split = split,
              .halo = true,
              .axis = axis,
              .dim = dim,
              .local = *local};
    memcpy(f.window, window, sizeof(f.window));
    return weft_rewrite_add_form(r, f);
}

weft_value weft_rewrite_halo_add(rewriter *r, weft_value v, weft_value touched, int axis, int dim,
                                 const int64_t window[4])
{
    weft_attr attrs[6];
    halo_attrs(r, whole_dim(r, v, dim), axis, dim, window, attrs);
    return emit(r, "halo_add", v, &touched, 1, attrs, 6);
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

/* Reduces what waits in the bucket, as one message. */
weft_status weft_rewrite_flush(rewriter *r)
{
    weft_value in[WEFT_MAX_OUTPUTS] = {0};
    int n = r->bucket_count;
    if (n == 0) return WEFT_OK;
    int mask = partial_mask(r->values[r->bucket[0]].split);
    int parts = 1;
    for (int i = 0; i < n; i++) {
        const form *f =
            weft_rewrite_form(r, r->bucket[i], r->place, r->values[r->bucket[i]].split, r->phase);
        parts = WEFT_MAX(f->parts, 1);
        for (int p = 0; p < parts; p++) in[i * parts + p] = f->local + p;
    }
    weft_value out = all_reduce(r, r->bucket[0], in, n, mask, parts);
    WEFT_TRY(weft_graph_status(r->to));
    for (int i = 0; i < n; i++) {
        value_state *s = &r->values[r->bucket[i]];
        s->split = summed(s->split);
        WEFT_TRY(weft_rewrite_add_form(
            r,
            (form){.value = r->bucket[i], .place = r->place, .split = s->split, .local = out + i}));
    }
    r->bucket_count = 0;
    r->bucket_bytes = 0;
    return WEFT_OK;
}

/* A gradient over all ranks, in the form in which the update will want it. Sums wait for others, so
 * that one message carries them, and start as soon as the last of them is there. */
weft_status weft_rewrite_gradient(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    int mask = partial_mask(s->split);
    if (!mask) return WEFT_OK;
    if (s->split.at[AXIS_DATA] == PARTIAL && weft_zero_spreads(r, s->param)) {
        weft_value local;
        sharding want = r->values[s->param].split;
        want.at[AXIS_DATA] = FLAT;
        WEFT_TRY(weft_rewrite_reshard(r, v, s->place, want, &local));
        s->split = want;
        return WEFT_OK;
    }
    if (s->place != r->place) {
        s->split = summed(s->split);
        return weft_rewrite_add_form(
            r, (form){.value = v, .place = s->place, .split = s->split, .local = WEFT_NO_VALUE});
    }
    if (r->bucket_count > 0 && partial_mask(r->values[r->bucket[0]].split) != mask)
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
