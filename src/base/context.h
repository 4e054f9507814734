/* Inside of contexts. */
#ifndef WEFT_BASE_CONTEXT_H
#define WEFT_BASE_CONTEXT_H

#include "base/base.h"
#include "weft/registry.h"

/* Entries that were added together; they never move. */
typedef struct weft_shelf {
    struct weft_shelf *next;
    int count;
    weft_entry entries[];
} weft_shelf;

struct weft_context {
    weft_context *of; /* the one whose log and names this one has: itself, or another */
    int threads;
    /* What follows is empty where that is another. */
    weft_log_fn log;
    void *log_user;
    pthread_mutex_t lock; /* of the log */
    uint64_t *warned;     /* hashes of the warnings and notes that were given */
    size_t warned_count, warned_capacity;
    pthread_mutex_t registry_lock;
    weft_shelf *shelves[WEFT_KIND_COUNT]; /* in the order in which they came */
};

void weft_registry_free(weft_context *context);

#endif
