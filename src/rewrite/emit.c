/* Walks the nodes of the training graph in order, and emits each with its resharded inputs into the
 * graph of this rank. */
#include "rewrite/rewrite.h"

/* --- nodes --- */

/* The sharding that input i must have. A node that reads statistics of the rank's own virtual
 * workers reads them before they are summed over ranks. */
static sharding wanted(const rewriter *r, const weft_node *node, const decision *d, int i)
{
    sharding want = weft_decision_split(d, node, i);
    int have = r->values[node->in[i]].split.at[AXIS_DATA];
    if (d->own && node->op->statistics & 1u << i && have != WHOLE)
        want.at[AXIS_DATA] = have == OWN ? OWN : PARTIAL;
    return want;
}

static weft_status gather_inputs(rewriter *r, const weft_node *node, const decision *d, int place,
                                 weft_value *in)
{
    sharding want[WEFT_MAX_LABELS];
    for (int i = 0; i < node->in_count; i++) want[i] = wanted(r, node, d, i);
    WEFT_TRY(weft_rewrite_sum_inputs(r, node, place, want));
    for (int i = 0; i < node->in_count; i++) {
        touched_rows t;
        WEFT_TRY(weft_window_touched(r, node, d, i, &t));
        if (t.dim >= 0 && !t.aligned)
            WEFT_TRY(
                weft_rewrite_halo(r, node->in[i], place, want[i], t.axis, t.dim, t.window, &in[i]));
        else
            WEFT_TRY(weft_rewrite_reshard(r, node->in[i], place, want[i], &in[i]));
    }
    return WEFT_OK;
}

/* Records the emitted node of a node. A recomputing node gets the emitted node that it repeats as
 * its origin. */
static void note_origin(rewriter *r, const weft_node *node, int local)
{
    r->emitted[r->from->values[node->out].node] = local;
    if (!node->recomputed) return;
    r->to->nodes[local]->recomputed = true;
    r->to->nodes[local]->origin = r->emitted[node->origin];
}

static weft_status emit_node(rewriter *r, const weft_node *node, const decision *d,
                             const weft_value *in, weft_value *first)
{
    weft_node part = *node;
    part.attrs = NULL;
    part.attr_capacity = 0;
    part.attr_count = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < node->attr_count && status == WEFT_OK; i++)
        status = weft_node_set(&part, &node->attrs[i]);
    if (status == WEFT_OK) status = weft_window_localize(r, node, d, &part);
    weft_graph_set_phase(r->to, node->phase);
    if (status == WEFT_OK)
        *first = weft_graph_node(r->to, node->op->name, node->name, in, node->in_count, part.attrs,
                                 part.attr_count);
    free(part.attrs);
    if (status == WEFT_OK) status = weft_graph_status(r->to);
    if (status == WEFT_OK) note_origin(r, node, r->to->values[*first].node);
    return status;
}

/* Links this rank's copy of a gradient with this rank's copy of its parameter (gradient_of), unless
 * they are at other places. */
void weft_rewrite_mark_gradient(rewriter *r, weft_value v)
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

/* Records the sharding and place of a result for its readers, adds up rows that several ranks have
 * computed, starts the sum of a gradient, and sends the result to other places. */
