/* A model as a YAML file:
 *
 *   name: small
 *   layers:
 *     - {type: conv, filters: 16, kernel: 3, padding: 1}
 *     - {type: relu}
 *     - {type: maxpool}
 *     - {type: dense, units: classes}
 *
 * A layer reads the one before it, or those named in `from` ("x" is the input). */
#include "formats/yaml.h"

#include <math.h>
#include <stdio.h>

#include "models/models.h"

typedef struct model_keys {
    char *name, *description;
} model_keys;

static const weft_option model_table[] = {
    {.name = "name",
     .argument = "NAME",
     .help = "name of the model",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, name)},
    {.name = "description",
     .argument = "TEXT",
     .help = "a sentence about it",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(model_keys, description)},
    {.name = NULL},
};

typedef struct layer_keys {
    char *type, *name, *from, *units, *init;
    int64_t filters, kernel, stride, padding, dilation, groups, axis;
    double rate;
    bool bias;
} layer_keys;

#define KEY(key, text)                                                                             \
    .name = #key, .argument = "VALUE", .help = text, .offset = offsetof(layer_keys, key)
#define WHOLE(key, text, least, start)                                                             \
    {                                                                                              \
        KEY(key, text), .kind = WEFT_OPT_INT, .low = least, .high = 65536, .initial = start        \
    }

static const weft_option layer_table[] = {
    {KEY(type, "kind of layer"), .kind = WEFT_OPT_STRING},
    {KEY(name, "name of the layer, unique"), .kind = WEFT_OPT_STRING},
    {KEY(from, "layers to read, separated by commas"), .kind = WEFT_OPT_STRING},
    {KEY(units, "dense: outputs, or 'classes'"), .kind = WEFT_OPT_STRING},
    {KEY(init, "how weights start"), .kind = WEFT_OPT_STRING, .choices = "uniform,he",
     .initial = "uniform"},
    WHOLE(filters, "conv: output channels", 1, NULL),
    WHOLE(kernel, "conv, pools: side of the window", 1, NULL),
    WHOLE(stride, "conv, pools: step of the window", 1, NULL),
    {KEY(padding, "conv, pools: zeros around"), .kind = WEFT_OPT_INT, .low = 0, .high = 65536},
    WHOLE(dilation, "conv: distance of kernel elements", 1, NULL),
    WHOLE(groups, "conv: groups of channels", 1, NULL),
    WHOLE(axis, "concat: axis, 1 unless said", 1, NULL),
    {KEY(rate, "dropout: share that falls"), .kind = WEFT_OPT_REAL, .low = 0, .high = 0.999999,
     .initial = "0.5"},
    {KEY(bias, "conv, dense: add a bias"), .kind = WEFT_OPT_FLAG, .initial = "true"},
    {.name = NULL},
};

enum { MOST_INPUTS = 16 };

typedef struct reader {
    weft_net *net;
    const weft_yaml *yaml;
    const char *file;
    weft_value *made; /* value of each layer */
    char **names;
    bool *read; /* whether a later layer reads it */
    int count;
} reader;

typedef struct layer_type {
    const char *name, *summary;
    weft_value (*plain)(weft_net *net, weft_value x, const weft_layer *layer); /* or an operator */
    enum { ONE, ACTIVATION, JOIN, SUM } form;
    const char *needs; /* a key that must be given */
} layer_type;

static const layer_type types[] = {
    {"conv", "convolution with a bias", weft_layer_conv, ONE, "filters"},
    {"dense", "matrix product with a bias; flattens its input", weft_layer_dense, ONE, "units"},
    {"maxpool", "largest element of a window", weft_layer_maxpool, ONE, NULL},
    {"avgpool", "mean of a window", weft_layer_avgpool, ONE, NULL},
    {"global_avgpool", "mean over height and width", weft_layer_global_avgpool, ONE, NULL},
    {"batch_norm", "normalises channels over the batch", weft_layer_batch_norm, ONE, NULL},
    {"layer_norm", "normalises the last dimension", weft_layer_layer_norm, ONE, NULL},
    {"dropout", "zeroes elements at random while training", weft_layer_dropout, ONE, NULL},
    {"flatten", "one dimension a sample", weft_layer_flatten, ONE, NULL},
    {"relu", "max(x, 0)", NULL, ACTIVATION, NULL},
    {"gelu", "x times the normal distribution function", NULL, ACTIVATION, NULL},
    {"sigmoid", "1 / (1 + exp(-x))", NULL, ACTIVATION, NULL},
    {"tanh", "hyperbolic tangent", NULL, ACTIVATION, NULL},
    {"concat", "joins layers along an axis", NULL, JOIN, NULL},
    {"add", "sum of two layers", NULL, SUM, NULL},
};

const char *weft_layer_name(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(types) ? types[i].name : NULL;
}

const char *weft_layer_summary(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(types) ? types[i].summary : NULL;
}

