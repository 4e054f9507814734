/* Defines the elementary functions and comparisons: sub, div, pow, sqrt, rsqrt, exp, log, abs,
 * sign, clip, maximum, minimum, where, greater, less, equal. A comparison, of any type, gives bool,
 * false if an operand is NaN. */
#include "ops/elementwise.h"

/* --- rules --- */

/* The type of operand `like`, in the shape to which all operands are broadcast. */
static weft_status broadcast_all(const weft_graph *g, const weft_node *node, int like,
                                 weft_type *out)
{
    out[0] = (weft_type){weft_in(g, node, like)->dtype, weft_in(g, node, 0)->shape};
    for (int i = 1; i < node->in_count; i++) {
        char have[128], all[128];
        const weft_shape *shape = &weft_in(g, node, i)->shape;
        if (!weft_broadcast_shape(&out[0].shape, shape, &out[0].shape))
            return weft_node_fail(
                node,
                "operand %d is %s, and those before it are %s: sizes must be equal from the last "
                "dimension on, or 1",
                i, weft_shape_text(shape, have, sizeof(have)),
                weft_shape_text(&out[0].shape, all, sizeof(all)));
    }
    return WEFT_OK;
}

weft_status weft_element_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    for (int i = 0; i < node->in_count; i++)
        WEFT_TRY(weft_expect_real(g, node, i, "an operand", 0));
    return broadcast_all(g, node, 0, out);
}

static weft_status same_types(const weft_graph *g, const weft_node *node, int first)
{
    weft_dtype a = weft_in(g, node, first)->dtype, b = weft_in(g, node, first + 1)->dtype;
    if (a == b) return WEFT_OK;
    return weft_node_fail(node, "operand %d is %s and operand %d is %s; cast one of them", first,
                          weft_dtype_name(a), first + 1, weft_dtype_name(b));
}

static weft_status compare_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(same_types(g, node, 0));
    WEFT_TRY(broadcast_all(g, node, 0, out));
    out[0].dtype = WEFT_BOOL;
    return WEFT_OK;
}

static weft_status where_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(same_types(g, node, 1));
    return broadcast_all(g, node, 1, out);
}

void weft_element_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    for (int i = 0; i <= node->in_count; i++) {
        const weft_type *t = i < node->in_count ? weft_in(g, node, i) : weft_out(g, node, 0);
        const weft_shape *full = &weft_out(g, node, 0)->shape;
        int lacks = full->rank - t->shape.rank;
        weft_text_add(text, "%s", i == 0 ? "" : i < node->in_count ? ", " : " -> ");
        for (int d = 0; d < t->shape.rank; d++)
            if (t->shape.dim[d] == full->dim[d + lacks])
                weft_text_add(text, "%sd%d", d ? " " : "", d + lacks);
            else
                weft_text_add(text, "%s!one%dd%d", d ? " " : "", i, d + lacks);
    }
}

weft_value weft_element_gradient_of(weft_graph *g, const weft_node *node, int i,
                                    weft_value gradient)
{
    /* The operand lacks the first dimensions; of others it has one element, which stays. */
    weft_shape x = weft_in(g, node, i)->shape, full = weft_out(g, node, 0)->shape;
    weft_attr first = {.name = "axes"}, others[] = {{.name = "axes"}, WEFT_ATTR_INT("keep", 1)};
    int lacks = full.rank - x.rank;
    for (int d = 0; d < full.rank; d++)
        if (d < lacks)
            first.ints[first.count++] = d;
        else if (x.dim[d - lacks] != full.dim[d])
            others[0].ints[others[0].count++] = d - lacks;
    if (first.count > 0) gradient = weft_emit(g, node, "dx", "reduce_sum", &gradient, 1, &first, 1);
    if (others[0].count > 0)
        gradient = weft_emit(g, node, "dx", "reduce_sum", &gradient, 1, others, 2);
    return gradient;
}

/* --- gradients: nodes that compute them --- */

static weft_value binary(weft_graph *g, const weft_node *node, const char *op, weft_value a,
                         weft_value b)
{
    return weft_emit(g, node, op, op, (weft_value[]){a, b}, 2, NULL, 0);
}

