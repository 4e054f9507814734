/* The types of layers of YAML models: a row for each. */
#include "base/registry.h"
#include "models/yaml_keys.h"

#define ONE(type, text, function, key, more)                                                       \
    {                                                                                              \
        .name = type, .summary = text, .one = function, .form = WEFT_LAYER_ONE, .needs = key,      \
        .keys = more                                                                               \
    }
#define PAIR(type, text, function)                                                                 \
    {                                                                                              \
        .name = type, .summary = text, .pair = function, .form = WEFT_LAYER_PAIR, .keys = ""       \
    }
#define OTHER(how, type, text, more)                                                               \
    {                                                                                              \
        .name = type, .summary = text, .form = how, .keys = more                                   \
    }

static const weft_layer_type types[] = {
    ONE("conv", "convolution with a bias", weft_layer_conv, "filters",
        "filters, kernel, stride, padding, dilation, groups, bias, init, share"),
    ONE("conv_transpose", "transposed convolution, which enlarges, with a bias",
        weft_layer_conv_transpose, "filters",
        "filters, kernel, stride, padding, dilation, groups, bias, init, share"),
    ONE("dense", "matrix product with a bias; flattens its input", weft_layer_dense, "units",
        "units, bias, init, share"),
    ONE("linear", "matrix product of the last dimension with a bias, at each position",
        weft_layer_linear, "units", "units, bias, init, share"),
    ONE("embedding", "a vector for each token", weft_layer_embedding, "units",
        "units, deviation, share"),
    ONE("maxpool", "largest element of a window", weft_layer_maxpool, NULL,
        "kernel, stride, padding, ceil"),
    ONE("avgpool", "mean of a window", weft_layer_avgpool, NULL, "kernel, stride, padding, ceil"),
    ONE("adaptive_avgpool", "means of windows that cut each dimension of space into equal parts",
        weft_layer_adaptive_avgpool, "size", "size"),
    ONE("global_avgpool", "mean over all dimensions of space", weft_layer_global_avgpool, NULL, ""),
    ONE("upsample", "repeats elements along all dimensions of space, or lies between them",
        weft_layer_upsample, NULL, "scale, size, mode, align_corners"),
    ONE("batch_norm", "normalises channels over the batch", weft_layer_batch_norm, NULL, "epsilon"),
    ONE("layer_norm", "normalises the last dimension", weft_layer_layer_norm, NULL,
        "epsilon, share"),
    ONE("group_norm", "normalises each group of channels of a sample", weft_layer_group_norm,
        "groups", "groups, epsilon, share"),
    ONE("instance_norm", "normalises each channel of a sample", weft_layer_instance_norm, NULL,
        "epsilon, share"),
    ONE("dropout", "zeroes elements at random while training", weft_layer_dropout, NULL, "rate"),
    ONE("lstm", "recurrence with gates and cells over positions", weft_layer_lstm, "units",
        "units, layers, bidirectional, last, lengths, share"),
    ONE("gru", "recurrence with gates over positions", weft_layer_gru, "units",
        "units, layers, bidirectional, last, lengths, share"),
    ONE("cast", "the same numbers in another type", weft_layer_cast, "dtype", "dtype"),
    ONE("channels_last", "a position for each pixel, with its channels", weft_layer_channels_last,
        NULL, ""),
    ONE("flatten", "one dimension a sample", weft_layer_flatten, NULL, ""),
    OTHER(WEFT_LAYER_ACTIVATION, "relu", "max(x, 0)", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "gelu", "x times the normal distribution function", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "silu", "x / (1 + exp(-x))", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "sigmoid", "1 / (1 + exp(-x))", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "tanh", "hyperbolic tangent", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "softmax", "shares of exp(x) along the last dimension", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "relu6", "max(x, 0), but at most 6", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "hardsigmoid", "x / 6 + 1/2, but from 0 to 1", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "hardswish", "x times hardsigmoid(x)", ""),
    OTHER(WEFT_LAYER_ACTIVATION, "leaky_relu", "max(x, slope x)", "slope"),
    OTHER(WEFT_LAYER_ACTIVATION, "elu", "x, or alpha (exp(x) - 1) below 0", "alpha"),
    OTHER(WEFT_LAYER_JOIN, "concat", "joins layers along an axis", "axis"),
    PAIR("add", "sum of two layers, whose samples broadcast from the last dimension on",
         weft_layer_add),
    PAIR("mul", "product of two layers, element by element; samples broadcast as with add",
         weft_layer_mul),
    ONE("positions", "adds a learned vector to each position", weft_layer_positions, NULL,
        "deviation, share"),
    ONE("rms_norm", "divides the last dimension by its root mean square", weft_layer_rms_norm, NULL,
        "epsilon, share"),
    ONE("attention", "multi-head self-attention", weft_layer_attention, "heads",
        "heads, key_heads, causal, rotary, lengths, bias, share"),
    ONE("sequence_mean", "mean over the positions", weft_layer_sequence_mean, NULL, "lengths"),
};

weft_status weft_layers_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(types)];
    weft_context_extend(context, &weft_layers_extension);
    for (size_t i = 0; i < WEFT_COUNT(types); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_LAYER,
                                  .name = types[i].name,
                                  .summary = types[i].summary,
                                  .ops = &types[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(types));
}

static const char *activation_word(const void *user, int i)
{
    (void)user;
    return i == 0 ? "activation" : NULL;
}