static weft_status finish_output(rewriter *r, const weft_node *node, const decision *d, int o,
                                 int place, weft_value local)
{
    weft_value v = node->out + o;
    value_state *s = &r->values[v];
    const weft_shape *whole = &weft_out(r->from, node, o)->shape;
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    touched_rows t;
    s->split = weft_decision_split(d, node, node->in_count + o);
    s->known = true;
    s->place = place;
    WEFT_TRY(weft_window_touched(r, node, d, node->in_count + o, &t));
    if (local != WEFT_NO_VALUE) {
        if (t.dim >= 0 && !t.aligned)
            local = weft_rewrite_halo_add(r, v, local, t.axis, t.dim, t.window);
        WEFT_TRY(weft_graph_status(r->to));
        weft_rewrite_part(r, whole, s->split, &part, start);
        if (!weft_shape_equal(&part, &r->to->values[local].type.shape))
            return weft_node_fail(node, "its part on rank %d has another shape than it should",
                                  r->rank);
    }
    WEFT_TRY(weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = s->split, .local = local}));
    s->param = r->from->values[v].gradient_of;
    for (int i = 0; i < node->in_count && s->param == WEFT_NO_VALUE; i++)
        if (node->op->linear & 1u << i &&
            weft_shape_equal(whole, &weft_in(r->from, node, i)->shape))
            s->param = r->values[node->in[i]].param;
    if (r->plan->options.zero < 2) weft_rewrite_mark_gradient(r, v);
    bool gradient = s->param != WEFT_NO_VALUE && r->from->values[v].gradient_of != WEFT_NO_VALUE;
    /* With ZeRO 2 and 3 each micro-batch's gradient is summed over ranks at once; but a rank with
     * several virtual workers adds these up first. */
    bool each = r->plan->options.zero >= 2 && r->own_workers <= 1 && !s->early;
    if (gradient && r->phase == WEFT_PHASE_BACKWARD && (s->update_only || each))
        WEFT_TRY(weft_rewrite_gradient(r, v));
    /* A gradient that waits in a bucket for its reduce-scatter is marked after it. */
    bool waits = s->param != WEFT_NO_VALUE && s->split.at[AXIS_DATA] == PARTIAL &&
                 weft_zero_spreads(r, s->param);
    if (r->plan->options.zero >= 2 && !waits) weft_rewrite_mark_gradient(r, v);
    return weft_rewrite_send(r, v);
}

/* Before the first update node: sums all gradients that updates read and that are still partial. */
static weft_status begin_update(rewriter *r)
{
    WEFT_TRY(weft_gradient_flush(r));
    r->phase = WEFT_PHASE_UPDATE;
    for (size_t v = 0; v < r->from->value_count; v++)
        if (r->values[v].known && r->values[v].param != WEFT_NO_VALUE && r->values[v].in_update)
            WEFT_TRY(weft_rewrite_gradient(r, (weft_value)v));
    return weft_gradient_flush(r);
}

/* Emits a sum over micro-batches in the fixed tree over virtual workers instead of in the order of
 * time. The sum has the sharding of its addend. */
static weft_status visit_in_order(rewriter *r, const weft_node *node, int place)
{
    weft_value v = node->out, local = WEFT_NO_VALUE;
    value_state *s = &r->values[v];
    if (r->from->values[node->in[2]].kind != WEFT_VALUE_INPUT)
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
    WEFT_TRY(weft_rewrite_add_up(r, node->in[1], place, node->in[2], node->in[0], &local));
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = s->split, .local = local, .parts = parts});
}

static weft_status visit(rewriter *r, size_t n)
{
    const weft_node *node = r->from->nodes[n];
    weft_value in[WEFT_MAX_LABELS], first = WEFT_NO_VALUE;
    decision d;
    int place = r->node_place[n];
    if (node->in_count > WEFT_MAX_LABELS)
        return weft_node_fail(node, "has more than %d inputs", WEFT_MAX_LABELS);
    if (node->phase != r->phase) {
        if (node->phase == WEFT_PHASE_UPDATE) WEFT_TRY(begin_update(r));
        r->phase = node->phase;
    }
    if (node->phase == WEFT_PHASE_UPDATE) weft_leaf_place_moments(r, node);
    if (r->workers > 0 && node->op->in_order) return visit_in_order(r, node, place);
    WEFT_TRY(weft_rewrite_decide(r, node, &d));
    WEFT_TRY(weft_leaf_settle(r, node, &d));
    WEFT_TRY(gather_inputs(r, node, &d, place, in));
    if (weft_rewrite_here(r, place)) WEFT_TRY(emit_node(r, node, &d, in, &first));
    for (int o = 0; o < node->out_count; o++)
        WEFT_TRY(finish_output(r, node, &d, o, place,
                               first == WEFT_NO_VALUE ? WEFT_NO_VALUE : first + o));
    return WEFT_OK;
}

/* --- the whole graph --- */

