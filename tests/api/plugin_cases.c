/* Source of the plug-ins of test_plugin.c. The build compiles it once for each value of CASE: GOOD
 * loads, and each of the others has one fault for which it is refused. */
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
    SILENT
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

static const weft_device_ops ops = {
    .struct_size = sizeof(weft_device_ops) - (CASE == OLD_DEVICE ? 8 : 0),
    .name = "case",
    .open = device_open,
};

static const weft_entry entries[] = {
    {.kind = CASE == NO_DEVICE ? WEFT_KIND_EXCHANGE : WEFT_KIND_DEVICE,
     .name = CASE == NO_ENTRIES ? NULL : "case",
     .ops = &ops},
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
