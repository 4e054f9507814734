/* Internals of contexts. */
#ifndef WEFT_BASE_CONTEXT_H
#define WEFT_BASE_CONTEXT_H

#include "base/base.h"
#include "base/registry.h"
#include "weft/plugin.h"

/* Entries that were added together; they never move. */
typedef struct weft_registry_block {
    struct weft_registry_block *next;
    int count;
    weft_entry entries[];
} weft_registry_block;

/* An option table that is bound to this context. */
typedef struct weft_table {
    struct weft_table *next;
    const weft_option *of;
    weft_option rows[];
} weft_table;

/* A shared object of a context. */
typedef struct weft_singleton {
    struct weft_singleton *next;
    const weft_singleton_kind *kind;
    void *thing;
} weft_singleton;

typedef struct weft_loaded {
    struct weft_loaded *next;
    void *handle; /* of dlopen */
    const weft_plugin *plugin;
} weft_loaded;

struct weft_context {
    weft_context *of; /* the context that owns log and names: this one, or another */
    int threads;
    /* The following fields are used in the owner only. */
    weft_log_fn log;
    void *log_user;
    pthread_mutex_t lock; /* of the log */
    uint64_t *warned;     /* hashes of logged warnings and notes */
    size_t warned_count, warned_capacity;
    pthread_mutex_t registry_lock;
    weft_registry_block *blocks; /* in order of addition */
    weft_table *tables;
    const weft_services *services;
    weft_loaded *loaded;
    pthread_mutex_t singletons_lock;
    weft_singleton *singletons; /* the newest first */
};

void weft_registry_free(weft_context *context);

/* plugin.c: finds an entry by a name whose first `size` bytes are the path of a plug-in. */
weft_status weft_plugin_find(const weft_context *context, weft_kind kind, const char *name,
                             size_t size, const weft_entry **out) WEFT_NODISCARD;
void weft_plugins_unload(weft_context *context);

#endif
