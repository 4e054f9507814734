/* Runs a small graph in memory of a device, outside of programs: with the device's own kernels, one
 * for all nodes where it has such a kernel and may use it, else one for each. */
#include <stdio.h>

#include "program/far.h"

/* A kernel, and the places of its operands: sources first, then results and temporary values. */
typedef struct step {
    weft_kernel *kernel;
    weft_bound *bound;
    int in[WEFT_GROUP_VALUES], in_count, out;
} step;

struct far_graph {
    weft_device *device;
    weft_graph *graph; /* kernels of some devices read it */
    int sources, results, temporary;
    int *place_of;               /* of each value of the graph */
    size_t *room_at, scratch_at; /* in `room`: of each temporary value */
    step *list;
    int count;
    bool apart; /* the only result is made in temporary memory, and then copied */
    weft_memory *room;
    weft_address *given; /* [sources + results] where the kernels are placed */
};

static size_t bytes_of(const far_graph *f, size_t value)
{
    const weft_type *type = &f->graph->values[value].type;
    return (size_t)weft_shape_elements(&type->shape) * weft_dtype_size(type->dtype);
}

/* Sets the inputs and the output of a group of nodes whose last one makes its only result. */
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
static weft_status add_kernel(far_graph *f, const weft_group *group)
{
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate candidate[WEFT_CANDIDATES];
    step *s = &f->list[f->count];
    if (f->device->ops->candidates(f->device, group, in, candidate) < 1)
        return WEFT_ERR_UNSUPPORTED;
    WEFT_TRY(weft_device_kernel(f->device, group, candidate, in, &s->kernel));
    f->count++;
    if (!all_plain(group, s->kernel)) return WEFT_ERR_UNSUPPORTED;
    s->in_count = group->in_count;
    for (int i = 0; i < group->in_count; i++) s->in[i] = f->place_of[group->in[i]];
    s->out = f->place_of[group->out[0]];
    return WEFT_OK;
}

static void drop_kernels(far_graph *f)
{
    for (int i = 0; i < f->count; i++) {
        if (f->list[i].bound) f->list[i].bound->ops->destroy(f->list[i].bound);
        f->list[i].kernel->ops->destroy(f->list[i].kernel);
        f->list[i] = (step){.kernel = NULL};
    }
    f->count = 0;
}

static weft_status add_kernels(far_graph *f, bool fused)
{
    const weft_graph *g = f->graph;
    weft_status status = WEFT_ERR_UNSUPPORTED;
    int nodes = (int)g->node_count;
    if (fused && nodes <= WEFT_GROUP_NODES && f->sources <= WEFT_GROUP_VALUES) {
        weft_group all = {.count = nodes};
        for (int n = 0; n < nodes; n++) all.node[n] = g->nodes[n];
        close_group(g, &all);
        status = add_kernel(f, &all);
        if (status != WEFT_ERR_UNSUPPORTED || nodes == 1) return status;
    }
    drop_kernels(f);
    for (int n = 0; n < nodes; n++) {
        weft_group one = {.node = {g->nodes[n]}, .count = 1};
        close_group(g, &one);
        WEFT_TRY(add_kernel(f, &one));
    }
    return WEFT_OK;
}

/* Numbers the values: inputs are sources in their order, then results, then temporary values. */
static weft_status number_values(far_graph *f, const weft_value *result)
{
    size_t count = f->graph->value_count;
    WEFT_TRY(WEFT_NEW(&f->place_of, count));
    for (size_t v = 0; v < count; v++) {
        bool source = f->graph->values[v].kind == WEFT_VALUE_INPUT;
        f->place_of[v] = source ? f->sources++ : -1;
    }
    for (int i = 0; i < f->results; i++) f->place_of[result[i]] = f->sources + i;
    for (size_t v = 0; v < count; v++)
        if (f->place_of[v] < 0) f->place_of[v] = f->sources + f->results + f->temporary++;
    return WEFT_OK;
}

/* Some devices compile here. */
static weft_status bind_kernels(const far_graph *f)
{
    for (int i = 0; i < f->count; i++)
        WEFT_TRY(weft_kernel_bind(f->list[i].kernel, &f->list[i].bound));
    return WEFT_OK;
}

/* The last result is written at once where it shall be, unless that may be over an operand which
 * the kernel cannot overwrite. */
