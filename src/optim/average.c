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

/* Adds the shares of the average and of the parameter in the update number `count`. */
static void add_shares(const weft_rule *r, weft_average_values *v)
{
    weft_value decay = decay_of(r, v->count);
    v->kept = weft_rule_real(r, decay);
    v->taken = weft_rule_real(r, exact(r, "sub", weft_rule_exact(r, 1), decay));
}

/* Sets the next value of an average, which moves towards the parameter's value `to`. The smaller
 * share is multiplied, so that rounding is that of the result; with decay 0 the average is the
 * parameter to the bit. */
static void move(const weft_rule *r, const weft_average_values *v, weft_value average,
                 weft_value to)
{
    weft_value moved;
    if (r->options->average_decay < 0.5)
        moved = exact(r, "add", to, exact(r, "mul", exact(r, "sub", average, to), v->kept));
    else
        moved = exact(r, "add", average, exact(r, "mul", exact(r, "sub", to, average), v->taken));
    weft_graph_assign(r->graph, average, moved);
}

static void count_up(const weft_rule *r, const weft_average_values *v)
{
    weft_graph_assign(
        r->graph, v->count,
        weft_graph_unary(r->graph, "counter", WEFT_AVERAGE_PREFIX "steps/next", v->count));
}

static weft_value leaf_like(weft_graph *g, const char *name, weft_type type, weft_value of)
{
    return weft_graph_own_leaf(g, NULL, name, &type, WEFT_ROLE_AVERAGE, of);
}

/* --- averages of parameters that the graph updates --- */

/* Whether the graph updates the parameters itself. If not, it has the averages without moving them,
 * which a graph of weft_average_build does. */
static bool moves(const weft_rule *r, const weft_average_values *v)
{
    return v->count != WEFT_NO_VALUE && r->options->update != WEFT_UPDATE_ELSEWHERE;
}

void weft_average_begin(weft_rule *r, weft_average_values *out)
{
    const weft_type scalar = {WEFT_I32, {0}};
    out->count = WEFT_NO_VALUE;
    if (!r->options->averages) return;
    out->count = leaf_like(r->graph, WEFT_AVERAGE_PREFIX "steps", scalar, WEFT_NO_VALUE);
    if (moves(r, out)) add_shares(r, out);
}

void weft_average_update(const weft_rule *r, const weft_average_values *v)
{
    weft_graph *g = r->graph;
    if (v->count == WEFT_NO_VALUE) return;
    weft_value next = g->values[r->w].assigned;
    if (moves(r, v) && next == WEFT_NO_VALUE) return;
    char *name = weft_graph_format(g, WEFT_AVERAGE_PREFIX "%s", g->values[r->w].name);
    weft_value average = leaf_like(g, name, *weft_value_type(g, r->w), r->w);
    free(name);
    if (moves(r, v)) move(r, v, average, next);
}

void weft_average_end(const weft_rule *r, const weft_average_values *v)
{
    if (moves(r, v)) count_up(r, v);
}

/* --- graphs of the averages alone --- */

/* The average of `trained` that value v is, and its parameter there; false: v is none. */
static bool is_average(const weft_graph *trained, weft_value v, weft_value *of)
{
    return weft_graph_role(trained, v, of) == WEFT_ROLE_AVERAGE && *of != WEFT_NO_VALUE;
}

weft_status weft_average_build(weft_graph *g, const weft_graph *trained,
                               const weft_optimizer_options *options)
{
    const weft_type scalar = {WEFT_I32, {0}};
    weft_rule r = {.graph = g, .options = options};
    weft_average_values v;
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    v.count = leaf_like(g, WEFT_AVERAGE_PREFIX "steps", scalar, WEFT_NO_VALUE);
    WEFT_TRY(weft_graph_status(g));
    add_shares(&r, &v);
    for (weft_value a = 0; a < weft_graph_value_count(trained); a++) {
        weft_value of;
        if (!is_average(trained, a, &of)) continue;
        const weft_type type = weft_graph_value_type(trained, of);
        r.w = weft_graph_leaf(g, WEFT_VALUE_PARAM, weft_graph_value_name(trained, of), type.dtype,
                              &type.shape, (weft_init){WEFT_INIT_CONSTANT, 0});
        move(&r, &v, leaf_like(g, weft_graph_value_name(trained, a), type, r.w), r.w);
        WEFT_TRY(weft_graph_status(g));
    }
    count_up(&r, &v);
    return weft_graph_status(g);
}

weft_status weft_average_take(weft_graph *g, const weft_graph *trained)
{
    WEFT_TRY(weft_graph_status(g));
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    for (weft_value v = 0; v < weft_graph_value_count(trained); v++) {
        weft_value of, param;
        if (!is_average(trained, v, &of)) continue;
        param = weft_graph_find(g, weft_graph_value_name(trained, of));
        if (param == WEFT_NO_VALUE) continue; /* the loss alone reads it */
        const char *name = weft_graph_value_name(trained, v);
        weft_type from = weft_graph_value_type(trained, v), to = weft_graph_value_type(g, param);
        bool casts = from.dtype != to.dtype;
        const weft_attr how = casts ? (weft_attr)WEFT_ATTR_INT("dtype", to.dtype)
                                    : (weft_attr)WEFT_ATTR_REAL("factor", 1);
        weft_value average = leaf_like(g, name, from, param);
        weft_graph_assign(g, param,
                          weft_graph_node(g, casts ? "cast" : "scale", name, &average, 1, &how, 1));
    }
    weft_graph_set_phase(g, WEFT_PHASE_FORWARD);
    return weft_graph_status(g);
}
