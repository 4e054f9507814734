/* Sums gradients over ranks for the update, in buckets. The all-reduce or reduce-scatter of a
 * bucket starts as soon as its last gradient is ready. */
#include "rewrite/rewrite.h"

enum { BUCKET_BYTES = 1 << 20 }; /* size of a full bucket, unless the plan gives one */

/* A tensor with fewer elements than ranks is not spread. The elements are counted so that the ranks
 * of the other axes, whose parts may differ by one row, decide alike. */
bool weft_gradient_spreads(const rewriter *r, weft_value param)
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
    return r->ranges.state && count >= r->plan->size[AXIS_DATA];
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

/* Whether the sum of a gradient is a reduce-scatter, of which each rank of the data axis keeps its
 * range. */
static bool scatters(const rewriter *r, weft_value v)
{
    const value_state *s = &r->values[v];
    return s->split.at[AXIS_DATA] == PARTIAL && weft_gradient_spreads(r, s->param);
}

/* Links this rank's copy of a gradient with this rank's copy of its parameter (gradient_of), unless
 * they are at other places: a program places such gradients in its flat range of gradients. */
static void mark(rewriter *r, weft_value v)
{
    weft_value leaf = r->from->values[v].gradient_of;
    value_state *s = &r->values[v];
    if (leaf == WEFT_NO_VALUE || r->values[leaf].place != r->place || s->place != r->place) return;
    const form *f = weft_rewrite_form(r, v, r->place, s->split, r->phase);
    weft_value local = weft_graph_find(r->to, r->from->values[leaf].name);
    if (!f || f->local == WEFT_NO_VALUE || local == WEFT_NO_VALUE) return;
    r->to->values[f->local].gradient_of = local;
    r->to->values[local].gradient = f->local;
}

static weft_status scatter(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    weft_value local;
    sharding want = r->values[s->param].split;
    want.at[AXIS_DATA] = FLAT;
    WEFT_TRY(weft_rewrite_reshard(r, v, s->place, want, &local));
    s->split = want;
    if (r->ranges.gradients) mark(r, v);
    return WEFT_OK;
}

/* Sums gradients of one bucket by one all-reduce. */
static weft_status reduce(rewriter *r, const weft_value *values, int count)
{
    weft_value in[WEFT_MAX_OUTPUTS] = {0};
    int mask = partial_mask(r->values[values[0]].split), parts = 0;
    for (int i = 0; i < count; i++) {
        const form *f =
            weft_rewrite_form(r, values[i], r->place, r->values[values[i]].split, r->phase);
        parts = f->parts;
        int each = WEFT_MAX(parts, 1);
        for (int p = 0; p < each; p++) in[i * each + p] = f->local + p;
    }
    weft_value out = weft_move_sum(r, values[0], in, count, mask, parts);
    WEFT_TRY(weft_graph_status(r->to));
    for (int i = 0; i < count; i++) {
        value_state *s = &r->values[values[i]];
        s->split = summed(s->split);
        WEFT_TRY(weft_rewrite_add_form(
            r, (form){.value = values[i], .place = r->place, .split = s->split, .local = out + i}));
    }
    return WEFT_OK;
}

/* The most gradients in one all-reduce. A rank sends up to most_subtrees values for each, and a
 * node has at most WEFT_MAX_OUTPUTS. */
static size_t most_values(const rewriter *r)
{
    return (size_t)(WEFT_MAX_OUTPUTS / WEFT_MAX(r->most_subtrees, 1));
}

static weft_status flush(rewriter *r, bucket *b)
{
    size_t most = most_values(r), count = b->count;
    b->count = 0;
    b->bytes = 0;
    b->until = -1;
    for (size_t i = 0; i < count; i++) r->values[b->values[i]].waits = false;
    for (size_t i = 0; i < count && scatters(r, b->values[i]); i++)
        WEFT_TRY(scatter(r, b->values[i]));
    for (size_t i = 0; i < count && partial_mask(r->values[b->values[i]].split); i += most)
        WEFT_TRY(reduce(r, &b->values[i], (int)WEFT_MIN(most, count - i)));
    return WEFT_OK;
}

weft_status weft_gradient_flush(rewriter *r)
{
    for (size_t i = 0; i < WEFT_COUNT(r->buckets); i++) WEFT_TRY(flush(r, &r->buckets[i]));
    return WEFT_OK;
}

weft_status weft_gradient_before(rewriter *r, size_t n)
{
    const weft_node *node = r->from->nodes[n];
    for (int i = 0; i < node->in_count; i++)
        if (r->values[node->in[i]].waits) return weft_gradient_flush(r);
    return WEFT_OK;
}

weft_status weft_gradient_after(rewriter *r, size_t n)
{
    int64_t limit = (int64_t)r->plan->options.bucket_bytes;
    if (limit == 0) limit = BUCKET_BYTES;
    for (size_t i = 0; i < WEFT_COUNT(r->buckets); i++) {
        bucket *b = &r->buckets[i];
        bool full = b->bytes >= limit || b->count >= most_values(r);
        if (full && b->until <= (int)n) WEFT_TRY(flush(r, b));
    }
    return WEFT_OK;
}

