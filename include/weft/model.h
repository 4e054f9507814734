/*
 * Models: built-in ones, which a context knows by name (weft/registry.h), and YAML files of layers.
 * A file may name its loss; otherwise the loss is the first registered one for the kind of target.
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
    /* A built-in name, with its arguments as in "gpt:layers=6", or the path of a YAML file, which
     * ends in .yaml or .yml. */
    const char *model;
    int inputs; /* inputs of one sample */
    weft_input input[WEFT_MAX_INPUTS];
    int64_t batch;     /* samples of a run of the graph */
    int classes;       /* number of classes, at least 2; 0: the target is numbers */
    int targets;       /* numbers of the target; 0: the target is a class */
    int64_t positions; /* positions of a sample with a class each; 0: one target a sample */
    bool training;     /* builds dropout and batch statistics; false: for inference */
    uint64_t seed;     /* seed of dropout */
    /* In training, the probability that is spread evenly over all classes, from 0 up to but not
     * including 1 (Szegedy et al. 2016); 0: none. */
    double label_smoothing;
    /* A loss, with its key as in "huber:delta=2", in place of that of the model; NULL: the model's.
     */
    const char *loss;
    /* In training, the loss has two labels of each sample: its `mixed_weights`, a part of its
     * `weights`, is the weight of `mixed_labels`, and the rest that of `labels`. */
    bool mixes;
    bool binary; /* the numbers of the target are labels of 0 and 1 (weft_data_stats.binary) */
    /* The description of the data's columns, which may say that some are embedded
     * (weft_data_stats.table), valid until the model is built; NULL: none. */
    const struct weft_table *table;
} weft_model_options;

WEFT_API void weft_model_options_init_size(weft_model_options *options, size_t size);
#define weft_model_options_init(options) weft_model_options_init_size(options, sizeof(*(options)))
/* Gives samples one input "x" of real numbers with this shape. */
WEFT_API void weft_model_options_set_sample(weft_model_options *options, weft_shape sample);

/* An input or output of a model. */
typedef struct weft_port {
    char name[WEFT_INPUT_NAME]; /* of the graph's leaf and of the column */
    weft_port_role role;
    weft_value value;
} weft_port;

/* The inputs and outputs of a model, by name, role and type. A model has at most WEFT_MAX_INPUTS
 * inputs, and at most 11 inputs and outputs together:
 *   x             features    [batch, sample...] real, or i32 for tokens; each input by its name
 *   labels        target      [batch] or [batch, positions] i32, if the target is a class, or
 *   target        target      [batch, targets] real, if it is numbers
 *   weights       weights     real, a number for each label or target: add up to 1 over a step; 0
 *                             for padding (ops/softmax.c)
 *   mixed_labels  target      as labels, and
 *   mixed_weights weights     as weights: of a model that mixes samples in training
 *   first_sample  position    i32: row of the first sample in the whole batch of the step
 *   logits        logits      [batch, classes or targets] or [batch, positions, classes]
 *   prediction    prediction  as logits: probabilities, or numbers normalised like the targets;
 *                             of labels of 0 and 1 the probabilities of 1
 *   loss          loss        scalar: sum over the samples of weight times loss
 *   each further output by its name    output    [batch, ...] of any type
 * A model that names its outputs gives its prediction the name of the output that the loss
 * reads. */
#define WEFT_MAX_PORTS (WEFT_MAX_INPUTS + 8)
typedef struct weft_model_values {
    int count;
    weft_port ports[WEFT_MAX_PORTS];
} weft_model_values;

/* The value of the first port with a role; WEFT_NO_VALUE: there is none. */
WEFT_API weft_value weft_model_value(const weft_model_values *values, weft_port_role role);
/* The input of features with this name; WEFT_NO_VALUE: there is none. */
WEFT_API weft_value weft_model_feature(const weft_model_values *values, const char *name);
/* Sets *out and *value (may be NULL) to output i of a model that was built in this graph, from 0,
 * the prediction; false past the end. */
WEFT_API bool weft_model_output_at(const weft_graph *graph, const weft_model_values *values, int i,
                                   weft_model_output *out, weft_value *value);

/* Builds a model into an empty graph. ARGUMENT: there is no such model (the message names the
 * nearest), the sample's shape does not suit it, or, with `training`, the batch gives a channel of
 * a layer batch_norm a single value, which has no variance (a batch of one sample without
 * positions; a plan of more ranks, micro-batches or virtual workers is refused likewise); FORMAT:
 * the YAML file is invalid; the message gives the line. */
WEFT_API WEFT_NODISCARD weft_status weft_model_build(weft_graph *graph,
                                                     const weft_model_options *options,
                                                     weft_model_values *out);

/* Builds a YAML model from `size` bytes of memory instead of a file; messages use `name` as the
 * file's name. */
WEFT_API WEFT_NODISCARD weft_status weft_model_build_text(weft_graph *graph,
                                                          const weft_model_options *options,
                                                          const char *name, const void *data,
                                                          size_t size, weft_model_values *out);

/* The keys of a type of layers of YAML models, besides type, name and from, as in "kernel, stride";
 * NULL: no such type. */
WEFT_API const char *weft_layer_keys(const weft_context *context, const char *type);

#ifdef __cplusplus
}
#endif
#endif
