/* Declares the layers of a YAML model with repeated blocks written out. */
#ifndef WEFT_MODELS_YAML_BLOCKS_H
#define WEFT_MODELS_YAML_BLOCKS_H

#include "models/yaml_keys.h"

/* A layer: the item of the file that describes it, and the number of its copy, from 1. first_item:
 * the first item of its block, -1: it is in none. begin, original: the layers with which this copy
 * of the block and the first one begin. */
typedef struct layer_place {
    int item, copy, first_item, begin, original;
} layer_place;

typedef struct layer_places {
    layer_place *at;
    int count;
    size_t capacity;
} layer_places;

/* Lists the layers of a model; the caller frees out->at, also after a failure. ARGUMENT: blocks
 * overlap, or are larger than what is before them. */
weft_status weft_layer_places(const weft_yaml *yaml, const char *file,
                              layer_places *out) WEFT_NODISCARD;
/* The name of a copy of a named layer: the first copy has the name itself, others NAME_2, NAME_3.
 */
weft_status weft_copy_name(const char *name, int copy, char **out) WEFT_NODISCARD;

#endif
