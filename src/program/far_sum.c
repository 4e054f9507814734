/* Adds up memory of a device in the order of the fixed tree, with the device's own kernels of the
 * operator add: one for all additions where it has such a kernel, else one for each. */
#include <stdio.h>

#include "base/tree_sum.h"
#include "program/far.h"

/* A kernel, and the places of its operands: sources first, then temporary values. */
typedef struct addition {
    weft_kernel *kernel;
    weft_bound *bound;
    int in[WEFT_GROUP_VALUES], in_count, out;
} addition;

struct far_sum {
    weft_device *device;
    weft_graph *graph; /* kernels of some devices read it */
    size_t bytes;      /* of a result */
    int sources, temporary;
    int *place_of; /* of each value of the graph */
    addition *list;
    int count;
    weft_memory *room;
    size_t scratch_at;   /* in `room` */
    weft_address *given; /* [sources + 1] where the kernels are placed: sources, result */
};

/* Adds the tree's inputs and additions to the graph. */
static weft_status build(far_sum *s, const weft_tree_step *step, int steps, weft_dtype dtype,
                         int64_t count)
{
    const weft_shape shape = weft_shape_of(1, &count);
    weft_value *stack;
    int depth = 0;
    WEFT_TRY(WEFT_NEW(&stack, steps));
    for (int i = 0; i < steps; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "p%d", i);
        if (step[i].rank < 0) {
            depth -= 2;
            stack[depth] = weft_graph_node(s->graph, "add", name, &stack[depth], 2, NULL, 0);
        } else
            stack[depth] = weft_graph_leaf(s->graph, WEFT_VALUE_INPUT, name, dtype, &shape,
                                           (weft_init){.kind = WEFT_INIT_CONSTANT});
        depth++;
    }
    free(stack);
    return weft_graph_status(s->graph);
}

/* Sets the inputs and the output of a group of additions whose last node makes its only result. */
static void close_group(const weft_graph *g, weft_group *group)
{
    weft_value made = group->node[group->count - 1]->out;
    group->graph = g;
    group->out[group->out_count++] = made;
    for (int n = 0; n < group->count; n++)
        for (int i = 0; i < group->node[n]->in_count; i++) {
            weft_value v = group->node[n]->in[i];
            bool inside = weft_group_in(group, v) >= 0;
            for (int m = 0; m < n; m++) inside = inside || group->node[m]->out == v;
            if (!inside) group->in[group->in_count++] = v;
        }
}

static bool all_plain(const weft_group *group, const weft_kernel *kernel)
{
    bool plain = kernel->out[0]->plain;
    for (int i = 0; i < group->in_count; i++) plain = plain && kernel->in[i]->plain;
    return plain;
}

/* Adds the kernel of a group. UNSUPPORTED: the device has none. */
static weft_status add_kernel(far_sum *s, const weft_group *group)
{
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate candidate[WEFT_CANDIDATES];
    addition *a = &s->list[s->count];
    if (s->device->ops->candidates(s->device, group, in, candidate) < 1)
        return WEFT_ERR_UNSUPPORTED;
    WEFT_TRY(weft_device_kernel(s->device, group, candidate, in, &a->kernel));
    s->count++;
    if (!all_plain(group, a->kernel)) return WEFT_ERR_UNSUPPORTED;
    a->in_count = group->in_count;
    for (int i = 0; i < group->in_count; i++) a->in[i] = s->place_of[group->in[i]];
    a->out = s->place_of[group->out[0]];
    return weft_kernel_bind(a->kernel, &a->bound);
}

static void drop_kernels(far_sum *s)
{
    for (int i = 0; i < s->count; i++) {
        if (s->list[i].bound) s->list[i].bound->ops->destroy(s->list[i].bound);
        s->list[i].kernel->ops->destroy(s->list[i].kernel);
        s->list[i] = (addition){.kernel = NULL};
    }
    s->count = 0;
}

static weft_status add_kernels(far_sum *s)
{
    const weft_graph *g = s->graph;
    weft_status status = WEFT_ERR_UNSUPPORTED;
    int nodes = (int)g->node_count;
    if (nodes <= WEFT_GROUP_NODES && s->sources <= WEFT_GROUP_VALUES) {
        weft_group all = {.count = nodes};
        for (int n = 0; n < nodes; n++) all.node[n] = g->nodes[n];
        close_group(g, &all);
        status = add_kernel(s, &all);
    }
    if (status != WEFT_ERR_UNSUPPORTED || nodes == 1) return status;
    drop_kernels(s);
    for (int n = 0; n < nodes; n++) {
        weft_group one = {.node = {g->nodes[n]}, .count = 1};
        close_group(g, &one);
        WEFT_TRY(add_kernel(s, &one));
    }
    return WEFT_OK;
}

