/*
 * The registry of a context: devices, engines, exchanges, models and other entries with names. A
 * new context has the built-in entries of libweft; weft_serve_register (weft/serve.h) adds those of
 * libweft-serve, and programs and plug-ins can add more. The contexts of a process are independent
 * of each other.
 *
 * These kinds can be added; weft_entry.ops points to the struct, which the header describes:
 *   WEFT_KIND_OPERATOR   weft_operator_ops   weft/operator_ops.h
 *   WEFT_KIND_LAYER      weft_layer_ops      weft/model_ops.h
 *   WEFT_KIND_MODEL      weft_model_ops      weft/model_ops.h
 *   WEFT_KIND_LOSS       weft_loss_ops       weft/model_ops.h
 *   WEFT_KIND_DATA       weft_data_ops       weft/data_ops.h
 *   WEFT_KIND_OPTIMIZER  weft_optimizer_ops  weft/optim_ops.h
 *   WEFT_KIND_RATE       weft_rate_ops       weft/rate_ops.h
 *   WEFT_KIND_CODEC      weft_codec_rule     weft/codec_ops.h
 *   WEFT_KIND_POLICY     weft_batching_ops   weft/batching_ops.h
 *   WEFT_KIND_DEVICE     weft_device_ops     weft/device_ops.h
 *   WEFT_KIND_ENGINE     weft_transport_ops  weft/transport_ops.h
 *   WEFT_KIND_EXCHANGE   weft_exchange_ops   weft/exchange_ops.h
 *   WEFT_KIND_SERVER_POLICY
 *                        weft_server_policy_ops
 *                                            weft/server_policy_ops.h
 * Each struct begins with its struct_size. docs/howto/add-from-outside.md has examples.
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

/* Kinds of entries; an entry's name is unique within its kind. */
typedef enum weft_kind {
    WEFT_KIND_NONE, /* no kind: for option texts that are no names */
    WEFT_KIND_MODEL,
    WEFT_KIND_LAYER, /* layer types of YAML models */
    WEFT_KIND_LOSS,
    WEFT_KIND_DATA,          /* kinds of data sets */
    WEFT_KIND_NORMALIZATION, /* of the features of a data set */
    WEFT_KIND_OPTIMIZER,
    WEFT_KIND_RATE, /* learning-rate schedules */
    WEFT_KIND_DEVICE,
    WEFT_KIND_ENGINE,        /* what a rank is: a thread, a process (weft/comm.h) */
    WEFT_KIND_SCHEDULE,      /* pipeline schedules */
    WEFT_KIND_EXCHANGE,      /* strategies by which learners synchronize */
    WEFT_KIND_CODEC,         /* compression codecs of exchanges */
    WEFT_KIND_POLICY,        /* batching policies */
    WEFT_KIND_ARRIVALS,      /* arrival processes of the load generator */
    WEFT_KIND_OPERATOR,      /* operators of graphs */
    WEFT_KIND_SERVER_POLICY, /* consistency policies of parameter servers */
    WEFT_KIND_AUGMENTATION,  /* random changes of pictures in training */
    WEFT_KIND_METRIC,        /* of evaluations */
    WEFT_KIND_COUNT
} weft_kind;

/* A heading for a list of all entries of a kind, such as "devices"; NULL: there is no such kind. */
WEFT_API const char *weft_kind_title(weft_kind kind);

/* An entry of the registry. */
typedef struct weft_entry {
    weft_kind kind;
    const char *name; /* letters, digits, '-', '_' and '.' */
    const char *form; /* syntax of a specification, as in "average:every=H"; NULL: the name alone */
    const char *summary; /* one sentence for lists and help; NULL: none */
    const void *ops;     /* implementation: the struct of the kind, such as weft_device_ops; of an
                            entry that was found it is the library's own form */
    bool implied;        /* the library chooses it where it fits; options do not offer it */
    const char *before;  /* former name, which still finds the entry; NULL: none */
    /* The options that this entry reads, of those that only some entries of its kind read,
     * separated by commas, as in "momentum,nesterov"; NULL: none. */
    const char *reads;
} weft_entry;

/* Adds `count` entries, all or none. The entries and their structs are copied. The texts and
 * further structs that these point to stay the caller's, and must outlive the context. ARGUMENT: a
 * name is invalid, or an entry of its kind has it already, or a struct lacks a function or has a
 * wrong number; UNSUPPORTED: nothing can be added to the kind, or the struct has a size of another
 * version. */
WEFT_API WEFT_NODISCARD weft_status weft_context_register(weft_context *context,
                                                          const weft_entry *entries, int count);

/* Entry i of a kind, in the order of addition; NULL past the end. Valid as long as the context. */
WEFT_API const weft_entry *weft_context_entry(const weft_context *context, weft_kind kind, int i);

/* The name of entry i of a kind; NULL past the end. */
WEFT_API const char *weft_context_name(const weft_context *context, weft_kind kind, int i);

#ifdef __cplusplus
}
#endif
#endif
