/* Places nodes on pipeline stages that are balanced by cost, or where the user's rules say. A node
 * that depends on inputs and counters only runs at every place, a gradient node runs where its
 * forward node does, and an update where its parameter is. */
#include <fnmatch.h>

#include "rewrite/rewrite.h"

static bool matches(const place_rule *rule, const weft_node *node)
{
    return node->phase == WEFT_PHASE_FORWARD && fnmatch(rule->pattern, node->name, 0) == 0;
}

/* The first rule that matches a node, or -1. */
static int find_rule(const weft_plan *plan, const weft_node *node)
{
    for (size_t i = 0; i < plan->rule_count; i++)
        if (matches(&plan->rules[i], node)) return (int)i;
    return -1;
}

weft_status weft_place_check(const weft_plan *plan, const weft_graph *g)
{
    const place_rule *rules = plan->rules;
    for (size_t i = 0; i < plan->rule_count; i++) {
        int taken = -1;
        bool used = false;
        for (size_t n = 0; n < g->node_count && !used; n++) {
            if (!matches(&rules[i], g->nodes[n])) continue;
            taken = find_rule(plan, g->nodes[n]);
            used = taken == (int)i;
        }
        if (used) continue;
        if (taken >= 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "place: '%s' has no effect: '%s' comes before it and matches every "
                             "operator that it matches; put it first",
                             rules[i].pattern, rules[taken].pattern);
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "place: no operator's name matches '%s'; weft inspect --graph shows the "
                         "names",
                         rules[i].pattern);
    }
    return WEFT_OK;
}

/* Finds the values that every place computes itself: they depend on inputs and counters only, and
 * no rule places their nodes. */
static void find_anywhere(const rewriter *r, const int *rule, bool *any)
{
    const weft_graph *g = r->from;
    for (size_t v = 0; v < g->value_count; v++)
        any[v] = g->values[v].kind == WEFT_VALUE_INPUT ||
                 (g->values[v].kind == WEFT_VALUE_STATE && g->values[v].assigned != WEFT_NO_VALUE);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t n = 0; n < g->node_count; n++) {
            const weft_node *node = g->nodes[n];
            bool all = rule[n] < 0;
            for (int i = 0; i < node->in_count; i++) all = all && any[node->in[i]];
            for (int o = 0; o < node->out_count; o++) any[node->out + o] = all;
        }
        for (size_t v = 0; v < g->value_count; v++)
            if (g->values[v].kind == WEFT_VALUE_STATE && any[v] && !any[g->values[v].assigned]) {
                any[v] = false;
                changed = true;
            }
    }
}

/* The costs of forward nodes, measured or estimated. An estimated cost includes the gradient nodes
 * of the node. */
static void add_costs(const rewriter *r, double *cost)
{
    const weft_graph *g = r->from;
    if (r->plan->costs && r->plan->cost_count == (int)g->node_count) {
        memcpy(cost, r->plan->costs, g->node_count * sizeof(*cost));
        return;
    }
    for (size_t n = 0; n < g->node_count; n++) {
        weft_cost c = weft_graph_node_cost(g, (int)n);
        int at = g->nodes[n]->origin >= 0 ? g->nodes[n]->origin : (int)n;
        if (g->nodes[n]->phase == WEFT_PHASE_UPDATE) continue;
        cost[at] += c.flops + 4 * c.bytes; /* a byte counts as four operations */
    }
}

/* Whether a stage may begin with a node. A node that reads batch statistics may not: the tensor
 * would be sent to both stages. */
static bool begins(const bool *any, const weft_node *node)
{
    for (int i = 0; i < node->in_count; i++)
        if (node->op->statistics & 1u << i && !any[node->in[i]]) return false;
    return true;
}

static bool is_shared(const bool *any, const weft_node *node)
{
    return node->phase == WEFT_PHASE_FORWARD && !any[node->out];
}

/* Adds the cost of each node that cannot begin a stage to the last node before it that can. */
static void join_costs(const rewriter *r, const bool *any, double *cost)
{
    size_t first = 0;
    for (size_t n = 0; n < r->from->node_count; n++) {
        if (!is_shared(any, r->from->nodes[n])) continue;
        if (begins(any, r->from->nodes[n])) {
            first = n;
        } else {
            cost[first] += cost[n];
            cost[n] = 0;
        }
    }
}

