/* Builds a model from a YAML file, such as
 *
 *   name: small
 *   layers:
 *     - {type: conv, filters: 16, kernel: 3, padding: 1}
 *     - {type: relu}
 *     - {type: maxpool}
 *     - {type: dense, units: outputs}
 *
 * The key `loss` names the loss, `outputs` the layers that are outputs, and `loss_from` the one of
 * them that the loss reads. A layer reads the layer before it, or the layers and inputs that its
 * key `from` names ("x" is the usual input). In the copies of a repeated block a name means the
 * layer of the same copy, and the layer that the first copy reads means the last one of the copy
 * before. */
#include "formats/yaml.h"

#include <math.h>
#include <stdio.h>

#include "base/registry.h"
#include "models/yaml_blocks.h"

typedef struct reader {
    weft_model_builder *net;
    const weft_yaml *yaml;
    const char *file;
    layer_places places; /* the layers, with repeated blocks written out */
    weft_value *made;    /* [layers] output of each layer */
    char **names;
    weft_names numbers; /* numbers of the layers by name */
    weft_names given;   /* names that the file gives to layers, also to later ones */
    char **given_names;
    bool *read; /* [layers] whether a later layer or an output reads the layer */
    int count;
    model_keys model;
    weft_value *logits; /* what the loss reads */
} reader;

static const char *made_candidate(const void *user, int i)
{
    const reader *r = user;
    int inputs = r->net->options->inputs;
    if (i < inputs) return r->net->options->input[i].name;
    return i < inputs + r->count ? r->names[i - inputs] : NULL;
}

/* The place of the layer that is read now. */
static const layer_place *place_of(const reader *r)
{
    return &r->places.at[r->count];
}

static weft_status at(const reader *r, const char *key, weft_status status)
{
    return weft_fail_within(status, "%s:%d", r->file,
                            weft_yaml_line(r->yaml, place_of(r)->item, key));
}

/* Refuses keys that the type of layer does not use. */
static weft_status check_keys(const reader *r, const weft_layer_type *type)
{
    for (const weft_option *o = weft_yaml_layers; o->name; o++)
        if (weft_yaml_gives(r->yaml, place_of(r)->item, o->name) &&
            !weft_layer_type_has_key(type, o->name))
            return at(r, o->name,
                      weft_fail(WEFT_ERR_ARGUMENT,
                                "a %s layer has no key '%s'; its keys are type, name, from%s%s",
                                type->name, o->name, *type->keys ? ", " : "", type->keys));
    return WEFT_OK;
}

/* Refuses a layer name with characters that have a meaning in lists or patterns, since names of
 * parameters contain it. */
static weft_status check_name(const reader *r, const char *name)
{
    enum { LONGEST = 64 };
    bool fine = *name && strlen(name) <= LONGEST;
    bool input = weft_model_builder_feature(r->net, name) != WEFT_NO_VALUE;
    if (fine && !input && !strpbrk(name, " ,:;=*?[]{}'\"\\")) return WEFT_OK;
    return at(r, "name",
              weft_fail(WEFT_ERR_ARGUMENT,
                        "a layer is named '%s'; a name has 1 to %d bytes, without spaces and "
                        "characters of lists and patterns (, : ; = * ? and brackets)%s",
                        name, LONGEST, input ? ", and this one is an input of the data" : ""));
}

static weft_value value_of(const reader *r, int layer)
{
    if (layer < 0) return weft_model_builder_input(r->net, WEFT_PORT_FEATURES);
    r->read[layer] = true;
    return r->made[layer];
}

/* Whether the name is that of a layer in the first copy of the block in which this layer is. */
static bool is_in_block(const reader *r, const char *name)
{
    const layer_place *p = place_of(r);
    int layer = weft_names_find(&r->given, name);
    return layer >= p->original && layer < p->original + (p->begin - p->original) / (p->copy - 1);
}

/* The name of the layer of this copy, in place of that of the first one. */
static weft_status name_in_copy(const reader *r, char **name)
{
    char *own;
    if (!*name || !is_in_block(r, *name)) return WEFT_OK;
    WEFT_TRY(weft_copy_name(*name, place_of(r)->copy, &own));
    free(*name);
    *name = own;
    return WEFT_OK;
}

static weft_status name_copy(const reader *r, layer_keys *k)
{
    WEFT_TRY(name_in_copy(r, &k->name));
    return name_in_copy(r, &k->share);
}

