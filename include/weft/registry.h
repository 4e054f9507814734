/*
 * What a context knows by name: devices, engines, exchanges, models and the like. What is built in
 * is there from the beginning, more may be added, and whoever looks for a name or shows them all
 * asks the context. Two contexts of a process know nothing of each other.
 *
 * Names may be looked up, listed and added by several threads at once.
 */
#ifndef WEFT_REGISTRY_H
#define WEFT_REGISTRY_H

#include <stdbool.h>

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_kind {
    WEFT_KIND_NONE, /* of what is named by nobody */
    WEFT_KIND_MODEL,
    WEFT_KIND_LAYER, /* of YAML models */
    WEFT_KIND_LOSS,
    WEFT_KIND_DATA,
    WEFT_KIND_NORMALIZATION,
    WEFT_KIND_OPTIMIZER,
    WEFT_KIND_RATE, /* courses of the learning rate */
    WEFT_KIND_DEVICE,
    WEFT_KIND_ENGINE,
    WEFT_KIND_SCHEDULE, /* of pipelines */
    WEFT_KIND_EXCHANGE,
    WEFT_KIND_CODEC,    /* of the updates that exchanges send */
    WEFT_KIND_POLICY,   /* of batching requests */
    WEFT_KIND_ARRIVALS, /* of requests, where load is made */
    WEFT_KIND_OPERATOR,
    WEFT_KIND_COUNT
} weft_kind;

/* A heading for all of a kind, such as "devices". */
WEFT_API const char *weft_kind_title(weft_kind kind);

typedef struct weft_entry {
    weft_kind kind;
    const char *name;    /* letters, digits, '-', '_' and '.' */
    const char *form;    /* how a specification looks, as in "average:every=H"; NULL: the name */
    const char *summary; /* one sentence; NULL: the name says it */
    const void *ops;     /* what it can do: the struct of its kind, such as weft_device_ops */
    bool implied;        /* the library chooses it where it fits; no option offers it */
    const char *before;  /* what it was named once, which still finds it; NULL: nothing */
    const char *reads;   /* of the options that only some of its kind read those that it does, with
                          * commas, as in "momentum,nesterov"; NULL: none */
} weft_entry;

/* Adds `count` entries, all or none. The entries are copied; the texts and structs that they point
 * to belong to the caller and must outlive the context. ARGUMENT: a name is there already, or is
 * no name. */
WEFT_API WEFT_NODISCARD weft_status weft_context_register(weft_context *context,
                                                          const weft_entry *entries, int count);

/* Entry i of its kind, in the order in which they were added; NULL past the end. It stays as long
 * as the context. */
WEFT_API const weft_entry *weft_context_entry(const weft_context *context, weft_kind kind, int i);

/* Its name alone, or NULL. */
WEFT_API const char *weft_context_name(const weft_context *context, weft_kind kind, int i);

#ifdef __cplusplus
}
#endif
#endif
