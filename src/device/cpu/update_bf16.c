/* Implements updates of parameters and states that are bf16: a node adam or sgd, and the nodes that
 * round its results at random, in one pass over memory; and such a node alone. A rounded result may
 * be kept as f32. Elements are in row-major order, by which random numbers are drawn. */
#include "base/target_clones.h"
#include "device/cpu/simd.h"
#include "device/cpu/update.h"
#include "device/rounding.h"

enum { CHUNK = 1024, GRAIN = 8192, STATES = 3 };

/* --- rounding --- */

/* Adds random numbers to the bits that are cut off, as the reference device does. */
static WEFT_CLONES void round_span(const float *x, const uint32_t *number, int64_t skipped,
                                   uint16_t *y, int64_t count)
{
    uint32_t half[8 * CPU_PHILOX];
    for (int i = 0; i < 4 * CPU_PHILOX; i++) {
        half[2 * i] = number[i] & 0xffff;
        half[2 * i + 1] = number[i] >> 16;
    }
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        uint32_t nan = (bits & 0x7fffff) != 0 ? 0x40 : 0, rounded = bits + half[skipped + i];
        bool finite = (bits & 0x7f800000) != 0x7f800000;
        y[i] = (uint16_t)(finite ? rounded >> 16 : bits >> 16 | nan);
    }
}

bool cpu_rounds_at_random(const weft_node *node)
{
    return !weft_operator_computes(node->op) && weft_node_attr(node, "stream");
}

bool cpu_widens(const weft_graph *graph, const weft_node *node)
{
    return !weft_operator_computes(node->op) && node->in_count == 1 &&
           weft_node_attr(node, "dtype") && weft_out(graph, node, 0)->dtype == WEFT_F32;
}

void cpu_round_at_random(const weft_graph *graph, const weft_node *node, int32_t step,
                         const float *x, uint16_t *y, int64_t at, int64_t count)
{
    uint32_t number[4 * CPU_PHILOX];
    uint64_t key = weft_round_key(node), high = (uint64_t)step;
    for (int64_t i = 0; i < count;) {
        int64_t run, place = weft_round_position(graph, node, at + i, &run), skipped = place % 8;
        int64_t n = WEFT_MIN(WEFT_MIN(run, count - i), 8 * CPU_PHILOX - skipped);
        cpu_philox(key, high, (uint64_t)place / 8, number);
        round_span(x + i, number, skipped, y + i, n);
        i += n;
    }
}

typedef struct rounding {
    const cpu_loop *loop;
    int32_t step;
} rounding;

static void round_part(void *user, int64_t begin, int64_t end)
{
    const rounding *r = user;
    const cpu_loop *k = r->loop;
    cpu_round_at_random(k->group.graph, k->group.node[0], r->step, (const float *)k->in[0] + begin,
                        (uint16_t *)k->out[0] + begin, begin, end - begin);
}

static void round_loop(const cpu_loop *k)
{
    rounding r = {k, *(const int32_t *)k->in[1]};
    int64_t size = weft_shape_elements(&weft_in(k->group.graph, k->group.node[0], 0)->shape);
    weft_parallel(k->threads, size, GRAIN, round_part, &r);
}

CPU_PLAIN(round)

/* --- updates --- */

/* The update of a group. [0] is the parameter, then come the states. */
typedef struct update {
    weft_kernel head;
    weft_group group;
    int count;           /* of the parameter and the states */
    bool narrow[STATES]; /* read as bf16 */
    /* The outputs of the group that get the f32 result, the rounded one, and that as f32; below 0:
     * none; and the node that rounds. */
    int wide[STATES], rounded[STATES], widened[STATES];
    const weft_node *by[STATES];
    int64_t size;
    int threads;
} update;

typedef struct bound_update {
    weft_bound head;
    const void *in[WEFT_GROUP_VALUES]; /* operands of the node */
    void *out[WEFT_GROUP_VALUES];      /* of the group */
    const int32_t *step[STATES];       /* by which results are rounded */
    float *scratch;
} bound_update;

