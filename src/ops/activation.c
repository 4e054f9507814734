/* Defines the operators relu, sigmoid, tanh, gelu and their gradients. The gradients of relu,
 * sigmoid and tanh read the result, so that a device may fuse the function with the operator before
 * it; the gradient of gelu reads the input. */
#include "ops/ops.h"

static void through_result(weft_graph *g, const weft_node *node, const weft_value *dy,
                           weft_value *dx, const char *op)
{
    dx[0] = weft_emit(g, node, "dx", op, (weft_value[]){node->out, dy[0]}, 2, NULL, 0);
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
    dx[0] = weft_emit(g, node, "dx", "gelu_grad", (weft_value[]){node->in[0], dy[0]}, 2, NULL, 0);
}

#define UNARY(op, text)                                                                            \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = text,                                                 \
                                  .min_inputs = 1,                                                 \
                                  .max_inputs = 1,                                                 \
                                  .shape = weft_shape_same,                                        \
                                  .gradient = op##_gradient,                                       \
                                  .labels = weft_labels_elementwise,                               \
                                  .in_place = {1}}
UNARY(relu, "max(x, 0)");
UNARY(sigmoid, "1 / (1 + exp(-x))");
UNARY(tanh, "hyperbolic tangent");
UNARY(gelu, "x times the normal distribution function of x (Hendrycks and Gimpel 2016)");

#define GRADIENT(op, text)                                                                         \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = text,                                                 \
                                  .min_inputs = 2,                                                 \
                                  .max_inputs = 2,                                                 \
                                  .shape = weft_shape_same,                                        \
                                  .labels = weft_labels_elementwise,                               \
                                  .in_place = {2}}
GRADIENT(relu_grad, "dy where y > 0, else 0; from (y, dy)");
GRADIENT(sigmoid_grad, "dy y (1 - y); from (y, dy)");
GRADIENT(tanh_grad, "dy (1 - y^2); from (y, dy)");
GRADIENT(gelu_grad, "dy gelu'(x); from (x, dy)");
