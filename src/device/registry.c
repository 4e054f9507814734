/* Registers the built-in devices, opens and closes devices, and interns plain layouts. A new device
 * has a folder of its own and a line in `devices`. */
#include <stdio.h>

#include "base/registry.h"
#include "device/device.h"
#include "weft/device.h"

static const weft_device_ops *const devices[] = {
    &weft_device_cpu,
    &weft_device_reference,
    &weft_device_distant,
};

const char *weft_device_fallback(void)
{
    return weft_device_reference.name;
}

weft_status weft_device_register(weft_context *context, const weft_device_ops *ops)
{
    const weft_entry entry = {
        .kind = WEFT_KIND_DEVICE, .name = ops->name, .summary = ops->summary, .ops = ops};
    return weft_registry_add(context, &entry, 1);
}

static weft_status accept_memory(const weft_entry *entry, const weft_memory_ops *m)
{
#define NEED(function) WEFT_TRY(weft_entry_need(entry, "memory." #function, m->function))
    NEED(allocate);
    NEED(release);
    NEED(open_queue);
    NEED(close_queue);
    NEED(copy_in);
    NEED(copy_out);
    NEED(copy);
    NEED(open_event);
    NEED(close_event);
    NEED(record);
    NEED(wait);
    NEED(test);
    NEED(wait_queue);
#undef NEED
    if (!m->open_timer == !m->elapsed) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "its memory has one of 'open_timer' and 'elapsed'; both or none are right");
}

static weft_status accept(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made)
{
    const weft_device_ops *d = ops;
    (void)context;
    (void)made;
    WEFT_TRY(weft_entry_need(entry, "open", d->open));
    WEFT_TRY(weft_entry_need(entry, "close", d->close));
    WEFT_TRY(weft_entry_need(entry, "plain", d->plain));
    WEFT_TRY(weft_entry_need(entry, "candidates", d->candidates));
    WEFT_TRY(weft_entry_need(entry, "kernel", d->kernel));
    WEFT_TRY(weft_entry_need(entry, "reorder", d->reorder));
    if (d->memory) WEFT_TRY(accept_memory(entry, d->memory));
    if (d->rates.flops > 0 && d->rates.bytes > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "its rates are %g operations and %g bytes a second, must be above 0",
                     d->rates.flops, d->rates.bytes);
}

/* Devices whose plug-ins are installed with the library. */
static const char *const shipped[] = {"cuda", "opencl", NULL};

static const weft_extension extension = {.kind = WEFT_KIND_DEVICE,
                                         .shipped = shipped,
                                         .type = "weft_device_ops",
                                         .size = sizeof(weft_device_ops),
                                         .least = offsetof(weft_device_ops, about),
                                         .accept = accept};

weft_status weft_devices_register(weft_context *context)
{
    weft_context_extend(context, &extension);
    for (size_t i = 0; i < WEFT_COUNT(devices); i++)
        WEFT_TRY(weft_device_register(context, devices[i]));
    return WEFT_OK;
}

/* Finds the device whose name begins `name`, up to a colon or comma. */
static weft_status find(weft_context *context, const char *name, const weft_device_ops **out)
{
    const weft_entry *entry;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_DEVICE, name, strcspn(name, ":,"), &entry));
    *out = entry->ops;
    return WEFT_OK;
}

weft_status weft_device_open(weft_context *context, const char *name, weft_device **out)
{
    const weft_device_ops *ops;
    size_t size = strcspn(name, ":");
    if (strchr(name, ','))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "device '%s': a list is for the ranks of training, and here one device is "
                         "needed; give one of them",
                         name);
    WEFT_TRY(find(context, name, &ops));
    if (name[size] && !name[size + 1])
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "device '%s': nothing stands behind ':'; give the device's options there, or "
            "leave ':' out",
            name);
    uint64_t before = weft_failures();
    weft_status status = ops->open(context, name[size] ? name + size + 1 : "", out);
    WEFT_TRY(weft_ensure_message(status, before, "device", ops->name, "open"));
    (*out)->ops = ops;
    (*out)->context = context;
    pthread_mutex_init(&(*out)->lock, NULL);
    return WEFT_OK;
}