static bool is_apart(const far_graph *f)
{
    const step *last = &f->list[f->count - 1];
    for (int i = 0; i < last->in_count; i++)
        if (last->in[i] < f->sources && !(last->kernel->in_place[0] & 1u << i)) return true;
    return false;
}

/* A result that is made apart has the room behind the temporary values. */
static weft_status make_room(far_graph *f, const weft_value *result)
{
    size_t at = 0, scratch = 0;
    int first = f->sources + f->results;
    for (int i = 0; i < f->count; i++) scratch = WEFT_MAX(scratch, f->list[i].kernel->scratch);
    WEFT_TRY(WEFT_NEW(&f->room_at, f->temporary + 1));
    for (size_t v = 0; v < f->graph->value_count; v++) {
        if (f->place_of[v] < first || f->count == 1) continue;
        f->room_at[f->place_of[v] - first] = at;
        at += (bytes_of(f, v) + 127) / 128 * 128;
    }
    f->room_at[f->temporary] = at;
    if (f->apart) at += (bytes_of(f, (size_t)result[0]) + 127) / 128 * 128;
    f->scratch_at = at;
    WEFT_TRY(WEFT_NEW(&f->given, first));
    return at + scratch == 0 ? WEFT_OK : weft_memory_new(f->device, at + scratch, &f->room);
}

weft_status weft_far_graph_open(weft_device *device, weft_graph *graph, const weft_value *result,
                                int results, bool fused, far_graph **out)
{
    far_graph *f;
    weft_status status = WEFT_NEW(&f, 1);
    if (status != WEFT_OK) {
        weft_graph_destroy(&graph);
        return status;
    }
    *f = (far_graph){.device = device, .graph = graph, .results = results};
    status = weft_graph_status(graph);
    if (status == WEFT_OK) status = number_values(f, result);
    if (status == WEFT_OK) status = WEFT_NEW(&f->list, graph->node_count);
    if (status == WEFT_OK) status = add_kernels(f, fused);
    if (status == WEFT_OK && out) f->apart = fused && is_apart(f);
    if (status == WEFT_OK && out) status = bind_kernels(f);
    if (status == WEFT_OK && out) status = make_room(f, result);
    if (status == WEFT_OK && out)
        *out = f;
    else
        weft_far_graph_close(&f);
    return status;
}

void weft_far_graph_close(far_graph **graph)
{
    far_graph *f = *graph;
    *graph = NULL;
    if (!f) return;
    drop_kernels(f);
    weft_memory_free(&f->room);
    weft_graph_destroy(&f->graph);
    free(f->place_of);
    free(f->room_at);
    free(f->list);
    free(f->given);
    free(f);
}

static weft_address address_of(const far_graph *f, const weft_address *at, int place)
{
    int first = f->sources + f->results;
    return place < first ? at[place] : (weft_address){f->room, f->room_at[place - first]};
}

/* Binds the kernels to addresses, which stay the same from run to run. */
static weft_status place(far_graph *f, const weft_address *at)
{
    for (int i = 0; i < f->count; i++) {
        const step *s = &f->list[i];
        bool last = i == f->count - 1 && f->apart;
        weft_address in[WEFT_GROUP_VALUES];
        weft_address out =
            last ? (weft_address){f->room, f->room_at[f->temporary]} : address_of(f, at, s->out);
        for (int j = 0; j < s->in_count; j++) in[j] = address_of(f, at, s->in[j]);
        WEFT_TRY(weft_bound_place(s->bound, in, &out, (weft_address){f->room, f->scratch_at}));
    }
    memcpy(f->given, at, (size_t)(f->sources + f->results) * sizeof(*at));
    return WEFT_OK;
}

weft_status weft_far_graph_run(far_graph *f, const weft_address *at, weft_queue *queue)
{
    bool placed = true;
    for (int i = 0; i < f->sources + f->results; i++)
        placed = placed && f->given[i].memory == at[i].memory && f->given[i].offset == at[i].offset;
    if (!placed) WEFT_TRY(place(f, at));
    for (int i = 0; i < f->count; i++) WEFT_TRY(weft_bound_run(f->list[i].bound, queue));
    if (!f->apart) return WEFT_OK;
    weft_address made = {f->room, f->room_at[f->temporary]};
    size_t value = (size_t)f->graph->nodes[f->graph->node_count - 1]->out;
    return weft_copy(queue, at[f->sources], made, bytes_of(f, value));
}
