/* Defines operators that are a function of each element. An operator gives its formula once; the
 * reference device evaluates it in double, the cpu device vectorises it in float and fuses such
 * operators into one pass, and a device that compiles kernels takes its text.
 *
 * The formula is an expression in the operands a, b and c, all of type `real`, and in the numbers
 * p and q of the attributes. Beside C's operators it may use el_exp, el_log, el_pow, el_sqrt and
 * el_abs. Constants are written real(0.5). Shapes of operands are broadcast: aligned at the
 * last dimension, where sizes are equal or 1, which holds for all elements. */
#ifndef WEFT_OPS_ELEMENTWISE_H
#define WEFT_OPS_ELEMENTWISE_H

#include <math.h>

#include "base/float_math.h"
#include "base/target_clones.h"
#include "ops/ops.h"

WEFT_INLINE float el_exp_float(float x)
{
    return x > 88.72283f ? INFINITY : weft_exp(x < -88 ? -88 : x);
}
#define el_exp(x) _Generic((x), float : el_exp_float, double : exp)(x)
#define el_log(x) _Generic((x), float : logf, double : log)(x)
#define el_pow(x, y) _Generic((x), float : powf, double : pow)(x, y)
#define el_sqrt(x) _Generic((x), float : sqrtf, double : sqrt)(x)
#define el_abs(x) _Generic((x), float : fabsf, double : fabs)(x)

/* The shape rule: the shapes are broadcast. */
weft_status weft_element_shape(const weft_graph *graph, weft_node *node,
                               weft_type *out) WEFT_NODISCARD;
/* Labels: those of the result, except for dimensions along which an operand is repeated. */
void weft_element_labels(const weft_graph *graph, const weft_node *node, weft_text *text);
/* Adds the sums of a gradient over the elements for which an element of operand i holds. */
weft_value weft_element_gradient_of(weft_graph *graph, const weft_node *node, int i,
                                    weft_value gradient);

/* Elements are independent: a result may overlie an operand, and loops over them have no
 * dependences. */
#if defined(__clang__)
/* Some formulas call functions that have no vector form. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define WEFT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define WEFT_ELEMENT_LOOP(name, type, clones, formula)                                             \
    clones static void name(const void *const *in, const double *parameters, void *out,            \
                            int64_t count)                                                         \
    {                                                                                              \
        typedef type real_type;                                                                    \
        const real_type p = (real_type)parameters[0], q = (real_type)parameters[1];                \
        const real_type *x = in[0], *y = in[1], *z = in[2];                                        \
        real_type *to = out;                                                                       \
        (void)p;                                                                                   \
        (void)q;                                                                                   \
        WEFT_INDEPENDENT                                                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const real_type a = x[i], b = y[i], c = z[i];                                          \
            (void)b;                                                                               \
            (void)c;                                                                               \
            to[i] = (real_type)(formula);                                                          \
        }                                                                                          \
    }
#define real(constant) ((real_type)(constant))

/* Defines `name_element`, the element function of an operator with `operands` operands, whose
 * attributes first and second (NULL: none) are p and q, with these values if they are missing. */
#define WEFT_ELEMENT(name, operands, first, first_value, second, second_value, formula)            \
    WEFT_ELEMENT_OF(name, operands, first, first_value, second, second_value, #formula, formula)
/* text_: the formula as it was written; an argument that has been passed on is expanded. */
#define WEFT_ELEMENT_OF(name, operands, first, first_value, second, second_value, text_, formula)  \
    WEFT_ELEMENT_LOOP(name##_f32, float, WEFT_CLONES, formula)                                     \
    WEFT_ELEMENT_LOOP(name##_f64, double, , formula)                                               \
    static const weft_element name##_element = {.count = operands,                                 \
                                                .attrs = {first, second},                          \
                                                .values = {first_value, second_value},             \
                                                .text = text_,                                     \
                                                .f32 = name##_f32,                                 \
                                                .f64 = name##_f64};

/* The operator `op` of the formula that WEFT_ELEMENT has defined by that name. types: its shape
 * rule; derivative: its gradient rule; further fields follow. */
#define WEFT_ELEMENT_RULES(op, operands, summary_, types, derivative, ...)                         \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = summary_,                                             \
                                  .min_inputs = operands,                                          \
                                  .max_inputs = operands,                                          \
                                  .shape = types,                                                  \
                                  .gradient = derivative,                                          \
                                  .labels = weft_element_labels,                                   \
                                  .element = &op##_element,                                        \
                                  .in_place = {(1u << operands) - 1},                              \
                                  .narrow = (1u << operands) - 1,                                  \
                                  .narrow_out = 1,                                                 \
                                  __VA_ARGS__};
#define WEFT_ELEMENT_ROW(op, operands, summary_, derivative, ...)                                  \
    WEFT_ELEMENT_RULES(op, operands, summary_, weft_element_shape, derivative, __VA_ARGS__)
/* An operator without attributes, with its formula. */
#define WEFT_ELEMENT_OPERATOR(op, operands, summary_, derivative, formula)                         \
    WEFT_ELEMENT_OF(op, operands, NULL, 0, NULL, 0, #formula, formula)                             \
    WEFT_ELEMENT_ROW(op, operands, summary_, derivative, .attrs = NULL)

#endif
