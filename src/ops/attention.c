/* Defines the operator attention, scaled dot product attention (Vaswani et al. 2017), and its
 * gradient.
 *
 * The second result is the log-sum-exp of each row of scores in two parts, whose sum it is: the
 * largest score, and the logarithm of the sum of exp(score - largest). In one number, a large score
 * would swallow digits of the logarithm, and probabilities would not add up to 1. From the parts
 * the gradient computes the probabilities again, one tile after the other (Dao et al. 2022), so
 * neither operator needs memory for all pairs of a query and a key. */
#include <math.h>

#include "graph/incremental.h"
#include "ops/ops.h"

/* Queries [b, t, h, d], keys [b, s, g, d] and values [b, s, g, e]. Each head of keys serves h / g
 * consecutive heads of queries (grouped-query attention, Ainslie et al. 2023). */
typedef struct operands {
    const weft_shape *q, *k, *v;
} operands;

static operands operands_of(const weft_graph *g, const weft_node *node, int first)
{
    return (operands){&weft_in(g, node, first)->shape, &weft_in(g, node, first + 1)->shape,
                      &weft_in(g, node, first + 2)->shape};
}

/* The index of the first of the three operands: the gradient reads dy before them. */
static int first_of(const weft_node *node)
{
    return node->in_count > 4;
}

/* Checks the attributes, and sets those that are missing: the scale, and with a causal mask the
 * position of query 0 along the keys. The last query is at the last key, so that the keys may begin
 * with a cache of earlier ones. */
static weft_status set_defaults(weft_node *node, const operands *o)
{
    weft_attr scale =
        WEFT_ATTR_REAL("scale", weft_node_real(node, "scale", 1 / sqrt((double)o->q->dim[3])));
    weft_attr first =
        WEFT_ATTR_INT("first", weft_node_int(node, "first", 0, o->k->dim[1] - o->q->dim[1]));
    if (!isfinite(scale.real))
        return weft_node_fail(node, "the scale is %g, must be finite", scale.real);
    if (first.ints[0] < INT32_MIN || first.ints[0] > INT32_MAX)
        return weft_node_fail(node, "query 0 is at position %lld, must be within 32 bits",
                              (long long)first.ints[0]);
    WEFT_TRY(weft_node_set(node, &scale));
    return weft_node_int(node, "causal", 0, 0) ? weft_node_set(node, &first) : WEFT_OK;
}

/* Checks queries, keys and values, which are inputs `at` to at + 2, and the lengths, which are
 * input `lengths` if there is one. */
static weft_status check(const weft_graph *g, weft_node *node, int at, int lengths)
{
    static const char *const what[] = {"the queries", "the keys", "the values"};
    operands o = operands_of(g, node, at);
    const weft_shape *shape[] = {o.q, o.k, o.v};
    char text[3][128];
    bool fit = true;
    for (int i = 0; i < 3; i++) {
        WEFT_TRY(weft_expect_real(g, node, at + i, what[i], 4));
        (void)weft_shape_text(shape[i], text[i], sizeof(text[i]));
        fit = fit && shape[i]->rank == 4 && shape[i]->dim[0] == o.q->dim[0];
    }
    fit = fit && o.q->dim[3] == o.k->dim[3] && o.k->dim[1] == o.v->dim[1] &&
          o.k->dim[2] == o.v->dim[2];
    if (!fit)
        return weft_node_fail(node,
                              "the queries are %s, the keys %s and the values %s, must be "
                              "[b, t, h, d], [b, s, g, d] and [b, s, g, e]",
                              text[0], text[1], text[2]);
    if (o.q->dim[2] % o.k->dim[2])
        return weft_node_fail(node,
                              "the queries have %lld heads and the keys %lld, of which the first "
                              "must be a multiple",
                              (long long)o.q->dim[2], (long long)o.k->dim[2]);
    if (node->in_count > lengths)
        WEFT_TRY(weft_expect(g, node, lengths, "the lengths", WEFT_I32, 1, o.q->dim));
    return set_defaults(node, &o);
}

