/* Inside of YAML models: what may stand in a file. */
#ifndef WEFT_MODELS_YAML_KEYS_H
#define WEFT_MODELS_YAML_KEYS_H

#include "formats/yaml.h"
#include "models/models.h"

typedef struct model_keys {
    char *name, *description, *loss;
} model_keys;

/* What a layer's mapping may hold; which of these keys a layer has depends on its type. */
typedef struct layer_keys {
    char *type, *name, *from, *units, *init;
    int64_t filters, groups, axis;
    weft_numbers kernel, stride, padding, dilation; /* one for all dimensions, or for each */
    double rate;
    bool bias;
} layer_keys;

extern const weft_option weft_yaml_model[], weft_yaml_layers[];

#endif
