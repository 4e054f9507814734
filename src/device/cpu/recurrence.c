/* Implements lstm and gru. At each position a product of the states with the packed weight gives
 * tiles, on which recurrence_gates.c computes the gates. Threads divide the batch, so they do not
 * wait for each other at each position, and results do not depend on their number. */
#include "device/cpu/recurrence.h"

#include <math.h>

#include "device/cpu/simd.h"

/* The weight [h, gates h] as it is multiplied: by the state, or, for the gradient, by the gradient
 * of the gates. */
static cpu_packed weight_of(const weft_recurrence *r, bool gradient)
{
    int64_t all = r->gates * r->units;
    if (gradient)
        return (cpu_packed){.depth = all, .units = r->units, .by_depth = 1, .by_unit = all};
    return (cpu_packed){.depth = r->units,
                        .units = r->units,
                        .groups = r->gates,
                        .by_depth = all,
                        .by_group = r->units,
                        .by_unit = 1};
}

/* Divides scratch memory; returns the number of its bytes. */
static size_t lay_out(recurrence *j, bool gradient, void *base)
{
    const weft_recurrence *r = &j->r;
    size_t used = 0;
    int64_t states = r->batch * r->units, all = r->gates * r->units;
    j->width = (gradient ? all : r->units) + 1;
    j->width -= j->width % 2;
    if (!j->packed) j->w.panels = cpu_take(base, &used, cpu_packed_count(&j->w));
    j->zeros = cpu_take(base, &used, r->units);
    j->bias = cpu_take(base, &used, all);
    for (int i = 0; i < 2; i++) j->states[i] = cpu_take(base, &used, states);
    for (int i = 0; i < 2 && j->narrow; i++)
        j->operand[i] = cpu_take(base, &used, r->batch * j->width / 2);
    return used;
}

static recurrence describe(const weft_group *group, int gates, bool gradient, tile_operands pairs)
{
    const weft_node *node = group->node[0];
    recurrence j = {.r = weft_node_recurrence(group->graph, node, gates, gradient),
                    .narrow = weft_in(group->graph, node, 0)->dtype == WEFT_BF16};
    j.w = weight_of(&j.r, gradient);
    j.w.of = j.narrow ? pairs : TILE_SINGLE;
    return j;
}

/* The first states of a gradient, where they are of another type in memory for the states. */
static void read_first(recurrence *j)
{
    const weft_recurrence *r = &j->r;
    int64_t count = r->batch * r->units;
    if (r->h0 >= 0) {
        bool narrow = cpu_is_narrow(j, r->h0);
        j->first_h = narrow == j->narrow ? j->k->in[r->h0] : j->states[0];
        for (int64_t i = 0; i < count && narrow != j->narrow; i++)
            cpu_put(j->states[0], i, j->narrow, cpu_get(j->k->in[r->h0], i, narrow));
    }
    if (r->c0 >= 0) {
        bool narrow = cpu_is_narrow(j, r->c0);
        j->first_c = narrow ? j->states[1] : j->k->in[r->c0];
        if (narrow) weft_widen_from(j->k->in[r->c0], j->states[1], count);
    }
}

recurrence cpu_recurrence_of(const cpu_loop *k, int gates, bool gradient)
{
    recurrence j = describe(&k->group, gates, gradient, k->pairs);
    int w = gradient ? 3 : 1;
    j.k = k;
    j.packed = !k->head.in[weft_group_in(&k->group, k->group.node[0]->in[w])]->plain;
    (void)lay_out(&j, gradient, k->scratch);
    memset(j.zeros, 0, (size_t)j.r.units * sizeof(float));
    for (int i = 0; i < 2 && j.narrow; i++)
        memset(j.operand[i], 0, (size_t)(j.r.batch * j.width) * sizeof(uint16_t));
    for (int64_t i = 0; !gradient && gates == 3 && i < gates * j.r.units; i++)
        j.bias[i] = cpu_get(k->in[2], i, cpu_is_narrow(&j, 2));
    if (gradient) read_first(&j);
    j.w.w = k->in[w];
    j.w.narrow = cpu_is_narrow(&j, w);
    if (j.packed)
        j.w.panels = (uint32_t *)(uintptr_t)k->in[w];
    else if (cpu_packs_in_vain(&j.w, j.r.batch * j.r.positions))
        j.w.panels = NULL;
    else
        cpu_pack(&j.w, k->threads);
    return j;
}

/* --- the states --- */

/* Sets a state of rows [begin, end) to its first value: that of input i, or zero; NaN in a row
 * whose length is wrong. */
static void begin_state(const recurrence *j, int i, int64_t begin, int64_t end, float *state)
{
    int64_t units = j->r.units;
    bool narrow = i >= 0 && cpu_is_narrow(j, i);
    const void *first = i >= 0 ? j->k->in[i] : NULL;
    for (int64_t b = begin; b < end; b++)
        for (int64_t at = b * units; at < (b + 1) * units; at++)
            state[at] = cpu_row_length(j, b) < 0 ? NAN : first ? cpu_get(first, at, narrow) : 0;
}

