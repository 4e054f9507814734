/* Implements optimizer steps by the formulas of the original papers. The tests compare ten steps
 * with an independent implementation. */
#include <math.h>

#include "base/learning_rate.h"
#include "base/moving_average.h"
#include "base/tree_sum.h"
#include "device/reference/reference.h"

static void sgd(const weft_ref *a)
{
    const real *w = a->in[0], *g = a->in[1];
    bool with_momentum = a->node->in_count == 4;
    const real *m = with_momentum ? a->in[2] : NULL;
    real lr = *(const real *)a->in[a->node->in_count - 1];
    real momentum = (real)weft_node_real(a->node, "momentum", 0);
    weft_decay lasting = weft_decay_of(weft_node_real(a->node, "momentum", 0));
    real keep = (real)lasting.keep, drop = (real)lasting.drop;
    real decay = (real)weft_node_real(a->node, "decay", 0);
    bool nesterov = weft_node_int(a->node, "nesterov", 0, 0) != 0;
    real *w_out = a->out[0], *m_out = with_momentum ? a->out[1] : NULL;
    for (int64_t i = 0; i < in_size(a, 0); i++) {
        real step = g[i] + decay * w[i];
        if (m) {
            real moved = keep * m[i] + (step - drop * m[i]);
            m_out[i] = moved;
            step = nesterov ? step + momentum * moved : moved;
        }
        w_out[i] = w[i] - lr * step;
    }
}

static void adam(const weft_ref *a)
{
    const real *w = a->in[0], *g = a->in[1], *m = a->in[2], *v = a->in[3];
    real *w_out = a->out[0], *m_out = a->out[1], *v_out = a->out[2];
    double lr = (double)*(const real *)a->in[4], t = *(const int32_t *)a->in[5] + 1.0;
    double beta1 = weft_node_real(a->node, "beta1", 0.9);
    double beta2 = weft_node_real(a->node, "beta2", 0.999);
    double decay = weft_node_real(a->node, "decay", 0);
    bool decoupled = weft_node_int(a->node, "kind", 0, 0) == 1;
    weft_decay of1 = weft_decay_of(beta1), of2 = weft_decay_of(beta2);
    real keep1 = (real)of1.keep, drop1 = (real)of1.drop, add1 = (real)(1 - beta1);
    real keep2 = (real)of2.keep, drop2 = (real)of2.drop, add2 = (real)(1 - beta2);
    double correction = 1 / sqrt(weft_decay_weight(beta2, t));
    real root = (real)correction, epsilon = (real)weft_node_real(a->node, "epsilon", 1e-8);
    real least = (real)weft_adam_least(correction, weft_node_float(a->graph, a->node));
    real rate = (real)(lr / weft_decay_weight(beta1, t));
    real coupled = decoupled ? 0 : (real)decay, own = decoupled ? (real)(lr * decay) : 0;
    for (int64_t i = 0; i < in_size(a, 0); i++) {
        real grad = g[i] + coupled * w[i];
        real first = keep1 * m[i] + (add1 * grad - drop1 * m[i]);
        real second = keep2 * v[i] + (add2 * grad * grad - drop2 * v[i]);
        real below = (real)sqrt((double)second) * root + epsilon;
        m_out[i] = first;
        v_out[i] = second;
        w_out[i] = w[i] - (own * w[i] + rate * first / (below < least ? least : below));
    }
}

/* The learning rate of a step. For the first `warmup` steps it grows linearly from base / warmup to
 * base; then it follows schedule `kind` of the context. */
static void schedule(const weft_ref *a)
{
    const weft_node *node = a->node;
    double keys[WEFT_MOST_RATE_KEYS];
    for (int k = 0; k < WEFT_MOST_RATE_KEYS; k++)
        keys[k] = weft_node_real(node, (const char[]){'k', 'e', 'y', (char)('0' + k), 0}, 0);
    const weft_learning_rate rate = {.schedule = weft_rate_schedule_at(
                                         a->graph->context, (int)weft_node_int(node, "kind", 0, 0)),
                                     .of = {.lr = weft_node_real(node, "base", 0),
                                            .gamma = weft_node_real(node, "gamma", 0.1),
                                            .floor = weft_node_real(node, "floor", 0),
                                            .warmup = weft_node_int(node, "warmup", 0, 0),
                                            .total = weft_node_int(node, "total", 0, 0),
                                            .every = weft_node_int(node, "every", 0, 1),
                                            .keys = keys,
                                            .measured = node->in_count > 1 ? a->in[1] : NULL},
                                     .step = weft_node_int(node, "step", 0, 0),
                                     .at = weft_node_real(node, "at", 0),
                                     .pace = weft_node_real(node, "pace", 1)};
    *(real *)a->out[0] = (real)weft_learning_rate_at(&rate, *(const int32_t *)a->in[0]);
    if (node->in_count > 1 && a->out[1] != a->in[1])
        memcpy(a->out[1], a->in[1], (size_t)in_size(a, 1) * sizeof(double));
}

