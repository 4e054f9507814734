/* Declares the keys of a YAML model and of its layers. */
#ifndef WEFT_MODELS_YAML_KEYS_H
#define WEFT_MODELS_YAML_KEYS_H

#include "formats/yaml.h"
#include "models/models.h"

typedef struct model_keys {
    char *name, *description, *loss, *loss_from, *outputs;
} model_keys;

/* The keys of a layer's mapping; the type of the layer determines which are allowed. */
typedef struct layer_keys {
    char *type, *name, *from, *units, *init, *share, *lengths, *dtype, *mode;
    int64_t filters, groups, axis, layers, heads, key_heads, block, repeat;
    weft_numbers kernel, stride, padding, dilation, scale,
        size; /* one for all dimensions, or one for each */
    double rate, rotary, deviation, slope, alpha, epsilon;
    bool bias, bidirectional, last, causal, ceil, align_corners;
} layer_keys;

/* How a type of layer reads other layers: one, one by an operator of the layer's name, two, any
 * number, or as the struct of an added layer says. */
typedef enum weft_layer_form {
    WEFT_LAYER_ONE,
    WEFT_LAYER_ACTIVATION,
    WEFT_LAYER_PAIR,
    WEFT_LAYER_JOIN,
    WEFT_LAYER_ADDED
} weft_layer_form;

typedef struct weft_layer_type {
    const char *name, *summary;
    weft_value (*one)(weft_model_builder *net, weft_value x, const weft_layer *layer);
    weft_layer_form form;
    const char *needs; /* a required key, or NULL */
    const char *keys;  /* besides type, name and from */
    weft_value (*pair)(weft_model_builder *net, weft_value a, weft_value b,
                       const weft_layer *layer);
    const weft_layer_ops *added;
} weft_layer_type;

/* Finds a layer type by its name. ARGUMENT: there is none, or the name is a word for several; the
 * message has them. */
weft_status weft_layer_type_find(const weft_context *context, const char *name,
                                 const weft_layer_type **out) WEFT_NODISCARD;

/* Whether layers of the type have a key. */
bool weft_layer_type_has_key(const weft_layer_type *type, const char *key);
/* The layer that keys describe. ARGUMENT: its units are no number that suits the data. */
weft_status weft_layer_from_keys(const weft_model_builder *net, const layer_keys *keys,
                                 const char *name, weft_layer *out) WEFT_NODISCARD;
/* ARGUMENT: layers of the type do not read so many layers. */
weft_status weft_layer_type_check(const weft_layer_type *type, int count) WEFT_NODISCARD;
/* Adds a layer to the graph. */
weft_value weft_layer_type_build(const weft_layer_type *type, weft_model_builder *net,
                                 const weft_layer *layer, const weft_value *in, int count);

extern const weft_option weft_yaml_model[], weft_yaml_layers[];

#endif
