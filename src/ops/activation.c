/* Defines the operators relu, sigmoid, tanh, gelu, silu and their gradients. The gradients of relu,
 * sigmoid and tanh read the result, so that a device may fuse the function with the operator before
 * it; the gradients of gelu and silu read the input. */
#include "ops/ops.h"

static void by_result(weft_graph *g, const weft_node *node, const weft_value *dy, const bool *want,
                      weft_value *dx)
{
    (void)want;
    dx[0] = weft_emit_gradient(g, node, node->out, dy[0]);
}

#define UNARY(op, rule, text)                                                                      \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = text,                                                 \
                                  .min_inputs = 1,                                                 \
                                  .max_inputs = 1,                                                 \
                                  .shape = weft_shape_same,                                        \
                                  .gradient = rule,                                                \
                                  .labels = weft_labels_elementwise,                               \
                                  .in_place = {1},                                                 \
                                  .narrow = 1,                                                     \
                                  .narrow_out = 1}
UNARY(relu, by_result, "max(x, 0)");
UNARY(sigmoid, by_result, "1 / (1 + exp(-x))");
UNARY(tanh, by_result, "hyperbolic tangent");
UNARY(gelu, weft_gradient_by_input,
      "x times the normal distribution function of x (Hendrycks and Gimpel 2016)");
UNARY(silu, weft_gradient_by_input, "x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2018)");

#define GRADIENT(op, text)                                                                         \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = text,                                                 \
                                  .min_inputs = 2,                                                 \
                                  .max_inputs = 2,                                                 \
                                  .shape = weft_shape_same,                                        \
                                  .labels = weft_labels_elementwise,                               \
                                  .in_place = {2},                                                 \
                                  .narrow = 3,                                                     \
                                  .narrow_out = 1}
GRADIENT(relu_grad, "dy where y > 0, else 0; from (y, dy)");
GRADIENT(sigmoid_grad, "dy y (1 - y); from (y, dy)");
GRADIENT(tanh_grad, "dy (1 - y^2); from (y, dy)");
GRADIENT(gelu_grad, "dy gelu'(x); from (x, dy)");
GRADIENT(silu_grad, "dy silu'(x); from (x, dy)");
