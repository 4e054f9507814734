/* Defines lstm (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000) and gru
 * (Cho et al. 2014, with the reset gate behind the product), with the definitions, and the order of
 * gates, of PyTorch: one layer in one direction. The products with the inputs are dense nodes
 * before them, for all positions at once.
 *
 *   lstm  (g [b, t, 4h], w [h, 4h]; h0, c0 [b, h]; lengths [b]) -> (y [b, t, h], h, c [b, h],
 *         gates [b, t, 4h], cells [b, t, h])
 *     i, f, o = sigmoid(g + h w), z = tanh(g + h w); c = f c + i z, h = o tanh(c); order i, f, z, o
 *   gru   (g [b, t, 3h], w [h, 3h], bias [3h]; h0 [b, h]; lengths [b]) -> (y [b, t, h], h [b, h],
 *         gates [b, t, 3h], inner [b, t, h])
 *     r, z = sigmoid(g + h w + bias), inner = h w + bias, n = tanh(g + r inner);
 *     h = (1 - z) n + z h; order r, z, n
 *
 * The states h0 and c0, zero if they are missing, and the lengths are optional. Positions from the
 * length of a row on give zero and leave the state unchanged, so h and c are the state after the
 * last position that counts; a row of length 0 keeps its first state. Attribute `reverse` begins
 * with the last position that counts.
 *
 * The gradients read what the forward pass saved, then the gradient of y, then h0, c0 and lengths,
 * then the gradients of h and c (attribute `of`: bits 1, 2 and 4 say which gradients there are).
 * The results are the gradient of g, for gru also that of h w + bias, then the states before each
 * position, and the gradients of h0 and c0. The gradient of w is one product of these over all
 * positions: a dense_dw node. */
#include "graph/incremental.h"
#include "ops/ops.h"

enum { LSTM = 4, GRU = 3 }; /* gates */

static weft_type type_of(const weft_graph *g, const weft_node *node, int rank, int64_t d0,
                         int64_t d1, int64_t d2)
{
    return (weft_type){weft_node_float(g, node), weft_shape_of(rank, (int64_t[]){d0, d1, d2})};
}

/* Checks the inputs that forward pass and gradient share: the first one and the weight give the
 * sizes, and the others must have them. */
static weft_status check_sizes(const weft_graph *g, const weft_node *node, int gates, int weight)
{
    char x_text[128], w_text[128];
    WEFT_TRY(weft_expect_real(g, node, 0, "the first input", 0));
    WEFT_TRY(weft_expect_real(g, node, weight, "the recurrent weight", 0));
    const weft_shape *x = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, weight)->shape;
    if (x->rank == 3 && w->rank == 2 && w->dim[1] == gates * w->dim[0] && x->dim[2] == w->dim[1])
        return WEFT_OK;
    return weft_node_fail(
        node, "needs inputs [b, t, %dh] and a recurrent weight [h, %dh]; they are %s and %s", gates,
        gates, weft_shape_text(x, x_text, sizeof(x_text)),
        weft_shape_text(w, w_text, sizeof(w_text)));
}

static weft_status check_optional(const weft_graph *g, const weft_node *node,
                                  const weft_recurrence *r)
{
    weft_type state = type_of(g, node, 2, r->batch, r->units, 0);
    weft_type sequence = type_of(g, node, 3, r->batch, r->positions, r->units);
    if (r->inputs != node->in_count)
        return weft_node_fail(node, "has %d inputs, of which %d have a meaning", node->in_count,
                              r->inputs);
    if (r->gates == LSTM && r->h0 >= 0 && r->c0 < 0)
        return weft_node_fail(node, "has h0 without c0 among its inputs; give both or neither");
    if (r->h0 >= 0) WEFT_TRY(weft_expect_like(g, node, r->h0, "h0", &state));
    if (r->c0 >= 0) WEFT_TRY(weft_expect_like(g, node, r->c0, "c0", &state));
    if (r->lengths >= 0)
        WEFT_TRY(weft_expect(g, node, r->lengths, "the lengths", WEFT_I32, 1, &r->batch));
    if (r->dy >= 0) WEFT_TRY(weft_expect_like(g, node, r->dy, "dy", &sequence));
    if (r->dh >= 0) WEFT_TRY(weft_expect_like(g, node, r->dh, "dh", &state));
    if (r->dc >= 0) WEFT_TRY(weft_expect_like(g, node, r->dc, "dc", &state));
    return WEFT_OK;
}

static weft_status forward_shape(const weft_graph *g, weft_node *node, weft_type *out, int gates)
{
    WEFT_TRY(check_sizes(g, node, gates, 1));
    weft_recurrence r = weft_node_recurrence(g, node, gates, false);
    int64_t all = gates * r.units;
    if (gates == GRU)
        WEFT_TRY(weft_expect(g, node, 2, "the recurrent bias", weft_node_float(g, node), 1, &all));
    WEFT_TRY(check_optional(g, node, &r));
    int n = 0;
    out[n++] = type_of(g, node, 3, r.batch, r.positions, r.units);
    out[n++] = type_of(g, node, 2, r.batch, r.units, 0);
    if (gates == LSTM) out[n++] = out[1];
    out[n++] = *weft_in(g, node, 0);
    out[n++] = out[0];
    node->out_count = n;
    return WEFT_OK;
}

