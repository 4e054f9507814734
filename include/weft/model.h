/*
 * Models: those that a context knows by name (weft/registry.h), and user-defined ones as YAML files
 * of layers. A file may name its loss; by default the target determines it: the first loss for such
 * targets.
 *
 * Building a model adds its nodes to a graph: the inputs, the layers and the loss.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/graph.h"
#include "weft/port.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model_options {
    size_t struct_size; /* sizeof(weft_model_options) */
    const char *model;  /* a built-in name, or the path of a YAML file (ends in .yaml or .yml) */
    weft_shape sample;  /* shape of one sample */
    int64_t batch;      /* samples in a run */
    int classes;        /* at least 2; 0: the target is numeric */
    int targets;        /* numbers of the target; 0: it is a class */
    bool training;      /* enables dropout and batch statistics */
    uint64_t seed;      /* for dropout */
} weft_model_options;

WEFT_API void weft_model_options_init(weft_model_options *options);

/* An input or output of a model. */
typedef struct weft_port {
    const char *name; /* name of the graph's leaf and of the data column; not copied */
    weft_port_role role;
    weft_value value;
} weft_port;

/* The inputs and outputs of a model:
 *   x             features    [batch, sample...] real
 *   labels        target      [batch] i32, if it is a class, or
 *   target                    [batch, targets] real
 *   weights       weights     [batch] real; 0 for padding. See ops/softmax.c
 *   first_sample  position    i32
 *   logits        logits      [batch, classes or targets]
 *   prediction    prediction  the same: probabilities, or numbers in the form of targets
 *   loss          loss        scalar: sum of weight times loss of a sample */
#define WEFT_MAX_PORTS 16
typedef struct weft_model_values {
    int count;
    weft_port ports[WEFT_MAX_PORTS];
} weft_model_values;

/* The value of the first port with a role; WEFT_NO_VALUE: none. */
WEFT_API weft_value weft_model_value(const weft_model_values *values, weft_port_role role);

/* Builds a model into an empty graph. ARGUMENT: no such model (the nearest is named), or the
 * sample's shape is not suitable; FORMAT: the YAML file, with its line. */
WEFT_API WEFT_NODISCARD weft_status weft_model_build(weft_graph *graph,
                                                     const weft_model_options *options,
                                                     weft_model_values *out);

/* Builds a YAML model from memory instead of a file; name is used in messages. */
WEFT_API WEFT_NODISCARD weft_status weft_model_build_text(weft_graph *graph,
                                                          const weft_model_options *options,
                                                          const char *name, const void *data,
                                                          size_t size, weft_model_values *out);

/* The keys of a layer of YAML models, besides type, name and from, as in "kernel, stride"; NULL: no
 * such layer. */
WEFT_API const char *weft_layer_keys(const weft_context *context, const char *type);

#ifdef __cplusplus
}
#endif
#endif
