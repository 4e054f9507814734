/* Source of the plug-ins of test_plugin.c. The build compiles it once for each value of CASE: GOOD
 * loads, and each of the others has one fault for which it is refused. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "weft/services.h"

/* Runs as soon as the file is loaded, and says so by the file that PLUGIN_LOADED names. */
__attribute__((constructor)) static void loaded(void)
{
    const char *path = getenv("PLUGIN_LOADED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) (void)fclose(file);
}

enum {
    GOOD,
    OTHER_ABI,
    OTHER_SIZE,
    NO_ENTRIES,
    TAKEN,
    BAD_NAME,
    UNWILLING,
    OLD_DEVICE,
    NO_DEVICE,
    SILENT,
    NO_FUNCTION,
    CLOSED_KIND
};

static weft_status start(const weft_services *services)
{
    if (CASE == SILENT) return WEFT_ERR_IO;
    if (CASE != UNWILLING) return WEFT_OK;
    return services->fail(WEFT_ERR_UNSUPPORTED, "there is no such %s here", "hardware");
}

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    (void)context;
    (void)arguments;
    (void)out;
    return WEFT_ERR_INTERNAL;
}

static void device_close(weft_device *device)
{
    (void)device;
}

static weft_status plain(weft_device *device, const weft_type *type, const weft_layout **out)
{
    (void)device, (void)type, (void)out;
    return WEFT_ERR_INTERNAL;
}

static int candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES])
{
    (void)device, (void)group, (void)in, (void)out;
    return 0;
}

static weft_status kernel(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out)
{
    (void)device, (void)group, (void)candidate, (void)in, (void)out;
    return WEFT_ERR_INTERNAL;
}

static weft_status reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out)
{
    (void)device, (void)type, (void)from, (void)to, (void)out;
    return WEFT_ERR_INTERNAL;
}

static const weft_device_ops ops = {
    .struct_size =
        CASE == OLD_DEVICE ? offsetof(weft_device_ops, capture) : sizeof(weft_device_ops),
    .name = "case",
    .open = device_open,
    .close = device_close,
    .plain = plain,
    .rates = {.flops = 1, .bytes = 1},
    .candidates = candidates,
    .kernel = kernel,
    .reorder = CASE == NO_FUNCTION ? NULL : reorder,
};

static weft_value build(weft_model_builder *net, const weft_layer *layer, const weft_value *in,
                        int count)
{
    (void)net, (void)layer, (void)count;
    return in[0];
}

static const weft_layer_ops layer = {
    .struct_size = sizeof(weft_layer_ops), .min_inputs = 1, .max_inputs = 1, .build = build};

static const weft_entry entries[] = {
    {.kind = CASE == NO_DEVICE     ? WEFT_KIND_LAYER
             : CASE == CLOSED_KIND ? WEFT_KIND_NORMALIZATION
                                   : WEFT_KIND_DEVICE,
     .name = CASE == NO_ENTRIES ? NULL : "case",
     .ops = CASE == NO_DEVICE ? (const void *)&layer : &ops},
    {.kind = WEFT_KIND_DEVICE,
     .name = CASE == TAKEN      ? "cpu"
             : CASE == BAD_NAME ? "a:b"
                                : NULL,
     .ops = &ops},
    {.name = NULL},
};

const weft_plugin weft_plugin_entry = {
    .struct_size = sizeof(weft_plugin) + (CASE == OTHER_SIZE ? 8 : 0),
    .abi = CASE == OTHER_ABI ? 42 : WEFT_PLUGIN_ABI,
    .entries = entries,
    .start = start,
};
