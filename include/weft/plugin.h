/*
 * Plug-ins: shared objects that add to what a context knows by name (weft/registry.h).
 *
 * A plug-in is loaded where a path stands in the place of a name, as in "--device ./mine.so" or
 * "--device ./mine.so:arguments": what ends in ".so" is a path, and can hold neither a colon nor a
 * comma. It stands for the first entry of the plug-in that is of the kind
 * which is looked for; all others may be called by their names from then on.
 *
 * A plug-in needs these headers and no library: what it asks of Weft it finds in the services that
 * are handed to it (weft/services.h), so no symbol of its stays open when it is linked. It defines
 * one symbol, of which there can be but one in a shared object:
 *
 *   const weft_plugin weft_plugin_entry = {
 *       .struct_size = sizeof(weft_plugin),
 *       .abi = WEFT_PLUGIN_ABI,
 *       .entries = entries,
 *       .start = start,
 *   };
 *
 * It stays loaded as long as a context lives that has loaded it. The same file is loaded once,
 * whatever path leads there.
 */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include "weft/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of everything that a plug-in and the library see of each other: this header, weft/services.h and
 * the structs that entries point to. Another number is another interface, and is refused. */
#define WEFT_PLUGIN_ABI 2

typedef struct weft_services weft_services;

typedef struct weft_plugin {
    size_t struct_size; /* sizeof(weft_plugin) */
    int abi;            /* WEFT_PLUGIN_ABI */
    /* What it adds; the last one has no name. All or nothing is added. */
    const weft_entry *entries;
    /* Called when the first context of the process loads the plug-in, before anything is added.
     * The services stay as long as the process. May be NULL. If it fails, the plug-in is not loaded
     * and its message (services->fail) is told. */
    weft_status (*start)(const weft_services *services);
} weft_plugin;

extern __attribute__((visibility("default"))) const weft_plugin weft_plugin_entry;

/* Loads a plug-in; nothing, if this context has loaded it before. IO: there is no such file;
 * FORMAT: it is no shared object, needs symbols that nobody has, or is no plug-in; UNSUPPORTED: it
 * was built for another interface; ARGUMENT: one of its names is there already. */
WEFT_API WEFT_NODISCARD weft_status weft_plugin_load(weft_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
