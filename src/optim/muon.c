/* Muon (Jordan et al. 2024): the momentum of a matrix, made almost orthogonal by Newton and
 * Schulz's iteration. A tensor of more dimensions is the matrix of its first dimension and the
 * others; vectors take steps of AdamW. Weight decay is decoupled. */
#include <math.h>

#include "optim/rule.h"

enum { MOMENTUM, NESTEROV, STEPS, BETA1, BETA2, EPSILON };
static const weft_rule_key keys[] = {{"momentum", 0.95, 0, WEFT_ALMOST_ONE, false},
                                     {"nesterov", 1, 0, 1, true},
                                     {"steps", 5, 1, 50, true},
                                     {"beta1", 0.9, 0, WEFT_ALMOST_ONE, false},
                                     {"beta2", 0.95, 0, WEFT_ALMOST_ONE, false},
                                     {"epsilon", 1e-8, 1e-30, 1, false},
                                     {.name = NULL}};

static weft_value product(const weft_rule *r, weft_value a, weft_value b)
{
    return weft_rule_node(r, "matmul", (weft_value[]){a, b}, 2, NULL, 0);
}

static weft_value transposed(const weft_rule *r, weft_value x)
{
    weft_attr perm = {.name = "perm", .count = 2, .ints = {1, 0}};
    return weft_rule_node(r, "transpose", &x, 1, &perm, 1);
}

/* x times its transpose, which is a value of its own: the cpu device reads two operands. */
static weft_value squared(const weft_rule *r, weft_value x)
{
    return product(r, x, transposed(r, x));
}

/* A polynomial brings the singular values of a matrix of norm 1 near to 1. */
static weft_value orthogonal(const weft_rule *r, weft_value matrix)
{
    const weft_shape shape = weft_value_type(r->graph, matrix)->shape;
    const double a = 3.4445, b = -4.775, c = 2.0315;
    bool high = shape.dim[0] > shape.dim[1];
    weft_value norm =
        weft_rule_binary(r, "maximum", weft_rule_norm(r, matrix), weft_rule_number(r, 1e-7));
    weft_value x = weft_rule_binary(r, "div", high ? transposed(r, matrix) : matrix, norm);
    for (int i = 0; i < (int)r->keys[STEPS]; i++) {
        weft_value square = squared(r, x); /* symmetric */
        weft_value sum = weft_rule_binary(r, "add", weft_rule_scale(r, square, b),
                                          weft_rule_scale(r, squared(r, square), c));
        x = weft_rule_binary(r, "add", weft_rule_scale(r, x, a), product(r, sum, x));
    }
    return high ? transposed(r, x) : x;
}

static void update(weft_rule *r)
{
    const weft_shape shape = weft_value_type(r->graph, r->w)->shape;
    if (shape.rank < 2) {
        weft_rule_adam(r, true, r->keys[BETA1], r->keys[BETA2], r->keys[EPSILON]);
        return;
    }
    weft_value m = weft_rule_moment(r, "momentum");
    weft_value next = weft_rule_average(r, m, r->gradient, r->keys[MOMENTUM]), direction = next;
    if (r->keys[NESTEROV] != 0)
        direction = weft_rule_average(r, next, r->gradient, r->keys[MOMENTUM]);
    weft_value matrix = weft_rule_matrix(r, direction);
    const weft_shape *flat = &weft_value_type(r->graph, matrix)->shape;
    /* The outputs of a layer are the columns of a dense weight [in, out], and the filters,
     * dimension 0, of a convolution. */
    double ratio = (double)flat->dim[0] / (double)flat->dim[1];
    double size = sqrt(fmax(1, shape.rank == 2 ? 1 / ratio : ratio));
    weft_value step = weft_rule_scale(r, orthogonal(r, matrix), size);
    weft_graph_assign(r->graph, m, next);
    weft_rule_move(r, weft_rule_shrunk(r), weft_rule_reshaped(r, step, &shape));
}

const weft_optimizer weft_optimizer_muon = {
    .name = "muon",
    .summary = "orthogonal steps of whole matrices; AdamW for vectors",
    .form = "muon[:momentum=0.95,nesterov=1,steps=5,beta1=0.9,beta2=0.95,epsilon=1e-8]",
    .keys = keys,
    .need = WEFT_NEEDS_MATRIX,
    .adaptive = true,
    .update = update};