static weft_status find_update_readers(rewriter *r)
{
    const weft_graph *g = r->from;
    bool *other = NULL;
    WEFT_TRY(WEFT_NEW(&other, g->value_count));
    for (size_t n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            value_state *s = &r->values[g->nodes[n]->in[i]];
            bool update = g->nodes[n]->phase == WEFT_PHASE_UPDATE;
            s->in_update = s->in_update || update;
            s->early = s->early || (!update && !(g->nodes[n]->op->linear & 1u << i));
            other[g->nodes[n]->in[i]] = other[g->nodes[n]->in[i]] || !update;
        }
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].exported != WEFT_NO_VALUE)
            r->values[g->values[v].exported].in_update = true;
    for (size_t v = 0; v < g->value_count; v++)
        r->values[v].update_only = r->values[v].in_update && !other[v];
    free(other);
    return WEFT_OK;
}

/* Assigns a state, such as running statistics, that each virtual worker computes from its own
 * batch: the mean over all virtual workers of the step. */
static weft_status assign_mean(rewriter *r, weft_value leaf, weft_value next)
{
    const weft_graph *g = r->from;
    const char *name = g->values[leaf].name;
    weft_value local = WEFT_NO_VALUE, index = g->micro;
    int place = r->values[leaf].place;
    r->phase = WEFT_PHASE_BACKWARD;
    if (r->own_workers > 1) {
        if (index == WEFT_NO_VALUE)
            return weft_fail(WEFT_ERR_ARGUMENT, "several virtual workers on a rank need the input "
                                                "of weft_optimizer_build that counts them");
        WEFT_TRY(weft_rewrite_add_up(r, next, place, index, leaf, &local));
    } else {
        WEFT_TRY(weft_rewrite_reshard(r, next, place, r->values[next].split, &local));
    }
    r->phase = WEFT_PHASE_UPDATE;
    if (!weft_rewrite_here(r, place)) return WEFT_OK;
    weft_attr factor = WEFT_ATTR_REAL("factor", 1.0 / r->workers);
    if (r->plan->size[AXIS_DATA] > 1) local = weft_rewrite_reduce_tree(r, next, local, r->subtrees);
    weft_graph_set_phase(r->to, WEFT_PHASE_UPDATE);
    local = weft_graph_node(r->to, "scale", name, &local, 1, &factor, 1);
    weft_graph_assign(r->to, weft_graph_find(r->to, name), local);
    return weft_graph_status(r->to);
}

/* Converts the next value of a state or parameter to the sharding of the leaf, and assigns it. */
static weft_status assign(rewriter *r, weft_value leaf)
{
    const weft_graph *g = r->from;
    weft_value next = g->values[leaf].assigned, local;
    const value_state *s = &r->values[leaf];
    if (r->workers > 0 && g->nodes[g->values[next].node]->phase != WEFT_PHASE_UPDATE)
        return assign_mean(r, leaf, next);
    r->phase =
        g->values[next].node < 0 ? WEFT_PHASE_FORWARD : g->nodes[g->values[next].node]->phase;
    WEFT_TRY(weft_rewrite_reshard(r, next, s->place, s->split, &local));
    if (weft_rewrite_here(r, s->place))
        weft_graph_assign(r->to, weft_graph_find(r->to, g->values[leaf].name), local);
    return weft_graph_status(r->to);
}

static weft_status walk(rewriter *r)
{
    const weft_graph *g = r->from;
    WEFT_TRY(WEFT_NEW(&r->values, g->value_count));
    WEFT_TRY(WEFT_NEW(&r->node_place, g->node_count));
    WEFT_TRY(WEFT_NEW(&r->chosen, g->node_count));
    WEFT_TRY(WEFT_NEW(&r->emitted, g->node_count));
    WEFT_TRY(weft_gradient_begin(r));
    for (size_t v = 0; v < g->value_count; v++)
        r->values[v] = (value_state){
            .split = all_whole, .param = WEFT_NO_VALUE, .first_form = -1, .last_form = -1};
    WEFT_TRY(weft_rewrite_place(r));
    WEFT_TRY(find_update_readers(r));
    for (size_t v = 0; v < g->value_count; v++) {
        if (g->values[v].kind == WEFT_VALUE_INPUT) {
            WEFT_TRY(weft_leaf_split_input(r, (weft_value)v));
            WEFT_TRY(weft_leaf_emit(r, (weft_value)v));
        } else if (g->values[v].kind != WEFT_VALUE_RESULT) {
            weft_leaf_recall(r, (weft_value)v);
        }
    }
    for (size_t n = 0; n < g->node_count; n++) {
        WEFT_TRY(weft_gradient_before(r, n));
        WEFT_TRY(visit(r, n));
        WEFT_TRY(weft_gradient_after(r, n));
    }
    WEFT_TRY(weft_gradient_flush(r));
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].assigned != WEFT_NO_VALUE && r->values[v].known)
            WEFT_TRY(assign(r, (weft_value)v));
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].exported != WEFT_NO_VALUE && r->values[v].known)
            WEFT_TRY(weft_gradient_hand_over(r, (weft_value)v));
    return weft_graph_status(r->to);
}