/* The layer of a name in `from`; -1: there is none, but perhaps an input. */
static int find_layer(const reader *r, const char *name)
{
    const layer_place *p = place_of(r);
    char own[128];
    int layer = weft_names_find(&r->numbers, name);
    if (p->copy <= 1) return layer;
    bool input =
        layer < 0 && p->original == 0 && weft_model_builder_feature(r->net, name) != WEFT_NO_VALUE;
    if (input || (layer >= 0 && layer == p->original - 1)) return p->begin - 1;
    if (!is_in_block(r, name)) return layer;
    (void)snprintf(own, sizeof(own), "%.100s_%d", name, p->copy);
    return weft_names_find(&r->numbers, own);
}

typedef struct list {
    const reader *r;
    weft_value *in;
    int count;
    size_t capacity;
} list;

static weft_status add_input(void *user, char *piece)
{
    list *l = user;
    const reader *r = l->r;
    char near[512], *name = piece + strspn(piece, " ");
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--) name[n - 1] = '\0';
    int layer = find_layer(r, name);
    weft_value v = layer < 0 ? weft_model_builder_feature(r->net, name) : WEFT_NO_VALUE;
    if (v == WEFT_NO_VALUE && layer >= 0) v = value_of(r, layer);
    if (v == WEFT_NO_VALUE)
        return weft_fail(WEFT_ERR_ARGUMENT, "no layer before this one is named '%s'%s", name,
                         weft_suggest(near, sizeof(near), name, made_candidate, r));
    WEFT_TRY(WEFT_GROW(&l->in, &l->capacity, (size_t)l->count));
    l->in[l->count++] = v;
    return WEFT_OK;
}

/* The values of the layers that `from` names, or of the previous layer; the caller frees *in. */
static weft_status inputs(const reader *r, const layer_keys *k, weft_value **in, int *count)
{
    list l = {.r = r};
    weft_status status = WEFT_OK;
    if (k->from)
        status = weft_each_piece("from", k->from, add_input, &l);
    else
        status = WEFT_GROW(&l.in, &l.capacity, 0);
    if (status == WEFT_OK && !k->from) l.in[l.count++] = value_of(r, r->count - 1);
    *in = l.in;
    *count = l.count;
    return status == WEFT_OK ? status : at(r, "from", status);
}

/* A layer shares the weights of an earlier layer. */
static weft_status check_shared(const reader *r, const layer_keys *k)
{
    char near[512];
    if (weft_names_find(&r->numbers, k->share) >= 0) return WEFT_OK;
    return at(r, "share",
              weft_fail(WEFT_ERR_ARGUMENT, "no layer before this one is named '%s'%s", k->share,
                        weft_suggest(near, sizeof(near), k->share, made_candidate, r)));
}

static weft_status add_reading(reader *r, const weft_layer_type *type, const layer_keys *k,
                               const char *name, const weft_value *in, int count)
{
    weft_layer layer;
    weft_status status = weft_layer_from_keys(r->net, k, name, &layer);
    if (status != WEFT_OK) return at(r, "units", status);
    if (k->share) WEFT_TRY(check_shared(r, k));
    status = weft_layer_type_check(type, count);
    if (status != WEFT_OK) return at(r, k->from ? "from" : "type", status);
    weft_value out = weft_layer_type_build(type, r->net, &layer, in, count);
    status = weft_graph_status(r->net->graph);
    if (status != WEFT_OK) return at(r, NULL, status);
    r->made[r->count] = out;
    return WEFT_OK;
}

static weft_status add_layer(reader *r, const weft_layer_type *type, const layer_keys *k,
                             const char *name)
{
    weft_value *in = NULL;
    int count;
    weft_status status = inputs(r, k, &in, &count);
    if (status == WEFT_OK) status = add_reading(r, type, k, name, in, count);
    free(in);
    return status;
}

static weft_status check_layer(const reader *r, const layer_keys *k, const weft_layer_type **out)
{
    if (!k->type)
        return at(r, NULL, weft_fail(WEFT_ERR_ARGUMENT, "a layer needs a type, as in type: conv"));
    weft_status status = weft_layer_type_find(r->net->graph->context, k->type, out);
    if (status != WEFT_OK) return at(r, "type", status);
    const weft_layer_type *type = *out;
    if (type->needs && !weft_yaml_gives(r->yaml, place_of(r)->item, type->needs))
        return at(r, NULL,
                  weft_fail(WEFT_ERR_ARGUMENT, "a %s layer needs '%s'", k->type, type->needs));
    return WEFT_OK;
}

