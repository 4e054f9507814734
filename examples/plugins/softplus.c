/* An operator and a layer as a plug-in: softplus, y = log(1 + exp(x)), a smooth relu (Dugas et al.
 * 2001). A YAML model then has layers "type: softplus":
 *
 *   weft train --plugin ./libsoftplus.so --model softplus.yaml */
#include <math.h>
#include <stddef.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

/* --- operator: the formula, and its derivative as nodes --- */

/* exp of a large number overflows; log1p(exp(-|x|)) never does. */
static void softplus_f32(const void *const *in, const double *parameters, void *out, int64_t count)
{
    const float *x = in[0];
    float *y = out;
    (void)parameters;
    for (int64_t i = 0; i < count; i++) y[i] = fmaxf(x[i], 0) + log1pf(expf(-fabsf(x[i])));
}

static void softplus_f64(const void *const *in, const double *parameters, void *out, int64_t count)
{
    const double *x = in[0];
    double *y = out;
    (void)parameters;
    for (int64_t i = 0; i < count; i++) y[i] = fmax(x[i], 0) + log1p(exp(-fabs(x[i])));
}

/* d/dx log(1 + exp(x)) = sigmoid(x) */
static void softplus_gradient(weft_graph *graph, const weft_node *node, const weft_value *dy,
                              const bool *want, weft_value *dx)
{
    const weft_value *x;
    (void)want;
    (void)weft->node_inputs(node, &x);
    weft_value slope = weft->emit(graph, node, "slope", "sigmoid", x, 1, NULL, 0);
    dx[0] = weft->emit(graph, node, "dx", "mul", (weft_value[]){dy[0], slope}, 2, NULL, 0);
}

static const weft_element softplus = {.count = 1, .f32 = softplus_f32, .f64 = softplus_f64};
static const weft_operator_ops operator_ops = {
    .struct_size = sizeof(weft_operator_ops), .element = &softplus, .gradient = softplus_gradient};

/* --- layer --- */

static weft_value layer_build(weft_model_builder *net, const weft_layer *layer,
                              const weft_value *in, int count)
{
    return weft->layer_node(net, layer, "", "softplus", in, count, NULL, 0);
}

static const weft_layer_ops layer_ops = {
    .struct_size = sizeof(weft_layer_ops), .min_inputs = 1, .max_inputs = 1, .build = layer_build};

static const weft_entry entries[] = {
    {.kind = WEFT_KIND_OPERATOR,
     .name = "softplus",
     .summary = "log(1 + exp(x))",
     .ops = &operator_ops},
    {.kind = WEFT_KIND_LAYER, .name = "softplus", .summary = "log(1 + exp(x))", .ops = &layer_ops},
    {.name = NULL}};

WEFT_PLUGIN(weft, entries);