static weft_value times(weft_graph *g, const weft_node *node, weft_value x, double factor)
{
    weft_attr attr = WEFT_ATTR_REAL("factor", factor);
    return weft_emit(g, node, "scale", "scale", &x, 1, &attr, 1);
}

/* A number like `like`: a scalar, since an operand may be one. */
static weft_value number(weft_graph *g, const weft_node *node, double value)
{
    weft_attr attrs[] = {WEFT_ATTR_REAL("value", value),
                         WEFT_ATTR_INT("dtype", weft_out(g, node, 0)->dtype)};
    return weft_emit(g, node, "number", "constant", NULL, 0, attrs, 2);
}

/* Sets the gradient of operand i, if it is wanted. */
#define GIVE(i, value)                                                                             \
    if (want[i]) dx[i] = weft_element_gradient_of(g, node, i, value)

#define GRADIENT(op)                                                                               \
    static void op##_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,          \
                              const bool *want, weft_value *dx)

GRADIENT(sub)
{
    GIVE(0, dy[0]);
    GIVE(1, times(g, node, dy[0], -1));
}

GRADIENT(div)
{
    weft_value da = binary(g, node, "div", dy[0], node->in[1]);
    GIVE(0, da);
    GIVE(1, times(g, node, binary(g, node, "mul", da, node->out), -1));
}

/* d(a^b)/da = b a^(b - 1), d(a^b)/db = a^b log a */
GRADIENT(pow)
{
    if (want[0]) {
        weft_value less = binary(g, node, "sub", node->in[1], number(g, node, 1));
        weft_value slope = binary(g, node, "pow", node->in[0], less);
        slope = binary(g, node, "mul", slope, node->in[1]);
        dx[0] = weft_element_gradient_of(g, node, 0, binary(g, node, "mul", slope, dy[0]));
    }
    if (want[1]) {
        weft_value log = weft_emit(g, node, "log", "log", &node->in[0], 1, NULL, 0);
        weft_value slope = binary(g, node, "mul", node->out, log);
        dx[1] = weft_element_gradient_of(g, node, 1, binary(g, node, "mul", slope, dy[0]));
    }
}

GRADIENT(sqrt)
{
    GIVE(0, binary(g, node, "div", times(g, node, dy[0], 0.5), node->out));
}

/* d(a^-1/2)/da = -1/2 a^-1/2 / a */
GRADIENT(rsqrt)
{
    weft_value slope = binary(g, node, "div", node->out, node->in[0]);
    GIVE(0, times(g, node, binary(g, node, "mul", slope, dy[0]), -0.5));
}

GRADIENT(exp)
{
    GIVE(0, binary(g, node, "mul", dy[0], node->out));
}

GRADIENT(log)
{
    GIVE(0, binary(g, node, "div", dy[0], node->in[0]));
}

GRADIENT(abs)
{
    weft_value sign = weft_emit(g, node, "sign", "sign", &node->in[0], 1, NULL, 0);
    GIVE(0, binary(g, node, "mul", dy[0], sign));
}

/* The function is constant where it has a derivative. */
GRADIENT(flat)
{
    (void)g;
    (void)node;
    (void)dy;
    (void)want;
    (void)dx;
}

GRADIENT(clip)
{
    if (want[0])
        dx[0] = weft_emit_same(g, node, "dx", "clip_grad", (weft_value[]){dy[0], node->in[0]}, 2);
}

/* Where both operands are equal, each gets half, as in PyTorch. */
static void share(weft_graph *g, const weft_node *node, weft_value dy, const bool *want,
                  weft_value *dx, int larger)
{
    for (int i = 0; i < 2; i++) {
        weft_value in[] = {dy, node->in[i == larger], node->in[i != larger]};
        if (want[i])
            dx[i] = weft_element_gradient_of(
                g, node, i, weft_emit(g, node, "dx", "larger_grad", in, 3, NULL, 0));
    }
}
GRADIENT(maximum)
{
    share(g, node, dy[0], want, dx, 1);
}
GRADIENT(minimum)
{
    share(g, node, dy[0], want, dx, 0);
}