/* Cuts the sequence of forward nodes into `places` stages so that the largest cost of a stage is
 * minimal (bisection over that cost). A cut may be before any node that can begin a stage; a node
 * that cannot stays in the stage of the node before it. */
static weft_status balance(const rewriter *r, const bool *any, int *place)
{
    const weft_graph *g = r->from;
    double *cost, low = 0, high = 0;
    int nodes = 0, shared = 0;
    WEFT_TRY(WEFT_NEW(&cost, 2 * g->node_count));
    double *list = cost + g->node_count; /* of the nodes that are shared out */
    add_costs(r, cost);
    join_costs(r, any, cost);
    for (size_t n = 0; n < g->node_count; n++) {
        if (!is_shared(any, g->nodes[n])) continue;
        nodes += begins(any, g->nodes[n]);
        low = WEFT_MAX(low, cost[n]);
        high += cost[n];
        list[shared++] = cost[n];
    }
    if (nodes < r->plan->places && !r->plan->rewritten) {
        free(cost);
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a pipeline of %d stages: this model has %d operators to share out",
                         r->plan->places, nodes);
    }
    for (int round = 0; round < 60; round++) {
        double middle = (low + high) / 2, sum = 0;
        int used = 1;
        for (int i = 0; i < shared; i++) {
            if (sum + list[i] > middle) {
                used++;
                sum = 0;
            }
            sum += list[i];
        }
        *(used > r->plan->places ? &low : &high) = middle;
    }
    double sum = 0;
    int at = 0, left = nodes;
    bool fresh = true;
    for (size_t n = 0; n < g->node_count; n++) {
        if (!is_shared(any, g->nodes[n])) continue;
        place[n] = at;
        if (!begins(any, g->nodes[n])) continue;
        bool full = sum + cost[n] > high * (1 + 1e-9), last = at == r->plan->places - 1;
        bool must = left <= r->plan->places - 1 - at; /* one node for each remaining stage */
        if (!last && !fresh && (full || must)) {
            at++;
            sum = 0;
        }
        sum += cost[n];
        place[n] = at;
        fresh = false;
        left--;
    }
    free(cost);
    return WEFT_OK;
}

/* The place of the first input that is not at every place; else 0. */
static int place_of_inputs(const rewriter *r, const weft_node *node)
{
    for (int i = 0; i < node->in_count; i++)
        if (r->values[node->in[i]].place != ANYWHERE) return r->values[node->in[i]].place;
    return 0;
}

/* The place of the first leaf of a node that is not at every place; else of its other inputs. */
static int place_of_leaves(const rewriter *r, const weft_node *node)
{
    for (int i = 0; i < node->in_count; i++)
        if (r->from->values[node->in[i]].kind != WEFT_VALUE_RESULT &&
            r->values[node->in[i]].place != ANYWHERE)
            return r->values[node->in[i]].place;
    return place_of_inputs(r, node);
}

/* stage: of each node; NULL: forward nodes run where their leaves are. */
static void place_node(rewriter *r, size_t n, const bool *any, const int *stage, const int *rule)
{
    const weft_graph *g = r->from;
    const weft_node *node = g->nodes[n];
    int place = ANYWHERE;
    if (any[node->out]) {
        r->node_place[n] = ANYWHERE;
        return;
    }
    if (node->phase == WEFT_PHASE_FORWARD) {
        if (rule[n] >= 0) place = r->plan->rules[rule[n]].place;
        if (r->plan->rule_count == 0) place = stage ? stage[n] : place_of_leaves(r, node);
        if (place == ANYWHERE) place = place_of_inputs(r, node);
    } else if (node->origin >= 0) {
        place = r->node_place[node->origin];
    } else {
        for (int i = 0; i < node->in_count && place == ANYWHERE; i++) {
            weft_value param;
            bool is = weft_graph_role(g, node->in[i], &param) == WEFT_ROLE_PARAMETER;
            if (is) param = node->in[i];
            if (param != WEFT_NO_VALUE) place = r->values[param].place;
        }
        if (place == ANYWHERE) place = place_of_inputs(r, node);
    }
    r->node_place[n] = place;
    for (int i = 0; i < node->in_count; i++) { /* a leaf is at the place of its first reader */
        value_state *v = &r->values[node->in[i]];
        if (g->values[node->in[i]].kind != WEFT_VALUE_RESULT && !any[node->in[i]] &&
            v->place == ANYWHERE)
            v->place = place;
    }
    for (int o = 0; o < node->out_count; o++) r->values[node->out + o].place = place;
}

