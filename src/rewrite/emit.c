/* The pass that makes the graph of one rank (SPMD partitioning): it emits each node of the training
 * graph, with its resharded inputs, into the graph of this rank. */
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
        else if (weft_node_rounds(r->from, node, i))
            WEFT_TRY(weft_rewrite_gather_rounded(r, node->in[i], place, want[i], &in[i]));
        else
            WEFT_TRY(weft_rewrite_reshard(r, node->in[i], place, want[i], &in[i]));
    }
    return WEFT_OK;
}

static weft_status emit_node(rewriter *r, const weft_node *node, const decision *d,
                             const weft_value *in, weft_value *first)
{
    weft_node part;
    weft_status status = weft_graph_map_attrs(node, &part);
    if (status == WEFT_OK) status = weft_window_localize(r, node, d, &part);
    if (status == WEFT_OK)
        status =
            weft_graph_map_node(r->map, node, in, part.attrs, part.attr_count, node->phase, first);
    free(part.attrs);
    if (status == WEFT_OK)
        r->map->node[r->from->values[node->out].node] = r->to->values[*first].node;
    return status;
}

/* Records the sharding and place of a result for its readers, adds up rows that several ranks have
 * computed, and sends the result to other places. */
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
    WEFT_TRY(weft_gradient_made(r, node, v));
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
    bool done = false;
    for (int i = 0; i < STRATEGIES && !done; i++)
        if (weft_strategies[i]->node) WEFT_TRY(weft_strategies[i]->node(r, node, place, &done));
    if (done) return WEFT_OK;
    WEFT_TRY(weft_rewrite_decide(r, node, &d));
    WEFT_TRY(weft_leaf_settle(r, node, &d));
    WEFT_TRY(gather_inputs(r, node, &d, place, in));
    if (weft_rewrite_here(r, place)) WEFT_TRY(emit_node(r, node, &d, in, &first));
    for (int o = 0; o < node->out_count; o++)
        WEFT_TRY(finish_output(r, node, &d, o, place,
                               first == WEFT_NO_VALUE ? WEFT_NO_VALUE : first + o));
    return WEFT_OK;
}

/* --- uses and assignments --- */

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

/* Converts the next value of a state or parameter to the sharding of the leaf, and assigns it. */
static weft_status assign(rewriter *r, weft_value leaf)
{
    const weft_graph *g = r->from;
    weft_value next = g->values[leaf].assigned, local;
    const value_state *s = &r->values[leaf];
    bool done = false;
    for (int i = 0; i < STRATEGIES && !done; i++)
        if (weft_strategies[i]->assign) WEFT_TRY(weft_strategies[i]->assign(r, leaf, next, &done));
    if (done) return WEFT_OK;
    r->phase =
        g->values[next].node < 0 ? WEFT_PHASE_FORWARD : g->nodes[g->values[next].node]->phase;
    WEFT_TRY(weft_rewrite_reshard(r, next, s->place, s->split, &local));
    if (weft_rewrite_here(r, s->place))
        weft_graph_assign(r->to, weft_graph_find(r->to, g->values[leaf].name), local);
    return weft_graph_status(r->to);
}

/* --- the pass --- */

static weft_status begin(weft_graph_mapper *m)
{
    rewriter *r = m->user;
    const weft_graph *g = m->from;
    r->map = m;
    r->to = m->to;
    for (size_t v = 0; v < g->value_count; v++)
        r->values[v] = (value_state){.split = all_whole,
                                     .param = WEFT_NO_VALUE,
                                     .owner = WEFT_NO_VALUE,
                                     .first_form = -1,
                                     .last_form = -1};
    for (int i = 0; i < STRATEGIES; i++) WEFT_TRY(weft_strategies[i]->begin(r));
    WEFT_TRY(weft_gradient_begin(r));
    weft_update_owners(r);
    WEFT_TRY(weft_rewrite_place(r));
    return find_update_readers(r);
}

