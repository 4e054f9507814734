/* Implements groups of operators that are functions of each element (weft_op.element) as one pass:
 * for a block of elements after the other, each node in turn computes its elements, so intermediate
 * results stay in the first cache and are written nowhere else. Truth values (bool) are bytes in
 * operands and results, and 0 or 1 in the float of a block; bf16 values are f32 in a block, and
 * only results of the group are rounded. */
#include <stdlib.h>

#include "base/base.h"
#include "device/cpu/spread.h"

enum { BLOCK = 512, GRAIN = 8192 };

/* Where a node finds an operand, or writes its result. */
typedef enum place { OPERAND, RESULT, BETWEEN, SPREAD } place;
typedef struct where {
    place place;
    int index; /* of the group's input or output, of a block of scratch memory */
} where;

typedef struct step {
    const weft_element *element;
    double parameters[2];
    where in[3], out;
} step;

typedef struct chain {
    weft_kernel head;
    step steps[WEFT_GROUP_NODES];
    int count, in_count, out_count;
    bool spread[WEFT_GROUP_VALUES];     /* of each input of the group: it is spread out, */
    cpu_spread how[WEFT_GROUP_VALUES];  /* like this */
    bool narrow[WEFT_GROUP_VALUES];     /* of each input: it is bf16, and in memory order */
    int other[WEFT_GROUP_VALUES];       /* of each output: 1 + the block of one that is not f32 */
    weft_dtype type[WEFT_GROUP_VALUES]; /* of each output */
    int blocks;                         /* of scratch memory that a thread has */
    int64_t size;
    int threads;
} chain;

typedef struct bound_chain {
    weft_bound head;
    const char *in[WEFT_GROUP_VALUES];
    char *out[WEFT_GROUP_VALUES];
    char *scratch;
} bound_chain;

static const chain *chain_of(const bound_chain *b)
{
    return (const chain *)b->head.kernel;
}

static char *block_at(const bound_chain *b, int thread, int index)
{
    size_t first = (size_t)thread * (size_t)chain_of(b)->blocks;
    return b->scratch + (first + (size_t)index) * BLOCK * sizeof(float);
}

static char *address(const bound_chain *b, where w, int thread, int64_t at)
{
    size_t offset = (size_t)at * sizeof(float);
    switch (w.place) {
    case OPERAND: return (char *)(uintptr_t)b->in[w.index] + offset;
    case RESULT: return b->out[w.index] + offset;
    case BETWEEN: return block_at(b, thread, w.index);
    case SPREAD: break;
    }
    return block_at(b, thread, w.index);
}

/* Fills the blocks of the operands that are spread out or bf16; those of scalars once. */
static void fill_blocks(const bound_chain *b, int thread, int64_t at, int64_t count, bool first)
{
    const chain *k = chain_of(b);
    for (int i = 0, index = 0; i < k->in_count; i++) {
        if (!k->spread[i] && !k->narrow[i]) continue;
        float *to = (float *)(void *)block_at(b, thread, index++);
        if (k->narrow[i]) {
            weft_widen_from((const uint16_t *)(const void *)b->in[i] + at, to, count);
        } else if (!cpu_spread_is_scalar(&k->how[i])) {
            cpu_spread_out(&k->how[i], b->in[i], to, at, count);
        } else if (first) {
            cpu_spread_out(&k->how[i], b->in[i], to, 0, 1);
            for (int j = 1; j < BLOCK; j++) to[j] = to[0];
        }
    }
}

/* Writes the results that are not f32. */
static void write_others(const bound_chain *b, int thread, int64_t at, int64_t count)
{
    const chain *k = chain_of(b);
    for (int o = 0; o < k->out_count; o++) {
        if (k->other[o] == 0) continue;
        const float *from = (const float *)(const void *)block_at(b, thread, k->other[o] - 1);
        if (k->type[o] == WEFT_BF16)
            weft_widen_to(from, (uint16_t *)(void *)b->out[o] + at, count);
        else
            for (int64_t j = 0; j < count; j++) b->out[o][at + j] = from[j] != 0;
    }
}

/* Each thread has a part of the elements and its own scratch memory. */
static void run_threads(void *user, int64_t begin, int64_t end)
{
    const bound_chain *b = user;
    const chain *k = chain_of(b);
    for (int64_t thread = begin; thread < end; thread++) {
        int64_t at = k->size * thread / k->threads, stop = k->size * (thread + 1) / k->threads;
        int64_t most = k->count == 1 && k->blocks == 0 ? stop - at : BLOCK;
        bool first = true;
        for (; at < stop; at += most) {
            int64_t count = WEFT_MIN(stop - at, most);
            fill_blocks(b, (int)thread, at, count, first);
            first = false;
            for (int s = 0; s < k->count; s++) {
                const step *now = &k->steps[s];
                const void *in[3];
                for (int i = 0; i < 3; i++)
                    in[i] = address(b, now->in[i < now->element->count ? i : 0], (int)thread, at);
                now->element->f32(in, now->parameters, address(b, now->out, (int)thread, at),
                                  count);
            }
            write_others(b, (int)thread, at, count);
        }
    }
}

