/* A loss as a plug-in, with its operators. The smooth L1 loss of a number is half its squared
 * error, or the error less a half where that is above 1, so that outliers count less (Girshick
 * 2015; Huber 1964); a sample's loss is the mean over its numbers. The batch may be split, as the
 * labels say. A YAML model names it as "loss: smooth_l1". */
#include <math.h>
#include <stdio.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

/* (output [b, n], target [b, n], weights [b]) -> (loss, prediction [b, n]); smooth_l1_grad has the
 * gradient of the loss as a fourth operand, and gives that of the output. */
static weft_status shape(const weft_graph *graph, const weft_node *node, weft_type *out, int *count)
{
    const weft_value *in;
    int inputs = weft->node_inputs(node, &in);
    const weft_type *x = weft->value_type(graph, in[0]), *t = weft->value_type(graph, in[1]);
    if (x->shape.rank != 2 || t->shape.rank != 2 || x->shape.dim[1] != t->shape.dim[1])
        return weft->fail_node(node, "output and target must be [batch, targets] alike");
    out[0] = *x;
    if (inputs == 4) return WEFT_OK;
    *count = 2;
    out[1] = *x;
    out[0].shape.rank = 0;
    return WEFT_OK;
}

static weft_status labels(const weft_graph *graph, const weft_node *node, char *text, size_t size)
{
    const weft_value *in;
    (void)graph;
    bool last = weft->node_inputs(node, &in) == 4;
    (void)snprintf(text, size, "b n!, b n!, b%s b n!", last ? ", ->" : " -> ,");
    return WEFT_OK;
}

static weft_status compute(const weft_operator_call *call)
{
    const weft_value *in;
    int inputs = weft->node_inputs(call->node, &in);
    const weft_type *x = weft->value_type(call->graph, in[0]);
    int64_t n = x->shape.dim[1];
    double total = 0, slope = inputs == 4 ? weft->get_number(x->dtype, call->in[3], 0) : 0;
    for (int64_t i = 0; i < x->shape.dim[0] * n; i++) {
        double y = weft->get_number(x->dtype, call->in[0], i);
        double error = y - weft->get_number(x->dtype, call->in[1], i), size = fabs(error);
        double weight = weft->get_number(x->dtype, call->in[2], i / n) / (double)n;
        total += weight * (size <= 1 ? 0.5 * error * error : size - 0.5);
        weft->put_number(x->dtype, call->out[inputs == 4 ? 0 : 1], i,
                         inputs == 4 ? slope * weight * fmax(-1, fmin(error, 1)) : y);
    }
    if (inputs == 3) weft->put_number(x->dtype, call->out[0], 0, total);
    return WEFT_OK;
}

static void gradient(weft_graph *graph, const weft_node *node, const weft_value *dy,
                     const bool *want, weft_value *dx)
{
    const weft_value *in;
    (void)weft->node_inputs(node, &in);
    if (want[0] && dy[0] != WEFT_NO_VALUE)
        dx[0] = weft->emit(graph, node, "dx", "smooth_l1_grad",
                           (weft_value[]){in[0], in[1], in[2], dy[0]}, 4, NULL, 0);
}

static const weft_operator_ops smooth_l1 = {
    sizeof(smooth_l1), NULL, 3, 3, NULL, shape, labels, compute, NULL, gradient};
static const weft_operator_ops smooth_l1_grad = {
    sizeof(smooth_l1), NULL, 4, 4, NULL, shape, labels, compute, NULL, NULL};
static const weft_loss_ops loss = {.struct_size = sizeof(loss), .op = "smooth_l1"};

static const weft_entry entries[] = {
    {.kind = WEFT_KIND_OPERATOR, .name = "smooth_l1", .ops = &smooth_l1},
    {.kind = WEFT_KIND_OPERATOR, .name = "smooth_l1_grad", .ops = &smooth_l1_grad},
    {.kind = WEFT_KIND_LOSS, .name = "smooth_l1", .summary = "mse for outliers", .ops = &loss},
    {.name = NULL}};

WEFT_PLUGIN(weft, entries);