weft_status weft_layer_type_find(const weft_context *context, const char *name,
                                 const weft_layer_type **out)
{
    const weft_entry *entry = weft_registry_look(context, WEFT_KIND_LAYER, name, strlen(name));
    char *list;
    weft_text text = {0};
    if (!entry && !weft_nearest(name, activation_word, NULL))
        WEFT_TRY(weft_registry_find(context, WEFT_KIND_LAYER, name, strlen(name), &entry));
    if (entry) {
        *out = entry->ops;
        return WEFT_OK;
    }
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_LAYER, i)); i++)
        if (((const weft_layer_type *)entry->ops)->form == WEFT_LAYER_ACTIVATION)
            weft_text_add(&text, "%s%s", text.size ? ", " : "", entry->name);
    WEFT_TRY(weft_text_take(&text, &list));
    weft_status status = weft_fail(WEFT_ERR_ARGUMENT,
                                   "no layer type is named '%s'; each activation is a layer type "
                                   "of its own: %s",
                                   name, list);
    free(list);
    return status;
}

bool weft_layer_type_has_key(const weft_layer_type *type, const char *key)
{
    size_t size = strlen(key);
    static const char *const common[] = {"type", "name", "from", "block", "repeat"};
    for (size_t i = 0; i < WEFT_COUNT(common); i++)
        if (strcmp(key, common[i]) == 0) return true;
    for (const char *at = type->keys; (at = strstr(at, key)); at += size)
        if ((at == type->keys || at[-1] == ' ') && (at[size] == ',' || !at[size])) return true;
    return false;
}

static weft_status units_of(const weft_model_builder *net, const char *units, int64_t *out)
{
    bool classes = strcmp(units, "classes") == 0;
    if (classes && !net->loss->classes)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "units is 'classes', but %s; write 'outputs', which is one for each class "
                         "or each target",
                         net->loss->binary ? "these data have several labels, each 0 or 1"
                                           : "the target of these data is numbers");
    if (classes || strcmp(units, "outputs") == 0) {
        *out = weft_model_builder_outputs(net);
        return WEFT_OK;
    }
    if (weft_parse_int(units, out) && *out >= 1 && *out <= 1 << 20) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "units is '%s', must be a whole number from 1 to 1048576, or 'outputs'",
                     units);
}

weft_status weft_layer_from_keys(const weft_model_builder *net, const layer_keys *k,
                                 const char *name, weft_layer *out)
{
    *out = (weft_layer){.name = name,
                        .filters = k->filters,
                        .kernel = k->kernel,
                        .stride = k->stride,
                        .padding = k->padding,
                        .dilation = k->dilation,
                        .scale = k->scale,
                        .size = k->size,
                        .bilinear = strcmp(k->mode, "bilinear") == 0,
                        .align_corners = k->align_corners,
                        .ceil = k->ceil,
                        .groups = k->groups,
                        .axis = k->axis,
                        .rate = k->rate,
                        .slope = k->slope,
                        .alpha = k->alpha,
                        .epsilon = k->epsilon,
                        .deviation = k->deviation,
                        .share = k->share,
                        .he = strcmp(k->init, "he") == 0,
                        .no_bias = !k->bias,
                        .layers = k->layers,
                        .bidirectional = k->bidirectional,
                        .last = k->last,
                        .heads = k->heads,
                        .key_heads = k->key_heads,
                        .causal = k->causal,
                        .rotary = k->rotary,
                        .lengths = k->lengths,
                        .dtype = k->dtype,
                        .given = k};
    return k->units ? units_of(net, k->units, &out->filters) : WEFT_OK;
}

weft_status weft_layer_type_check(const weft_layer_type *type, int count)
{
    if ((type->form == WEFT_LAYER_ONE || type->form == WEFT_LAYER_ACTIVATION) && count != 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "a %s layer reads one layer, not %d", type->name,
                         count);
    if (type->form == WEFT_LAYER_PAIR && count != 2)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s %s layer reads two layers, as in from: a, b",
                         strchr("aeiou", type->name[0]) ? "an" : "a", type->name);
    int low = type->added ? type->added->min_inputs : 1;
    int high = type->added ? type->added->max_inputs : -1;
    if (count >= low && (high < 0 || count <= high)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "a %s layer reads %s%d layers, not %d", type->name,
                     count < low ? "at least " : "at most ", count < low ? low : high, count);
}

/* The key of an activation, if it has one, is an attribute of its operator. */
static weft_value activation(const weft_layer_type *type, weft_model_builder *net,
                             const weft_layer *layer, weft_value x)
{
    double value = strcmp(type->keys, "slope") == 0 ? layer->slope : layer->alpha;
    const weft_attr attr = {.name = type->keys, .real = value};
    return weft_layer_emit(net, layer->name, "", type->name, &x, 1, &attr, *type->keys != '\0');
}

weft_value weft_layer_type_build(const weft_layer_type *type, weft_model_builder *net,
                                 const weft_layer *layer, const weft_value *in, int count)
{
    switch (type->form) {
    case WEFT_LAYER_ONE: return type->one(net, in[0], layer);
    case WEFT_LAYER_ACTIVATION: return activation(type, net, layer, in[0]);
    case WEFT_LAYER_JOIN: return weft_layer_concat(net, in, count, layer);
    case WEFT_LAYER_PAIR: return type->pair(net, in[0], in[1], layer);
    default: return type->added->build(net, layer, in, count);
    }
}

const char *weft_layer_keys(const weft_context *context, const char *type)
{
    WEFT_NEED_ELSE(NULL, context, type);
    const weft_entry *entry = weft_registry_look(context, WEFT_KIND_LAYER, type, strlen(type));
    return entry ? ((const weft_layer_type *)entry->ops)->keys : NULL;
}
