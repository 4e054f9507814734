/* Implements the reference device: all layouts are plain, each node is one kernel, and nothing is
 * fused. */
#include "device/reference/reference.h"
#include "device/widen.h"

typedef struct reference_kernel {
    weft_kernel head;
    const weft_ref_entry *entry;
    weft_group group;
    size_t copy;      /* reorder: bytes */
    weft_group clone; /* of a node with bf16 values, which computes it in f32; graph NULL: none */
    size_t copies;    /* offset of the clone's values in scratch memory */
} reference_kernel;

typedef struct reference_bound {
    weft_bound head;
    weft_ref call;
    const void *in[WEFT_GROUP_VALUES];
    void *out[WEFT_MAX_OUTPUTS];
    const void *wide_in[WEFT_GROUP_VALUES]; /* of the clone */
    void *wide_out[WEFT_MAX_OUTPUTS];
} reference_bound;

/* Whether all real values that a node reads and makes are of type `dtype`, which must be f32 or
 * f64. */
static bool uniform(const weft_graph *g, const weft_node *node, weft_dtype dtype)
{
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        const weft_type *t =
            i < node->in_count ? weft_in(g, node, i) : weft_out(g, node, i - node->in_count);
        if (weft_dtype_is_float(t->dtype) && t->dtype != dtype) return false;
    }
    return dtype == WEFT_F32 || dtype == WEFT_F64;
}

static const weft_ref_entry *find_in(const weft_ref_entry *e, const char *op)
{
    while (e->op && strcmp(e->op, op) != 0) e++;
    return e->op ? e : NULL;
}

static const weft_ref_entry *find(const weft_graph *g, const weft_node *node)
{
#define TABLES(file) {weft_ref_##file##_float, weft_ref_##file##_double},
    static const weft_ref_entry *const tables[][2] = {WEFT_REF_FILES(TABLES)};
#undef TABLES
    weft_dtype dtype = weft_node_float(g, node);
    const weft_ref_entry *e = find_in(weft_ref_any, node->op->name);
    if (!e) e = find_in(weft_ref_moves, node->op->name);
    for (size_t t = 0; t < WEFT_COUNT(tables) && !e && uniform(g, node, dtype); t++)
        e = find_in(tables[t][dtype == WEFT_F64], node->op->name);
    if (!e && node->op->element && uniform(g, node, dtype))
        e = dtype == WEFT_F64 ? &weft_ref_element_double : &weft_ref_element_float;
    return e;
}

static const reference_kernel *kernel_of(const weft_bound *bound)
{
    return (const reference_kernel *)bound->kernel;
}

/* Sets the addresses of the clone's values: those of the node, or copies. */
static void place_clone(reference_bound *b, char *room)
{
    const weft_group *group = &kernel_of(&b->head)->group;
    const weft_node *node = group->node[0];
    for (int i = 0; i < node->in_count; i++) {
        bool copied =
            weft_widen_operand(group, weft_group_in(group, node->in[i])) != WEFT_WIDEN_NOT;
        b->wide_in[i] = copied ? room : b->in[i];
        if (copied) room += weft_widen_bytes(&weft_in(group->graph, node, i)->shape);
    }
    for (int o = 0; o < node->out_count; o++) {
        const weft_type *type = weft_out(group->graph, node, o);
        bool copied = type->dtype == WEFT_BF16;
        b->wide_out[o] = copied ? room : b->out[o];
        if (copied) room += weft_widen_bytes(&type->shape);
    }
}

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    reference_bound *b = (reference_bound *)bound;
    const reference_kernel *k = kernel_of(bound);
    const weft_group *group = &k->group;
    const weft_node *node = group->node[0];
    for (int i = 0; i < node->in_count; i++)
        b->in[i] = weft_host(in[weft_group_in(group, node->in[i])]);
    weft_kernel_unread_bind(group, bound->kernel, out, scratch, b->out);
    b->call = (weft_ref){group->graph, node, b->in, b->out, weft_host(scratch)};
    if (!k->clone.graph) return WEFT_OK;
    place_clone(b, (char *)weft_host(scratch) + k->copies);
    b->call =
        (weft_ref){k->clone.graph, k->clone.node[0], b->wide_in, b->wide_out, b->call.scratch};
    return WEFT_OK;
}

static weft_status call(const weft_ref_entry *entry, const weft_ref *c)
{
    if (!entry)
        return c->node->op->compute(&(weft_operator_call){c->graph, c->node, c->in, c->out});
    entry->fn(c);
    return WEFT_OK;
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    const reference_kernel *k = kernel_of(bound);
    const reference_bound *b = (const reference_bound *)bound;
    const weft_node *node = k->group.node[0];
    if (!k->clone.graph) return call(k->entry, &b->call);
    for (int i = 0; i < node->in_count; i++) {
        const weft_type *type = weft_in(k->group.graph, node, i);
        float *wide = (float *)(uintptr_t)b->wide_in[i];
        if (b->wide_in[i] == b->in[i]) continue;
        if (type->dtype == WEFT_BF16)
            weft_widen_from(b->in[i], wide, weft_shape_elements(&type->shape));
        else
            weft_widen_round(b->in[i], wide, weft_shape_elements(&type->shape));
    }
    WEFT_TRY(call(k->entry, &b->call));
    for (int o = 0; o < node->out_count; o++)
        if (b->wide_out[o] != b->out[o])
            weft_widen_to(b->wide_out[o], b->out[o],
                          weft_shape_elements(&weft_out(k->group.graph, node, o)->shape));
    return WEFT_OK;
}