/* The types of y [b, t, h, e] and of the parts of the log-sum-exp [b, h, t, 2]. */
static void result_types(const weft_graph *g, const weft_node *node, weft_type *y, weft_type *lse)
{
    operands o = operands_of(g, node, first_of(node));
    *y = *weft_in(g, node, first_of(node));
    y->shape.dim[3] = o.v->dim[3];
    *lse = weft_type_like(y, 4);
    lse->shape = weft_shape_of(4, (int64_t[]){o.q->dim[0], o.q->dim[2], o.q->dim[1], 2});
}

/* (q, k, v, lengths) -> (y, lse) */
static weft_status attention_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(check(g, node, 0, 3));
    result_types(g, node, &out[0], &out[1]);
    node->out_count = 2;
    return WEFT_OK;
}

/* (dy, q, k, v, y, lse, lengths) -> (dq, dk, dv) */
static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    weft_type y, lse;
    WEFT_TRY(check(g, node, 1, 6));
    result_types(g, node, &y, &lse);
    WEFT_TRY(weft_expect_like(g, node, 0, "dy", &y));
    WEFT_TRY(weft_expect_like(g, node, 4, "y", &y));
    WEFT_TRY(weft_expect_like(g, node, 5, "the log-sum-exp", &lse));
    for (int i = 0; i < 3; i++) out[i] = *weft_in(g, node, 1 + i);
    node->out_count = 3;
    return WEFT_OK;
}

static void attention_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                               const bool *want, weft_value *dx)
{
    (void)want;
    if (dy[1] != WEFT_NO_VALUE) {
        (void)weft_graph_stick(g, weft_fail(WEFT_ERR_UNSUPPORTED,
                                            "node '%s': the loss depends on the log-sum-exp of "
                                            "attention, through which it has no gradient",
                                            node->name));
        return;
    }
    weft_value in[7] = {dy[0], node->in[0], node->in[1], node->in[2], node->out, node->out + 1};
    if (node->in_count > 3) in[6] = node->in[3];
    weft_value first = weft_emit_same(g, node, "dx", "attention_grad", in, node->in_count + 3);
    for (int i = 0; i < 3 && first != WEFT_NO_VALUE; i++) dx[i] = first + i;
}

/* Heads that share keys are split in proportion to the heads of keys. */
static const char *heads(const weft_graph *g, const weft_node *node)
{
    operands o = operands_of(g, node, first_of(node));
    return o.q->dim[2] == o.k->dim[2] ? "h" : "*h";
}

/* Each rank may have a part of the queries, but needs all keys. */
static void attention_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    const char *h = heads(g, node);
    weft_text_add(text, "b t %s !d, b !s %s !d, b !s %s !e%s -> b t %s !e, b %s t !n", h, h, h,
                  node->in_count > 3 ? ", b" : "", h, h);
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    const char *h = heads(g, node);
    weft_text_add(text, "b t %s !e, b t %s !d, b !s %s !d, b !s %s !e, b t %s !e, b %s t !n%s", h,
                  h, h, h, h, h, node->in_count > 6 ? ", b" : "");
    weft_text_add(text, " -> b t %s !d, b !s %s !d, b !s %s !e", h, h, h);
}

/* Tells a node that computes a part of the queries where the part begins along the keys. */
static weft_status localize(const weft_graph *g, const weft_node *node, const int64_t *start,
                            weft_node *part)
{
    (void)g;
    if (!weft_node_int(node, "causal", 0, 0)) return WEFT_OK;
    weft_attr first = WEFT_ATTR_INT("first", weft_node_int(node, "first", 0, 0) + start[1]);
    return weft_node_set(part, &first);
}

/* The number of keys that queries at the positions up to `last` see, of s keys. */
static double seen_up_to(double last, double s)
{
    if (last < 0) return 0;
    return last < s ? (last + 1) * (last + 2) / 2 : s * (s + 1) / 2 + (last + 1 - s) * s;
}