static void fill_result(const rewriter *r, weft_rewritten *out)
{
    for (int v = 0; v < out->values; v++) {
        const value_state *s = &r->values[v];
        const form *f = s->known ? weft_rewrite_form(r, v, r->place, s->split, r->phase) : NULL;
        out->local[v] = f ? f->local : WEFT_NO_VALUE;
        bool mine = s->place == ANYWHERE ? r->place == 0 : s->place == r->place;
        for (int a = 0; a < SHARD_AXES; a++)
            mine = mine && (s->split.at[a] != WHOLE || r->coordinate[a] == 0);
        out->counts[v] = mine && out->local[v] != WEFT_NO_VALUE;
    }
}

weft_status weft_plan_rewrite(weft_plan *plan, const weft_graph *graph, int rank,
                              weft_rewritten **out)
{
    WEFT_NEED(plan, graph, out);
    WEFT_CHECK_INDEX(rank, plan->options.ranks);
    rewriter r = {.plan = plan, .from = graph, .rank = rank, .place = weft_plan_place(plan, rank)};
    weft_rewritten *result = NULL;
    WEFT_TRY(weft_graph_status(graph));
    for (int a = 0; a < AXES; a++) r.coordinate[a] = weft_plan_coordinate(plan, rank, a);
    weft_status status = WEFT_NEW(&result, 1);
    if (status == WEFT_OK) status = weft_graph_create(graph->context, graph->real, &result->graph);
    if (status == WEFT_OK) status = WEFT_NEW(&result->local, graph->value_count);
    if (status == WEFT_OK) status = WEFT_NEW(&result->counts, graph->value_count);
    if (status == WEFT_OK) {
        result->values = (int)graph->value_count;
        result->graph->differentiated = graph->differentiated;
        r.to = result->graph;
        status = walk(&r);
    }
    if (status == WEFT_OK) fill_result(&r, result);
    if (status == WEFT_OK) plan->rewritten = true;
    free(r.values);
    free(r.node_place);
    free((void *)r.chosen);
    free(r.emitted);
    free(r.forms);
    weft_gradient_end(&r);
    if (status != WEFT_OK) {
        weft_rewritten_destroy(&result);
        return status;
    }
    *out = result;
    return WEFT_OK;
}

void weft_rewritten_destroy(weft_rewritten **rewritten)
{
    if (!rewritten || !*rewritten) return;
    weft_graph_destroy(&(*rewritten)->graph);
    free((*rewritten)->local);
    free((*rewritten)->counts);
    free(*rewritten);
    *rewritten = NULL;
}

const weft_graph *weft_rewritten_graph(const weft_rewritten *r)
{
    WEFT_NEED_ELSE_AS(NULL, "rewritten", r);
    return r->graph;
}
weft_value weft_rewritten_value(const weft_rewritten *r, weft_value v)
{
    WEFT_NEED_ELSE_AS(WEFT_NO_VALUE, "rewritten", r);
    return v >= 0 && v < r->values ? r->local[v] : WEFT_NO_VALUE;
}
bool weft_rewritten_counts(const weft_rewritten *r, weft_value v)
{
    WEFT_NEED_ELSE_AS(false, "rewritten", r);
    return v >= 0 && v < r->values && r->counts[v];
}

void weft_graph_part(const weft_graph *g, weft_value v, weft_shape *whole, int64_t *start)
{
    WEFT_NEED_VOID_AS("graph, whole, start", g, whole, start);
    if (!weft_graph_has(g, v)) return;
    *whole = g->values[v].whole;
    for (int d = 0; d < whole->rank; d++) start[d] = g->values[v].start[d];
}