static weft_status gradient_shape(const weft_graph *g, weft_node *node, weft_type *out, int gates)
{
    WEFT_TRY(check_sizes(g, node, gates, 3));
    weft_recurrence r = weft_node_recurrence(g, node, gates, true);
    weft_type sequence = type_of(g, node, 3, r.batch, r.positions, r.units);
    WEFT_TRY(weft_expect_like(g, node, 1, gates == LSTM ? "cells" : "inner", &sequence));
    WEFT_TRY(weft_expect_like(g, node, 2, "y", &sequence));
    WEFT_TRY(check_optional(g, node, &r));
    int n = 0;
    out[n++] = *weft_in(g, node, 0);
    if (gates == GRU) out[n++] = out[0];
    out[n++] = sequence;
    out[n++] = type_of(g, node, 2, r.batch, r.units, 0);
    if (gates == LSTM) {
        out[n] = out[n - 1];
        n++;
    }
    node->out_count = n;
    return WEFT_OK;
}

/* Fails if the loss depends on values that are saved for the gradient. */
static weft_status check_saved(const weft_node *node, const weft_value *dy)
{
    for (int o = node->out_count - 2; o < node->out_count; o++)
        if (dy[o] != WEFT_NO_VALUE)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "node '%s': the loss depends on output %d of %s, which is saved for "
                             "the gradient and has none; use y and the last state",
                             node->name, o, node->op->name);
    return WEFT_OK;
}

static void gradient(weft_graph *g, const weft_node *node, const weft_value *dy, const bool *want,
                     weft_value *dx, int gates)
{
    weft_recurrence r = weft_node_recurrence(g, node, gates, false);
    int saved = node->out_count - 2, count = 4, of = 0;
    weft_value in[10] = {node->out + saved, node->out + saved + 1, node->out, node->in[1]};
    weft_status status = check_saved(node, dy);
    if (status != WEFT_OK) {
        (void)weft_graph_stick(g, status);
        return;
    }
    if (dy[0] != WEFT_NO_VALUE) in[count++] = dy[0];
    for (int i = gates == LSTM ? 2 : 3; i < node->in_count; i++) in[count++] = node->in[i];
    for (int o = 0; o < saved; o++) {
        if (dy[o] == WEFT_NO_VALUE) continue;
        if (o > 0) in[count++] = dy[o];
        of |= 1 << o;
    }
    weft_attr attrs[] = {WEFT_ATTR_INT("of", of), WEFT_ATTR_INT("reverse", r.backward)};
    weft_value first =
        weft_emit(g, node, "dx", gates == LSTM ? "lstm_grad" : "gru_grad", in, count, attrs, 2);
    if (first == WEFT_NO_VALUE) return;
    weft_value product = first + (gates == GRU), before = product + 1; /* dg, or of h w + bias */
    dx[0] = first;
    if (want[1])
        dx[1] = weft_emit(g, node, "dw", "dense_dw", (weft_value[]){before, product}, 2, NULL, 0);
    weft_attr axes = WEFT_ATTR_PAIR("axes", 0, 1);
    if (gates == GRU && want[2])
        dx[2] = weft_emit(g, node, "dbias", "reduce_sum", &product, 1, &axes, 1);
    if (r.h0 >= 0) dx[r.h0] = before + 1;
    if (r.c0 >= 0) dx[r.c0] = before + 2;
}

/* Adds the labels of the optional inputs. */
static void add_optional(weft_text *text, const weft_recurrence *r)
{
    if (r->dy >= 0) weft_text_add(text, ", b >t !h");
    if (r->h0 >= 0) weft_text_add(text, ", b !h");
    if (r->c0 >= 0) weft_text_add(text, ", b !h");
    if (r->lengths >= 0) weft_text_add(text, ", b");
    if (r->dh >= 0) weft_text_add(text, ", b !h");
    if (r->dc >= 0) weft_text_add(text, ", b !h");
}

static void forward_labels(const weft_graph *g, const weft_node *node, weft_text *text, int gates)
{
    weft_recurrence r = weft_node_recurrence(g, node, gates, false);
    weft_text_add(text, "b >t !g, !h !g%s", gates == GRU ? ", !g" : "");
    add_optional(text, &r);
    weft_text_add(text, " -> b >t !h, b !h%s, b >t !g, b >t !h", gates == LSTM ? ", b !h" : "");
}

static void gradient_labels(const weft_graph *g, const weft_node *node, weft_text *text, int gates)
{
    weft_recurrence r = weft_node_recurrence(g, node, gates, true);
    weft_text_add(text, "b >t !g, b >t !h, b >t !h, !h !g");
    add_optional(text, &r);
    weft_text_add(text, " -> b >t !g%s, b >t !h, b !h%s", gates == GRU ? ", b >t !g" : "",
                  gates == LSTM ? ", b !h" : "");
}

