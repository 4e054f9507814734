/*
 * The interface between Weft and the implementations of layers, models and losses, for programs and
 * plug-ins that add one (weft/registry.h, weft/plugin.h).
 *
 *   kind              ops
 *   WEFT_KIND_LAYER   weft_layer_ops   a type of layers of YAML models
 *   WEFT_KIND_MODEL   weft_model_ops   a model, as in --model NAME[:arguments]
 *   WEFT_KIND_LOSS    weft_loss_ops    a loss, as in `loss: NAME` of a YAML model
 *
 * They add nodes and parameters to the graph of a model, by their services (weft/services.h). A
 * graph keeps its first failure, and returns WEFT_NO_VALUE from then on, so not every line needs a
 * check; services->fail_graph makes it fail. The functions are called by one thread at a time for a
 * model, and may be called for several models at once; they keep no state, and add the same nodes
 * whenever they are called with the same options. Strings and pointers that they get are valid
 * during the call.
 */
#ifndef WEFT_MODEL_OPS_H
#define WEFT_MODEL_OPS_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model_builder weft_model_builder; /* a model under construction */
typedef struct weft_layer weft_layer;                 /* a layer of a YAML model, with its keys */

/* A type of layers. */
typedef struct weft_layer_ops {
    size_t struct_size;         /* sizeof(weft_layer_ops) */
    int min_inputs, max_inputs; /* layers that it reads (key `from`); max_inputs < 0: any number */
    /* The keys of such a layer besides type, name and from, as in "units, rate": some of those that
     * built-in layers have (weft_layer_keys). NULL: none. */
    const char *keys;
    const char *needs; /* the key that must be given; NULL: none */
    /* Adds the layer, and returns what it gives. Values are [batch, ...], and those of a sequence
     * [batch, positions, width]. */
    weft_value (*build)(weft_model_builder *net, const weft_layer *layer, const weft_value *in,
                        int count);
} weft_layer_ops;

/* A model. The `form` of its entry has its arguments, as in "towers[:width=64]"; an entry without a
 * form takes none. */
typedef struct weft_model_ops {
    size_t struct_size; /* sizeof(weft_model_ops) */
    /* Adds the layers (services->model_layer, or nodes of its own), and returns the output of the
     * last one: [batch, outputs], or [batch, positions, outputs] if each position has a target.
     * services->model_output names further outputs.
     * arguments: the text after "NAME:", or "". x: the first input of the data, [batch, ...]. */
    weft_value (*build)(weft_model_builder *net, const char *arguments, weft_value x);
} weft_model_ops;

/* A loss. */
typedef struct weft_loss_ops {
    size_t struct_size; /* sizeof(weft_loss_ops) */
    bool classes;       /* targets are classes, [batch] i32; else numbers, [batch, targets] */
    /* The operator (output, target, weights) -> (loss, prediction), built in or of the same
     * plug-in. The loss is a scalar, the sum of weight times loss over the samples of the batch,
     * whose label stands in no other result; samples with weight 0 are padding and may hold
     * anything finite. The prediction has the shape of the output. */
    const char *op;
} weft_loss_ops;

#ifdef __cplusplus
}
#endif
#endif
