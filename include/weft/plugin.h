/*
 * Plug-ins: shared objects that add entries to the registry of a context (weft/registry.h).
 *
 * A plug-in is code that runs with the rights of the process, so only its user decides that it is
 * loaded: a program by weft_plugin_load, the command by an option that gives a path instead of a
 * name, as in "--device ./mine.so" or "--device ./mine.so:arguments", in its command line or in a
 * run file, or by the environment variable WEFT_PLUGINS, a list of paths with colons between them.
 * A name in a checkpoint, an exported model, a YAML model or a message of a coordinator never loads
 * one. A text that ends in ".so" is a path; a path must contain neither a colon nor a comma. Once a
 * plug-in is loaded, its path stands for its first entry of the kind which the option needs, here a
 * device, and all its entries can be used by their names.
 *
 * A plug-in needs these headers and no library: it calls Weft through a table of functions, the
 * services that `start` receives (weft/services.h), so no symbol is unresolved when the plug-in is
 * linked. A plug-in defines one symbol:
 *
 *   const weft_plugin weft_plugin_entry = {
 *       .struct_size = sizeof(weft_plugin),
 *       .abi = WEFT_PLUGIN_ABI,
 *       .entries = entries,
 *       .start = start,
 *   };
 *
 * A plug-in stays loaded as long as a context that has loaded it exists. A context loads a file
 * once, whatever path leads to the file.
 */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include "weft/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface between plug-ins and the library: this header, weft/services.h and
 * the structs that entries point to. The library refuses a plug-in that was built for another
 * version. */
#define WEFT_PLUGIN_ABI 3

typedef struct weft_services weft_services;

/* The symbol weft_plugin_entry of a plug-in. */
typedef struct weft_plugin {
    size_t struct_size; /* sizeof(weft_plugin) */
    int abi;            /* WEFT_PLUGIN_ABI */
    /* The entries, ended by one without a name. A context adds all of them or none. */
    const weft_entry *entries;
    /* Called before the entries are added to the first context of the process that loads the
     * plug-in; later contexts share the plug-in without a call. The services stay valid as long as
     * the process. May be NULL. If the function fails, the plug-in is not loaded, and the message
     * that it set with services->fail is reported. */
    weft_status (*start)(const weft_services *services);
} weft_plugin;

extern __attribute__((visibility("default"))) const weft_plugin weft_plugin_entry;

/* Loads a plug-in into a context, unless the context has loaded the file before. IO: no such file;
 * FORMAT: the file is no shared object, has unresolved symbols, or is no plug-in; UNSUPPORTED: the
 * plug-in was built for another interface; ARGUMENT: one of its names exists already. */
WEFT_API WEFT_NODISCARD weft_status weft_plugin_load(weft_context *context, const char *path);

/* Loads the plug-ins that are installed with the library, such as those of devices, which are else
 * loaded when one of their names is used: for lists of names. One that is not installed, or cannot
 * be loaded, is left out. */
WEFT_API void weft_plugin_load_installed(weft_context *context);

/* The resolved path of plug-in i that a context has loaded, the last one first; NULL past the end.
 * Valid as long as the context. */
WEFT_API const char *weft_plugin_path(const weft_context *context, int i);

/* Loads the plug-ins whose paths an option struct gives in place of names: of devices, models,
 * data, and each other kind that a row of the table has as `names` or `forms`. Only for options
 * that come from the user of the process. Errors: as weft_plugin_load, and as weft_options_get. */
WEFT_API WEFT_NODISCARD weft_status weft_plugin_load_options(weft_context *context,
                                                             const weft_option *table,
                                                             const void *options);

#ifdef __cplusplus
}
#endif
#endif
