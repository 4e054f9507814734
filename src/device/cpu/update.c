/* Implements the optimizer steps adam and sgd, each as one pass over memory in the layout of the
 * parameter, and sum_squares. The padding of a blocked layout has gradient zero, so it stays
 * zero. */
#include <math.h>

#include "base/moving_average.h"
#include "device/cpu/simd.h"
#include "device/cpu/update.h"

enum { GRAIN = 8192, CHUNK = 16384 };

/* If the new parameter is in other memory than the old one, this many elements are copied at a
 * time, and updated while they are in cache. */
enum { NEAR = 4096 };

WEFT_CLONES static void adam_span(const cpu_step *s, int64_t begin, int64_t end)
{
    const float *restrict g = s->g;
    float *restrict w = s->w, *restrict m = s->m, *restrict v = s->v;
    float keep1 = s->of.adam.keep1, drop1 = s->of.adam.drop1, add1 = s->of.adam.add1;
    float keep2 = s->of.adam.keep2, drop2 = s->of.adam.drop2, add2 = s->of.adam.add2;
    float rate = s->of.adam.rate, root = s->of.adam.root, epsilon = s->of.adam.epsilon;
    float least = s->of.adam.least, coupled = s->of.adam.coupled;
    float decoupled = s->of.adam.decoupled;
    for (int64_t i = begin; i < end; i++) {
        float grad = g[i] + coupled * w[i];
        float first = keep1 * m[i] + (add1 * grad - drop1 * m[i]);
        float second = keep2 * v[i] + (add2 * grad * grad - drop2 * v[i]);
        float below = sqrtf(second) * root + epsilon;
        m[i] = first;
        v[i] = second;
        w[i] -= decoupled * w[i] + rate * first / (below < least ? least : below);
    }
}

static cpu_step adam_of(const weft_node *node, const void *const *in)
{
    double lr = (double)*(const float *)in[4], t = *(const int32_t *)in[5] + 1.0;
    double beta1 = weft_node_real(node, "beta1", 0.9), beta2 = weft_node_real(node, "beta2", 0.999);
    double decay = weft_node_real(node, "decay", 0);
    double root = 1 / sqrt(weft_decay_weight(beta2, t));
    weft_decay first = weft_decay_of(beta1), second = weft_decay_of(beta2);
    bool decoupled = weft_node_int(node, "kind", 0, 0) == 1;
    return (cpu_step){.span = adam_span,
                      .of.adam = {.keep1 = (float)first.keep,
                                  .drop1 = (float)first.drop,
                                  .add1 = (float)(1 - beta1),
                                  .keep2 = (float)second.keep,
                                  .drop2 = (float)second.drop,
                                  .add2 = (float)(1 - beta2),
                                  .rate = (float)(lr / weft_decay_weight(beta1, t)),
                                  .root = (float)root,
                                  .epsilon = (float)weft_node_real(node, "epsilon", 1e-8),
                                  .least = (float)weft_adam_least(root, WEFT_F32),
                                  .coupled = decoupled ? 0 : (float)decay,
                                  .decoupled = decoupled ? (float)(lr * decay) : 0}};
}

WEFT_CLONES static void sgd_span(const cpu_step *s, int64_t begin, int64_t end)
{
    const float *restrict g = s->g;
    float *restrict w = s->w, *restrict m = s->m;
    float lr = s->of.sgd.lr, keep = s->of.sgd.keep, drop = s->of.sgd.drop, decay = s->of.sgd.decay;
    float now = s->of.sgd.now, ahead = s->of.sgd.ahead;
    if (!m) {
        for (int64_t i = begin; i < end; i++) w[i] -= lr * (g[i] + decay * w[i]);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        float step = g[i] + decay * w[i], moved = keep * m[i] + (step - drop * m[i]);
        m[i] = moved;
        w[i] -= lr * (now * step + ahead * moved);
    }
}

static cpu_step sgd_of(const weft_node *node, const void *const *in)
{
    double momentum = weft_node_real(node, "momentum", 0);
    weft_decay decay = weft_decay_of(momentum);
    bool nesterov = weft_node_int(node, "nesterov", 0, 0) != 0;
    return (cpu_step){.span = sgd_span,
                      .of.sgd = {.lr = *(const float *)in[node->in_count - 1],
                                 .keep = (float)decay.keep,
                                 .drop = (float)decay.drop,
                                 .decay = (float)weft_node_real(node, "decay", 0),
                                 .now = nesterov ? 1 : 0,
                                 .ahead = nesterov ? (float)momentum : 1}};
}

