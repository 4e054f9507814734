/* The average of the parameters over their updates (Polyak and Juditsky 1992), with weights that
 * fall exponentially: a state of each trained parameter, which the update phase moves. The first
 * update sets it to the parameter (as AveragedModel of torch.optim.swa_utils), later ones keep the
 * share `decay` of it. The share is computed in f64 and rounded once. */
#include "optim/rule.h"

static weft_value exact(const weft_rule *r, const char *op, weft_value a, weft_value b)
{
    return weft_rule_node(r, op, (weft_value[]){a, b}, 2, NULL, 0);
}

/* Decay n: 0 in the first update, n = 0, and n / (n + 9) while it rises, which are the decays
 * (1 + k) / (10 + k) of the updates k behind it. */
static weft_value decay_of(const weft_rule *r, weft_value count)
{
    const weft_attr f64 = WEFT_ATTR_INT("dtype", WEFT_F64);
    weft_value n = weft_rule_node(r, "cast", &count, 1, &f64, 1);
    if (r->options->average_rises)
        n = exact(r, "div", n, exact(r, "add", n, weft_rule_exact(r, 9)));
    return exact(r, "minimum", n, weft_rule_exact(r, r->options->average_decay));
}

void weft_average_begin(weft_rule *r, weft_average_values *out)
{
    const weft_type scalar = {WEFT_I32, {0}};
    out->count = WEFT_NO_VALUE;
    if (!r->options->averages) return;
    out->count = weft_graph_own_leaf(r->graph, NULL, WEFT_AVERAGE_PREFIX "steps", &scalar,
                                     WEFT_ROLE_AVERAGE, WEFT_NO_VALUE);
    weft_value decay = decay_of(r, out->count);
    out->kept = weft_rule_real(r, decay);
    out->taken = weft_rule_real(r, exact(r, "sub", weft_rule_exact(r, 1), decay));
}

void weft_average_update(const weft_rule *r, const weft_average_values *v)
{
    weft_graph *g = r->graph;
    weft_value next = g->values[r->w].assigned, moved;
    if (v->count == WEFT_NO_VALUE || next == WEFT_NO_VALUE) return;
    weft_type type = *weft_value_type(g, r->w);
    char *name = weft_graph_format(g, WEFT_AVERAGE_PREFIX "%s", g->values[r->w].name);
    weft_value average = weft_graph_own_leaf(g, NULL, name, &type, WEFT_ROLE_AVERAGE, r->w);
    free(name);
    /* The smaller share is multiplied, so that rounding is that of the result; with decay 0 the
     * average is the parameter to the bit. */
    if (r->options->average_decay < 0.5)
        moved = exact(r, "add", next, exact(r, "mul", exact(r, "sub", average, next), v->kept));
    else
        moved = exact(r, "add", average, exact(r, "mul", exact(r, "sub", next, average), v->taken));
    weft_graph_assign(g, average, moved);
}

void weft_average_end(const weft_rule *r, const weft_average_values *v)
{
    if (v->count == WEFT_NO_VALUE) return;
    weft_graph_assign(
        r->graph, v->count,
        weft_graph_unary(r->graph, "counter", WEFT_AVERAGE_PREFIX "steps/next", v->count));
}

weft_status weft_average_take(weft_graph *g, const weft_graph *trained)
{
    WEFT_TRY(weft_graph_status(g));
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    for (weft_value v = 0; v < weft_graph_value_count(trained); v++) {
        weft_value of, param;
        if (weft_graph_role(trained, v, &of) != WEFT_ROLE_AVERAGE || of == WEFT_NO_VALUE) continue;
        param = weft_graph_find(g, weft_graph_value_name(trained, of));
        if (param == WEFT_NO_VALUE) continue; /* the loss alone reads it */
        const char *name = weft_graph_value_name(trained, v);
        weft_type from = weft_graph_value_type(trained, v), to = weft_graph_value_type(g, param);
        bool casts = from.dtype != to.dtype;
        const weft_attr how = casts ? (weft_attr)WEFT_ATTR_INT("dtype", to.dtype)
                                    : (weft_attr)WEFT_ATTR_REAL("factor", 1);
        weft_value average = weft_graph_own_leaf(g, NULL, name, &from, WEFT_ROLE_AVERAGE, param);
        weft_graph_assign(g, param,
                          weft_graph_node(g, casts ? "cast" : "scale", name, &average, 1, &how, 1));
    }
    weft_graph_set_phase(g, WEFT_PHASE_FORWARD);
    return weft_graph_status(g);
}
