/* Declares layers, losses, the built-in models, and the building of a model's graph. */
#ifndef WEFT_MODELS_MODELS_H
#define WEFT_MODELS_MODELS_H

#include "graph/graph.h"
#include "weft/data.h"
#include "weft/model.h"
#include "weft/model_ops.h"
#include "weft/options.h"

/* A loss function. */
typedef struct weft_loss {
    const char *name, *summary;
    bool classes; /* the targets are classes, else numbers */
    bool binary;  /* the numbers are labels of 0 and 1, and predictions are their probabilities */
    /* Name of the operator (logits, target, weights) -> (loss, prediction). The loss is a sum over
     * the batch with sample weights that add up to one, see ops/softmax.c. The prediction of each
     * sample is never a partial sum. */
    const char *op;
    /* Or else `build` adds nodes: from prediction and target, [batch, targets], the loss of each
     * number, of which the loss of a sample is the mean; or from logits and labels that of each
     * label. key: the loss's own number. */
    weft_value (*build)(weft_graph *graph, weft_value prediction, weft_value target, double key);
    const char *form, *key;  /* how it is named, with its key; NULL: it has none */
    double usual, low, high; /* the value of the key without it, and its range */
} weft_loss;

/* A model under construction. */
struct weft_model_builder {
    weft_graph *graph;
    const weft_model_options *options;
    const struct weft_model *model; /* NULL: a YAML model */
    const char *arguments;          /* of a named model, such as "layers=6"; empty: none */
    const weft_loss *loss;
    double loss_key; /* its number */
    weft_model_values values;
    bool embeds; /* layers read `embedded` in place of the features of a table */
    weft_value embedded;
    int layers; /* layers so far; each dropout has its own stream */
    /* Weights and counts of the samples, which all batch norms read; counts WEFT_NO_VALUE: none
     * yet. */
    weft_value sample_weights, counts;
    char scored[WEFT_INPUT_NAME]; /* name of the output that the loss reads; "": the last layer */
    int outputs;                  /* further outputs, which ports have once the model is finished */
    weft_port output[WEFT_MODEL_OUTPUTS];
};

/* column_embeddings.c: embeds the columns of categories of which the table says so. */
void weft_model_builder_embed(weft_model_builder *net);
/* The first input of the model with a role; of features, with the columns embedded. */
weft_value weft_model_builder_input(const weft_model_builder *net, weft_port_role role);
/* The input with this name that reads a column of features; WEFT_NO_VALUE: there is none. */
weft_value weft_model_builder_feature(const weft_model_builder *net, const char *name);
/* Called by layers of sequences: the second dimension of the inputs, unless they are images, is
 * that of positions, along which the domain axis splits them. */
void weft_model_builder_sequences(weft_model_builder *net);
/* Adds an input or output to the values of the model. */
void weft_model_builder_port(weft_model_builder *net, const char *name, weft_port_role role,
                             weft_value value);
/* outputs.c: names a further output of the model, [batch, ...]. The graph fails: the name is that
 * of another output or too long, or there are too many. */
void weft_model_builder_output(weft_model_builder *net, const char *name, weft_value value);
/* Adds the ports of the further outputs, each of which has a part for each sample. first: the name
 * of the prediction. ARGUMENT: an output is of another shape, or has this name. */
weft_status weft_model_builder_finish_outputs(weft_model_builder *net,
                                              const char *first) WEFT_NODISCARD;
/* The number of outputs that the last layer has for a sample: one for each class or target. */
int64_t weft_model_builder_outputs(const weft_model_builder *net);
/* loss.c: whether this is the default loss for its kind of target. */
bool weft_loss_is_usual(const weft_context *context, const char *name);
/* Sets the loss, with its key as in "huber:delta=2"; that of the options goes before it; NULL: the
 * default for the target. ARGUMENT: the loss is unknown, or is for the
 * other kind of target. */
weft_status weft_model_builder_set_loss(weft_model_builder *net, const char *name) WEFT_NODISCARD;

/* A weft_numbers with one number that holds for all spatial dimensions. */
#define WEFT_EACH(number) ((weft_numbers){.count = 1, .at = {number}})