static weft_status chain_run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    const chain *k = (const chain *)bound->kernel;
    weft_parallel(k->threads, k->threads, 1, run_threads, bound);
    return WEFT_OK;
}

static weft_status chain_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                               weft_address scratch)
{
    bound_chain *b = (bound_chain *)bound;
    const chain *k = chain_of(b);
    for (int i = 0; i < k->in_count; i++) b->in[i] = weft_host(in[i]);
    for (int o = 0; o < k->out_count; o++) b->out[o] = weft_host(out[o]);
    b->scratch = weft_host(scratch);
    return WEFT_OK;
}

static void chain_unbind(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops bound_ops = {
    .place = chain_place, .run = chain_run, .destroy = chain_unbind};

static weft_status chain_bind(const weft_kernel *kernel, weft_bound **out)
{
    return weft_bound_new(kernel, &bound_ops, sizeof(bound_chain), out);
}

static void chain_destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops chain_ops = {.bind = chain_bind, .destroy = chain_destroy};

/* --- creation --- */

static int by_place_in_graph(const void *a, const void *b)
{
    const weft_node *const *x = a, *const *y = b;
    return ((*x)->out > (*y)->out) - ((*x)->out < (*y)->out);
}

static int group_out(const weft_group *group, weft_value v)
{
    for (int o = 0; o < group->out_count; o++)
        if (group->out[o] == v) return o;
    return -1;
}

/* Sets where each node reads and writes. node[]: the group's nodes in the order of the graph. */
static void lay_out(const weft_group *group, const weft_node *const *node, chain *k)
{
    int spreads = 0, index[WEFT_GROUP_VALUES];
    for (int i = 0; i < group->in_count; i++) {
        const weft_shape *all = &weft_out(group->graph, group->node[0], 0)->shape;
        const weft_type *operand = weft_value_type(group->graph, group->in[i]);
        k->spread[i] = operand->dtype == WEFT_BOOL || !weft_shape_equal(&operand->shape, all);
        k->narrow[i] = operand->dtype == WEFT_BF16 && !k->spread[i];
        if (k->spread[i]) k->how[i] = cpu_spread_of(operand, all);
        index[i] = k->spread[i] || k->narrow[i] ? spreads++ : i;
    }
    k->blocks = spreads;
    for (int s = 0; s < group->count; s++) {
        step *now = &k->steps[s];
        *now = (step){.element = node[s]->op->element};
        weft_node_parameters(node[s], now->parameters);
        for (int i = 0; i < node[s]->in_count; i++) {
            int in = weft_group_in(group, node[s]->in[i]);
            bool block = in >= 0 && (k->spread[in] || k->narrow[in]);
            if (in >= 0) now->in[i] = (where){block ? SPREAD : OPERAND, index[in]};
            for (int t = 0; t < s && in < 0; t++)
                if (node[t]->out == node[s]->in[i]) now->in[i] = k->steps[t].out;
        }
        int out = group_out(group, node[s]->out);
        weft_dtype type = weft_out(group->graph, node[s], 0)->dtype;
        bool direct = out >= 0 && type == WEFT_F32;
        now->out = direct ? (where){RESULT, out} : (where){BETWEEN, k->blocks++};
        if (out >= 0) k->type[out] = type;
        if (out >= 0 && !direct) k->other[out] = now->out.index + 1;
    }
}

/* A result may overlie an operand that no later node reads. */
static void allow_in_place(chain *k)
{
    for (int s = 0; s < k->count; s++) {
        if (k->steps[s].out.place != RESULT) continue;
        for (int i = 0; i < k->in_count; i++) {
            bool later = k->spread[i];
            for (int t = s + 1; t < k->count; t++)
                for (int j = 0; j < k->steps[t].element->count; j++)
                    later = later ||
                            (k->steps[t].in[j].place == OPERAND && k->steps[t].in[j].index == i);
            if (!later) k->head.in_place[k->steps[s].out.index] |= 1u << i;
        }
    }
}

/* Whether every result is zero where the tensors are, whatever the scalars: then zeros in the
 * padding of a layout stay zero. */
static bool keeps_zeros(const chain *k)
{
    const float zero = 0, one = 1;
    bool spread[WEFT_GROUP_VALUES] = {false}; /* of each block */
    for (int i = 0, index = 0; i < k->in_count; i++)
        if (k->spread[i] || k->narrow[i]) spread[index++] = k->spread[i];
    for (int s = 0; s < k->count; s++) {
        const void *in[3];
        float y;
        for (int i = 0; i < 3; i++) {
            where w = k->steps[s].in[i];
            in[i] = w.place == SPREAD && spread[w.index] ? &one : &zero;
        }
        k->steps[s].element->f32(in, k->steps[s].parameters, &y, 1);
        if (y != 0) return false;
    }
    return true;
}

/* The type of all tensors of the result's shape, operands and results; bool: they differ, or there
 * are results of bool. */
static weft_dtype common_type(const weft_group *group, const chain *k)
{
    weft_dtype type = k->type[0];
    bool same = true;
    for (int o = 0; o < k->out_count; o++) same = same && k->type[o] == type;
    for (int i = 0; i < k->in_count; i++)
        if (!k->spread[i])
            same = same && weft_value_type(group->graph, group->in[i])->dtype == type;
    return same ? type : WEFT_BOOL;
}

/* Lays out the operands and results: tensors of the result's shape in `layout`, or plain if that is
 * NULL; others plain. */
static weft_status lay(weft_device *device, const weft_group *group, const weft_layout *layout,
                       chain *k)
{
    const weft_graph *g = group->graph;
    for (int i = 0; i < group->in_count; i++)
        if (layout && !k->spread[i])
            k->head.in[i] = layout;
        else
            WEFT_TRY(weft_layout_plain(device, weft_value_type(g, group->in[i]), &k->head.in[i]));
    for (int o = 0; o < group->out_count; o++)
        if (layout)
            k->head.out[o] = layout;
        else
            WEFT_TRY(weft_layout_plain(device, weft_value_type(g, group->out[o]), &k->head.out[o]));
    return WEFT_OK;
}

/* The layout of all tensors: that of the first operand that has one, unless numbers would get into
 * its padding, elements are found by their indices, or types differ; or plain. */
static weft_status choose_layouts(weft_device *device, const weft_group *group,
                                  const weft_layout *const *in, chain *k)
{
    const weft_type all = {common_type(group, k), weft_out(group->graph, group->node[0], 0)->shape};
    const weft_layout *layout = NULL;
    bool padding = keeps_zeros(k), plain = all.dtype == WEFT_BOOL;
    for (int i = 0; i < group->in_count; i++)
        plain = plain || (k->spread[i] && !cpu_spread_is_scalar(&k->how[i]));
    for (int i = 0; i < group->in_count && !layout && !plain; i++)
        if (!k->spread[i] && in[i] && !in[i]->opaque &&
            (padding || in[i]->bytes == weft_type_bytes(&all)))
            layout = in[i];
    if (layout) k->size = (int64_t)(layout->bytes / weft_dtype_size(all.dtype));
    return lay(device, group, layout, k);
}

static weft_status make(weft_device *device, const weft_group *group, const weft_layout *const *in,
                        weft_kernel **out)
{
    chain *k;
    const weft_node *node[WEFT_GROUP_NODES];
    WEFT_TRY(WEFT_NEW(&k, 1));
    memcpy((void *)node, (const void *)group->node, (size_t)group->count * sizeof(*node));
    qsort((void *)node, (size_t)group->count, sizeof(*node), by_place_in_graph);
    k->head.ops = &chain_ops;
    k->count = group->count;
    k->in_count = group->in_count;
    k->out_count = group->out_count;
    k->size = weft_shape_elements(&weft_out(group->graph, group->node[0], 0)->shape);
    k->threads = (int)WEFT_MIN((int64_t)device->threads, k->size / GRAIN + 1);
    lay_out(group, node, k);
    allow_in_place(k);
    k->head.scratch = (size_t)k->threads * (size_t)k->blocks * BLOCK * sizeof(float);
    memcpy(k->head.text, "elements", sizeof("elements"));
    weft_status status = choose_layouts(device, group, in, k);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        free(k);
    return status;
}

static bool is_block_type(const weft_type *type)
{
    return type->dtype == WEFT_F32 || type->dtype == WEFT_BF16 || type->dtype == WEFT_BOOL;
}

/* All nodes are functions of each element of one shape, of f32, bf16 and bool. */
static bool supports(const weft_group *group)
{
    const weft_type *all = weft_out(group->graph, group->node[0], 0);
    for (int n = 0; n < group->count; n++) {
        const weft_node *node = group->node[n];
        if (!node->op->element) return false;
        if (!weft_shape_equal(&weft_out(group->graph, node, 0)->shape, &all->shape)) return false;
        if (!is_block_type(weft_out(group->graph, node, 0))) return false;
        for (int i = 0; i < node->in_count; i++)
            if (!is_block_type(weft_in(group->graph, node, i))) return false;
    }
    return true;
}

const cpu_entry cpu_element_entry = {NULL, "elements", supports, make, NULL, CPU_ANY};