static void load(const update *k, const bound_update *b, int state, int64_t at, int64_t n,
                 float *to)
{
    const void *from = b->in[cpu_step_operand(state)];
    if (k->narrow[state])
        weft_widen_from((const uint16_t *)from + at, to, n);
    else
        memcpy(to, (const float *)from + at, (size_t)n * sizeof(float));
}

static void store(const update *k, const bound_update *b, int state, int64_t at, int64_t n,
                  const float *from)
{
    if (k->wide[state] >= 0)
        memcpy((float *)b->out[k->wide[state]] + at, from, (size_t)n * sizeof(float));
    if (!k->by[state]) return;
    uint16_t own[CHUNK], *to = own;
    if (k->rounded[state] >= 0) to = (uint16_t *)b->out[k->rounded[state]] + at;
    cpu_round_at_random(k->group.graph, k->by[state], *b->step[state], from, to, at, n);
    if (k->widened[state] >= 0) weft_widen_from(to, (float *)b->out[k->widened[state]] + at, n);
}

/* Each thread has a part of the elements and its own scratch memory. */
static void run_threads(void *user, int64_t begin, int64_t end)
{
    const bound_update *b = user;
    const update *k = (const update *)b->head.kernel;
    cpu_step step = cpu_step_of(k->group.node[0], b->in);
    unsigned mode = weft_flush_subnormals();
    for (int64_t thread = begin; thread < end; thread++) {
        float *room = b->scratch + thread * STATES * CHUNK;
        int64_t at = k->size * thread / k->threads, stop = k->size * (thread + 1) / k->threads;
        for (int64_t n; at < stop; at += n) {
            n = WEFT_MIN((int64_t)CHUNK, stop - at);
            for (int s = 0; s < k->count; s++) load(k, b, s, at, n, room + s * CHUNK);
            step.g = (const float *)b->in[1] + at;
            step.w = room;
            step.m = k->count > 1 ? room + CHUNK : NULL;
            step.v = k->count > 2 ? room + 2 * CHUNK : NULL;
            step.span(&step, 0, n);
            for (int s = 0; s < k->count; s++) store(k, b, s, at, n, room + s * CHUNK);
        }
    }
    weft_restore_subnormals(mode);
}

static weft_status update_run(weft_bound *bound, weft_queue *queue)
{
    const update *k = (const update *)bound->kernel;
    (void)queue;
    weft_parallel(k->threads, k->threads, 1, run_threads, bound);
    return WEFT_OK;
}

static weft_status update_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                                weft_address scratch)
{
    bound_update *b = (bound_update *)bound;
    const update *k = (const update *)bound->kernel;
    const weft_node *node = k->group.node[0];
    for (int i = 0; i < node->in_count; i++)
        b->in[i] = weft_host(in[weft_group_in(&k->group, node->in[i])]);
    for (int o = 0; o < k->group.out_count; o++) b->out[o] = weft_host(out[o]);
    for (int s = 0; s < k->count; s++)
        if (k->by[s]) b->step[s] = weft_host(in[weft_group_in(&k->group, k->by[s]->in[1])]);
    b->scratch = weft_host(scratch);
    return WEFT_OK;
}

