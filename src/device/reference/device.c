/* The reference device: plain layouts, one kernel per node, no fusion. */
#include "device/reference/reference.h"

typedef struct reference_kernel {
    weft_kernel head;
    weft_ref call;
    weft_ref_fn fn;
    const void *in[WEFT_GROUP_VALUES];
    void *out[WEFT_MAX_OUTPUTS];
    weft_group group;
    size_t copy; /* reorder: bytes */
} reference_kernel;

static weft_ref_fn find(const char *op, weft_dtype dtype)
{
#define TABLES(file) {weft_ref_##file##_float, weft_ref_##file##_double},
    static const weft_ref_entry *const tables[][2] = {WEFT_REF_FILES(TABLES)};
#undef TABLES
    for (size_t t = 0; t < WEFT_COUNT(tables); t++)
        for (const weft_ref_entry *e = tables[t][dtype == WEFT_F64]; e->op; e++)
            if (strcmp(e->op, op) == 0) return e->fn;
    return NULL;
}

static weft_status bind(weft_kernel *kernel, void *const *in, void *const *out, void *scratch)
{
    reference_kernel *k = (reference_kernel *)kernel;
    const weft_node *node = k->group.node[0];
    for (int i = 0; i < node->in_count; i++) k->in[i] = in[weft_group_in(&k->group, node->in[i])];
    weft_kernel_unread_bind(&k->group, kernel, out, scratch, k->out);
    k->call = (weft_ref){k->group.graph, node, k->in, k->out};
    return WEFT_OK;
}

static weft_status run(weft_kernel *kernel)
{
    reference_kernel *k = (reference_kernel *)kernel;
    k->fn(&k->call);
    return WEFT_OK;
}

static void destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops node_kernel = {.bind = bind, .run = run, .destroy = destroy};

static weft_status copy_bind(weft_kernel *kernel, void *const *in, void *const *out, void *scratch)
{
    (void)scratch;
    reference_kernel *k = (reference_kernel *)kernel;
    k->in[0] = in[0];
    k->out[0] = out[0];
    return WEFT_OK;
}

static weft_status copy_run(weft_kernel *kernel)
{
    reference_kernel *k = (reference_kernel *)kernel;
    memcpy(k->out[0], k->in[0], k->copy);
    return WEFT_OK;
}

static const weft_kernel_ops copy_kernel = {.bind = copy_bind, .run = copy_run, .destroy = destroy};

static weft_status device_open(weft_context *context, weft_device **out)
{
    weft_device *device;
    WEFT_TRY(WEFT_NEW(&device, 1));
    device->ops = &weft_device_reference;
    device->context = context;
    device->threads = 1;
    *out = device;
    return WEFT_OK;
}

static void device_close(weft_device *device)
{
    free(device);
}

static bool supports(weft_device *device, const weft_group *group)
{
    (void)device;
    return group->count == 1 && find(group->node[0]->op->name, group->graph->real) != NULL;
}

static weft_status kernel(weft_device *device, const weft_group *group,
                          const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    reference_kernel *k;
    const weft_node *node = group->node[0];
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &node_kernel;
    k->group = *group;
    k->fn = find(node->op->name, group->graph->real);
    memcpy(k->head.text, "reference", sizeof("reference"));
    weft_status status = WEFT_OK;
    if (!k->fn)
        status =
            weft_fail(WEFT_ERR_UNSUPPORTED, "operator %s has no reference kernel", node->op->name);
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++)
        status =
            weft_layout_plain(device, weft_value_type(group->graph, group->in[i]), &k->head.in[i]);
    for (int i = 0; i < group->out_count && status == WEFT_OK; i++)
        status = weft_layout_plain(device, weft_value_type(group->graph, group->out[i]),
                                   &k->head.out[i]);
    if (status != WEFT_OK) {
        free(k);
        return status;
    }
    weft_kernel_in_place(group, &k->head);
    weft_kernel_unread_size(group, &k->head);
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

const weft_device_ops weft_device_reference = {
    .name = "reference",
    .summary = "portable C, one thread, float32 and float64: slow and obviously correct",
    .open = device_open,
    .close = device_close,
    .plain = weft_layout_plain,
    .supports = supports,
    .kernel = kernel,
    .reorder = reorder,
};
