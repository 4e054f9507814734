/* Defines the keys of YAML models, and compares two models key by key. */
#include "models/yaml_keys.h"

const weft_option weft_yaml_model[] = {
    {.name = "name",
     .argument = "NAME",
     .help = "name of the model",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, name)},
    {.name = "description",
     .argument = "TEXT",
     .help = "one-line description",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, description)},
    {.name = "loss",
     .argument = "NAME",
     .help = "loss; default: the usual one for the target",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, loss)},
    {.name = "outputs",
     .argument = "NAMES",
     .help = "layers whose values are outputs of the model, separated by commas; default: the last",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, outputs)},
    {.name = "loss_from",
     .argument = "NAME",
     .help = "output that the loss reads; default: the first",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, loss_from)},
    {.name = NULL},
};

#define KEY(key, text)                                                                             \
    .name = #key, .argument = "VALUE", .help = text, .offset = offsetof(layer_keys, key)
#define WHOLE(key, text, least, start)                                                             \
    {                                                                                              \
        KEY(key, text), .kind = WEFT_OPT_INT, .low = least, .high = 65536, .initial = start        \
    }

/* One number for all spatial dimensions, or a list with one for each. */
#define SIDES(key, text, least)                                                                    \
    {                                                                                              \
        KEY(key, text), .kind = WEFT_OPT_INTS, .low = least, .high = 65536                         \
    }

const weft_option weft_yaml_layers[] = {
    {KEY(type, "kind of layer"), .kind = WEFT_OPT_STRING},
    {KEY(name, "name of the layer, unique"), .kind = WEFT_OPT_STRING},
    {KEY(from, "layers to read, separated by commas"), .kind = WEFT_OPT_STRING},
    WHOLE(block, "with repeat: the number of layers, up to this one, that are repeated", 1, "1"),
    WHOLE(repeat, "copies of the block in all, one after the other", 1, "1"),
    {KEY(units, "dense, lstm, gru: number of outputs, or 'outputs' for those of the data set"),
     .kind = WEFT_OPT_STRING},
    {KEY(init, "initialization of weights"), .kind = WEFT_OPT_STRING, .choices = "uniform,he",
     .initial = "uniform"},
    {KEY(deviation, "embedding, positions: standard deviation of the initial vectors; default: 1"),
     .kind = WEFT_OPT_REAL, .low = 1e-6, .high = 1e3},
    {KEY(dtype, "cast: type of the numbers"), .kind = WEFT_OPT_STRING,
     .choices = "real,f32,f64,i32,i64,u8,bool", .initial = "real"},
    {KEY(share, "the layer whose weights this one uses"), .kind = WEFT_OPT_STRING},
    WHOLE(filters, "conv, conv_transpose: output channels", 1, NULL),
    SIDES(kernel, "conv, conv_transpose, pools: size of the window", 1),
    SIDES(stride, "conv, conv_transpose, pools: stride of the window", 1),
    SIDES(padding, "conv, conv_transpose, pools: zero padding on each side", 0),
    SIDES(dilation, "conv, conv_transpose: dilation of the kernel", 1),
    SIDES(scale, "upsample: factor of each side; default: 2", 1),
    SIDES(size, "upsample, adaptive_avgpool: size of each side of the result", 1),
    {KEY(mode, "upsample: the nearest element, or on lines between two along each side"),
     .kind = WEFT_OPT_STRING, .choices = "nearest,bilinear", .initial = "nearest"},
    {KEY(align_corners, "upsample: the ends of lines are elements, not the edges beyond them"),
     .kind = WEFT_OPT_FLAG, .initial = "false"},
    {KEY(ceil, "pools: a last window may end behind the padding"), .kind = WEFT_OPT_FLAG,
     .initial = "false"},
    WHOLE(groups, "conv, conv_transpose, group_norm: number of channel groups", 1, NULL),
    WHOLE(axis, "concat: axis; default: 1", 1, NULL),
    {KEY(rate, "dropout: probability that an element is zeroed"), .kind = WEFT_OPT_REAL, .low = 0,
     .high = 0.999999, .initial = "0.5"},
    {KEY(slope, "leaky_relu: factor of negative numbers"), .kind = WEFT_OPT_REAL, .low = -1e3,
     .high = 1e3, .initial = "0.01"},
    {KEY(alpha, "elu: -alpha is the limit below"), .kind = WEFT_OPT_REAL, .low = 0, .high = 1e3,
     .initial = "1"},
    {KEY(epsilon, "norms: added to the variance; default: 1e-5"), .kind = WEFT_OPT_REAL,
     .low = 1e-12, .high = 1},
    {KEY(bias, "conv, dense: add a bias"), .kind = WEFT_OPT_FLAG, .initial = "true"},
    WHOLE(layers, "lstm, gru: layers on top of each other; default: 1", 1, NULL),
    {KEY(bidirectional, "lstm, gru: run in both directions and join the results"),
     .kind = WEFT_OPT_FLAG, .initial = "false"},
    WHOLE(heads, "attention: heads of queries, which divide the width", 1, NULL),
    WHOLE(key_heads, "attention: heads of keys and values, which divide heads; default: as many", 1,
          NULL),
    {KEY(causal, "attention: a position reads itself and earlier ones alone"),
     .kind = WEFT_OPT_FLAG, .initial = "false"},
    {KEY(rotary, "attention: rotates queries and keys by their positions, with this base"),
     .kind = WEFT_OPT_REAL, .low = 1, .high = 1e9, .initial = NULL},
    {KEY(last, "lstm, gru: give the last state instead of all"), .kind = WEFT_OPT_FLAG,
     .initial = "false"},
    {KEY(lengths, "lstm, gru, attention, sequence_mean: the input with the number of positions of "
                  "each sample that count"),
     .kind = WEFT_OPT_STRING},
    {.name = NULL,
     .help = "; an activation is a layer of its own, as in {type: relu}, and weft inspect --list "
             "has all layers"},
};

