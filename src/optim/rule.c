/* Implements the pieces of update rules. */
#include "optim/rule.h"

weft_value weft_rule_node(const weft_rule *r, const char *op, const weft_value *in, int count,
                          const weft_attr *attrs, int attr_count)
{
    char *name = weft_graph_format(r->graph, "%s/update", r->graph->values[r->w].name);
    weft_value out = weft_graph_node(r->graph, op, name, in, count, attrs, attr_count);
    free(name);
    return out;
}

weft_value weft_rule_unary(const weft_rule *r, const char *op, weft_value x)
{
    return weft_rule_node(r, op, &x, 1, NULL, 0);
}

weft_value weft_rule_binary(const weft_rule *r, const char *op, weft_value a, weft_value b)
{
    return weft_rule_node(r, op, (weft_value[]){a, b}, 2, NULL, 0);
}

weft_value weft_rule_scale(const weft_rule *r, weft_value x, double factor)
{
    weft_attr attr = WEFT_ATTR_REAL("factor", factor);
    return weft_rule_node(r, "scale", &x, 1, &attr, 1);
}

static weft_value number_of(const weft_rule *r, double value, weft_dtype dtype)
{
    weft_attr attrs[] = {WEFT_ATTR_REAL("value", value), WEFT_ATTR_INT("dtype", dtype)};
    return weft_rule_node(r, "constant", NULL, 0, attrs, 2);
}

weft_value weft_rule_exact(const weft_rule *r, double value)
{
    return number_of(r, value, WEFT_F64);
}

weft_value weft_rule_number(const weft_rule *r, double value)
{
    return number_of(r, value, r->graph->real);
}

weft_value weft_rule_average(const weft_rule *r, weft_value old, weft_value x, double beta)
{
    return weft_rule_binary(r, "add", weft_rule_scale(r, old, beta),
                            weft_rule_scale(r, x, 1 - beta));
}

weft_value weft_rule_moment(const weft_rule *r, const char *name)
{
    weft_type type = *weft_value_type(r->graph, r->w);
    return weft_rule_state(r, name, &type);
}

weft_value weft_rule_state(const weft_rule *r, const char *name, const weft_type *type)
{
    char *full = weft_graph_format(r->graph, "%s/%s", r->graph->values[r->w].name, name);
    weft_value state = weft_graph_own_leaf(r->graph, NULL, full, type, WEFT_ROLE_OPTIMIZER, r->w);
    free(full);
    return state;
}

weft_value weft_rule_age(weft_rule *r)
{
    const weft_type scalar = {WEFT_I32, {0}};
    if (r->age == WEFT_NO_VALUE)
        r->age = weft_graph_own_leaf(r->graph, NULL, "moments/age", &scalar, WEFT_ROLE_OPTIMIZER,
                                     WEFT_NO_VALUE);
    return r->age;
}

static weft_value cast_to(const weft_rule *r, weft_value x, weft_dtype dtype)
{
    weft_attr attr = WEFT_ATTR_INT("dtype", dtype);
    return weft_rule_node(r, "cast", &x, 1, &attr, 1);
}

weft_value weft_rule_real(const weft_rule *r, weft_value x)
{
    return cast_to(r, x, r->graph->real);
}

weft_value weft_rule_shared(const weft_rule *r, const char *name)
{
    const weft_type scalar = {WEFT_F64, {0}};
    char *full = weft_graph_format(r->graph, "moments/%s", name);
    weft_value state =
        weft_graph_own_leaf(r->graph, NULL, full, &scalar, WEFT_ROLE_OPTIMIZER, WEFT_NO_VALUE);
    free(full);
    return state;
}

weft_value weft_rule_steps(weft_rule *r)
{
    weft_value age = weft_rule_age(r);
    if (r->steps == WEFT_NO_VALUE)
        r->steps = weft_rule_binary(r, "add", cast_to(r, age, WEFT_F64), weft_rule_exact(r, 1));
    return r->steps;
}

/* In f64: in f32 most digits of 1 - 0.999 would be lost. 1 - beta^t = -expm1(t log beta) would be
 * as exact for a beta below 1 by less than 1e-9, which no key allows. */
weft_value weft_rule_correction(weft_rule *r, double beta)
{
    for (int i = 0; i < r->correction_count; i++)
        if (r->corrections[i].beta == beta) return r->corrections[i].factor;
    weft_value steps = weft_rule_steps(r), one = weft_rule_exact(r, 1);
    weft_value power = weft_rule_binary(r, "pow", weft_rule_exact(r, beta), steps);
    weft_value weight = weft_rule_binary(r, "sub", one, power);
    weft_value factor = weft_rule_real(r, weft_rule_binary(r, "div", one, weight));
    if (r->correction_count < WEFT_MOST_RULE_KEYS) {
        r->corrections[r->correction_count].beta = beta;
        r->corrections[r->correction_count++].factor = factor;
    }
    return factor;
}

weft_value weft_rule_decayed(const weft_rule *r)
{
    if (r->options->weight_decay == 0) return r->gradient;
    return weft_rule_binary(r, "add", r->gradient,
                            weft_rule_scale(r, r->w, r->options->weight_decay));
}

weft_value weft_rule_shrunk(const weft_rule *r)
{
    if (r->options->weight_decay == 0) return r->w;
    weft_value part = weft_rule_scale(r, r->lr, r->options->weight_decay);
    return weft_rule_binary(r, "sub", r->w, weft_rule_binary(r, "mul", r->w, part));
}

weft_value weft_rule_norm(const weft_rule *r, weft_value x)
{
    return weft_rule_unary(r, "exact_sqrt", weft_rule_unary(r, "sum_squares", x));
}

weft_value weft_rule_reshaped(const weft_rule *r, weft_value x, const weft_shape *shape)
{
    weft_attr attr = {.name = "shape", .count = shape->rank};
    if (weft_shape_equal(&weft_value_type(r->graph, x)->shape, shape)) return x;
    for (int i = 0; i < shape->rank; i++) attr.ints[i] = shape->dim[i];
    return weft_rule_node(r, "reshape", &x, 1, &attr, 1);
}

weft_value weft_rule_matrix(const weft_rule *r, weft_value x)
{
    const weft_shape *shape = &weft_value_type(r->graph, x)->shape;
    int64_t rows = shape->dim[0];
    return weft_rule_reshaped(r, x, &(weft_shape){2, {rows, weft_shape_elements(shape) / rows}});
}

void weft_rule_move(const weft_rule *r, weft_value from, weft_value direction)
{
    weft_value change = weft_rule_binary(r, "mul", direction, r->lr);
    weft_graph_assign(r->graph, r->w, weft_rule_binary(r, "sub", from, change));
}