static void update_unbind(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops bound_ops = {
    .place = update_place, .run = update_run, .destroy = update_unbind};

static weft_status update_bind(const weft_kernel *kernel, weft_bound **out)
{
    return weft_bound_new(kernel, &bound_ops, sizeof(bound_update), out);
}

static void update_destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops update_ops = {.bind = update_bind, .destroy = update_destroy};

/* --- creation --- */

/* The result of the group's first node that a node rounds; -1: it does another thing. */
static int rounds(const weft_group *group, const weft_node *node)
{
    int o = node->in[0] - group->node[0]->out;
    return cpu_rounds_at_random(node) && o >= 0 && o < group->node[0]->out_count ? o : -1;
}

/* Where a state is read and written. A result may overlie the old state if it is of its type. */
static void lay_out(update *k, int s)
{
    const weft_group *group = &k->group;
    const weft_node *node = group->node[0];
    weft_value from = node->in[cpu_step_operand(s)];
    k->narrow[s] = weft_value_type(group->graph, from)->dtype == WEFT_BF16;
    k->wide[s] = weft_group_out(group, node->out + s);
    k->rounded[s] = k->widened[s] = -1;
    for (int n = 1; n < group->count; n++) {
        if (rounds(group, group->node[n]) != s) continue;
        k->by[s] = group->node[n];
        k->rounded[s] = weft_group_out(group, group->node[n]->out);
    }
    for (int n = 1; n < group->count && k->by[s]; n++)
        if (group->node[n]->in[0] == k->by[s]->out)
            k->widened[s] = weft_group_out(group, group->node[n]->out);
    int wide = k->widened[s] >= 0 ? k->widened[s] : k->wide[s];
    int over = k->narrow[s] ? k->rounded[s] : wide;
    if (over >= 0) k->head.in_place[over] |= 1u << weft_group_in(group, from);
}

static weft_status update_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    weft_status status = WEFT_OK;
    update *k;
    (void)in;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &update_ops;
    k->group = *group;
    k->count = 1 + cpu_step_states(group->node[0]);
    k->size = weft_shape_elements(&weft_in(g, group->node[0], 0)->shape);
    k->threads = (int)WEFT_MIN((int64_t)device->threads, k->size / GRAIN + 1);
    for (int s = 0; s < k->count; s++) lay_out(k, s);
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++)
        status = weft_layout_plain(device, weft_value_type(g, group->in[i]), &k->head.in[i]);
    for (int o = 0; o < group->out_count && status == WEFT_OK; o++)
        status = weft_layout_plain(device, weft_value_type(g, group->out[o]), &k->head.out[o]);
    k->head.scratch = (size_t)k->threads * STATES * CHUNK * sizeof(float);
    memcpy(k->head.text, "bf16 loop", sizeof("bf16 loop"));
    if (status == WEFT_OK)
        *out = &k->head;
    else
        free(k);
    return status;
}

/* Whether a node is the cast of what an earlier one of the group rounds, the only one. */
static bool widens(const weft_group *group, int n)
{
    bool rounded = false, again = false;
    if (!cpu_widens(group->graph, group->node[n])) return false;
    for (int i = 1; i < n; i++) {
        rounded = rounded || (rounds(group, group->node[i]) >= 0 &&
                              group->node[i]->out == group->node[n]->in[0]);
        again = again || group->node[i]->in[0] == group->node[n]->in[0];
    }
    return rounded && !again;
}

/* Whether the first node updates values with a gradient and a rate in f32, some of which are bf16
 * or rounded, and each other one rounds another result of it, or casts what is rounded to f32. */
static bool supports(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    int rate = 1 + cpu_step_operand(cpu_step_states(node));
    bool narrow = false, taken[STATES] = {false};
    if (weft_in(g, node, 1)->dtype != WEFT_F32 ||
        weft_in(g, node, WEFT_MAX(rate, 2))->dtype != WEFT_F32)
        return false;
    for (int s = 0; s <= cpu_step_states(node); s++)
        narrow = narrow || weft_in(g, node, cpu_step_operand(s))->dtype == WEFT_BF16;
    for (int n = 1; n < group->count; n++) {
        int s = rounds(group, group->node[n]);
        if (s < 0 && widens(group, n)) continue;
        if (s < 0 || taken[s]) return false;
        taken[s] = narrow = true;
    }
    return narrow;
}

const cpu_entry cpu_update_bf16_entries[] = {
    {"adam", "bf16 loop", supports, update_make, NULL, CPU_ANY},
    {"sgd", "bf16 loop", supports, update_make, NULL, CPU_ANY},
    {"stochastic_round", "loop", cpu_single_of_any, round_make, NULL, CPU_ANY},
    {.op = NULL},
};