/* Names a layer: its name in the file, or else its type and number. Such an automatic name differs
 * from all names that the file gives, before or after this layer. */
static weft_status name_layer(const reader *r, const char *own, const char *type, char **out)
{
    int first = own ? weft_names_find(&r->numbers, own) : -1;
    if (first >= 0)
        return at(r, "name",
                  weft_fail(WEFT_ERR_ARGUMENT,
                            "two layers are named '%s', this one and that of line %d; give each a "
                            "name of its own, or leave one of them without",
                            own, weft_yaml_line(r->yaml, r->places.at[first].item, "name")));
    if (own) return weft_strdup(own, out);
    WEFT_TRY(weft_format(out, "%s%d", type, r->count + 1));
    while (weft_names_find(&r->given, *out) >= 0 || weft_names_find(&r->numbers, *out) >= 0) {
        char *next;
        weft_status status = weft_format(&next, "%s_", *out);
        free(*out);
        *out = NULL;
        WEFT_TRY(status);
        *out = next;
    }
    return WEFT_OK;
}

/* Collects all names that the file gives to layers and their copies, before the first layer needs
 * one. */
static weft_status find_given(reader *r)
{
    for (int i = 0; i < r->places.count; i++) {
        layer_keys k = {0};
        const layer_place *p = &r->places.at[i];
        if (!weft_yaml_gives(r->yaml, p->item, "name")) continue;
        /* read_layer will report a failure */
        bool named = weft_yaml_apply(r->yaml, p->item, &k) == WEFT_OK && k.name;
        weft_status status = named ? weft_copy_name(k.name, p->copy, &r->given_names[i]) : WEFT_OK;
        weft_options_free(weft_yaml_layers, &k);
        WEFT_TRY(status);
        if (named && weft_names_find(&r->given, r->given_names[i]) < 0)
            WEFT_TRY(weft_names_add(&r->given, r->given_names[i], i));
    }
    return WEFT_OK;
}

static weft_status read_layer(reader *r)
{
    layer_keys k = {0};
    const weft_layer_type *type = NULL;
    char *name = NULL;
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(weft_options_init(weft_yaml_layers, &k), done);
    WEFT_TRY_GOTO(weft_yaml_apply(r->yaml, place_of(r)->item, &k), done);
    if (place_of(r)->copy > 1) WEFT_TRY_GOTO(name_copy(r, &k), done);
    WEFT_TRY_GOTO(check_layer(r, &k, &type), done);
    WEFT_TRY_GOTO(check_keys(r, type), done);
    if (k.name) WEFT_TRY_GOTO(check_name(r, k.name), done);
    WEFT_TRY_GOTO(name_layer(r, k.name, type->name, &name), done);
    WEFT_TRY_GOTO(add_layer(r, type, &k, name), done);
    WEFT_TRY_GOTO(weft_names_add(&r->numbers, name, r->count), done);
    r->names[r->count++] = name;
    name = NULL;
done:
    free(name);
    weft_options_free(weft_yaml_layers, &k);
    return status;
}

/* When a model is built for training, warns of layers that no later layer reads, which is legal but
 * hardly intended. */
static void warn_of_unread(const reader *r)
{
    for (int i = 0; i < r->count && r->net->options->training; i++)
        if (!r->read[i])
            weft_log(r->net->graph->context, WEFT_LOG_WARNING,
                     "%s:%d: no layer reads '%s', so it learns nothing; name it in the 'from' "
                     "of a later layer, or leave it out",
                     r->file, weft_yaml_line(r->yaml, r->places.at[i].item, NULL), r->names[i]);
}

static weft_status at_model(const reader *r, const char *key, weft_status status)
{
    return weft_fail_within(status, "%s:%d", r->file, weft_yaml_line(r->yaml, -1, key));
}

