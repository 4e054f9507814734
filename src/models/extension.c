/* Makes layers of those that programs and plug-ins add (weft/model_ops.h). */
#include "base/registry.h"
#include "models/yaml_keys.h"

static weft_status accept_layer(weft_context *context, const weft_entry *entry, const void *ops,
                                void **made)
{
    const weft_layer_ops *layer = ops;
    weft_layer_type *type;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "build", layer->build));
    if (layer->min_inputs < 1 || (layer->max_inputs >= 0 && layer->max_inputs < layer->min_inputs))
        return weft_fail(WEFT_ERR_ARGUMENT, "it reads %d to %d layers, must read at least one",
                         layer->min_inputs, layer->max_inputs);
    WEFT_TRY(WEFT_NEW(&type, 1));
    *type = (weft_layer_type){.name = entry->name,
                              .summary = entry->summary,
                              .form = WEFT_LAYER_ADDED,
                              .needs = layer->needs,
                              .keys = layer->keys ? layer->keys : "",
                              .added = layer};
    *made = type;
    return WEFT_OK;
}

const weft_extension weft_layers_extension = {.kind = WEFT_KIND_LAYER,
                                              .type = "weft_layer_ops",
                                              .size = sizeof(weft_layer_ops),
                                              .least = sizeof(weft_layer_ops),
                                              .accept = accept_layer};

/* --- services --- */

weft_graph *weft_model_builder_graph(const weft_model_builder *net)
{
    return net->graph;
}

bool weft_model_builder_training(const weft_model_builder *net)
{
    return net->options->training;
}

const char *weft_layer_name(const weft_layer *layer)
{
    return layer->name;
}

double weft_layer_number(const weft_layer *layer, const char *key, double otherwise)
{
    char *text, *end;
    if (strcmp(key, "units") == 0) return layer->filters ? (double)layer->filters : otherwise;
    if (!layer->given || weft_options_get(weft_yaml_layers, layer->given, key, &text) != WEFT_OK ||
        !text)
        return otherwise;
    double number = strtod(text, &end);
    if (end == text)
        number = strcmp(text, "true") == 0 ? 1 : strcmp(text, "false") == 0 ? 0 : otherwise;
    free(text);
    return number;
}

weft_value weft_layer_parameter(weft_model_builder *net, const weft_layer *layer, const char *name,
                                const weft_shape *shape, weft_init init)
{
    return weft_layer_leaf(net, layer, name, WEFT_VALUE_PARAM, *shape, init);
}

weft_value weft_layer_node(weft_model_builder *net, const weft_layer *layer, const char *suffix,
                           const char *op, const weft_value *in, int count, const weft_attr *attrs,
                           int attr_count)
{
    return weft_layer_emit(net, layer->name, suffix, op, in, count, attrs, attr_count);
}