static const char *type_candidate(const void *user, int i)
{
    (void)user;
    return weft_layer_name(i);
}

static const char *made_candidate(const void *user, int i)
{
    const reader *r = user;
    return i == 0 ? "x" : i <= r->count ? r->names[i - 1] : NULL;
}

static weft_status at(const reader *r, const char *key, weft_status status)
{
    return weft_fail_within(status, "%s:%d", r->file, weft_yaml_line(r->yaml, r->count, key));
}

static weft_value take(const reader *r, int layer)
{
    if (layer < 0) return r->net->values.x;
    r->read[layer] = true;
    return r->made[layer];
}

/* The values named in `from`, or the last layer. */
static weft_status inputs(const reader *r, const layer_keys *k, weft_value *in, int *count)
{
    char near[512];
    *count = 0;
    if (!k->from) {
        in[(*count)++] = take(r, r->count - 1);
        return WEFT_OK;
    }
    char *save = NULL, *list;
    WEFT_TRY(weft_strdup(k->from, &list));
    weft_status status = WEFT_OK;
    for (char *name = strtok_r(list, ", ", &save); name && status == WEFT_OK;
         name = strtok_r(NULL, ", ", &save)) {
        weft_value v = strcmp(name, "x") == 0 ? take(r, -1) : WEFT_NO_VALUE;
        for (int i = 0; i < r->count; i++)
            if (strcmp(r->names[i], name) == 0) v = take(r, i);
        if (v == WEFT_NO_VALUE)
            status = weft_fail(WEFT_ERR_ARGUMENT, "no layer before this one is named '%s'%s", name,
                               weft_suggest(near, sizeof(near), name, made_candidate, r));
        else if (*count == MOST_INPUTS)
            status = weft_fail(WEFT_ERR_ARGUMENT, "more than %d layers are read", MOST_INPUTS);
        else
            in[(*count)++] = v;
    }
    free(list);
    return status == WEFT_OK ? status : at(r, "from", status);
}

static weft_status units_of(const reader *r, const layer_keys *k, int64_t *out)
{
    if (strcmp(k->units, "classes") == 0) {
        *out = r->net->options->classes;
        return WEFT_OK;
    }
    if (weft_parse_int(k->units, out) && *out >= 1 && *out <= 1 << 20) return WEFT_OK;
    return at(r, "units",
              weft_fail(WEFT_ERR_ARGUMENT,
                        "units is '%s', must be a whole number from 1 to 1048576, or "
                        "'classes'",
                        k->units));
}

static weft_status add_layer(reader *r, const layer_type *type, const layer_keys *k,
                             const char *name)
{
    weft_value in[MOST_INPUTS], out;
    int count;
    WEFT_TRY(inputs(r, k, in, &count));
    weft_layer layer = {.name = name,
                        .filters = k->filters,
                        .kernel = k->kernel,
                        .stride = k->stride,
                        .padding = k->padding,
                        .dilation = k->dilation,
                        .groups = k->groups,
                        .axis = k->axis,
                        .rate = k->rate,
                        .he = strcmp(k->init, "he") == 0,
                        .no_bias = !k->bias};
    if (k->units) WEFT_TRY(units_of(r, k, &layer.filters));
    if ((type->form == ONE || type->form == ACTIVATION) && count != 1)
        return at(
            r, "from",
            weft_fail(WEFT_ERR_ARGUMENT, "a %s layer reads one layer, not %d", type->name, count));
    if (type->form == SUM && count != 2)
        return at(r, "type",
                  weft_fail(WEFT_ERR_ARGUMENT, "an add layer reads two layers, as in "
                                               "from: a, b"));
    switch (type->form) {
    case ONE: out = type->plain(r->net, in[0], &layer); break;
    case ACTIVATION: out = weft_layer_activation(r->net, in[0], type->name, name); break;
    case JOIN: out = weft_layer_concat(r->net, in, count, &layer); break;
    default: out = weft_layer_add(r->net, in[0], in[1], &layer); break;
    }
    weft_status status = weft_graph_status(r->net->graph);
    if (status != WEFT_OK) return at(r, NULL, status);
    r->made[r->count] = out;
    return WEFT_OK;
}

static weft_status check_layer(const reader *r, const layer_keys *k, const layer_type **out)
{
    char near[512];
    if (!k->type)
        return at(r, NULL, weft_fail(WEFT_ERR_ARGUMENT, "a layer needs a type, as in type: conv"));
    for (size_t i = 0; i < WEFT_COUNT(types); i++) {
        if (strcmp(types[i].name, k->type) != 0) continue;
        *out = &types[i];
        bool missing =
            types[i].needs && (strcmp(types[i].needs, "units") == 0 ? !k->units : !k->filters);
        if (missing)
            return at(
                r, NULL,
                weft_fail(WEFT_ERR_ARGUMENT, "a %s layer needs '%s'", k->type, types[i].needs));
        return WEFT_OK;
    }
    return at(r, "type",
              weft_fail(WEFT_ERR_ARGUMENT, "no layer type is named '%s'%s", k->type,
                        weft_suggest(near, sizeof(near), k->type, type_candidate, NULL)));
}