/* The states as the first product reads them. */
static void begin_operand(const recurrence *j, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end && j->narrow; b++)
        weft_widen_to(j->states[0] + b * j->r.units, j->operand[0] + b * j->width, j->r.units);
}

/* Takes rows [begin, end) through all positions. */
static void run_rows(const recurrence *j, int64_t begin, int64_t end, cpu_gates take)
{
    int64_t units = j->r.units, steps = j->r.positions;
    begin_state(j, j->r.h0, begin, end, j->states[0]);
    begin_operand(j, begin, end);
    if (j->r.gates == 4) begin_state(j, j->r.c0, begin, end, j->k->out[2]);
    for (int64_t s = 0; s < steps; s++) {
        recurrence_step step = {j, cpu_position(&j->r, s), j->states[s % 2], j->states[(s + 1) % 2],
                                j->operand[(s + 1) % 2]};
        if (j->narrow)
            cpu_packed_product(&j->w, j->operand[s % 2], j->width / 2, begin, end, take, &step);
        else
            cpu_packed_product(&j->w, step.h, units, begin, end, take, &step);
    }
    memcpy((float *)j->k->out[1] + begin * units, j->states[steps % 2] + begin * units,
           (size_t)((end - begin) * units) * sizeof(float));
}

static void part(void *user, int64_t begin, int64_t end)
{
    run_rows(user, begin, end, cpu_gates_of(user));
}

static void run(const cpu_loop *k, int gates)
{
    recurrence j = cpu_recurrence_of(k, gates, false);
    weft_parallel(k->threads, j.r.batch, 1, part, &j);
}

static void lstm_loop(const cpu_loop *k)
{
    run(k, 4);
}

static void gru_loop(const cpu_loop *k)
{
    run(k, 3);
}

/* --- kernels --- */

/* Whether a weight is wanted in panels, which the store keeps until it changes: a parameter that is
 * not trained here, of bf16 products, which pack it in any case. */
static bool takes_panels(const recurrence *j, const weft_group *group, const weft_layout *lies)
{
    const weft_value_info *w = &group->graph->values[group->node[0]->in[1]];
    return j->narrow && w->kind == WEFT_VALUE_PARAM && w->gradient == WEFT_NO_VALUE &&
           w->assigned == WEFT_NO_VALUE && (!lies || lies->plain);
}

static weft_status make(weft_device *device, const weft_group *group, cpu_loop_fn fn, int gates,
                        bool gradient, const weft_layout *const *in, weft_kernel **out)
{
    cpu_loop *k;
    recurrence j = describe(group, gates, gradient,
                            ((const cpu_device *)device)->narrow ? TILE_PAIRS_DOT : TILE_PAIRS);
    int w = weft_group_in(group, group->node[0]->in[gradient ? 3 : 1]);
    j.packed = !gradient && takes_panels(&j, group, in[w]);
    j.w.narrow = weft_value_type(group->graph, group->in[w])->dtype == WEFT_BF16;
    WEFT_TRY(cpu_plain_make(device, group, fn, lay_out(&j, gradient, NULL), &k));
    weft_status status = j.packed ? cpu_packed_layout(device, &j.w, &k->head.in[w]) : WEFT_OK;
    if (status == WEFT_OK)
        *out = &k->head;
    else
        k->head.ops->destroy(&k->head);
    return status;
}

#define KERNEL(name, gates, gradient, fn)                                                          \
    static weft_status name##_make(weft_device *device, const weft_group *group,                   \
                                   const weft_layout *const *in, weft_kernel **out)                \
    {                                                                                              \
        return make(device, group, fn, gates, gradient, in, out);                                  \
    }
KERNEL(lstm, 4, false, lstm_loop)
KERNEL(lstm_grad, 4, true, cpu_lstm_grad)
KERNEL(gru, 3, false, gru_loop)
KERNEL(gru_grad, 3, true, cpu_gru_grad)

/* Sequences are f32, and so are all other operands; or bf16, but for the cells. */
static bool supports(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    if (weft_in(g, node, 0)->dtype != WEFT_BF16) return cpu_one_type(group);
    return cpu_single_of_any(group) && weft_out(g, node, 0)->dtype == WEFT_BF16;
}

const cpu_entry cpu_recurrence_entries[] = {
    {"lstm", "steps", supports, lstm_make, NULL, CPU_ANY},
    {"lstm_grad", "steps", supports, lstm_grad_make, NULL, CPU_ANY},
    {"gru", "steps", supports, gru_make, NULL, CPU_ANY},
    {"gru_grad", "steps", supports, gru_grad_make, NULL, CPU_ANY},
    {.op = NULL},
};