/* The place that the first rewrite of the plan has chosen for a leaf, or ANYWHERE. */
static int known_place(const rewriter *r, const bool *any, weft_value v)
{
    const weft_value_info *info = &r->from->values[v];
    const leaf_plan *leaf =
        info->kind == WEFT_VALUE_RESULT ? NULL : weft_plan_leaf(r->plan, info->name);
    return leaf && !any[v] ? leaf->place : ANYWHERE;
}

/* Places all nodes, beginning with the leaves whose place is known. Returns whether these leaves
 * are where the stages need them first. */
static bool place_nodes(rewriter *r, const bool *any, const int *stage, const int *rule)
{
    const weft_graph *g = r->from;
    bool agree = true;
    for (size_t v = 0; v < g->value_count; v++)
        r->values[v].place = stage ? ANYWHERE : known_place(r, any, (weft_value)v);
    for (size_t n = 0; n < g->node_count; n++) place_node(r, n, any, stage, rule);
    for (size_t v = 0; v < g->value_count; v++) {
        int known = known_place(r, any, (weft_value)v);
        agree = agree && (known == ANYWHERE || known == r->values[v].place);
    }
    return agree;
}

/* Fails if no node runs at some place, which is an error of the user's placement. */
static weft_status check_work(const rewriter *r)
{
    uint64_t busy = 0;
    for (size_t n = 0; n < r->from->node_count; n++)
        if (r->node_place[n] != ANYWHERE) busy |= (uint64_t)1 << r->node_place[n];
    for (int p = 0; p < r->plan->places && r->plan->places > 1; p++)
        if (!(busy & (uint64_t)1 << p))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "place: nothing runs on rank %d of %d; place something there or "
                             "start fewer ranks",
                             p, r->plan->places);
    return WEFT_OK;
}

static weft_status place_all(rewriter *r, bool *any, int *stage, int *rule)
{
    const weft_graph *g = r->from;
    for (size_t n = 0; n < g->node_count; n++) rule[n] = find_rule(r->plan, g->nodes[n]);
    find_anywhere(r, rule, any);
    if (r->plan->places > 1 && r->plan->rule_count == 0) WEFT_TRY(balance(r, any, stage));
    /* Other graphs of the model, as for evaluation, have other costs and so other stages. If these
     * would need leaves elsewhere, operators run where the first graph has put their leaves. */
    if (r->plan->rule_count > 0 || !place_nodes(r, any, stage, rule))
        (void)place_nodes(r, any, NULL, rule);
    if (!r->plan->rewritten) WEFT_TRY(check_work(r)); /* evaluation may leave a rank idle */
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (r->node_place[n] != ANYWHERE)
                r->values[node->in[i]].readers |= (uint64_t)1 << r->node_place[n];
    }
    for (size_t v = 0; v < g->value_count; v++) /* gradients are exported at their parameter */
        if (g->values[v].exported != WEFT_NO_VALUE && r->values[v].place != ANYWHERE)
            r->values[g->values[v].exported].readers |= (uint64_t)1 << r->values[v].place;
    return WEFT_OK;
}

weft_status weft_rewrite_place(rewriter *r)
{
    bool *any = NULL;
    int *stage = NULL, *rule = NULL;
    weft_status status = WEFT_NEW(&any, r->from->value_count);
    if (status == WEFT_OK) status = WEFT_NEW(&stage, r->from->node_count);
    if (status == WEFT_OK) status = WEFT_NEW(&rule, r->from->node_count);
    if (status == WEFT_OK) status = place_all(r, any, stage, rule);
    free(any);
    free(stage);
    free(rule);
    return status;
}