static weft_status read_layer(reader *r)
{
    layer_keys k = {0};
    const layer_type *type = NULL;
    char *name = NULL;
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(weft_options_init(layer_table, &k), done);
    WEFT_TRY_GOTO(weft_yaml_apply(r->yaml, r->count, &k), done);
    WEFT_TRY_GOTO(check_layer(r, &k, &type), done);
    if (k.name)
        WEFT_TRY_GOTO(weft_strdup(k.name, &name), done);
    else
        WEFT_TRY_GOTO(weft_format(&name, "%s%d", type->name, r->count + 1), done);
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->names[i], name) == 0) {
            status = at(r, "name", weft_fail(WEFT_ERR_ARGUMENT, "two layers are named '%s'", name));
            goto done;
        }
    WEFT_TRY_GOTO(add_layer(r, type, &k, name), done);
    r->names[r->count++] = name;
    name = NULL;
done:
    free(name);
    weft_options_free(layer_table, &k);
    return status;
}

/* Legal, but nobody would write it on purpose: what the last layer does not depend on. */
static void warn_of_unread(const reader *r)
{
    for (int i = 0; i < r->count - 1 && r->net->options->training; i++)
        if (!r->read[i])
            weft_log(r->net->graph->context, WEFT_LOG_WARNING,
                     "%s:%d: nobody reads layer '%s', so it learns nothing; name it in the 'from' "
                     "of a later layer, or leave it out",
                     r->file, weft_yaml_line(r->yaml, i, NULL), r->names[i]);
}

weft_status weft_net_read(weft_net *net, const char *name, const void *data, size_t size,
                          weft_value *logits)
{
    weft_yaml *yaml;
    WEFT_TRY(weft_yaml_parse(name, data, size, model_table, "layers", layer_table, &yaml));
    reader r = {.net = net, .yaml = yaml, .file = name};
    int layers = weft_yaml_count(yaml);
    weft_status status = WEFT_OK;
    if (layers == 0)
        status =
            weft_fail(WEFT_ERR_FORMAT, "%s: has no layers; give them under the key 'layers'", name);
    if (status == WEFT_OK) status = WEFT_NEW(&r.made, layers);
    if (status == WEFT_OK) status = WEFT_NEW(&r.names, layers);
    if (status == WEFT_OK) status = WEFT_NEW(&r.read, layers);
    while (status == WEFT_OK && r.count < layers) status = read_layer(&r);
    if (status == WEFT_OK) warn_of_unread(&r);
    if (status == WEFT_OK) *logits = r.made[layers - 1];
    for (int i = 0; i < r.count; i++) free(r.names[i]);
    free(r.names);
    free(r.read);
    free(r.made);
    weft_yaml_free(&yaml);
    return status;
}

/* One layer's key as text; NULL: it is not given and has no default. */
static weft_status value_of(const weft_yaml *yaml, int layer, const char *key, char **out)
{
    layer_keys k = {0};
    weft_status status = weft_options_init(layer_table, &k);
    if (status == WEFT_OK) status = weft_yaml_apply(yaml, layer, &k);
    if (status == WEFT_OK) status = weft_options_get(layer_table, &k, key, out);
    weft_options_free(layer_table, &k);
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
        if (line == 1) line = weft_yaml_line(a, layer, NULL); /* it has been left out */
        status = weft_fail(WEFT_ERR_ARGUMENT, "%s:%d: %s is '%s', %s has '%s'", name, line, key,
                           now ? now : "", other_name, then ? then : "");
    }
    free(now);
    free(then);
    return status;
}

weft_status weft_model_compare(const char *name, const weft_bytes *text, const char *other_name,
                               const weft_bytes *other)
{
    weft_yaml *a = NULL, *b = NULL;
    weft_status status =
        weft_yaml_parse(name, text->data, text->size, model_table, "layers", layer_table, &a);
    if (status == WEFT_OK)
        status = weft_yaml_parse(other_name, other->data, other->size, model_table, "layers",
                                 layer_table, &b);
    int layers = status == WEFT_OK ? weft_yaml_count(a) : 0;
    for (int i = 0; i < layers && i < weft_yaml_count(b) && status == WEFT_OK; i++)
        for (const weft_option *o = layer_table; o->name && status == WEFT_OK; o++)
            status = compare_key(a, b, i, o->name, name, other_name);
    if (status == WEFT_OK && layers != weft_yaml_count(b))
        status = weft_fail(WEFT_ERR_ARGUMENT, "%s: has %d layers, %s has %d", name, layers,
                           other_name, weft_yaml_count(b));
    weft_yaml_free(&a);
    weft_yaml_free(&b);
    return status;
}
