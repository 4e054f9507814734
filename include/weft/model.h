/*
 * Models: built-in ones by name, and a user's own as a YAML file of layers.
 *
 * Building a model adds its nodes to a graph: the input, the layers and the loss.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model_options {
    size_t struct_size; /* sizeof(weft_model_options) */
    const char *model;  /* a built-in name, or the path of a YAML file (ends in .yaml or .yml) */
    weft_shape sample;  /* shape of one sample */
    int64_t batch;      /* samples a run */
    int classes;        /* at least 2 */
    bool training;      /* dropout and batch statistics are on */
    uint64_t seed;      /* of dropout */
} weft_model_options;

WEFT_API void weft_model_options_init(weft_model_options *options);

/* Values to feed and read. */
typedef struct weft_model_values {
    weft_value x;             /* input "x": [batch, sample...] of the graph's real type */
    weft_value labels;        /* input "labels": [batch] i32 */
    weft_value weights;       /* input "weights": [batch] real; 0 for padding. See ops/softmax.c */
    weft_value first_sample;  /* input, i32: index of the first sample in the step's whole batch */
    weft_value logits;        /* [batch, classes] */
    weft_value loss;          /* scalar: sum of weight times cross entropy */
    weft_value probabilities; /* [batch, classes] */
} weft_model_values;

/* Builds a model into an empty graph. ARGUMENT: no such model (the nearest is named), or it does
 * not fit the sample's shape; FORMAT: the YAML file, with its line. */
WEFT_API WEFT_NODISCARD weft_status weft_model_build(weft_graph *graph,
                                                     const weft_model_options *options,
                                                     weft_model_values *out);

/* Reads a YAML model from memory in place of a file; name is used in messages. */
WEFT_API WEFT_NODISCARD weft_status weft_model_build_text(weft_graph *graph,
                                                          const weft_model_options *options,
                                                          const char *name, const void *data,
                                                          size_t size, weft_model_values *out);

/* Built-in models: name and one sentence; NULL past the end. */
WEFT_API const char *weft_model_name(int i);
WEFT_API const char *weft_model_summary(int i);

/* The layers a YAML model may have: type and one sentence; NULL past the end. */
WEFT_API const char *weft_layer_name(int i);
WEFT_API const char *weft_layer_summary(int i);
/* Its keys beside type, name and from, as in "kernel, stride"; NULL past the end. */
WEFT_API const char *weft_layer_keys(int i);

#ifdef __cplusplus
}
#endif
#endif
