/* Graphs of the operators that are a function of each element, alone, with scalars, and in chains
 * that a device may fuse. */
#include "op_build.h"

/* An input with a gradient and numbers from 0.5 to 1.1. */
#define ABOVE(f, ...) fixture_input(f, DIMS(__VA_ARGS__), true, 0.3, 0.8)

static weft_value op(fixture *f, const char *name, weft_value a)
{
    return node(f, name, &a, 1, NONE);
}

static weft_value two(fixture *f, const char *name, weft_value a, weft_value b)
{
    return node(f, name, IN(a, b), NONE);
}

/* A value as real numbers. */
static weft_value real(fixture *f, weft_value x)
{
    return node(f, "cast", &x, 1, ATTRS(WEFT_ATTR_INT("dtype", weft_graph_real(f->graph))));
}

void element_sub(fixture *f)
{
    out(f, two(f, "sub", X(f, 3, 5, 2), X(f, 3, 5, 2)));
}

void element_div(fixture *f)
{
    out(f, two(f, "div", X(f, 3, 700), ABOVE(f, 3, 700)));
}

void element_pow(fixture *f)
{
    out(f, two(f, "pow", ABOVE(f, 3, 7), X(f, 3, 7)));
}

void element_roots(fixture *f)
{
    weft_value x = ABOVE(f, 5, 3);
    out(f, op(f, "sqrt", x));
    out(f, op(f, "rsqrt", x));
}

/* Numbers from -180 to 180: both ends of the range of float lie between. */
void element_exp(fixture *f)
{
    out(f, op(f, "exp", X(f, 9)));
    out(f, op(f, "exp", fixture_input(f, 1, (int64_t[]){33}, false, 40, -40)));
}

void element_log(fixture *f)
{
    out(f, op(f, "log", ABOVE(f, 2, 9)));
}

void element_abs(fixture *f)
{
    weft_value x = X(f, 4, 4);
    out(f, op(f, "abs", x));
    out(f, op(f, "sign", x));
}

void element_clip(fixture *f)
{
    out(f, node(f, "clip", IN(X(f, 31)),
                ATTRS(WEFT_ATTR_REAL("min", -0.4), WEFT_ATTR_REAL("max", 0.3))));
}

/* An activation whose key is not its default. */
void element_leaky(fixture *f)
{
    weft_value x = X(f, 3, 31);
    out(f, node(f, "leaky_relu", IN(x), ATTRS(WEFT_ATTR_REAL("slope", 0.25))));
    out(f, node(f, "elu", IN(x), ATTRS(WEFT_ATTR_REAL("alpha", 1.75))));
}

/* Numbers on every piece, behind a product and by themselves. */
void element_pieces(fixture *f)
{
    static const char *const names[] = {"leaky_relu", "elu", "relu6", "hardsigmoid", "hardswish"};
    weft_value wide = fixture_input(f, DIMS(3, 33), true, 9, 0.7);
    weft_value product = node(f, "dense", IN(X(f, 3, 7), X(f, 7, 5)), NONE);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        out(f, op(f, names[i], wide));
        out(f, op(f, names[i], product));
    }
}

void element_larger(fixture *f)
{
    weft_value x = X(f, 2, 9), y = X(f, 2, 9);
    out(f, two(f, "maximum", x, y));
    out(f, two(f, "minimum", x, y));
    out(f, two(f, "maximum", x, x)); /* each of two equal elements has half of the gradient */
}

void element_where(fixture *f)
{
    weft_value x = X(f, 3, 6), zero = SCALAR(f, 0);
    weft_value larger = two(f, "greater", x, zero);
    out(f, node(f, "where", IN(larger, x, X(f, 3, 6)), NONE));
}

void element_compared(fixture *f)
{
    weft_value x = X(f, 17), y = X(f, 17);
    out(f, two(f, "mul", real(f, two(f, "greater", x, y)), x));
    out(f, two(f, "mul", real(f, two(f, "less", x, y)), y));
    out(f, two(f, "add", real(f, two(f, "equal", x, x)), x));
}

/* Scalars hold for all elements, and their gradient is a sum. */
void element_scalars(fixture *f)
{
    weft_value s = fixture_input(f, 0, NULL, true, 0.3, 0.8), x = ABOVE(f, 3, 600);
    out(f, two(f, "sub", s, x));
    out(f, two(f, "div", x, s));
    out(f, two(f, "div", s, x));
    out(f, two(f, "pow", x, s));
    out(f, two(f, "maximum", s, x));
    out(f, two(f, "sub", s, s));
}