/* A layer; its type determines the fields that matter. Zero means the default. */
struct weft_layer {
    const char *name;
    int64_t filters; /* conv: output channels; dense: units */
    weft_numbers kernel, stride, padding, dilation, scale,
        size; /* one for all spatial dimensions, or one for each */
    int64_t groups, axis;
    double rate;              /* dropout */
    double slope, alpha;      /* leaky_relu, elu: of negative numbers */
    double epsilon;           /* norms: added to the variance; 0: 1e-5 */
    double deviation;         /* normal initialisation with this deviation; 0: the default */
    double output_deviation;  /* attention: of the projection of the output */
    int64_t heads, key_heads; /* attention: of queries; of keys and values, 0: as many */
    double rotary;            /* attention: base of the rotary positions; 0: none */
    bool causal;              /* attention: a position reads itself and earlier ones alone */
    const char *share;        /* the layer whose weights this one uses; NULL: it has its own */
    bool he; /* normal initialisation with deviation sqrt(2 / fan in), for deep relu networks */
    bool no_bias;
    const char *dtype;            /* cast: name of the type; "real": that of the model */
    const char *lengths;          /* the input with the number of positions that count; NULL: all */
    int64_t layers;               /* lstm, gru: layers on top of each other */
    bool bidirectional, last;     /* last: gives the last state only */
    bool ceil;                    /* pools: a last window may end behind the padding */
    bool bilinear, align_corners; /* upsample */
    const void *given;            /* all keys of a layer of a YAML model (yaml_keys.h), or NULL */
};

/* --- added_model.c: the services of layers that are added --- */

weft_graph *weft_model_builder_graph(const weft_model_builder *net);
bool weft_model_builder_training(const weft_model_builder *net);
weft_value weft_model_layer(weft_model_builder *net, const char *type, const char *name,
                            const weft_value *in, int count, const char *const *keys);
weft_value weft_model_input(const weft_model_builder *net, const char *name);
const char *weft_layer_name(const weft_layer *layer);
double weft_layer_number(const weft_layer *layer, const char *key, double otherwise);
weft_value weft_layer_parameter(weft_model_builder *net, const weft_layer *layer, const char *name,
                                const weft_shape *shape, weft_init init);
weft_value weft_layer_node(weft_model_builder *net, const weft_layer *layer, const char *suffix,
                           const char *op, const weft_value *in, int count, const weft_attr *attrs,
                           int attr_count);
extern const struct weft_extension weft_layers_extension, weft_models_extension,
    weft_losses_extension;

/* --- layers.c: parts of layers --- */

/* The shape of a value, or an empty shape if the graph has failed. */
weft_shape weft_layer_shape(const weft_model_builder *net, weft_value x);
/* Whether a layer of this type reads a sequence [batch, positions, width]; if not, the graph fails.
 * Calls weft_model_builder_sequences. */
bool weft_layer_reads_sequence(weft_model_builder *net, weft_value x, const weft_layer *layer,
                               const char *type);
/* Adds the leaf "<layer>/<name>", or finds that of the layer whose weights this one shares. */
weft_value weft_layer_leaf(weft_model_builder *net, const weft_layer *layer, const char *name,
                           weft_value_kind kind, weft_shape shape, weft_init init);
/* Adds the node "<layer>/<suffix>", or "<layer>" if the suffix is empty. `_emit` refuses inputs
 * that are tokens, which only a layer that selects rows by them can read. */
weft_value weft_layer_emit_any(weft_model_builder *net, const char *layer, const char *suffix,
                               const char *op, const weft_value *in, int count,
                               const weft_attr *attrs, int attr_count);
weft_value weft_layer_emit(weft_model_builder *net, const char *layer, const char *suffix,
                           const char *op, const weft_value *in, int count, const weft_attr *attrs,
                           int attr_count);

/* Adds the node of a normalisation, with the epsilon of its layer. */
weft_value weft_layer_emit_norm(weft_model_builder *net, const weft_layer *layer,
                                const char *suffix, const char *op, const weft_value *in,
                                int count);

/* Weights are uniform in +-1/sqrt(fan in), or normal with deviation sqrt(2 / fan in) (He et al.
 * 2015) or another one if the layer requests that. */
weft_init weft_layer_weight_init(const weft_layer *layer, int64_t fan_in);
/* Adds a bias of `units` along an axis, unless the layer has none. */
weft_value weft_layer_add_bias(weft_model_builder *net, weft_value x, const weft_layer *layer,
                               int64_t units, int64_t fan_in, int64_t axis);