void weft_device_hardware(const weft_device *device, char *out, size_t size)
{
    if (device->ops->hardware)
        device->ops->hardware(device, out, size);
    else
        (void)snprintf(out, size, "%s", device->ops->name);
}

weft_status weft_device_open_list(weft_context *context, const char *name,
                                  weft_device *list[WEFT_DEVICES], int *count)
{
    weft_status status = weft_device_open(context, name, &list[0]);
    *count = status == WEFT_OK;
    while (status == WEFT_OK) {
        const weft_device_ops *last = list[*count - 1]->ops;
        const char *next = last->next ? last->next : weft_device_fallback();
        if (strcmp(next, last->name) == 0) break; /* it has every operator */
        if (*count == WEFT_DEVICES)
            status =
                weft_fail(WEFT_ERR_ARGUMENT,
                          "device '%s' has more than %d devices along 'next', the last is '%s'",
                          name, WEFT_DEVICES - 1, last->name);
        if (status == WEFT_OK) status = weft_device_open(context, next, &list[*count]);
        if (status == WEFT_OK && !weft_device_shares(list[(*count)++]))
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "device '%s' names '%s' as the next one, which has memory of its "
                               "own; it must be a device in host memory",
                               last->name, next);
    }
    for (; status != WEFT_OK && *count > 0; --*count) weft_device_close(&list[*count - 1]);
    return status;
}

bool weft_device_is_known(const weft_context *context, const char *name, bool *built_in)
{
    bool known = weft_registry_look(context, WEFT_KIND_DEVICE, name, strlen(name));
    *built_in = false;
    for (size_t i = 0; i < WEFT_COUNT(devices); i++)
        *built_in = *built_in || strcmp(devices[i]->name, name) == 0;
    for (size_t i = 0; shipped[i]; i++) known = known || strcmp(shipped[i], name) == 0;
    return known;
}

int weft_device_list_count(const char *list)
{
    int count = 1;
    for (const char *at = list; *at; at++) count += *at == ',';
    return count;
}

const char *weft_device_cores(const char *name, size_t *before)
{
    static const char key[] = ":cores=";
    const char *at = strstr(name, key);
    *before = at ? (size_t)(at - name) : strlen(name);
    return at ? at + sizeof(key) - 1 : NULL;
}

weft_status weft_device_of_rank(weft_context *context, const char *list, int r, char **out)
{
    WEFT_NEED(context, list, out);
    if (r < 0) return weft_fail(WEFT_ERR_ARGUMENT, "the rank %d, must be from 0", r);
    const weft_device_ops *ops;
    const char *item = list, *mine = list;
    int count = weft_device_list_count(list);
    for (int i = 0; i < count; i++) {
        WEFT_TRY(find(context, item, &ops));
        if (i == r % count) mine = item;
        item += strcspn(item, ",") + 1;
    }
    return weft_format(out, "%.*s", (int)strcspn(mine, ","), mine);
}

weft_status weft_device_takes_nothing(const char *name, const char *arguments)
{
    if (!*arguments) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "device %s takes no options, not '%s'", name, arguments);
}

void weft_device_close(weft_device **device)
{
    if (!device || !*device) return;
    weft_device *d = *device;
    for (weft_layout *next, *l = d->layouts; l; l = next) {
        next = l->next;
        free(l);
    }
    d->layouts = NULL;
    pthread_mutex_destroy(&d->lock);
    d->ops->close(d);
    *device = NULL;
}