/* The count stays at its largest value: the moments of a server are updated once for each step of
 * every learner. */
static void counter(const weft_ref *a)
{
    int32_t count = *(const int32_t *)a->in[0];
    *(int32_t *)a->out[0] = count < INT32_MAX ? count + 1 : count;
}

static void accumulate(const weft_ref *a)
{
    const real *sum = a->in[0], *addend = a->in[1], keep = *(const real *)a->in[2];
    real *out = a->out[0];
    for (int64_t i = 0; i < in_size(a, 0); i++) out[i] = keep == 0 ? addend[i] : sum[i] + addend[i];
}

/* Adds a micro-batch to the stack of subtree sums, see weft_tree_push. */
static void accumulate_tree(const weft_ref *a)
{
    int places = a->node->out_count, place, merges;
    int v = (int)*(const real *)a->in[places + 1] + (int)weft_node_int(a->node, "first", 0, 0);
    weft_tree_push((int)weft_node_int(a->node, "leaves", 0, 1),
                   (int)weft_node_int(a->node, "first", 0, 0), v, &place, &merges, NULL);
    int64_t count = in_size(a, 0);
    for (int p = 0; p < places; p++)
        if (a->out[p] != a->in[p]) memcpy(a->out[p], a->in[p], (size_t)count * sizeof(real));
    const real *right = a->in[places];
    if (merges == 0) memcpy(a->out[place], right, (size_t)count * sizeof(real));
    for (; merges > 0; merges--) {
        real *left = a->out[--place];
        for (int64_t i = 0; i < count; i++) left[i] += right[i];
        right = left;
    }
}

static void get_digits(const real *from, double *to)
{
    for (int d = 0; d < WEFT_EXACT_DIGITS; d++) to[d] = (double)from[d];
}

static void put_digits(const double *from, real *to)
{
    for (int d = 0; d < WEFT_EXACT_DIGITS; d++) to[d] = (real)from[d];
}

static void sum_squares(const weft_ref *a)
{
    weft_exact *sum = a->scratch;
    double digits[WEFT_EXACT_DIGITS];
    weft_exact_clear(sum);
    weft_exact_squares(sum, weft_in(a->graph, a->node, 0)->dtype, a->in[0], 0, in_size(a, 0));
    weft_exact_digits(sum, 1, digits);
    put_digits(digits, a->out[0]);
}

static void add_exact(const weft_ref *a)
{
    double x[WEFT_EXACT_DIGITS], y[WEFT_EXACT_DIGITS];
    get_digits(a->in[0], x);
    get_digits(a->in[1], y);
    weft_exact_add(x, y, x);
    put_digits(x, a->out[0]);
}

static void clip_factor(const weft_ref *a)
{
    double digits[WEFT_EXACT_DIGITS];
    get_digits(a->in[0], digits);
    double norm = weft_exact_root(digits);
    double limit = weft_node_real(a->node, "max_norm", 1);
    *(real *)a->out[0] = (real)(isfinite(norm) ? (norm > limit ? limit / norm : 1) : NAN);
}

static void exact_sqrt(const weft_ref *a)
{
    double digits[WEFT_EXACT_DIGITS];
    get_digits(a->in[0], digits);
    double norm = weft_exact_root(digits);
    *(real *)a->out[0] = isfinite(norm) ? (real)norm : (real)NAN;
}

const weft_ref_entry WEFT_REF_TABLE(update)[] = {
    {"sgd", sgd, 0},
    {"adam", adam, 0},
    {"schedule", schedule, 0},
    {"counter", counter, 0},
    {"accumulate", accumulate, 0},
    {"accumulate_tree", accumulate_tree, 0},
    {"sum_squares", sum_squares, sizeof(weft_exact)},
    {"addend_squares", sum_squares, sizeof(weft_exact)},
    {"add_exact", add_exact, 0},
    {"clip_factor", clip_factor, 0},
    {"exact_sqrt", exact_sqrt, 0},
    {NULL, NULL, 0},
};
