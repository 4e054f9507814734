/*
 * The registry of a context: devices, engines, exchanges, models and other things with names. It
 * contains the built-in entries, and more can be added. Contexts of a process are independent of
 * each other.
 *
 * Lookup, listing and addition are thread-safe.
 */
#ifndef WEFT_REGISTRY_H
#define WEFT_REGISTRY_H

#include <stdbool.h>

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_kind {
    WEFT_KIND_NONE, /* for texts that are no names */
    WEFT_KIND_MODEL,
    WEFT_KIND_LAYER, /* of YAML models */
    WEFT_KIND_LOSS,
    WEFT_KIND_DATA,
    WEFT_KIND_NORMALIZATION,
    WEFT_KIND_OPTIMIZER,
    WEFT_KIND_RATE, /* learning-rate schedules */
    WEFT_KIND_DEVICE,
    WEFT_KIND_ENGINE,
    WEFT_KIND_SCHEDULE, /* pipeline schedules */
    WEFT_KIND_EXCHANGE,
    WEFT_KIND_CODEC,    /* compression codecs of exchanges */
    WEFT_KIND_POLICY,   /* batching policies */
    WEFT_KIND_ARRIVALS, /* arrival processes of the load generator */
    WEFT_KIND_OPERATOR,
    WEFT_KIND_COUNT
} weft_kind;

/* A heading for all entries of a kind, such as "devices". */
WEFT_API const char *weft_kind_title(weft_kind kind);

typedef struct weft_entry {
    weft_kind kind;
    const char *name;    /* letters, digits, '-', '_' and '.' */
    const char *form;    /* form of a specification, as in "average:every=H"; NULL: the name */
    const char *summary; /* one sentence; NULL: none is needed */
    const void *ops;     /* implementation: the struct of its kind, such as weft_device_ops */
    bool implied;        /* chosen by the library where it is suitable; not offered by options */
    const char *before;  /* an earlier name, which still finds it; NULL: none */
    const char *reads;   /* options that it reads, of those that only some entries of its kind read,
                            separated by commas, as in "momentum,nesterov"; NULL: none */
} weft_entry;

/* Adds `count` entries, all or none. The entries are copied; the texts and structs that they point
 * to belong to the caller and must outlive the context. ARGUMENT: a name exists already or is
 * invalid. */
WEFT_API WEFT_NODISCARD weft_status weft_context_register(weft_context *context,
                                                          const weft_entry *entries, int count);

/* Entry i of a kind, in the order of addition; NULL past the end. Valid as long as the context. */
WEFT_API const weft_entry *weft_context_entry(const weft_context *context, weft_kind kind, int i);

/* The name of entry i, or NULL. */
WEFT_API const char *weft_context_name(const weft_context *context, weft_kind kind, int i);

#ifdef __cplusplus
}
#endif
#endif