/* Reads the keys of the model itself. */
static weft_status read_model(reader *r)
{
    model_keys *k = &r->model;
    WEFT_TRY(weft_options_init(weft_yaml_model, k));
    WEFT_TRY(weft_yaml_apply(r->yaml, -1, k));
    weft_status status = weft_model_builder_set_loss(r->net, k->loss);
    if (status != WEFT_OK && k->loss) return at_model(r, "loss", status);
    if (status == WEFT_OK && k->loss_from && !k->outputs)
        return at_model(r, "loss_from",
                        weft_fail(WEFT_ERR_ARGUMENT,
                                  "loss_from is '%s', and the model names no "
                                  "outputs; add 'outputs', or leave it out",
                                  k->loss_from));
    return status;
}

static const char *layer_candidate(const void *user, int i)
{
    const reader *r = user;
    return i < r->count ? r->names[i] : NULL;
}

/* Adds the output `piece`, which is a layer. The loss reads the first one, or that of loss_from. */
static weft_status add_output(void *user, char *piece)
{
    reader *r = user;
    char near[512], *name = piece + strspn(piece, " ");
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--) name[n - 1] = '\0';
    int layer = weft_names_find(&r->numbers, name);
    if (layer < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "no layer is named '%s'%s", name,
                         weft_suggest(near, sizeof(near), name, layer_candidate, r));
    const char *scored = r->model.loss_from ? r->model.loss_from : r->net->scored;
    if (strcmp(r->net->scored, name) == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "it names '%s' twice", name);
    r->read[layer] = true;
    if (*scored && strcmp(scored, name) != 0) {
        weft_model_builder_output(r->net, name, r->made[layer]);
        return weft_graph_status(r->net->graph);
    }
    if (strlen(name) >= WEFT_INPUT_NAME)
        return weft_fail(WEFT_ERR_ARGUMENT, "output '%s': a name has 1 to %d bytes", name,
                         WEFT_INPUT_NAME - 1);
    (void)snprintf(r->net->scored, sizeof(r->net->scored), "%s", name);
    *r->logits = r->made[layer];
    return WEFT_OK;
}

/* The outputs that the model names; without the key it has one, the last layer. */
static weft_status read_outputs(reader *r)
{
    const model_keys *k = &r->model;
    if (!k->outputs) {
        *r->logits = r->made[r->count - 1];
        r->read[r->count - 1] = true;
        return WEFT_OK;
    }
    weft_status status = weft_each_piece("outputs", k->outputs, add_output, r);
    if (status != WEFT_OK) return at_model(r, "outputs", status);
    if (*r->net->scored) return WEFT_OK;
    return at_model(r, "loss_from",
                    weft_fail(WEFT_ERR_ARGUMENT,
                              "loss_from is '%s', must be one of the outputs, %s", k->loss_from,
                              k->outputs));
}

weft_status weft_model_builder_read(weft_model_builder *net, const char *name, const void *data,
                                    size_t size, weft_value *logits)
{
    weft_yaml *yaml;
    WEFT_TRY(weft_yaml_parse(name, data, size, weft_yaml_model, "layers", weft_yaml_layers, &yaml));
    reader r = {.net = net, .yaml = yaml, .file = name, .logits = logits};
    weft_status status = WEFT_OK;
    if (weft_yaml_count(yaml) == 0)
        status =
            weft_fail(WEFT_ERR_FORMAT, "%s: has no layers; give them under the key 'layers'", name);
    if (status == WEFT_OK) status = weft_layer_places(yaml, name, &r.places);
    int layers = r.places.count;
    if (status == WEFT_OK) status = read_model(&r);
    if (status == WEFT_OK) status = WEFT_NEW(&r.made, layers);
    if (status == WEFT_OK) status = WEFT_NEW(&r.names, layers);
    if (status == WEFT_OK) status = WEFT_NEW(&r.read, layers);
    if (status == WEFT_OK) status = WEFT_NEW(&r.given_names, layers);
    if (status == WEFT_OK) status = find_given(&r);
    while (status == WEFT_OK && r.count < layers) status = read_layer(&r);
    if (status == WEFT_OK) status = read_outputs(&r);
    if (status == WEFT_OK) warn_of_unread(&r);
    for (int i = 0; i < r.count; i++) free(r.names[i]);
    for (int i = 0; i < layers && r.given_names; i++) free(r.given_names[i]);
    weft_names_free(&r.numbers);
    weft_names_free(&r.given);
    weft_options_free(weft_yaml_model, &r.model);
    free(r.given_names);
    free(r.places.at);
    free(r.names);
    free(r.read);
    free(r.made);
    weft_yaml_free(&yaml);
    return status;
}