GRADIENT(where)
{
    for (int i = 1; i < 3; i++) {
        weft_value zero = want[i] ? number(g, node, 0) : WEFT_NO_VALUE;
        weft_value in[] = {node->in[0], i == 1 ? dy[0] : zero, i == 1 ? zero : dy[0]};
        GIVE(i, weft_emit(g, node, "dx", "where", in, 3, NULL, 0));
    }
}

/* --- the operators --- */

WEFT_ELEMENT_OPERATOR(sub, 2, "difference of two tensors, element by element", sub_gradient, a - b)
WEFT_ELEMENT_OPERATOR(div, 2, "quotient of two tensors, element by element", div_gradient, a / b)
WEFT_ELEMENT_OPERATOR(pow, 2, "a tensor to the power of another one, element by element",
                      pow_gradient, el_pow(a, b))
WEFT_ELEMENT_OPERATOR(sqrt, 1, "square root", sqrt_gradient, el_sqrt(a))
WEFT_ELEMENT_OPERATOR(rsqrt, 1, "1 / sqrt(x)", rsqrt_gradient, real(1) / el_sqrt(a))
WEFT_ELEMENT_OPERATOR(exp, 1, "exponential function", exp_gradient, el_exp(a))
WEFT_ELEMENT_OPERATOR(log, 1, "natural logarithm", log_gradient, el_log(a))
WEFT_ELEMENT_OPERATOR(abs, 1, "amount", abs_gradient, el_abs(a))
WEFT_ELEMENT_OPERATOR(sign, 1, "-1, 0 or 1", flat_gradient, a > 0 ? real(1) : a < 0 ? real(-1) : a)
WEFT_ELEMENT_OPERATOR(maximum, 2, "the larger of two elements", maximum_gradient,
                      a > b    ? a
                      : b >= a ? b
                               : a + b)
WEFT_ELEMENT_OPERATOR(minimum, 2, "the smaller of two elements", minimum_gradient,
                      a < b    ? a
                      : b <= a ? b
                               : a + b)
WEFT_ELEMENT_OPERATOR(larger_grad, 3,
                      "dy where b > c, half of it where b = c, else 0; from (dy, b, c)", NULL,
                      b > c    ? a
                      : b < c  ? real(0)
                      : b == c ? a * real(0.5)
                               : b + c)
WEFT_ELEMENT(where, 3, NULL, 0, NULL, 0, a != a ? a : a != 0 ? b : c)
WEFT_ELEMENT_RULES(where, 3,
                   "the second operand where the first (bool, or real) is not 0, else the third",
                   where_shape, where_gradient,
                   .takes = {WEFT_TYPE(BOOL) | WEFT_REAL_TYPES, WEFT_ALL_TYPES})

#define COMPARISON(op, summary, formula)                                                           \
    WEFT_ELEMENT_OF(op, 2, NULL, 0, NULL, 0, #formula, formula)                                    \
    WEFT_ELEMENT_RULES(op, 2, summary, compare_shape, flat_gradient, .takes = {WEFT_ALL_TYPES})
COMPARISON(greater, "whether a > b, as bool", a > b ? real(1) : real(0))
COMPARISON(less, "whether a < b, as bool", a < b ? real(1) : real(0))
COMPARISON(equal, "whether a = b, as bool", a == b ? real(1) : real(0))

WEFT_ELEMENT(clip, 1, "min", -INFINITY, "max", INFINITY, a<p ? p : a> q ? q : a)
WEFT_ELEMENT_ROW(clip, 1, "a tensor, but at least 'min' and at most 'max'", clip_gradient,
                 .attrs = WEFT_ATTRS("min", "max"))
WEFT_ELEMENT(clip_grad, 2, "min", -INFINITY, "max", INFINITY,
             b >= p && b <= q ? a
             : b == b         ? real(0)
                              : b)
WEFT_ELEMENT_ROW(clip_grad, 2, "dy where 'min' <= x <= 'max', else 0; from (dy, x)", NULL,
                 .attrs = WEFT_ATTRS("min", "max"))