/* Parameters and states are emitted by their first readers, which decide their sharding. */
static weft_status map_leaf(weft_graph_mapper *m, weft_value v, weft_value *out)
{
    (void)out;
    rewriter *r = m->user;
    if (m->from->values[v].kind != WEFT_VALUE_INPUT) {
        weft_leaf_recall(r, v);
        return WEFT_OK;
    }
    WEFT_TRY(weft_leaf_split_input(r, v));
    return weft_leaf_emit(r, v);
}

static weft_status map_node(weft_graph_mapper *m, int n, weft_value *out)
{
    (void)out;
    rewriter *r = m->user;
    WEFT_TRY(weft_gradient_before(r, (size_t)n));
    WEFT_TRY(visit(r, (size_t)n));
    return weft_gradient_after(r, (size_t)n);
}

/* Assigns and exports values, and says which of this rank's values stand for the originals. */
static weft_status link_values(weft_graph_mapper *m)
{
    rewriter *r = m->user;
    const weft_graph *g = m->from;
    WEFT_TRY(weft_gradient_flush(r));
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].assigned != WEFT_NO_VALUE && r->values[v].known)
            WEFT_TRY(assign(r, (weft_value)v));
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].exported != WEFT_NO_VALUE && r->values[v].known)
            WEFT_TRY(weft_gradient_export(r, (weft_value)v));
    for (size_t v = 0; v < g->value_count; v++) {
        const value_state *s = &r->values[v];
        const form *f =
            s->known ? weft_rewrite_form(r, (weft_value)v, r->place, s->split, r->phase) : NULL;
        bool mine = s->place == ANYWHERE ? r->place == 0 : s->place == r->place;
        for (int a = 0; a < SHARD_AXES; a++)
            mine = mine && (s->split.at[a] != WHOLE || r->coordinate[a] == 0);
        m->value[v] = f ? f->local : WEFT_NO_VALUE;
        r->counts[v] = mine && m->value[v] != WEFT_NO_VALUE;
    }
    return weft_graph_status(r->to);
}

static weft_status allocate(rewriter *r, weft_rewritten *out)
{
    const weft_graph *g = r->from;
    out->values = (int)g->value_count;
    WEFT_TRY(WEFT_NEW(&out->local, g->value_count));
    WEFT_TRY(WEFT_NEW(&out->counts, g->value_count));
    WEFT_TRY(WEFT_NEW(&r->values, g->value_count));
    WEFT_TRY(WEFT_NEW(&r->node_place, g->node_count));
    r->counts = out->counts;
    r->asked = &out->asked;
    return WEFT_NEW(&r->chosen, g->node_count);
}

weft_status weft_plan_rewrite(weft_plan *plan, const weft_graph *graph, int rank,
                              weft_rewritten **out)
{
    static const weft_graph_pass pass = {
        .begin = begin, .leaf = map_leaf, .node = map_node, .link = link_values};
    WEFT_NEED(plan, graph, out);
    WEFT_CHECK_INDEX(rank, plan->options.ranks);
    rewriter r = {.plan = plan, .from = graph, .rank = rank, .place = weft_plan_place(plan, rank)};
    weft_rewritten *result = NULL;
    WEFT_TRY(weft_graph_status(graph));
    for (int a = 0; a < AXES; a++) r.coordinate[a] = weft_plan_coordinate(plan, rank, a);
    weft_status status = WEFT_NEW(&result, 1);
    if (status == WEFT_OK) status = allocate(&r, result);
    if (status == WEFT_OK)
        status = weft_graph_map(graph, &pass, &r, NULL, -1, &result->graph, result->local);
    if (status == WEFT_OK) plan->rewritten = true;
    free(r.values);
    free(r.node_place);
    free((void *)r.chosen);
    free(r.forms);
    weft_gradient_end(&r);
    if (status == WEFT_OK)
        *out = result;
    else
        weft_rewritten_destroy(&result);
    return status;
}

void weft_rewritten_destroy(weft_rewritten **rewritten)
{
    if (!rewritten || !*rewritten) return;
    weft_graph_destroy(&(*rewritten)->graph);
    free((*rewritten)->local);
    free((*rewritten)->counts);
    free((*rewritten)->asked.list);
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