/* The value of a key of a layer (or of the model, if layer < 0) as text. *out is NULL if the key is
 * not given and has no default. */
static weft_status value_of(const weft_yaml *yaml, int layer, const char *key, char **out)
{
    union {
        model_keys model;
        layer_keys layer;
    } k = {{0}};
    const weft_option *table = layer < 0 ? weft_yaml_model : weft_yaml_layers;
    weft_status status = weft_options_init(table, &k);
    if (status == WEFT_OK) status = weft_yaml_apply(yaml, layer, &k);
    if (status == WEFT_OK) status = weft_options_get(table, &k, key, out);
    weft_options_free(table, &k);
    return status;
}

static weft_status compare_key(const weft_yaml *a, const weft_yaml *b, int layer, const char *key,
                               const char *name, const char *other_name)
{
    char *now = NULL, *then = NULL;
    weft_status status = value_of(a, layer, key, &now);
    if (status == WEFT_OK) status = value_of(b, layer, key, &then);
    if (status == WEFT_OK && strcmp(now ? now : "", then ? then : "") != 0) {
        int line = weft_yaml_line(a, layer, key);
        if (line == 1 && layer >= 0) line = weft_yaml_line(a, layer, NULL); /* `a` lacks the key */
        status = weft_fail(WEFT_ERR_ARGUMENT, "%s:%d: %s is '%s', %s has '%s'", name, line, key,
                           now ? now : "", other_name, then ? then : "");
    }
    free(now);
    free(then);
    return status;
}

/* Compares the losses of two models. A model without the key `loss` uses the default for its
 * target, so it equals a model that names that default. */
static weft_status compare_loss(const weft_context *context, const weft_yaml *a, const weft_yaml *b,
                                const char *name, const char *other_name)
{
    char *now = NULL, *then = NULL;
    weft_status status = value_of(a, -1, "loss", &now);
    if (status == WEFT_OK) status = value_of(b, -1, "loss", &then);
    if (status == WEFT_OK && !now != !then && !weft_loss_is_usual(context, now ? now : then))
        status = now ? weft_fail(WEFT_ERR_ARGUMENT, "%s:%d: loss is '%s', %s names none", name,
                                 weft_yaml_line(a, -1, "loss"), now, other_name)
                     : weft_fail(WEFT_ERR_ARGUMENT, "%s: names no loss, %s has loss: %s", name,
                                 other_name, then);
    bool both = now && then;
    free(now);
    free(then);
    return status == WEFT_OK && both ? compare_key(a, b, -1, "loss", name, other_name) : status;
}

weft_status weft_model_compare(const weft_context *context, const char *name,
                               const weft_bytes *text, const char *other_name,
                               const weft_bytes *other)
{
    weft_yaml *a = NULL, *b = NULL;
    weft_status status = weft_yaml_parse(name, text->data, text->size, weft_yaml_model, "layers",
                                         weft_yaml_layers, &a);
    if (status == WEFT_OK)
        status = weft_yaml_parse(other_name, other->data, other->size, weft_yaml_model, "layers",
                                 weft_yaml_layers, &b);
    int layers = status == WEFT_OK ? weft_yaml_count(a) : 0;
    static const char *const keys[] = {"outputs", "loss_from"};
    for (size_t i = 0; i < WEFT_COUNT(keys) && status == WEFT_OK; i++)
        status = compare_key(a, b, -1, keys[i], name, other_name);
    if (status == WEFT_OK) status = compare_loss(context, a, b, name, other_name);
    for (int i = 0; i < layers && i < weft_yaml_count(b) && status == WEFT_OK; i++)
        for (const weft_option *o = weft_yaml_layers; o->name && status == WEFT_OK; o++)
            status = compare_key(a, b, i, o->name, name, other_name);
    if (status == WEFT_OK && layers != weft_yaml_count(b))
        status = weft_fail(WEFT_ERR_ARGUMENT, "%s: has %d layer%s, %s has %d", name, layers,
                           weft_plural(layers), other_name, weft_yaml_count(b));
    weft_yaml_free(&a);
    weft_yaml_free(&b);
    return status;
}
