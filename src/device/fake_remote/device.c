/* Implements the distant device, which runs kernels of another device, in that device's layouts,
 * through a command queue. */
#include <math.h>
#include <stdio.h>

#include "base/registry.h"
#include "device/fake_remote/distant.h"

typedef struct distant_kernel {
    weft_kernel head;
    weft_kernel *inside;
    int in_count, out_count;
} distant_kernel;

typedef struct distant_bound {
    weft_bound head;
    weft_bound *inside;
    const int32_t *guard;
    uint64_t placed; /* times */
} distant_bound;

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    const distant_kernel *k = (const distant_kernel *)bound->kernel;
    weft_bound *inside = ((distant_bound *)bound)->inside;
    ((distant_bound *)bound)->placed++;
    weft_address from[WEFT_GROUP_VALUES], to[WEFT_GROUP_VALUES];
    for (int i = 0; i < k->in_count; i++) from[i] = distant_inside(in[i]);
    for (int i = 0; i < k->out_count; i++) to[i] = distant_inside(out[i]);
    return inside->ops->place(inside, from, to, distant_inside(scratch));
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    const distant_bound *b = (const distant_bound *)bound;
    return distant_ask(queue, (distant_command){.bound = b->inside,
                                                .guard = b->guard,
                                                .placed = &b->placed,
                                                .places = b->placed});
}

static weft_status guard(weft_bound *bound, weft_address flag)
{
    ((distant_bound *)bound)->guard = weft_host(distant_inside(flag));
    return WEFT_OK;
}

static void unbind(weft_bound *bound)
{
    weft_bound *inside = ((distant_bound *)bound)->inside;
    if (inside) inside->ops->destroy(inside);
    free(bound);
}

static const weft_bound_ops bound_ops = {.place = place, .run = run, .destroy = unbind};

static weft_status bind(const weft_kernel *kernel, weft_bound **out)
{
    const weft_kernel *inside = ((const distant_kernel *)kernel)->inside;
    weft_bound *bound;
    WEFT_TRY(weft_bound_new(kernel, &bound_ops, sizeof(distant_bound), &bound));
    weft_status status = inside->ops->bind(inside, &((distant_bound *)bound)->inside);
    if (status == WEFT_OK)
        *out = bound;
    else
        unbind(bound);
    return status;
}

static void destroy(weft_kernel *kernel)
{
    weft_kernel *inside = ((distant_kernel *)kernel)->inside;
    if (inside) inside->ops->destroy(inside);
    free(kernel);
}

static const weft_kernel_ops kernel_ops = {.bind = bind, .destroy = destroy};

static weft_status check_names(const weft_context *context, const char *list)
{
    for (const char *at = list; *at; at += strcspn(at, "+"), at += *at == '+') {
        int size = (int)strcspn(at, "+");
        if (!weft_registry_look(context, WEFT_KIND_OPERATOR, at, (size_t)size))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "device distant: lacks '%.*s', which is no operator; "
                             "weft inspect --list has them",
                             size, at);
    }
    return WEFT_OK;
}

static weft_status open_inside(weft_context *context, const char *name, distant_device *d)
{
    weft_device_close(&d->inside);
    WEFT_TRY(weft_device_open(context, name, &d->inside));
    if (weft_device_shares(d->inside)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "device distant: '%s' has memory of its own; give one in "
                     "host memory",
                     name);
}

/* Reads "of=DEVICE:lacks=OPERATOR+...:memory=BYTES:alone". Colons separate the options, since
 * commas separate devices. */
static weft_status read_options(weft_context *context, const char *arguments, distant_device *d)
{
    static const char of[] = "of=", lacks[] = "lacks=", memory[] = "memory=", alone[] = "alone";
    weft_status status = WEFT_OK;
    for (const char *at = arguments; *at && status == WEFT_OK; at += *at == ':') {
        int size = (int)strcspn(at, ":");
        char *piece;
        WEFT_TRY(weft_format(&piece, "%.*s", size, at));
        at += size;
        if (strncmp(piece, of, sizeof(of) - 1) == 0) {
            status = open_inside(context, piece + sizeof(of) - 1, d);
        } else if (strncmp(piece, lacks, sizeof(lacks) - 1) == 0) {
            free(d->lacks);
            d->lacks = NULL;
            status = check_names(context, piece + sizeof(lacks) - 1);
            if (status == WEFT_OK) status = weft_strdup(piece + sizeof(lacks) - 1, &d->lacks);
        } else if (strcmp(piece, alone) == 0) {
            d->alone = true;
        } else if (strncmp(piece, memory, sizeof(memory) - 1) == 0) {
            if (!weft_parse_int(piece + sizeof(memory) - 1, &d->memory) || d->memory < 1)
                status =
                    weft_fail(WEFT_ERR_ARGUMENT,
                              "device distant: '%s' must be a whole number of bytes from 1", piece);
        } else {
            status =
                weft_fail(WEFT_ERR_ARGUMENT,
                          "device distant: '%s' is none of its options; there are "
                          "of=DEVICE, lacks=OPERATOR+..., memory=BYTES and alone (it reaches no "
                          "other device), with a colon between them",
                          piece);
        }
        free(piece);
    }
    return status;
}

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    distant_device *d;
    WEFT_TRY(WEFT_NEW(&d, 1));
    d->head.threads = 1;
    weft_status status = distant_start(d);
    if (status == WEFT_OK) status = weft_strdup("", &d->lacks);
    if (status == WEFT_OK) status = open_inside(context, weft_device_fallback(), d);
    if (status == WEFT_OK) status = read_options(context, arguments, d);
    if (status == WEFT_OK)
        *out = &d->head;
    else
        weft_device_distant.close(&d->head);
    return status;
}

