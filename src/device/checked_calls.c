/* Calls the functions of devices and kernels, and ensures that each failure has a message. A
 * plug-in may fail without one, and then the message of an earlier failure would be reported. */
#include "device/device.h"

weft_status weft_device_plain(weft_device *device, const weft_type *type, const weft_layout **out)
{
    uint64_t before = weft_failures();
    return weft_device_told(device, device->ops->plain(device, type, out), before, "plain");
}

weft_status weft_device_kernel(weft_device *device, const weft_group *group,
                               const weft_candidate *candidate, const weft_layout *const *in,
                               weft_kernel **out)
{
    uint64_t before = weft_failures();
    weft_status status = device->ops->kernel(device, group, candidate, in, out);
    if (status == WEFT_OK) (*out)->device = device;
    return weft_device_told(device, status, before, "kernel");
}

weft_status weft_device_reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                                const weft_layout *to, weft_kernel **out)
{
    uint64_t before = weft_failures();
    weft_status status = device->ops->reorder(device, type, from, to, out);
    if (status == WEFT_OK) (*out)->device = device;
    return weft_device_told(device, status, before, "reorder");
}

weft_status weft_device_watch(weft_device *device, const weft_type *type, weft_kernel **out)
{
    uint64_t before = weft_failures();
    if (!device->ops->watch)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "device %s watches no loss", device->ops->name);
    weft_status status = device->ops->watch(device, type, out);
    if (status == WEFT_OK) (*out)->device = device;
    return weft_device_told(device, status, before, "watch");
}

/* Ensures a message for a failed kernel, which names the kernel's device, or the kernel itself if
 * it has no device, as copies and transfers. */
static weft_status heard_of(const weft_kernel *kernel, weft_status status, uint64_t before,
                            const char *function)
{
    return kernel->device ? weft_device_told(kernel->device, status, before, function)
                          : weft_ensure_message(status, before, "kernel", kernel->text, function);
}

weft_status weft_kernel_bind(const weft_kernel *kernel, weft_bound **out)
{
    uint64_t before = weft_failures();
    return heard_of(kernel, kernel->ops->bind(kernel, out), before, "bind");
}

weft_status weft_bound_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                             weft_address scratch)
{
    uint64_t before = weft_failures();
    return heard_of(bound->kernel, bound->ops->place(bound, in, out, scratch), before, "place");
}

weft_status weft_bound_guard(weft_bound *bound, weft_address flag)
{
    uint64_t before = weft_failures();
    const weft_device *device = bound->kernel->device;
    if (!device || !device->ops->guard)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "kernel %s has no guard", bound->kernel->text);
    return weft_device_told(device, device->ops->guard(bound, flag), before, "guard");
}

weft_status weft_bound_run(weft_bound *bound, weft_queue *queue)
{
    uint64_t before = weft_failures();
    return heard_of(bound->kernel, bound->ops->run(bound, queue), before, "run");
}

weft_status weft_bound_finish(weft_bound *bound)
{
    uint64_t before = weft_failures();
    return heard_of(bound->kernel, bound->ops->finish(bound), before, "finish");
}

weft_status weft_bound_poll(weft_bound *bound, bool *done)
{
    uint64_t before = weft_failures();
    return heard_of(bound->kernel, bound->ops->poll(bound, done), before, "poll");
}
