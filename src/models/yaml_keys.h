/* Declares the keys of a YAML model and of its layers. */
#ifndef WEFT_MODELS_YAML_KEYS_H
#define WEFT_MODELS_YAML_KEYS_H

#include "formats/yaml.h"
#include "models/models.h"

typedef struct model_keys {
    char *name, *description, *loss;
} model_keys;

/* The keys of a layer's mapping; the type of the layer determines which are allowed. */
typedef struct layer_keys {
    char *type, *name, *from, *units, *init, *share;
    int64_t filters, groups, axis, layers, heads, key_heads;
    weft_numbers kernel, stride, padding, dilation; /* one for all dimensions, or one for each */
    double rate, rotary;
    bool bias, bidirectional, last, causal;
} layer_keys;

extern const weft_option weft_yaml_model[], weft_yaml_layers[];

#endif