static void device_close(weft_device *device)
{
    distant_device *d = (distant_device *)device;
    distant_end(d);
    weft_device_close(&d->inside);
    free(d->lacks);
    free(d);
}

static bool lacks(const distant_device *d, const char *op)
{
    size_t size = strlen(op);
    for (const char *at = d->lacks; *at; at += strcspn(at, "+"), at += *at == '+')
        if (strcspn(at, "+") == size && strncmp(at, op, size) == 0) return true;
    return false;
}

/* --- layouts --- */

/* The layout of a value in this device's memory that has the form of one of the device inside. */
typedef struct distant_layout {
    weft_layout head;
    const weft_layout *inside;
} distant_layout;

/* Sets *out to this device's layout for one of the device inside. */
static weft_status outer(weft_device *device, const weft_type *type, const weft_layout *inside,
                         const weft_layout **out)
{
    distant_layout *made;
    weft_status status = WEFT_OK;
    if (inside->plain) return weft_layout_plain(device, type, out);
    pthread_mutex_lock(&device->lock);
    *out = device->layouts;
    while (*out && ((*out)->plain || ((const distant_layout *)*out)->inside != inside))
        *out = (*out)->next;
    if (!*out && (status = WEFT_NEW(&made, 1)) == WEFT_OK) {
        *made = (distant_layout){*inside, inside};
        made->head.memory = device;
        made->head.next = device->layouts;
        *out = device->layouts = &made->head;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Sets *out to the layout of the device inside for one of this device; NULL stays NULL. */
static weft_status inner(weft_device *device, const weft_type *type, const weft_layout *layout,
                         const weft_layout **out)
{
    *out = NULL;
    if (!layout) return WEFT_OK;
    if (layout->plain) return weft_layout_plain(((distant_device *)device)->inside, type, out);
    *out = ((const distant_layout *)layout)->inside;
    return WEFT_OK;
}

static weft_status inner_all(weft_device *device, const weft_group *group,
                             const weft_layout *const *in, const weft_layout **out)
{
    for (int i = 0; i < group->in_count; i++)
        WEFT_TRY(inner(device, weft_value_type(group->graph, group->in[i]), in[i], &out[i]));
    return WEFT_OK;
}

/* --- kernels --- */

static int candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES])
{
    const distant_device *d = (const distant_device *)device;
    const weft_layout *layouts[WEFT_GROUP_VALUES];
    if (lacks(d, group->node[0]->op->name) || inner_all(device, group, in, layouts) != WEFT_OK)
        return 0;
    int count = d->inside->ops->candidates(d->inside, group, layouts, out);
    /* By the rates of this device, in the proportions of the device inside. */
    double share = weft_group_seconds(&device->ops->rates, group) /
                   weft_group_seconds(&d->inside->ops->rates, group);
    for (int i = 0; i < count; i++) {
        out[i].name = "distant";
        out[i].seconds *= share;
    }
    return count;
}

/* Wraps a kernel of the device inside. */
static weft_status wrap(weft_kernel *inside, int in_count, int out_count, distant_kernel **out)
{
    distant_kernel *k;
    weft_status status = WEFT_NEW(&k, 1);
    if (status != WEFT_OK) {
        inside->ops->destroy(inside);
        return status;
    }
    k->head = *inside;
    k->head.ops = &kernel_ops;
    k->inside = inside;
    k->in_count = in_count;
    k->out_count = out_count;
    (void)snprintf(k->head.text, sizeof(k->head.text), "distant");
    *out = k;
    return WEFT_OK;
}