int cpu_step_states(const weft_node *node)
{
    return node->out_count - 1;
}

cpu_step cpu_step_of(const weft_node *node, const void *const *in)
{
    return cpu_step_states(node) == 2 ? adam_of(node, in) : sgd_of(node, in);
}

/* A step over a kernel's elements. If `to` is other memory than `from`, the parameter is copied
 * first. */
typedef struct whole_step {
    cpu_step step;
    const float *from;
} whole_step;

/* Updates elements [begin, end), with subnormal numbers as zero. If the new parameter is in other
 * memory than the old one, that is copied first, in pieces of NEAR elements. */
static void step_part(void *user, int64_t begin, int64_t end)
{
    const whole_step *s = user;
    unsigned mode = weft_flush_subnormals();
    float *to = s->step.w;
    int64_t piece = s->from == to ? end - begin : NEAR;
    for (int64_t i = begin; i < end; i += piece) {
        int64_t stop = WEFT_MIN(i + piece, end);
        if (s->from != to) memcpy(to + i, s->from + i, (size_t)(stop - i) * sizeof(float));
        s->step.span(&s->step, i, stop);
    }
    weft_restore_subnormals(mode);
}

static void step_loop(const cpu_loop *k)
{
    int states = cpu_step_states(k->group.node[0]);
    whole_step s = {cpu_step_of(k->group.node[0], k->in), k->in[0]};
    s.step.g = k->in[1];
    s.step.w = k->out[0];
    s.step.m = states > 0 ? k->out[1] : NULL;
    s.step.v = states > 1 ? k->out[2] : NULL;
    weft_parallel(k->threads, k->size, GRAIN, step_part, &s);
}

/* The most pieces of an exact sum of squares, which threads compute; the sum does not depend on the
 * number of pieces. */
enum { MOST_PIECES = 16 };

typedef struct square_sum {
    const float *x;
    weft_exact *piece;
    int64_t size;
    int pieces;
} square_sum;

static void square_part(void *user, int64_t begin, int64_t end)
{
    const square_sum *s = user;
    for (int64_t p = begin; p < end; p++) {
        weft_exact_clear(&s->piece[p]);
        weft_exact_squares(&s->piece[p], WEFT_F32, s->x,
                           weft_part_start(s->size, (int)p, s->pieces),
                           weft_part_start(s->size, (int)p + 1, s->pieces));
    }
}

static int square_pieces(int threads, int64_t size)
{
    int64_t most = WEFT_MIN(size / CHUNK + 1, (int64_t)MOST_PIECES);
    return (int)WEFT_MIN((int64_t)threads, most);
}

static void squares_loop(const cpu_loop *k)
{
    double digits[WEFT_EXACT_DIGITS];
    float *out = k->out[0];
    square_sum s = {k->in[0], k->scratch, k->size, square_pieces(k->threads, k->size)};
    weft_parallel(k->threads, s.pieces, 1, square_part, &s);
    weft_exact_digits(s.piece, s.pieces, digits);
    for (int d = 0; d < WEFT_EXACT_DIGITS; d++) out[d] = (float)digits[d];
}

static weft_status squares_make(weft_device *device, const weft_group *group,
                                const weft_layout *const *in, weft_kernel **out)
{
    WEFT_TRY(cpu_flat_make(device, group, squares_loop, in, out));
    const cpu_loop *k = (const cpu_loop *)*out;
    (*out)->scratch += (size_t)square_pieces(device->threads, k->size) * sizeof(weft_exact);
    return WEFT_OK;
}

static weft_status step_make(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, weft_kernel **out)
{
    return cpu_flat_make(device, group, step_loop, in, out);
}

/* Whether each new state (momentum, moments) is assigned to the leaf that the node reads as the old
 * state; the loops update states in place. */
static bool assigned(const weft_group *group)
{
    if (!cpu_single(group)) return false;
    const weft_node *node = group->node[0];
    for (int o = 1; o < node->out_count; o++) {
        bool found = false;
        for (int i = 0; i < node->in_count; i++)
            if (node->op->in_place[o] & 1u << i)
                found = group->graph->values[node->in[i]].assigned == node->out + o;
        if (!found) return false;
    }
    return true;
}

const cpu_entry cpu_update_entries[] = {
    {"adam", "loop", assigned, step_make, NULL, CPU_WIDE},
    {"sgd", "loop", assigned, step_make, NULL, CPU_WIDE},
    {"sum_squares", "loop", cpu_single, squares_make, NULL, CPU_WIDE},
    {"addend_squares", "loop", cpu_single, squares_make, NULL, CPU_WIDE},
    {.op = NULL},
};
