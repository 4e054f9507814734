/* Sets and names the roles of leaves in training, and adds the leaves of the library itself. */
#include "graph/graph.h"

static const char *const role_names[] = {"data", "parameter", "optimizer", "statistic", "counter",
                                         "sum",  "sequence",  "schedule",  "carried",   "average"};

const char *weft_role_name(int role)
{
    return role >= 0 && role < (int)WEFT_COUNT(role_names) ? role_names[role] : NULL;
}

void weft_graph_set_role(weft_graph *g, weft_value state, weft_role role, weft_value parameter)
{
    WEFT_NEED_VOID_AS("graph", g);
    if (g->error.status != WEFT_OK) return;
    if (!weft_graph_has(g, state)) {
        (void)weft_graph_stick(g, weft_fail_within(WEFT_ERR_ARGUMENT, "%s", __func__));
        return;
    }
    weft_value_info *info = &g->values[state];
    bool known =
        parameter == WEFT_NO_VALUE || (parameter >= 0 && (size_t)parameter < g->value_count &&
                                       g->values[parameter].kind == WEFT_VALUE_PARAM);
    if (info->kind != WEFT_VALUE_STATE || role < WEFT_ROLE_OPTIMIZER || role > WEFT_ROLE_AVERAGE ||
        !known) {
        (void)weft_graph_stick(
            g, weft_fail(
                   WEFT_ERR_ARGUMENT,
                   "'%s': a state is an optimizer's, a statistic, a counter, a sum, a "
                   "sequence's, a schedule's, carried or an average, and of a parameter or of none",
                   info->name));
        return;
    }
    info->role = role;
    info->role_of = parameter;
}

weft_role weft_graph_role(const weft_graph *g, weft_value leaf, weft_value *parameter)
{
    WEFT_NEED_ELSE_AS(WEFT_ROLE_DATA, "graph", g);
    if (parameter) *parameter = WEFT_NO_VALUE;
    if (!weft_graph_has(g, leaf)) return WEFT_ROLE_DATA;
    if (parameter) *parameter = g->values[leaf].role_of;
    return g->values[leaf].role;
}

weft_value weft_graph_own_leaf(weft_graph *g, const weft_graph *beside, const char *name,
                               const weft_type *type, weft_role role, weft_value parameter)
{
    char *free_name = NULL;
    if (g->error.status != WEFT_OK) return WEFT_NO_VALUE;
    weft_value_kind kind = role == WEFT_ROLE_DATA ? WEFT_VALUE_INPUT : WEFT_VALUE_STATE;
    weft_status status = weft_strdup(name, &free_name);
    while (status == WEFT_OK && (weft_graph_find(g, free_name) != WEFT_NO_VALUE ||
                                 (beside && weft_graph_find(beside, free_name) != WEFT_NO_VALUE))) {
        char *longer = NULL;
        status = weft_format(&longer, "%s_", free_name);
        free(free_name);
        free_name = longer;
    }
    if (status != WEFT_OK) return weft_graph_stick(g, status);
    weft_value leaf = weft_graph_leaf(g, kind, free_name, type->dtype, &type->shape,
                                      (weft_init){WEFT_INIT_CONSTANT, 0});
    free(free_name);
    if (kind == WEFT_VALUE_STATE) weft_graph_set_role(g, leaf, role, parameter);
    return leaf;
}