static weft_status kernel(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out)
{
    weft_device *d = ((distant_device *)device)->inside;
    const weft_layout *layouts[WEFT_GROUP_VALUES];
    weft_kernel *inside;
    distant_kernel *k;
    WEFT_TRY(inner_all(device, group, in, layouts));
    WEFT_TRY(weft_device_kernel(d, group, candidate, layouts, &inside));
    WEFT_TRY(wrap(inside, group->in_count, group->out_count, &k));
    weft_status status = WEFT_OK;
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++)
        status = outer(device, weft_value_type(group->graph, group->in[i]), inside->in[i],
                       &k->head.in[i]);
    for (int i = 0; i < group->out_count && status == WEFT_OK; i++)
        status = outer(device, weft_value_type(group->graph, group->out[i]), inside->out[i],
                       &k->head.out[i]);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        destroy(&k->head);
    return status;
}

static weft_status reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out)
{
    const weft_layout *source, *target;
    weft_kernel *inside;
    distant_kernel *k;
    WEFT_TRY(inner(device, type, from, &source));
    WEFT_TRY(inner(device, type, to, &target));
    WEFT_TRY(
        weft_device_reorder(((distant_device *)device)->inside, type, source, target, &inside));
    WEFT_TRY(wrap(inside, 1, 1, &k));
    k->head.in[0] = from;
    k->head.out[0] = to;
    *out = &k->head;
    return WEFT_OK;
}

static void hardware(const weft_device *device, char *out, size_t size)
{
    weft_device_hardware(((const distant_device *)device)->inside, out, size);
}

/* --- the watch of a loss --- */

typedef struct watch_kernel {
    weft_kernel head;
    weft_type type;
} watch_kernel;

/* The kernel that the device runs, and what it asks the queue to run. */
typedef struct watch_bound {
    weft_bound head;
    const void *numbers;
    int32_t *flag;
} watch_bound;

static weft_status watch_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                               weft_address scratch)
{
    watch_bound *b = (watch_bound *)bound;
    (void)scratch;
    b->numbers = weft_host(in[0]);
    b->flag = weft_host(out[0]);
    return WEFT_OK;
}

static weft_status watch_run(weft_bound *bound, weft_queue *queue)
{
    const watch_bound *b = (const watch_bound *)bound;
    const weft_type *type = &((const watch_kernel *)bound->kernel)->type;
    (void)queue;
    for (int64_t i = 0; i < weft_shape_elements(&type->shape); i++)
        if (!isfinite(weft_number_get(type->dtype, b->numbers, i))) *b->flag = 1;
    return WEFT_OK;
}

static void watch_unbind(weft_bound *bound)
{
    free(bound);
}

static weft_status watch_bind(const weft_kernel *kernel, weft_bound **out)
{
    static const weft_bound_ops ops = {
        .place = watch_place, .run = watch_run, .destroy = watch_unbind};
    return weft_bound_new(kernel, &ops, sizeof(watch_bound), out);
}

static void watch_destroy(weft_kernel *kernel)
{
    free(kernel);
}

static weft_status watch(weft_device *device, const weft_type *type, weft_kernel **out)
{
    static const weft_kernel_ops ops = {.bind = watch_bind, .destroy = watch_destroy};
    const weft_type flag = {.dtype = WEFT_I32};
    watch_kernel *inside;
    distant_kernel *k;
    WEFT_TRY(WEFT_NEW(&inside, 1));
    *inside = (watch_kernel){.head = {.ops = &ops, .text = "watch"}, .type = *type};
    WEFT_TRY(wrap(&inside->head, 1, 1, &k));
    weft_status status = weft_layout_plain(device, type, &k->head.in[0]);
    if (status == WEFT_OK) status = weft_layout_plain(device, &flag, &k->head.out[0]);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        destroy(&k->head);
    return status;
}

/* Devices that have kernels of the same device are of one card. */
static bool reaches(weft_device *device, weft_device *other)
{
    const distant_device *d = (const distant_device *)device, *e = (const distant_device *)other;
    return !d->alone && !e->alone && d->inside->ops == e->inside->ops;
}

/* Its memory is the host's in truth. */
static void *pointer(weft_address address, weft_pointer_kind *kind)
{
    *kind = WEFT_POINTER_HOST;
    return weft_host(distant_inside(address));
}

const weft_device_ops weft_device_distant = {
    .struct_size = sizeof(weft_device_ops),
    .name = "distant",
    .summary = "for tests: another device (of=DEVICE, else reference) with a memory space of its "
               "own, which the host cannot read",
    .memory = &distant_memory_ops,
    .open = device_open,
    .close = device_close,
    .plain = weft_layout_plain,
    /* Rates of a fast device, so that all supported groups run on it. */
    .rates = {.flops = 1e12, .bytes = 1e11, .start = 5e-6, .copied = 1e10, .copied_start = 1e-5},
    .candidates = candidates,
    .kernel = kernel,
    .reorder = reorder,
    .hardware = hardware,
    .watch = watch,
    .guard = guard,
    .capture = &distant_capture_ops,
    .reaches = reaches,
    .pointer = pointer,
    .forget = distant_forget,
};