/* Operands of which an element holds for several of the result's: missing dimensions, those of one
 * element, and both; rows that are longer than a block of the device. */
void broadcast_sub(fixture *f)
{
    weft_value x = X(f, 4, 1, 3), y = X(f, 5, 1);
    out(f, two(f, "sub", x, y));
}

void broadcast_mul(fixture *f)
{
    weft_value x = X(f, 2, 3, 5, 7), y = X(f, 3, 1, 7);
    out(f, two(f, "mul", x, y));
}

void broadcast_rows(fixture *f)
{
    weft_value x = X(f, 3, 700), row = ABOVE(f, 700), column = X(f, 3, 1);
    weft_value scaled = two(f, "mul", x, row);
    out(f, two(f, "add", scaled, column));
    out(f, two(f, "div", column, row));
    out(f, two(f, "sub", X(f, 1), x));
}

void broadcast_where(fixture *f)
{
    weft_value larger = two(f, "greater", X(f, 2, 1, 3), X(f, 4, 1));
    out(f, node(f, "where", IN(larger, X(f, 1, 3), X(f, 5, 1, 4, 1)), NONE));
}

/* Rows, columns and both; an axis in the middle, of more columns than a block of the device. */
static void reduced(fixture *f, const char *name, weft_value x, int count, int64_t a, int64_t b,
                    int keep)
{
    out(f,
        node(f, name, &x, 1,
             ATTRS({.name = "axes", .count = count, .ints = {a, b}}, WEFT_ATTR_INT("keep", keep))));
}

void largest(fixture *f)
{
    reduced(f, "reduce_max", X(f, 3, 5, 4), 1, 1, 0, 0);
}

void largest_rows(fixture *f)
{
    reduced(f, "reduce_max", X(f, 3, 5, 4), 2, 1, 2, 1);
    reduced(f, "reduce_max", X(f, 2, 3, 77), 1, 1, 0, 1);
    reduced(f, "reduce_max", X(f, 2, 3, 4), 2, 0, 2, 0);
}

/* A mean over all axes that stay with one element, with which the tensor is then compared. */
void mean_rows(fixture *f)
{
    weft_value x = X(f, 3, 2, 67);
    reduced(f, "reduce_mean", x, 2, 1, 2, 1);
    out(f, two(f, "sub", x, f->outputs[0]));
    reduced(f, "reduce_sum", x, 1, 1, 0, 0);
}

void gather(fixture *f)
{
    weft_value indices = fixture_ints(f, DIMS(2, 3), 5), x = X(f, 4, 5, 3);
    out(f, node(f, "gather", IN(indices, x), ATTRS(WEFT_ATTR_INT("axis", 1))));
}

void gather_scalar(fixture *f)
{
    weft_value one = fixture_ints(f, 0, NULL, 4), x = X(f, 4, 6), last = X(f, 2, 3, 4);
    out(f, node(f, "gather", IN(one, x), NONE));
    out(f, node(f, "gather", IN(one, last), ATTRS(WEFT_ATTR_INT("axis", 2))));
}

/* A constant with numbers of its own, in the type of the graph. */
void constant_tensor(fixture *f)
{
    float single[15];
    double both[15];
    bool f32 = weft_graph_real(f->graph) == WEFT_F32;
    for (int i = 0; i < 15; i++) single[i] = (float)(both[i] = (i * 7 % 11 - 5) * 0.25);
    const weft_type type = {weft_graph_real(f->graph), weft_shape_of(2, (int64_t[]){3, 5})};
    const weft_attr data = weft_attr_tensor("data", &type, f32 ? (const void *)single : both);
    weft_value table = node(f, "constant", NULL, 0, &data, 1), x = X(f, 2, 3, 5);
    out(f, two(f, "mul", x, table));
    out(f, two(f, "sub", table, table));
}

/* Intermediate results with several readers, of which some are read outside. */
void element_chain(fixture *f)
{
    weft_value x = X(f, 5, 777), y = ABOVE(f, 5, 777), s = SCALAR(f, 0.7);
    weft_value z = two(f, "sub", x, y), square = two(f, "mul", z, z);
    weft_value sum = two(f, "add", square, y), root = op(f, "sqrt", sum);
    weft_value quotient = two(f, "div", z, root), part = two(f, "div", quotient, s);
    out(f, two(f, "sub", part, two(f, "mul", x, root)));
    out(f, square);
}
