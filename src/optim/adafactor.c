/* Adafactor (Shazeer and Stern 2018), as PyTorch defines it: the second moments of a matrix are the
 * product of a vector for its rows and one for its columns. A tensor of more dimensions is the
 * matrix of its first dimension and the others; a vector has second moments of its own. Steps are
 * relative to the root mean square of the parameter. */
#include <math.h>

#include "optim/rule.h"

enum { DECAY, EPSILON, LEAST, CLIP };
static const weft_rule_key keys[] = {{"decay", 0.8, 0, 1, false},
                                     {"epsilon", 1e-7, 1e-15, 1, false},
                                     {"least", 1e-3, 0, 1, false},
                                     {"clip", 1, 1, 1e6, false},
                                     {.name = NULL}};

/* The share of the newest squares in the second moments, t^-decay for step t. */
static weft_value newest_share(weft_rule *r)
{
    if (r->shared[0] == WEFT_NO_VALUE) {
        weft_value power = weft_rule_exact(r, -r->keys[DECAY]);
        r->shared[0] = weft_rule_real(r, weft_rule_binary(r, "pow", weft_rule_steps(r), power));
    }
    return r->shared[0];
}

/* The next value of a state, towards x by that share. */
static weft_value follow(weft_rule *r, weft_value state, weft_value x)
{
    weft_value difference = weft_rule_binary(r, "sub", x, state);
    weft_value next =
        weft_rule_binary(r, "add", state, weft_rule_binary(r, "mul", difference, newest_share(r)));
    weft_graph_assign(r->graph, state, next);
    return next;
}

/* The mean over all axes of a matrix but one, and the state that follows it. */
static weft_value follow_mean(weft_rule *r, const char *name, weft_value squares, int axis)
{
    const weft_type *matrix = weft_value_type(r->graph, squares);
    const weft_type vector = {matrix->dtype, {1, {matrix->shape.dim[1 - axis]}}};
    double over = (double)matrix->shape.dim[axis];
    weft_attr axes = {.name = "axes", .count = 1, .ints = {axis}};
    weft_value sum = weft_rule_node(r, "reduce_sum", &squares, 1, &axes, 1);
    return follow(r, weft_rule_state(r, name, &vector), weft_rule_scale(r, sum, 1 / over));
}

/* The second moments of a matrix of squares: rows times columns over the mean of the rows. */
static weft_value factored(weft_rule *r, weft_value squares)
{
    const weft_shape shape = weft_value_type(r->graph, squares)->shape;
    weft_attr axes = {.name = "axes", .count = 1, .ints = {0}};
    weft_value rows = follow_mean(r, "rows", squares, 1);
    weft_value columns = follow_mean(r, "columns", squares, 0);
    weft_value mean = weft_rule_scale(r, weft_rule_node(r, "reduce_sum", &rows, 1, &axes, 1),
                                      1 / (double)shape.dim[0]);
    weft_value in[] = {weft_rule_reshaped(r, rows, &(weft_shape){2, {shape.dim[0], 1}}),
                       weft_rule_reshaped(r, columns, &(weft_shape){2, {1, shape.dim[1]}})};
    weft_value product = weft_rule_node(r, "matmul", in, 2, NULL, 0);
    weft_value least = weft_rule_number(r, r->keys[EPSILON]);
    return weft_rule_binary(r, "div", product, weft_rule_binary(r, "maximum", mean, least));
}

/* The root mean square of a tensor like the parameter. */
static weft_value size_of(const weft_rule *r, weft_value x)
{
    double count = (double)weft_shape_elements(&weft_value_type(r->graph, r->w)->shape);
    return weft_rule_scale(r, weft_rule_norm(r, x), 1 / sqrt(count));
}

/* The rate of the step, min(lr, 1 / sqrt(t)) times the size of the parameter. */
static weft_value relative_rate(weft_rule *r)
{
    weft_value slow = weft_rule_real(r, weft_rule_unary(r, "rsqrt", weft_rule_steps(r)));
    weft_value size =
        weft_rule_binary(r, "maximum", size_of(r, r->w), weft_rule_number(r, r->keys[LEAST]));
    return weft_rule_binary(r, "mul", size, weft_rule_binary(r, "minimum", r->lr, slow));
}

static void update(weft_rule *r)
{
    const weft_shape shape = weft_value_type(r->graph, r->w)->shape;
    double epsilon = r->keys[EPSILON];
    weft_value rate = relative_rate(r),
               squares = weft_rule_binary(r, "mul", r->gradient, r->gradient);
    weft_value second =
        shape.rank < 2 ? follow(r, weft_rule_moment(r, "v"), squares)
                       : weft_rule_reshaped(r, factored(r, weft_rule_matrix(r, squares)), &shape);
    weft_value root = weft_rule_unary(
        r, "rsqrt", weft_rule_binary(r, "maximum", second, weft_rule_number(r, epsilon * epsilon)));
    weft_value step = weft_rule_binary(r, "mul", root, r->gradient), one = weft_rule_number(r, 1);
    weft_value size = weft_rule_scale(r, size_of(r, step), 1 / r->keys[CLIP]);
    weft_value factor = weft_rule_binary(r, "div", rate, weft_rule_binary(r, "maximum", one, size));
    weft_graph_assign(
        r->graph, r->w,
        weft_rule_binary(r, "sub", weft_rule_shrunk(r), weft_rule_binary(r, "mul", step, factor)));
}

const weft_optimizer weft_optimizer_adafactor = {
    .name = "adafactor",
    .summary = "second moments by rows and columns, in little memory; relative steps",
    .form = "adafactor[:decay=0.8,epsilon=1e-7,least=0.001,clip=1]",
    .keys = keys,
    .need = WEFT_NEEDS_MATRIX,
    .adaptive = true,
    .update = update};