/* Numbers the values: inputs are sources in the order of steps, results temporary values. */
static weft_status number_values(far_sum *s)
{
    int results = 0;
    WEFT_TRY(WEFT_NEW(&s->place_of, s->graph->value_count));
    for (size_t v = 0; v < s->graph->value_count; v++) {
        bool source = s->graph->values[v].kind == WEFT_VALUE_INPUT;
        s->place_of[v] = source ? s->sources++ : -1;
    }
    for (size_t v = 0; v < s->graph->value_count; v++)
        if (s->place_of[v] < 0) s->place_of[v] = s->sources + results++;
    s->temporary = results;
    return WEFT_OK;
}

/* The last result is written at once where it shall be, unless that may be over an operand which
 * the kernel cannot overwrite. */
static bool is_apart(const far_sum *s)
{
    const addition *last = &s->list[s->count - 1];
    for (int i = 0; i < last->in_count; i++)
        if (last->in[i] < s->sources && !(last->kernel->in_place[0] & 1u << i)) return true;
    return false;
}

static weft_status make_room(far_sum *s)
{
    size_t each = (s->bytes + 127) / 128 * 128, scratch = 0;
    for (int i = 0; i < s->count; i++) scratch = WEFT_MAX(scratch, s->list[i].kernel->scratch);
    s->scratch_at = s->count > 1 || is_apart(s) ? each * (size_t)s->temporary : 0;
    WEFT_TRY(WEFT_NEW(&s->given, s->sources + 1));
    if (s->scratch_at + scratch == 0) return WEFT_OK;
    return weft_memory_new(s->device, s->scratch_at + scratch, &s->room);
}

weft_status weft_far_sum_open(weft_device *device, weft_dtype dtype, int leaves, int ranks,
                              int64_t count, far_sum **out)
{
    far_sum *s;
    weft_tree_step *step = NULL;
    int steps = weft_tree_steps(leaves, ranks, NULL);
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->device = device;
    s->bytes = (size_t)count * weft_dtype_size(dtype);
    weft_status status = WEFT_NEW(&step, steps);
    if (status == WEFT_OK) (void)weft_tree_steps(leaves, ranks, step);
    if (status == WEFT_OK) status = weft_graph_create(device->context, WEFT_F32, &s->graph);
    if (status == WEFT_OK) status = build(s, step, steps, dtype, count);
    if (status == WEFT_OK) status = number_values(s);
    if (status == WEFT_OK) status = WEFT_NEW(&s->list, s->graph->node_count);
    if (status == WEFT_OK) status = add_kernels(s);
    if (status == WEFT_OK) status = make_room(s);
    free(step);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_far_sum_close(&s);
    return status;
}

void weft_far_sum_close(far_sum **sum)
{
    far_sum *s = *sum;
    *sum = NULL;
    if (!s) return;
    drop_kernels(s);
    weft_memory_free(&s->room);
    weft_graph_destroy(&s->graph);
    free(s->given);
    free(s->list);
    free(s->place_of);
    free(s);
}

static weft_address address_of(const far_sum *s, const weft_address *source, int place)
{
    size_t each = (s->bytes + 127) / 128 * 128;
    return place < s->sources ? source[place]
                              : (weft_address){s->room, each * (size_t)(place - s->sources)};
}

/* Binds the kernels to addresses, which stay the same from run to run. */
static weft_status place(far_sum *s, const weft_address *source, weft_address to, bool apart)
{
    for (int i = 0; i < s->count; i++) {
        const addition *a = &s->list[i];
        weft_address in[WEFT_GROUP_VALUES], out = address_of(s, source, a->out);
        for (int j = 0; j < a->in_count; j++) in[j] = address_of(s, source, a->in[j]);
        if (i == s->count - 1 && !apart) out = to;
        WEFT_TRY(weft_bound_place(a->bound, in, &out, (weft_address){s->room, s->scratch_at}));
    }
    for (int i = 0; i < s->sources; i++) s->given[i] = source[i];
    s->given[s->sources] = to;
    return WEFT_OK;
}

static bool same(weft_address a, weft_address b)
{
    return a.memory == b.memory && a.offset == b.offset;
}

weft_status weft_far_sum_run(far_sum *s, const weft_address *source, weft_address to,
                             weft_queue *queue)
{
    bool apart = is_apart(s), placed = same(s->given[s->sources], to);
    for (int i = 0; i < s->sources; i++) placed = placed && same(s->given[i], source[i]);
    if (!placed) WEFT_TRY(place(s, source, to, apart));
    for (int i = 0; i < s->count; i++) WEFT_TRY(weft_bound_run(s->list[i].bound, queue));
    if (!apart) return WEFT_OK;
    return weft_copy(queue, to, address_of(s, source, s->list[s->count - 1].out), s->bytes);
}

bool weft_far_adds(weft_device *device, weft_dtype dtype)
{
    far_sum *s = NULL;
    bool adds = weft_far_sum_open(device, dtype, 2, 2, 1, &s) == WEFT_OK;
    weft_far_sum_close(&s);
    return adds;
}