/* The number of pairs of a query and a key that it sees, if all sequences have the full length. */
static double pairs(const weft_graph *g, const weft_node *node)
{
    operands o = operands_of(g, node, first_of(node));
    double t = (double)o.q->dim[1], s = (double)o.k->dim[1], each = t * s;
    double first = (double)weft_node_int(node, "first", 0, 0);
    if (weft_node_int(node, "causal", 0, 0))
        each = seen_up_to(first + t - 1, s) - seen_up_to(first - 1, s);
    return (double)(o.q->dim[0] * o.q->dim[2]) * each;
}

/* Two matrix products forward (scores, y) and five backward (scores, dp; dq, dk, dv). */
static double attention_flops(const weft_graph *g, const weft_node *node)
{
    operands o = operands_of(g, node, 0);
    return 2 * pairs(g, node) * (double)(o.q->dim[3] + o.v->dim[3]);
}

static double grad_flops(const weft_graph *g, const weft_node *node)
{
    operands o = operands_of(g, node, 1);
    return 2 * pairs(g, node) * (double)(3 * o.q->dim[3] + 2 * o.v->dim[3]);
}

/* The keys (part "key") or values of all positions: a state, into which this position is written.
 */
static weft_value with_cache(weft_incremental *s, const weft_node *node, const char *part,
                             weft_value x)
{
    if (x == WEFT_NO_VALUE) return x;
    weft_type type = *weft_value_type(s->graph, x);
    type.shape.dim[1] = s->window;
    weft_value cache = weft_incremental_state(s, node, part, &type);
    weft_value all = weft_emit(s->graph, node, part, "write_rows",
                               (weft_value[]){cache, x, s->position}, 3, NULL, 0);
    weft_graph_assign(s->graph, cache, all);
    return all;
}

/* The query of the position reads the keys up to its own, so there is no causal mask: the length
 * leaves out the rows that are not written yet. */
static weft_status attention_one_position(weft_incremental *s, const weft_graph *g,
                                          const weft_node *node, const weft_value *in,
                                          weft_value *out)
{
    if (!weft_node_int(node, "causal", 0, 0))
        return weft_incremental_refuse(node, "reads later positions");
    if (node->in_count > 3) return weft_incremental_refuse(node, "has lengths of its own");
    if (weft_node_int(node, "first", 0, 0) != 0 ||
        weft_in(g, node, 0)->shape.dim[1] != weft_in(g, node, 1)->shape.dim[1])
        return weft_incremental_refuse(node, "has more keys than queries");
    const weft_attr scale = WEFT_ATTR_REAL("scale", weft_node_real(node, "scale", 1));
    weft_value cached[] = {in[0], with_cache(s, node, "key_cache", in[1]),
                           with_cache(s, node, "value_cache", in[2]), s->lengths};
    s->limited = true;
    out[0] = weft_graph_node(s->graph, "attention", node->name, cached, 4, &scale, 1);
    return weft_graph_status(s->graph);
}

WEFT_OPERATOR(attention,
              "softmax(scale q k^T) v for each head, optionally causal or with lengths; also "
              "gives the log-sum-exp of the scores, in two parts",
              3, 4, .attrs = WEFT_ATTRS("causal", "scale", "first"), .narrow = 7, .narrow_out = 1,
              .shape = attention_shape, .gradient = attention_gradient, .labels = attention_labels,
              .one_position = attention_one_position, .flops = attention_flops,
              .localize = localize);
WEFT_OPERATOR(attention_grad, "gradient of attention, from (dy, q, k, v, y, log-sum-exp, lengths)",
              6, 7, .attrs = WEFT_ATTRS("causal", "scale", "first"), .narrow = 31, .narrow_out = 7,
              .shape = grad_shape, .labels = grad_labels, .flops = grad_flops,
              .localize = localize);