weft_value weft_layer_reshaped(weft_model_builder *net, const char *layer, const char *suffix,
                               weft_value x, const weft_shape *to);

/* --- layers --- */

weft_value weft_layer_conv(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* The transpose of a convolution whose stride is, if none is given, its kernel: enlarges. */
weft_value weft_layer_conv_transpose(weft_model_builder *net, weft_value x,
                                     const weft_layer *layer);
weft_value weft_layer_dense(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* As dense, but of the last dimension, at each position. */
weft_value weft_layer_linear(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_maxpool(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_avgpool(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_global_avgpool(weft_model_builder *net, weft_value x,
                                     const weft_layer *layer);
weft_value weft_layer_batch_norm(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* A convolution without bias, and batch normalisation of its result. */
weft_value weft_layer_conv_norm(weft_model_builder *net, weft_value x, const char *conv,
                                const char *norm, const weft_layer *how);
weft_value weft_layer_layer_norm(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* Each group of channels of a sample is normalised by itself; gamma and beta are of
 * each channel. */
weft_value weft_layer_group_norm(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_instance_norm(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* resize_layers.c: enlarges each dimension of space `scale` times, or to `size`: repeats the
 * nearest element, or with `bilinear` lies on lines between two. */
weft_value weft_layer_upsample(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* Means of windows that cut each dimension of space into `size` parts, which may overlap. */
weft_value weft_layer_adaptive_avgpool(weft_model_builder *net, weft_value x,
                                       const weft_layer *layer);
/* The numbers of a layer's key as an attribute, one for each spatial dimension; `other` holds the
 * defaults. */
weft_attr weft_layer_sides(weft_model_builder *net, const weft_layer *layer, const char *key,
                           const weft_numbers *given, int dims, const weft_attr *other);
/* The number of spatial dimensions of a layer's input; 0: none, and the graph has failed. */
int weft_layer_space(weft_model_builder *net, weft_value x, const weft_layer *layer,
                     const char *type);
/* The channels of each pixel behind each other: [batch, channels, ...] becomes [batch, positions,
 * channels]. */
weft_value weft_layer_channels_last(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_dropout(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* recurrent.c: samples are sequences [positions, features]. The result is the sequence of states,
 * or the last state; those of both directions are joined. */
weft_value weft_layer_lstm(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_gru(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_flatten(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* relu, gelu, silu, sigmoid, tanh, softmax: the operator of that name. */
weft_value weft_layer_activation(weft_model_builder *net, weft_value x, const char *op,
                                 const char *name);
weft_value weft_layer_cast(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_concat(weft_model_builder *net, const weft_value *x, int count,
                             const weft_layer *layer);
weft_value weft_layer_add(weft_model_builder *net, weft_value a, weft_value b,
                          const weft_layer *layer);

/* --- sequence_layers.c: layers of sequences [positions, width] --- */

/* A vector for each token. */
weft_value weft_layer_embedding(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* Adds a learned vector to each position. */
weft_value weft_layer_positions(weft_model_builder *net, weft_value x, const weft_layer *layer);
weft_value weft_layer_rms_norm(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* Multi-head self-attention with projections of queries, keys, values and the output. */
weft_value weft_layer_attention(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* The mean over the positions that count. */
weft_value weft_layer_sequence_mean(weft_model_builder *net, weft_value x, const weft_layer *layer);
/* The input that the layer names as its lengths; WEFT_NO_VALUE: it names none, or the graph has
 * failed since the input does not fit `positions`. */
weft_value weft_layer_lengths(weft_model_builder *net, const weft_layer *layer, int64_t positions);
/* The product of two layers, element by element. */
weft_value weft_layer_mul(weft_model_builder *net, weft_value a, weft_value b,
                          const weft_layer *layer);

/* --- transformer_block.c --- */

/* Names of the layers of a block, behind that of the block and its number, from `first` on;
 * mlp_dropout: NULL: none behind gelu. norm: the layer behind all blocks. */
typedef struct weft_block_names {
    const char *block;
    int first;
    const char *attention_norm, *attention, *mlp_norm, *mlp_in, *mlp_gelu, *mlp_dropout, *mlp_out;
    const char *norm;
} weft_block_names;

/* Blocks of attention and two dense layers with gelu between them, with normalisation before each
 * half of a block. */
typedef struct weft_blocks {
    const weft_block_names *names; /* NULL: "block1/attention" and so on, and "norm" */
    int layers, heads;
    int64_t width, hidden;     /* hidden: between the dense layers; 0: four times the width */
    double dropout, deviation; /* deviation: of initial weights and positions, as in weft_layer */
    double epsilon;            /* of the norms, as in weft_layer */
    bool causal;
    const char *lengths; /* see weft_layer */
} weft_blocks;
/* Adds the blocks and a norm to x [batch, positions, width]. */
weft_value weft_layer_blocks(weft_model_builder *net, weft_value x, const weft_blocks *blocks);
/* Adds a learned vector to each position before them. */
weft_value weft_layer_positioned_blocks(weft_model_builder *net, weft_value x,
                                        const weft_blocks *blocks);

/* ARGUMENT unless samples are images [channels, height, width] of at least `side` pixels a side. */
weft_status weft_model_builder_images(weft_model_builder *net, const char *model,
                                      int64_t side) WEFT_NODISCARD;
/* ARGUMENT unless samples are tokens with a label for each position. */
weft_status weft_model_builder_tokens(const weft_model_builder *net,
                                      const char *model) WEFT_NODISCARD;

typedef struct weft_model {
    const char *name;
    const char *form; /* with its arguments, as in "gpt[:layers=6]"; NULL: it has none */
    const char *summary;
    /* Adds the layers to the graph, and returns the logits. */
    weft_value (*build)(weft_model_builder *net, weft_value x);
} weft_model;

extern const weft_model weft_model_mlp, weft_model_lenet, weft_model_vgg11, weft_model_inception,
    weft_model_vgg, weft_model_resnet, weft_model_mobilenet, weft_model_densenet, weft_model_gpt,
    weft_model_transformer, weft_model_vit, weft_model_googlenet, weft_model_unet,
    weft_model_autoencoder, weft_model_char_lstm, weft_model_siamese_lstm;

/* Registers the built-in models, and the parts of YAML models. */
weft_status weft_models_register(weft_context *context) WEFT_NODISCARD;
weft_status weft_layers_register(weft_context *context) WEFT_NODISCARD; /* layer_types.c */
/* Adds the nodes of a loss that is built: in: prediction, target and weights. */
weft_status weft_model_builder_build_loss(weft_model_builder *net, const weft_value in[3],
                                          weft_value *loss, weft_value *prediction) WEFT_NODISCARD;
weft_status weft_losses_register(weft_context *context) WEFT_NODISCARD; /* loss.c */

/* yaml.c: adds the layers of a YAML model, which is given as text; `name` is for messages. */
weft_status weft_model_builder_read(weft_model_builder *net, const char *name, const void *data,
                                    size_t size, weft_value *logits) WEFT_NODISCARD;

/* column_embeddings.c: the features of a model that was built for a table, with embeddings in place
 * of categories, and the node that makes them; WEFT_NO_VALUE, -1: no column is embedded. */
weft_value weft_model_embedded(const weft_graph *graph, const struct weft_table *table, int *node);

/* Sets the shape of a sample and the kind of target to those of the data. */
WEFT_PRIVATE_API void weft_model_options_fit(weft_model_options *options,
                                             const weft_data_stats *stats);

/* Appends the outputs of a model that was built in a graph, if it has several. */
void weft_model_outputs_text(const weft_graph *graph, const weft_model_values *values,
                             weft_text *text);

/* Builds the model of a YAML text, if it is given and not empty; else the model that the options
 * name. */
WEFT_PRIVATE_API weft_status weft_build_model(weft_graph *graph, const weft_model_options *options,
                                              const weft_bytes *text,
                                              weft_model_values *out) WEFT_NODISCARD;

/* lengths.c: sets `lengths` of the inputs of the data that the model reads with lengths. */
weft_status weft_model_find_lengths(weft_context *context, const weft_model_options *options,
                                    const weft_bytes *text, weft_input *input,
                                    int inputs) WEFT_NODISCARD;

/* Whether a model's name is the path of a YAML file. */
bool weft_model_is_file(const char *model);
/* Compares two YAML models by the values of their keys. ARGUMENT: the models differ; the message
 * begins with `name` and the line of the first difference. */
weft_status weft_model_compare(const weft_context *context, const char *name,
                               const weft_bytes *text, const char *other_name,
                               const weft_bytes *other) WEFT_NODISCARD;

#endif
