/*
 * Plug-ins: shared objects that add entries to the registry of a context (weft/registry.h).
 *
 * A plug-in is loaded if a path is given instead of a name, as in "--device ./mine.so" or "--device
 * ./mine.so:arguments": a text that ends in ".so" is a path, which must contain neither a colon nor
 * a comma. It stands for the first entry of the plug-in that has the required kind; all other
 * entries can be used by their names from then on.
 *
 * A plug-in needs these headers and no library: it calls Weft through the services that it is given
 * (weft/services.h), so no symbol is unresolved when it is linked. It defines one symbol:
 *
 *   const weft_plugin weft_plugin_entry = {
 *       .struct_size = sizeof(weft_plugin),
 *       .abi = WEFT_PLUGIN_ABI,
 *       .entries = entries,
 *       .start = start,
 *   };
 *
 * It stays loaded as long as a context that has loaded it. A file is loaded once, whatever path
 * leads to it.
 */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include "weft/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface between plug-ins and the library: this header, weft/services.h and
 * the structs that entries point to. A plug-in with another version is refused. */
#define WEFT_PLUGIN_ABI 2

typedef struct weft_services weft_services;

typedef struct weft_plugin {
    size_t struct_size; /* sizeof(weft_plugin) */
    int abi;            /* WEFT_PLUGIN_ABI */
    /* The entries, terminated by one without a name. Either all or none are added. */
    const weft_entry *entries;
    /* Called when the first context of the process loads the plug-in, before entries are added. The
     * services stay valid as long as the process. May be NULL. If it fails, the plug-in is not
     * loaded and its message (services->fail) is reported. */
    weft_status (*start)(const weft_services *services);
} weft_plugin;

extern __attribute__((visibility("default"))) const weft_plugin weft_plugin_entry;

/* Loads a plug-in, unless this context has loaded it before. IO: no such file; FORMAT: it is no
 * shared object, has unresolved symbols, or is no plug-in; UNSUPPORTED: it was built for another
 * interface; ARGUMENT: one of its names exists already. */
WEFT_API WEFT_NODISCARD weft_status weft_plugin_load(weft_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
