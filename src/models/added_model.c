/* Makes layers, models and losses of those that programs and plug-ins add (weft/model_ops.h), and
 * implements the services for them. */
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

/* The model of an entry, and the struct that it was made of. */
typedef struct added_model {
    weft_model model;
    const weft_model_ops *ops;
} added_model;

static weft_value build_model(weft_model_builder *net, weft_value x)
{
    const added_model *added = (const added_model *)(const void *)net->model;
    return added->ops->build(net, net->arguments, x);
}

static weft_status accept_model(weft_context *context, const weft_entry *entry, const void *ops,
                                void **made)
{
    added_model *added;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "build", ((const weft_model_ops *)ops)->build));
    WEFT_TRY(WEFT_NEW(&added, 1));
    added->ops = ops;
    added->model = (weft_model){
        .name = entry->name, .form = entry->form, .summary = entry->summary, .build = build_model};
    *made = added;
    return WEFT_OK;
}

static weft_status accept_loss(weft_context *context, const weft_entry *entry, const void *ops,
                               void **made)
{
    const weft_loss_ops *given = ops;
    weft_loss *loss;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "op", given->op));
    WEFT_TRY(WEFT_NEW(&loss, 1));
    *loss = (weft_loss){
        .name = entry->name, .summary = entry->summary, .classes = given->classes, .op = given->op};
    *made = loss;
    return WEFT_OK;
}

const weft_extension weft_models_extension = {.kind = WEFT_KIND_MODEL,
                                              .type = "weft_model_ops",
                                              .size = sizeof(weft_model_ops),
                                              .least = sizeof(weft_model_ops),
                                              .accept = accept_model};
const weft_extension weft_losses_extension = {.kind = WEFT_KIND_LOSS,
                                              .type = "weft_loss_ops",
                                              .size = sizeof(weft_loss_ops),
                                              .least = sizeof(weft_loss_ops),
                                              .accept = accept_loss};

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

static weft_status set_keys(const weft_layer_type *type, const char *const *keys, layer_keys *k)
{
    bool needs = type->needs;
    for (; keys && keys[0]; keys += 2) {
        if (!weft_layer_type_has_key(type, keys[0]))
            return weft_fail(WEFT_ERR_ARGUMENT, "it has no key '%s'; its keys are %s", keys[0],
                             *type->keys ? type->keys : "none");
        if (!keys[1]) return weft_fail(WEFT_ERR_ARGUMENT, "its key '%s' has no value", keys[0]);
        WEFT_TRY(weft_options_set(weft_yaml_layers, k, keys[0], keys[1]));
        if (type->needs && strcmp(keys[0], type->needs) == 0) needs = false;
    }
    if (needs) return weft_fail(WEFT_ERR_ARGUMENT, "it needs '%s'", type->needs);
    return WEFT_OK;
}

weft_value weft_model_layer(weft_model_builder *net, const char *type, const char *name,
                            const weft_value *in, int count, const char *const *keys)
{
    layer_keys k = {0};
    weft_layer layer;
    const weft_layer_type *found;
    weft_value out = WEFT_NO_VALUE;
    if (weft_graph_status(net->graph) != WEFT_OK) return WEFT_NO_VALUE;
    weft_status status = weft_layer_type_find(net->graph->context, type, &found);
    if (status == WEFT_OK) status = weft_options_init(weft_yaml_layers, &k);
    if (status == WEFT_OK) status = set_keys(found, keys, &k);
    if (status == WEFT_OK) status = weft_layer_from_keys(net, &k, name, &layer);
    if (status == WEFT_OK) status = weft_layer_type_check(found, count);
    if (status == WEFT_OK)
        out = weft_layer_type_build(found, net, &layer, in, count);
    else
        (void)weft_graph_stick(net->graph, weft_fail_within(status, "layer '%s' (%s)", name, type));
    weft_options_free(weft_yaml_layers, &k);
    return out;
}

weft_value weft_model_input(const weft_model_builder *net, const char *name)
{
    return weft_model_builder_feature(net, name);
}
