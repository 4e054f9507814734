/* Defines the operators relu, sigmoid, tanh, gelu, silu and their gradients. The gradients of relu,
 * sigmoid and tanh read the result, so that a device may fuse the function with the operator before
 * it; the gradients of gelu and silu read the input. */
#include "ops/ops.h"

static void through_result(weft_graph *g, const weft_node *node, const weft_value *dy,
                           weft_value *dx, const char *op)
{
    dx[0] = weft_emit(g, node, "dx", op, (weft_value[]){node->out, dy[0]}, 2, NULL, 0);
}

static void through_input(weft_graph *g, const weft_node *node, const weft_value *dy,
                          weft_value *dx, const char *op)
{
    dx[0] = weft_emit(g, node, "dx", op, (weft_value[]){node->in[0], dy[0]}, 2, NULL, 0);
}

static void relu_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    through_result(g, node, dy, dx, "relu_grad");
}

static void sigmoid_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    (void)want;
    through_result(g, node, dy, dx, "sigmoid_grad");
}

static void tanh_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    through_result(g, node, dy, dx, "tanh_grad");
}

static void gelu_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    through_input(g, node, dy, dx, "gelu_grad");
}

static void silu_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    through_input(g, node, dy, dx, "silu_grad");
}

#define UNARY(op, text)                                                                            \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = text,                                                 \
                                  .min_inputs = 1,                                                 \
                                  .max_inputs = 1,                                                 \
                                  .shape = weft_shape_same,                                        \
                                  .gradient = op##_gradient,                                       \
                                  .labels = weft_labels_elementwise,                               \
                                  .in_place = {1},                                                 \
                                  .narrow = 1,                                                     \
                                  .narrow_out = 1}
UNARY(relu, "max(x, 0)");
UNARY(sigmoid, "1 / (1 + exp(-x))");
UNARY(tanh, "hyperbolic tangent");
UNARY(gelu, "x times the normal distribution function of x (Hendrycks and Gimpel 2016)");
UNARY(silu, "x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2018)");

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
