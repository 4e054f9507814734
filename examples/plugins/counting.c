/* A device as a plug-in. The device wraps another one and numbers its kernels, so that `weft plan
 * --dump` shows them as "counted N". docs/howto/add-a-device.md says how to build it; then
 *
 *   weft train --device ./libcounting.so        wraps the reference device
 *   weft train --device ./libcounting.so:cpu    wraps another device in the host's memory */
#include <stdio.h>
#include <stdlib.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

typedef struct counting {
    weft_device head;
    weft_device *inside;
    int kernels;
} counting;

static weft_device *inside(weft_device *device)
{
    return ((counting *)device)->inside;
}

static void device_close(weft_device *device)
{
    weft->close_device(&((counting *)device)->inside);
    free(device);
}

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    counting *d;
    weft_status status = weft->allocate(sizeof(*d), &d);
    if (status != WEFT_OK) return status;
    status = weft->open_device(context, *arguments ? arguments : "reference", &d->inside);
    if (status == WEFT_OK && d->inside->ops->memory)
        status = weft->fail(WEFT_ERR_ARGUMENT,
                            "device counting: '%s' has memory of its own; only "
                            "devices in the host's can be counted",
                            arguments);
    if (status != WEFT_OK) {
        device_close(&d->head);
        return status;
    }
    d->head.threads = d->inside->threads;
    *out = &d->head;
    return WEFT_OK;
}

static weft_status plain(weft_device *device, const weft_type *type, const weft_layout **out)
{
    return inside(device)->ops->plain(inside(device), type, out);
}

static int candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES])
{
    return inside(device)->ops->candidates(inside(device), group, in, out);
}

static weft_status kernel(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out)
{
    weft_status status = inside(device)->ops->kernel(inside(device), group, candidate, in, out);
    if (status == WEFT_OK) /* `weft plan --dump` shows this text */
        (void)snprintf((*out)->text, sizeof((*out)->text), "counted %d",
                       ++((counting *)device)->kernels);
    return status;
}

static weft_status reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out)
{
    return inside(device)->ops->reorder(inside(device), type, from, to, out);
}

static const weft_device_ops ops = {
    .struct_size = sizeof(weft_device_ops),
    .name = "counting",
    .summary = "another device, whose kernels are counted",
    .open = device_open,
    .close = device_close,
    .plain = plain,
    .rates = {.flops = 8e8, .bytes = 2e10, .start = 5e-8},
    .candidates = candidates,
    .kernel = kernel,
    .reorder = reorder,
};

static const weft_entry entries[] = {
    {.kind = WEFT_KIND_DEVICE,
     .name = "counting",
     .summary = "another device, whose kernels are counted",
     .ops = &ops},
    {.name = NULL},
};

WEFT_PLUGIN(weft, entries);