/* Products of each row of the batch with the weight, and a few functions of each gate. */
static double flops(const weft_graph *g, const weft_node *node)
{
    int weight = node->op->gradient ? 1 : 3;
    double units = (double)weft_in(g, node, weight)->shape.dim[0];
    return (double)weft_shape_elements(&weft_in(g, node, 0)->shape) * (2 * units + 10);
}

/* The states before the position become states of the sequence. A row that computes no position has
 * the length 0, which keeps them. */
static weft_status one_position(weft_incremental *s, const weft_graph *g, const weft_node *node,
                                const weft_value *in, weft_value *out, int gates)
{
    static const char *const what[] = {"state", "cell"};
    weft_recurrence r = weft_node_recurrence(g, node, gates, false);
    int states = gates == LSTM ? 2 : 1, count = gates == LSTM ? 2 : 3;
    weft_value operands[6];
    if (r.backward) return weft_incremental_refuse(node, "runs backwards, from later positions");
    if (r.lengths >= 0) return weft_incremental_refuse(node, "has lengths of its own");
    if (r.h0 >= 0) return weft_incremental_refuse(node, "has a first state of its own");
    for (int i = 0; i < count; i++) operands[i] = in[i];
    weft_type type = {weft_out(g, node, 1)->dtype,
                      weft_shape_of(2, (int64_t[]){s->batch, r.units})};
    for (int i = 0; i < states; i++)
        operands[count + i] = weft_incremental_state(s, node, what[i], &type);
    operands[count + states] = s->active;
    out[0] = weft_graph_node(s->graph, node->op->name, node->name, operands, count + states + 1,
                             node->attrs, node->attr_count);
    for (int i = 0; i < states && out[0] != WEFT_NO_VALUE; i++)
        weft_graph_assign(s->graph, operands[count + i], out[0] + 1 + i);
    return weft_graph_status(s->graph);
}

/* In mixed precision (the last three numbers) sequences are bf16 but for the cells; states and
 * their gradients stay f32. Input 4 of a gradient is that of y, if there is one. */
#define OPERATOR(op, gates, forward_summary, gradient_summary, least, most, grad_most, kept,       \
                 kept_narrow, grad_narrow, grad_narrow_out)                                        \
    static weft_status op##_shape(const weft_graph *g, weft_node *node, weft_type *out)            \
    {                                                                                              \
        return forward_shape(g, node, out, gates);                                                 \
    }                                                                                              \
    static weft_status op##_grad_shape(const weft_graph *g, weft_node *node, weft_type *out)       \
    {                                                                                              \
        return gradient_shape(g, node, out, gates);                                                \
    }                                                                                              \
    static void op##_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,          \
                              const bool *want, weft_value *dx)                                    \
    {                                                                                              \
        gradient(g, node, dy, want, dx, gates);                                                    \
    }                                                                                              \
    static void op##_labels(const weft_graph *g, const weft_node *node, weft_text *text)           \
    {                                                                                              \
        forward_labels(g, node, text, gates);                                                      \
    }                                                                                              \
    static void op##_grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)      \
    {                                                                                              \
        gradient_labels(g, node, text, gates);                                                     \
    }                                                                                              \
    static weft_status op##_one_position(weft_incremental *s, const weft_graph *g,                 \
                                         const weft_node *node, const weft_value *in,              \
                                         weft_value *out)                                          \
    {                                                                                              \
        return one_position(s, g, node, in, out, gates);                                           \
    }                                                                                              \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = forward_summary,                                      \
                                  .min_inputs = least,                                             \
                                  .max_inputs = most,                                              \
                                  .attrs = WEFT_ATTRS("reverse"),                                  \
                                  .shape = op##_shape,                                             \
                                  .gradient = op##_gradient,                                       \
                                  .labels = op##_labels,                                           \
                                  .flops = flops,                                                  \
                                  .one_position = op##_one_position,                               \
                                  .carried = (gates) == LSTM ? 2 : 1,                              \
                                  .narrow = 3,                                                     \
                                  .narrow_out = kept_narrow,                                       \
                                  .narrows = true,                                                 \
                                  .in_place = {[kept] = 1}};                                       \
    const weft_op weft_op_##op##_grad = {.name = #op "_grad",                                      \
                                         .summary = gradient_summary,                              \
                                         .min_inputs = 4,                                          \
                                         .max_inputs = grad_most,                                  \
                                         .attrs = WEFT_ATTRS("of", "reverse"),                     \
                                         .shape = op##_grad_shape,                                 \
                                         .labels = op##_grad_labels,                               \
                                         .flops = flops,                                           \
                                         .narrow = grad_narrow,                                    \
                                         .narrow_out = grad_narrow_out,                            \
                                         .narrows = true,                                          \
                                         .in_place = {1}};

OPERATOR(lstm, LSTM, "recurrence with gates and cells, from (g, w, states, lengths)",
         "gradient of lstm, from (gates, cells, y, w, dy, states, lengths, dh, dc)", 2, 5, 10, 3, 9,
         29, 3)
OPERATOR(gru, GRU, "recurrence with gates, from (g, w, bias, state, lengths)",
         "gradient of gru, from (gates, inner, y, w, dy, state, lengths, dh)", 3, 5, 8, 2, 13, 31,
         7)