static weft_status wait(rewriter *r, weft_value v, int kind)
{
    bucket *b = &r->buckets[kind];
    value_state *s = &r->values[v];
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    WEFT_TRY(WEFT_GROW(&b->values, &b->capacity, b->count));
    b->values[b->count++] = v;
    s->waits = true;
    weft_rewrite_part(r, &r->from->values[v].type.shape, s->split, &part, start);
    b->bytes += weft_shape_elements(&part) * (int64_t)weft_dtype_size(r->from->real);
    b->until = WEFT_MAX(b->until, r->last_mate[r->from->values[v].node]);
    return WEFT_OK;
}

/* Puts a partial gradient into a bucket, unless other places read it: they receive the addends, and
 * add them up for their readers. In the bucket the gradient waits until the bucket is full, and
 * until every node has been emitted that might be fused with a producer of the bucket, since bucket
 * boundaries must not affect fusion, and thereby the last bits of results. */
weft_status weft_rewrite_gradient(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    int mask = partial_mask(s->split);
    if (!mask || s->waits || readers_elsewhere(s)) return WEFT_OK;
    bool spreads = scatters(r, v);
    if (weft_rewrite_here(r, s->place)) return wait(r, v, 2 * mask + spreads);
    if (spreads) return scatter(r, v);
    s->split = summed(s->split);
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = s->place, .split = s->split, .local = WEFT_NO_VALUE});
}

/* Finds out which parameter a result is the gradient of, and starts its sum. */
weft_status weft_gradient_made(rewriter *r, const weft_node *node, weft_value v)
{
    value_state *s = &r->values[v];
    const weft_shape *whole = &r->from->values[v].type.shape;
    s->param = r->from->values[v].gradient_of;
    for (int i = 0; i < node->in_count && s->param == WEFT_NO_VALUE; i++)
        if (node->op->linear & 1u << i &&
            weft_shape_equal(whole, &weft_in(r->from, node, i)->shape))
            s->param = r->values[node->in[i]].param;
    if (!r->ranges.gradients) mark(r, v);
    bool gradient = s->param != WEFT_NO_VALUE && r->from->values[v].gradient_of != WEFT_NO_VALUE;
    /* Where ranks keep ranges of gradients only, each micro-batch's gradient is summed over ranks
     * at once; but a rank with several virtual workers adds these up first. */
    bool each = r->ranges.gradients && r->own_workers <= 1 && !s->early;
    if (gradient && r->phase == WEFT_PHASE_BACKWARD && (s->update_only || each))
        WEFT_TRY(weft_rewrite_gradient(r, v));
    /* A gradient that waits in a bucket for its reduce-scatter is marked after it. */
    bool waits = s->param != WEFT_NO_VALUE && scatters(r, v);
    if (r->ranges.gradients && !waits) mark(r, v);
    return WEFT_OK;
}

weft_status weft_gradient_export(rewriter *r, weft_value leaf)
{
    const weft_graph *g = r->from;
    const value_state *s = &r->values[leaf];
    sharding want = s->split;
    weft_value local;
    bool range = want.at[AXIS_DATA] != FLAT && weft_gradient_spreads(r, leaf);
    if (range) want.at[AXIS_DATA] = FLAT;
    r->phase = WEFT_PHASE_UPDATE;
    WEFT_TRY(weft_rewrite_reshard(r, g->values[leaf].exported, s->place, want, &local));
    if (!weft_rewrite_here(r, s->place)) return weft_graph_status(r->to);
    weft_value_info *to = &r->to->values[weft_graph_find(r->to, g->values[leaf].name)];
    to->exported = local;
    to->exported_range = range;
    if (!range) return WEFT_OK;
    int64_t start[WEFT_MAX_RANK];
    weft_shape part;
    weft_rewrite_part(r, &g->values[leaf].type.shape, want, &part, start);
    to->exported_begin = start[0];
    to->exported_plain = weft_flat_like(r, leaf) == WEFT_NO_VALUE;
    return WEFT_OK;
}

/* --- preparation --- */

typedef struct mates {
    const weft_graph *graph;
    int last;
} mates;

static void take_mate(void *user, int node)
{
    mates *m = user;
    if (m->graph->nodes[node]->phase == WEFT_PHASE_BACKWARD) m->last = WEFT_MAX(m->last, node);
}

static weft_status find_mates(rewriter *r)
{
    const weft_graph *g = r->from;
    weft_readers readers;
    WEFT_TRY(WEFT_NEW(&r->last_mate, g->node_count));
    WEFT_TRY(weft_readers_find(g, &readers));
    for (size_t n = 0; n < g->node_count; n++) {
        mates m = {g, (int)n};
        if (g->nodes[n]->phase == WEFT_PHASE_BACKWARD)
            weft_readers_adjoining(g, &readers, g->nodes[n], take_mate, &m);
        r->last_mate[n] = m.last;
    }
    weft_readers_free(&readers);
    return WEFT_OK;
}

weft_status weft_gradient_begin(rewriter *r)
{
    for (size_t i = 0; i < WEFT_COUNT(r->buckets); i++) r->buckets[i].until = -1;
    return find_mates(r);
}

void weft_gradient_end(rewriter *r)
{
    for (size_t i = 0; i < WEFT_COUNT(r->buckets); i++) free(r->buckets[i].values);
    free(r->last_mate);
}
