/* Looking for names in a context. */
#ifndef WEFT_BASE_REGISTRY_H
#define WEFT_BASE_REGISTRY_H

#include "base/base.h"
#include "weft/registry.h"

/* The entry that the first `size` bytes of `name` call; NULL: there is none. */
const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind, const char *name,
                                     size_t size);
/* ARGUMENT: there is none, with the nearest. */
weft_status weft_registry_find(const weft_context *context, weft_kind kind, const char *name,
                               size_t size, const weft_entry **out) WEFT_NODISCARD;

/* Context and kind, for weft_suggest and the like: */
typedef struct weft_names_of {
    const weft_context *context;
    weft_kind kind;
} weft_names_of;
const char *weft_registry_candidate(const void *names_of, int i);

#endif