static void bound_destroy(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops node_bound = {.place = place, .run = run, .destroy = bound_destroy};

static weft_status bind(const weft_kernel *kernel, weft_bound **out)
{
    return weft_bound_new(kernel, &node_bound, sizeof(reference_bound), out);
}

static void destroy(weft_kernel *kernel)
{
    weft_widen_free(&((reference_kernel *)kernel)->clone);
    free(kernel);
}

static const weft_kernel_ops node_kernel = {.bind = bind, .destroy = destroy};

static weft_status copy_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                              weft_address scratch)
{
    reference_bound *b = (reference_bound *)bound;
    (void)scratch;
    b->in[0] = weft_host(in[0]);
    b->out[0] = weft_host(out[0]);
    return WEFT_OK;
}

static weft_status copy_run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    const reference_bound *b = (const reference_bound *)bound;
    memcpy(b->out[0], b->in[0], kernel_of(bound)->copy);
    return WEFT_OK;
}

static const weft_bound_ops copy_bound = {
    .place = copy_place, .run = copy_run, .destroy = bound_destroy};

static weft_status copy_bind(const weft_kernel *kernel, weft_bound **out)
{
    return weft_bound_new(kernel, &copy_bound, sizeof(reference_bound), out);
}

static const weft_kernel_ops copy_kernel = {.bind = copy_bind, .destroy = destroy};

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    weft_device *device;
    (void)context;
    WEFT_TRY(weft_device_takes_nothing("reference", arguments));
    WEFT_TRY(WEFT_NEW(&device, 1));
    device->threads = 1;
    *out = device;
    return WEFT_OK;
}

static void device_close(weft_device *device)
{
    free(device);
}

/* Each single node is a candidate; a node without a reference kernel is refused when the kernel is
 * made. */
static int candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES])
{
    (void)in;
    if (group->count > 1) return 0;
    out[0] = (weft_candidate){.name = "reference",
                              .seconds = weft_group_seconds(&device->ops->rates, group)};
    return 1;
}

/* Chooses the table entry of a kernel, and that of a clone if the node has bf16 values and no entry
 * takes them; lays out scratch memory: that of the entry, the clone's values, unread results. */
static weft_status choose(reference_kernel *k)
{
    const weft_graph *g = k->group.graph;
    const weft_node *node = k->group.node[0];
    k->entry = find(g, node);
    if (!k->entry && weft_widen_needs(&k->group)) {
        WEFT_TRY(weft_widen_make(&k->group, &k->clone));
        k->entry = find(k->clone.graph, k->clone.node[0]);
    }
    k->copies = ((k->entry ? k->entry->scratch : 0) + 63) / 64 * 64;
    k->head.scratch = k->copies;
    for (int i = 0; i < node->in_count && k->clone.graph; i++)
        if (weft_widen_operand(&k->group, weft_group_in(&k->group, node->in[i])) != WEFT_WIDEN_NOT)
            k->head.scratch += weft_widen_bytes(&weft_in(g, node, i)->shape);
    for (int o = 0; o < node->out_count && k->clone.graph; o++)
        if (weft_out(g, node, o)->dtype == WEFT_BF16)
            k->head.scratch += weft_widen_bytes(&weft_out(g, node, o)->shape);
    weft_kernel_unread_size(&k->group, &k->head);
    return WEFT_OK;
}

static weft_status kernel(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out)
{
    (void)candidate;
    (void)in;
    reference_kernel *k;
    const weft_node *node = group->node[0];
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &node_kernel;
    k->group = *group;
    memcpy(k->head.text, "reference", sizeof("reference"));
    weft_status status = choose(k);
    if (status == WEFT_OK && !k->entry && !node->op->compute)
        status = weft_fail(WEFT_ERR_UNSUPPORTED, "operator %s has no reference kernel for %s",
                           node->op->name, weft_dtype_name(weft_node_float(group->graph, node)));
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++)
        status =
            weft_layout_plain(device, weft_value_type(group->graph, group->in[i]), &k->head.in[i]);
    for (int i = 0; i < group->out_count && status == WEFT_OK; i++)
        status = weft_layout_plain(device, weft_value_type(group->graph, group->out[i]),
                                   &k->head.out[i]);
    if (status != WEFT_OK) {
        destroy(&k->head);
        return status;
    }
    weft_kernel_in_place(group, &k->head);
    *out = &k->head;
    return WEFT_OK;
}

static weft_status reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out)
{
    (void)device;
    reference_kernel *k;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &copy_kernel;
    k->head.in[0] = from;
    k->head.out[0] = to;
    k->copy = weft_type_bytes(type);
    *out = &k->head;
    return WEFT_OK;
}

static const char *precision(const weft_device *device, weft_dtype dtype)
{
    (void)device;
    return dtype == WEFT_BF16 ? "values are rounded in software" : NULL;
}

const weft_device_ops weft_device_reference = {
    .struct_size = sizeof(weft_device_ops),
    .name = "reference",
    .summary = "portable C, one thread, float32 and float64: slow and simple",
    .open = device_open,
    .close = device_close,
    .plain = weft_layout_plain,
    .rates = {.flops = 8e8, .bytes = 2e10, .start = 5e-8},
    .candidates = candidates,
    .kernel = kernel,
    .reorder = reorder,
    .precision = precision,
};
