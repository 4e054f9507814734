/* Chooses the sharding of leaves (inputs, parameters, state), and emits this rank's part of
 * each. */
#include "rewrite/rewrite.h"

static bool is_leaf(const rewriter *r, weft_value v)
{
    return r->from->values[v].kind != WEFT_VALUE_RESULT;
}

/* Checks that each split dimension has at least one element for each rank of its axis. Messages
 * name the first dimension, of a batch or of any other input, and the first spatial dimension,
 * which are split by default; other dimensions are split only on request. */
static weft_status check_parts(const rewriter *r, weft_value v)
{
    const weft_value_info *info = &r->from->values[v];
    char shape[128];
    for (int a = 0; a < SHARD_AXES; a++) {
        int dim = r->values[v].split.at[a], ranks = r->plan->size[a];
        if (dim < 0 || info->type.shape.dim[dim] >= ranks) continue;
        long long have = info->type.shape.dim[dim];
        if (dim == 0 && a == AXIS_DATA)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "mesh data=%d: '%s' has %lld row%s (samples, if it is a batch) to "
                             "share out; give %d rows or more, or data=%lld or less",
                             ranks, info->name, have, weft_plural(have), ranks, have);
        if (dim == 1 && a == AXIS_DOMAIN)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "mesh domain=%d: '%s' is %s (batch, then positions), and has %lld "
                             "position%s to share out; give domain=%lld or less",
                             ranks, info->name,
                             weft_shape_text(&info->type.shape, shape, sizeof(shape)), have,
                             weft_plural(have), have);
        if (dim == 2 && a == AXIS_DOMAIN)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "mesh domain=%d: '%s' is %s (batch, channels, then space), and the "
                             "first dimension of space, such as the height of images, has %lld "
                             "row%s to share out; give domain=%lld or less",
                             ranks, info->name,
                             weft_shape_text(&info->type.shape, shape, sizeof(shape)), have,
                             weft_plural(have), have);
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "mesh %s=%d: '%s' has only %lld to share out along dimension %d",
                         weft_axis_name(a), ranks, info->name, have, dim);
    }
    return WEFT_OK;
}

weft_status weft_leaf_split_input(rewriter *r, weft_value v)
{
    const weft_value_info *info = &r->from->values[v];
    value_state *s = &r->values[v];
    if (info->type.shape.rank > 0 && r->plan->size[AXIS_DATA] > 1) s->split.at[AXIS_DATA] = 0;
    if (info->domain > 0 && r->plan->size[AXIS_DOMAIN] > 1)
        s->split.at[AXIS_DOMAIN] = (int16_t)info->domain;
    const leaf_plan *pin = weft_plan_leaf(r->plan, info->name);
    for (int a = 0; pin && a < SHARD_AXES; a++)
        if (pin->fixed[a]) {
            for (int b = 0; b < SHARD_AXES; b++)
                if (s->split.at[b] == pin->split.at[a]) s->split.at[b] = WHOLE;
            s->split.at[a] = pin->split.at[a];
        }
    s->known = true;
    return check_parts(r, v);
}

/* Records in this rank's graph which range of which part of its tensor a leaf is. */
static void place_leaf_range(rewriter *r, weft_value v, weft_value local, int64_t *start)
{
    const weft_shape *whole = &r->from->values[v].type.shape;
    value_state *s = &r->values[v];
    weft_shape part;
    sharding around = s->split;
    int64_t begin = start[0];
    around.at[AXIS_DATA] = WHOLE;
    weft_rewrite_part(r, whole, around, &part, start);
    weft_graph_set_part(r->to, local, whole, start);
    weft_graph_set_flat(r->to, local, weft_flat_like(r, s->param), &part, begin);
}

weft_status weft_leaf_emit(rewriter *r, weft_value v)
{
    const weft_value_info *info = &r->from->values[v];
    value_state *s = &r->values[v];
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    weft_value local = WEFT_NO_VALUE;
    leaf_plan *plan;
    s->known = true;
    WEFT_TRY(weft_plan_add_leaf(r->plan, info->name, &plan));
    plan->split = s->split;
    plan->place = s->place;
    for (int a = 0; a < SHARD_AXES; a++) plan->fixed[a] = true;
    if (weft_rewrite_here(r, s->place)) {
        weft_rewrite_part(r, &info->type.shape, s->split, &part, start);
        WEFT_TRY(weft_graph_map_leaf(r->map, v, info->name, &part, &local));
        if (s->split.at[AXIS_DATA] == FLAT) place_leaf_range(r, v, local, start);
        if (info->role_of != WEFT_NO_VALUE)
            r->to->values[local].role_of =
                weft_graph_find(r->to, r->from->values[info->role_of].name);
        WEFT_TRY(weft_graph_status(r->to));
    }
    WEFT_TRY(weft_rewrite_add_form(
        r, (form){.value = v, .place = s->place, .split = s->split, .local = local}));
    return weft_rewrite_send(r, v);
}

void weft_leaf_recall(rewriter *r, weft_value v)
{
    const leaf_plan *plan = weft_plan_leaf(r->plan, r->from->values[v].name);
    value_state *s = &r->values[v];
    if (!plan) return;
    for (int a = 0; a < SHARD_AXES; a++) {
        if (!plan->fixed[a]) continue;
        s->split.at[a] = plan->split.at[a];
        s->known = true;
    }
    s->weak =
        s->known && r->from->values[v].kind == WEFT_VALUE_PARAM && s->split.at[AXIS_DATA] == FLAT;
}

void weft_leaf_place_moments(rewriter *r, const weft_node *node)
{
    const weft_graph *g = r->from;
    for (int i = 0; i < node->in_count; i++) {
        weft_value param;
        value_state *s = &r->values[node->in[i]];
        weft_role role = weft_graph_role(g, node->in[i], &param);
        bool moment = role == WEFT_ROLE_OPTIMIZER || role == WEFT_ROLE_AVERAGE;
        if (!moment || param == WEFT_NO_VALUE || !r->values[param].known ||
            !weft_shape_equal(&weft_in(g, node, i)->shape, &weft_value_type(g, param)->shape))
            continue;
        s->param = param;
        if (s->known) continue;
        s->split = r->values[param].split;
        if (weft_gradient_spreads(r, param)) s->split.at[AXIS_DATA] = FLAT;
        s->known = true;
    }
}

weft_status weft_leaf_settle(rewriter *r, const weft_node *node, const decision *d)
{
    for (int i = 0; i < node->in_count; i++) {
        weft_value v = node->in[i];
        value_state *s = &r->values[v];
        if (!is_leaf(r, v) || weft_rewrite_form(r, v, s->place, s->split, r->phase)) continue;
        if (!s->known) {
            s->split = weft_decision_split(d, node, i);
            if (r->ranges.parameters && r->from->values[v].kind == WEFT_VALUE_PARAM &&
                weft_gradient_spreads(r, v)) {
                s->split.at[AXIS_DATA] = FLAT;
                s->weak = true;
            }
        }
        WEFT_TRY(weft_leaf_emit(r, v));
    }
    return WEFT_OK;
}
