/* Declares the fields of a context, for context.c, registry.c and plugin.c. */
#ifndef WEFT_BASE_CONTEXT_H
#define WEFT_BASE_CONTEXT_H

#include "base/base.h"
#include "base/registry.h"
#include "weft/plugin.h"

/* Registry entries that were added together. They never move, so pointers to them stay valid as
 * long as the context. */
typedef struct weft_registry_block {
    struct weft_registry_block *next;
    int count;
    void **owned; /* [2 count]: for each entry a copy of its struct, and what was made of it */
    weft_entry entries[];
} weft_registry_block;

enum { WEFT_RECENT_ENTRIES = 256 };

/* A copy of an option table whose rows point to this context; `of` is the table that identifies
 * it. */
typedef struct weft_table {
    struct weft_table *next;
    const weft_option *of;
    weft_option rows[];
} weft_table;

/* An object that all users of a context share, see weft_context_singleton. */
typedef struct weft_singleton {
    struct weft_singleton *next;
    const weft_singleton_kind *kind;
    void *thing;
} weft_singleton;

/* A plug-in that this context has loaded. */
typedef struct weft_loaded {
    struct weft_loaded *next;
    void *handle; /* of dlopen */
    char *path;   /* resolved */
    const weft_plugin *plugin;
} weft_loaded;

struct weft_context {
    weft_context *of; /* owner of log and names: itself, or see weft_context_with_threads */
    int threads;
    /* Only the owner uses the following fields. */
    weft_log_fn log;
    void *log_user;
    pthread_mutex_t lock; /* of the log */
    uint64_t *warned;     /* hashes of logged warnings and notes */
    size_t warned_count, warned_capacity;
    pthread_mutex_t registry_lock;
    weft_registry_block *blocks;                   /* in order of addition */
    const weft_entry *recent[WEFT_RECENT_ENTRIES]; /* found before, by hashes of their names */
    const weft_extension *extensions[WEFT_KIND_COUNT];
    weft_table *tables;
    const weft_services *services;
    weft_loaded *loaded;
    char *absent; /* plugin_names.c: entries of plug-ins that records name; NULL: none */
    pthread_mutex_t singletons_lock;
    weft_singleton *singletons; /* the newest first */
};

void weft_registry_free(weft_context *context);

/* plugin.c: finds the plug-in whose path is the first `size` bytes of `name` among those that the
 * context has loaded, and its first entry of the kind. Loads nothing, since names also come from
 * files and from the network. */
weft_status weft_plugin_find(const weft_context *context, weft_kind kind, const char *name,
                             size_t size, const weft_entry **out) WEFT_NODISCARD;
/* Loads libweft-NAME.so, which is installed beside the library or the command. UNSUPPORTED: it is
 * not there. */
weft_status weft_plugin_load_shipped(weft_context *context, const char *name) WEFT_NODISCARD;
void weft_plugins_unload(weft_context *context);

#endif