static weft_status intern_plain(weft_device *device, size_t bytes, const char *text,
                                const weft_layout **out)
{
    for (weft_layout *l = device->layouts; l; l = l->next)
        if (l->plain && l->bytes == bytes && strcmp(l->text, text) == 0) {
            *out = l;
            return WEFT_OK;
        }
    weft_layout *layout;
    WEFT_TRY(WEFT_NEW(&layout, 1));
    *layout = (weft_layout){.bytes = bytes,
                            .memory = weft_device_shares(device) ? NULL : device,
                            .plain = true,
                            .next = device->layouts};
    (void)snprintf(layout->text, sizeof(layout->text), "%s", text);
    device->layouts = layout;
    *out = layout;
    return WEFT_OK;
}

static weft_status find_plain(weft_device *device, size_t bytes, const char *text,
                              const weft_layout **out)
{
    pthread_mutex_lock(&device->lock);
    weft_status status = intern_plain(device, bytes, text, out);
    pthread_mutex_unlock(&device->lock);
    return status;
}

weft_status weft_layout_plain(weft_device *device, const weft_type *type, const weft_layout **out)
{
    return find_plain(device, weft_type_bytes(type), "plain", out);
}

weft_status weft_layout_flat(weft_device *device, const weft_layout *order, const weft_layout **out)
{
    char text[sizeof(order->text)];
    (void)snprintf(text, sizeof(text), "flat %.50s", order->text);
    return find_plain(device, order->bytes, order->plain ? "plain" : text, out);
}

int weft_group_in(const weft_group *group, weft_value v)
{
    for (int i = 0; i < group->in_count; i++)
        if (group->in[i] == v) return i;
    return -1;
}

int weft_group_out(const weft_group *group, weft_value v)
{
    for (int i = 0; i < group->out_count; i++)
        if (group->out[i] == v) return i;
    return -1;
}

weft_status weft_bound_new(const weft_kernel *kernel, const weft_bound_ops *ops, size_t size,
                           weft_bound **out)
{
    WEFT_TRY(weft_new_bytes(out, 1, size));
    (*out)->ops = ops;
    (*out)->kernel = kernel;
    return WEFT_OK;
}

void weft_kernel_in_place(const weft_group *group, weft_kernel *kernel)
{
    if (group->count != 1) return;
    const weft_node *node = group->node[0];
    for (int o = 0; o < group->out_count; o++) {
        unsigned rights = 0;
        int which = group->out[o] - node->out;
        if (which < (int)WEFT_COUNT(node->op->in_place)) rights = node->op->in_place[which];
        for (int i = 0; i < node->in_count && i < 32; i++)
            if (rights & 1u << i && weft_in(group->graph, node, i)->dtype ==
                                        weft_out(group->graph, node, which)->dtype) {
                /* A result is not written in place of an input that the node reads as two operands,
                 * since the kernel would read the result as the other operand. */
                int uses = 0;
                for (int j = 0; j < node->in_count; j++) uses += node->in[j] == node->in[i];
                if (uses == 1) kernel->in_place[o] |= 1u << weft_group_in(group, node->in[i]);
            }
    }
}

static size_t unread_bytes(const weft_group *group, int i)
{
    const weft_node *node = group->node[0];
    if (weft_group_out(group, node->out + i) >= 0) return 0;
    return (weft_type_bytes(weft_out(group->graph, node, i)) + 63) / 64 * 64;
}

void weft_kernel_unread_size(const weft_group *group, weft_kernel *kernel)
{
    kernel->scratch = (kernel->scratch + 63) / 64 * 64;
    for (int i = 0; i < group->node[0]->out_count; i++) kernel->scratch += unread_bytes(group, i);
}

void weft_kernel_unread_bind(const weft_group *group, const weft_kernel *kernel,
                             const weft_address *out, weft_address scratch, void **to)
{
    const weft_node *node = group->node[0];
    char *next = (char *)weft_host(scratch) + kernel->scratch;
    for (int i = 0; i < node->out_count; i++) {
        int at = weft_group_out(group, node->out + i);
        next -= unread_bytes(group, i);
        to[i] = at < 0 ? next : weft_host(out[at]);
    }
}
