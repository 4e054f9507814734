/* Sums up a model by its layers: shapes, parameters, operations and activations of one sample, from
 * the graph that predicts. */
#include <stdio.h>

#include "models/models.h"
#include "optim/optim.h"
#include "train/train.h"
#include "train/trainer.h"

enum { MOST_CLASSES = 1000000000 };

typedef struct layer {
    const char *name; /* not ended: `size` bytes of a name of the graph */
    size_t size;
    bool named;        /* a node has the name of the layer alone */
    bool read;         /* another layer reads it */
    weft_value output; /* the last of its values that others read; of none, that of its last node */
    weft_layer_summary sum;
} layer;

typedef struct summary {
    const weft_graph *graph;
    double width;   /* bytes of a real number of an activation */
    char *needed;   /* [nodes] the outputs of the model depend on it */
    int *maker;     /* [values] the node that makes it; -1: a leaf */
    size_t *layer;  /* [nodes] of `layers`, of needed ones */
    double *factor; /* [values] of the learning rate of a parameter; 0: it is frozen */
    char *counted;  /* [values] parameters that a layer has */
    layer *layers;
    size_t count, capacity;
} summary;

/* --- which nodes belong together --- */

static void need(summary *s, weft_value value)
{
    if (value != WEFT_NO_VALUE && s->maker[value] >= 0) s->needed[s->maker[value]] = 1;
}

/* Marks the nodes on which the outputs depend: from the last one, all inputs of marked ones. */
static void find_needed(summary *s, const weft_model_values *values)
{
    weft_value logits = weft_model_value(values, WEFT_PORT_LOGITS), output;
    weft_model_output about;
    need(s, logits != WEFT_NO_VALUE ? logits : weft_model_value(values, WEFT_PORT_PREDICTION));
    for (int i = 1; weft_model_output_at(s->graph, values, i, &about, &output); i++)
        need(s, output);
    for (int n = weft_graph_node_count(s->graph); n-- > 0;) {
        const weft_value *inputs;
        int count = s->needed[n] ? weft_graph_node_inputs(s->graph, n, &inputs) : 0;
        for (int i = 0; i < count; i++) need(s, inputs[i]);
    }
}

/* Whether a prefix of a node's name is that of a layer: leaves are named "<layer>/weight", and the
 * node of a layer that has others ("<layer>/bias") has its name alone. */
static bool is_layer(const summary *s, const char *name, size_t size)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->layers[i].size == size && strncmp(s->layers[i].name, name, size) == 0) return true;
    for (weft_value v = 0; v < weft_graph_value_count(s->graph); v++) {
        if (weft_graph_value_kind(s->graph, v) != WEFT_VALUE_PARAM) continue;
        const char *leaf = weft_graph_value_name(s->graph, v), *slash = strrchr(leaf, '/');
        if (slash && (size_t)(slash - leaf) == size && strncmp(leaf, name, size) == 0) return true;
    }
    return false;
}

/* The bytes of a node's name that name its layer: the longest prefix that does, or all. */
static size_t layer_of(const summary *s, const char *name)
{
    size_t all = strlen(name);
    for (size_t size = all; size-- > 0;)
        if (name[size] == '/' && is_layer(s, name, size)) return size;
    return all;
}

static weft_status find_layer(summary *s, const char *name, layer **out)
{
    size_t size = layer_of(s, name);
    for (size_t i = 0; i < s->count; i++) {
        *out = &s->layers[i];
        if ((*out)->size == size && strncmp((*out)->name, name, size) == 0) return WEFT_OK;
    }
    WEFT_TRY(WEFT_GROW(&s->layers, &s->capacity, s->count));
    *out = &s->layers[s->count++];
    **out = (layer){.name = name, .size = size, .output = WEFT_NO_VALUE};
    return WEFT_OK;
}

/* --- sums --- */

/* The shape of one sample: without the first dimension, of a batch of one. */
static weft_shape of_sample(const weft_shape *batch)
{
    weft_shape sample = {.rank = WEFT_MAX(batch->rank - 1, 0)};
    for (int d = 0; d < sample.rank; d++) sample.dim[d] = batch->dim[d + 1];
    return sample;
}

static void take_output(const summary *s, layer *l)
{
    weft_layer_summary *out = &l->sum;
    if (l->output == WEFT_NO_VALUE) return;
    weft_type type = weft_graph_value_type(s->graph, l->output);
    double each = weft_dtype_is_float(type.dtype) ? s->width : (double)weft_dtype_size(type.dtype);
    out->output = of_sample(&type.shape);
    out->activation_bytes = each * (double)weft_shape_elements(&type.shape);
}

/* A later layer may read another output than the first of a node that has several, as a recurrence
 * has. */
static void find_outputs(summary *s, int node)
{
    const weft_value *inputs;
    int count = weft_graph_node_inputs(s->graph, node, &inputs);
    for (int i = 0; i < count; i++) {
        int maker = s->maker[inputs[i]];
        if (maker < 0 || s->layer[maker] == s->layer[node]) continue;
        layer *l = &s->layers[s->layer[maker]];
        l->read = true;
        l->output = WEFT_MAX(l->output, inputs[i]);
    }
}

/* The first output of its last node is that of a layer which no other one reads. */
static void find_ends(summary *s)
{
    for (int n = 0; n < weft_graph_node_count(s->graph); n++) {
        weft_value first;
        if (!s->needed[n] || weft_graph_node_outputs(s->graph, n, &first) == 0) continue;
        layer *l = &s->layers[s->layer[n]];
        if (!l->read) l->output = first;
    }
    for (size_t i = 0; i < s->count; i++) take_output(s, &s->layers[i]);
}

static bool take_parameters(summary *s, int node, weft_layer_summary *out)
{
    bool matrix = false;
    const weft_value *inputs;
    int count = weft_graph_node_inputs(s->graph, node, &inputs);
    for (int i = 0; i < count; i++) {
        weft_value v = inputs[i];
        if (weft_graph_value_kind(s->graph, v) != WEFT_VALUE_PARAM || s->counted[v]) continue;
        weft_type type = weft_graph_value_type(s->graph, v);
        int64_t elements = weft_shape_elements(&type.shape);
        s->counted[v] = 1;
        out->parameters += elements;
        if (s->factor[v] == 0) out->frozen += elements;
        matrix = matrix || type.shape.rank > 1;
    }
    return matrix;
}

/* A layer has the kind of the node of its name; or else of the last one that has weights, since a
 * recurrence projects its inputs before its steps; or else of its first one. */
static weft_status add_node(summary *s, int node)
{
    layer *l;
    const char *name = weft_graph_node_name(s->graph, node);
    WEFT_TRY(find_layer(s, name, &l));
    s->layer[node] = (size_t)(l - s->layers);
    bool weighs = take_parameters(s, node, &l->sum);
    if (!l->sum.kind || !name[l->size] || (weighs && !l->named))
        l->sum.kind = weft_graph_node_op(s->graph, node);
    l->named = l->named || !name[l->size];
    l->sum.flops += weft_graph_node_cost(s->graph, node).flops;
    return WEFT_OK;
}

/* Sets the factors of the learning rates of parameters by the patterns of --freeze. */
static weft_status find_frozen(summary *s, const char *freeze)
{
    int values = weft_graph_value_count(s->graph), count = 0;
    weft_optimizer_options o;
    const char **names = NULL;
    double *factors = NULL;
    for (weft_value v = 0; v < values; v++) s->factor[v] = 1;
    if (!freeze || !*freeze) return WEFT_OK;
    weft_optimizer_options_init(&o);
    o.frozen = freeze;
    WEFT_TRY(WEFT_NEW(&names, values + 1));
    weft_status status = WEFT_NEW(&factors, values + 1);
    for (weft_value v = 0; v < values && status == WEFT_OK; v++)
        if (weft_graph_value_kind(s->graph, v) == WEFT_VALUE_PARAM)
            names[count++] = weft_graph_value_name(s->graph, v);
    if (status == WEFT_OK) status = weft_multipliers(&o, names, count, true, factors);
    for (weft_value v = 0, i = 0; v < values && status == WEFT_OK; v++)
        if (weft_graph_value_kind(s->graph, v) == WEFT_VALUE_PARAM) s->factor[v] = factors[i++];
    free(names);
    free(factors);
    return status;
}

static weft_status open_summary(summary *s)
{
    int nodes = weft_graph_node_count(s->graph), values = weft_graph_value_count(s->graph);
    WEFT_TRY(WEFT_NEW(&s->needed, nodes + 1));
    WEFT_TRY(WEFT_NEW(&s->maker, values + 1));
    WEFT_TRY(WEFT_NEW(&s->layer, nodes + 1));
    WEFT_TRY(WEFT_NEW(&s->factor, values + 1));
    WEFT_TRY(WEFT_NEW(&s->counted, values + 1));
    for (weft_value v = 0; v < values; v++) s->maker[v] = -1;
    for (int n = 0; n < nodes; n++) {
        weft_value first = 0;
        int count = weft_graph_node_outputs(s->graph, n, &first);
        for (int i = 0; i < count; i++) s->maker[first + i] = n;
    }
    return WEFT_OK;
}

/* Passes the layers to fn, each with its name ended. */
static weft_status tell(summary *s, weft_layer_fn fn, void *user)
{
    for (size_t i = 0; i < s->count; i++) {
        char *name;
        layer *l = &s->layers[i];
        WEFT_TRY(weft_format(&name, "%.*s", (int)l->size, l->name));
        l->sum.name = name;
        fn(user, &l->sum);
        free(name);
    }
    return WEFT_OK;
}

static weft_status sum_up(const weft_graph *graph, const weft_model_values *values, double width,
                          const char *freeze, weft_layer_fn fn, void *user)
{
    summary s = {.graph = graph, .width = width};
    weft_status status = open_summary(&s);
    if (status == WEFT_OK) status = find_frozen(&s, freeze);
    if (status == WEFT_OK) find_needed(&s, values);
    for (int n = 0; n < weft_graph_node_count(graph) && status == WEFT_OK; n++)
        if (s.needed[n]) status = add_node(&s, n);
    for (int n = 0; n < weft_graph_node_count(graph) && status == WEFT_OK; n++)
        if (s.needed[n]) find_outputs(&s, n);
    if (status == WEFT_OK) find_ends(&s);
    if (status == WEFT_OK) status = tell(&s, fn, user);
    free(s.needed);
    free(s.maker);
    free(s.layer);
    free(s.factor);
    free(s.counted);
    free(s.layers);
    return status;
}

/* --- models --- */

/* Builds the model as it predicts, for one sample. Activations of mixed precision are BF16, which
 * its graph has after a later pass. */
static weft_status summarize(weft_context *context, const weft_model_options *model,
                             const weft_bytes *text, const char *dtype, const char *freeze,
                             weft_layer_fn fn, void *user)
{
    weft_model_options o = *model;
    weft_model_values values;
    weft_graph *graph;
    weft_dtype real = WEFT_F32;
    o.batch = 1;
    o.training = false;
    (void)weft_dtype_parse(dtype, &real);
    WEFT_TRY(weft_graph_create(context, real, &graph));
    weft_status status = weft_build_model(graph, &o, text, &values);
    if (status == WEFT_OK)
        status = sum_up(graph, &values, (double)weft_dtype_size(real), freeze, fn, user);
    weft_graph_destroy(&graph);
    return status;
}

/* Reads the shape of a sample, as in 3x224x224. */
static weft_status read_shape(const char *text, weft_shape *out)
{
    const char *at = text;
    *out = (weft_shape){.rank = 0};
    while (out->rank < WEFT_MAX_RANK - 1) {
        char number[24];
        size_t size = strcspn(at, "x");
        (void)snprintf(number, sizeof(number), "%.*s", (int)WEFT_MIN(size, (size_t)23), at);
        int64_t *dim = &out->dim[out->rank++];
        if (!weft_parse_int(number, dim) || *dim < 1 || *dim > INT32_MAX) break;
        at += size;
        if (!*at) return WEFT_OK;
        at++;
    }
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "input '%s' is no shape of a sample; give numbers from 1 with x between them, "
                     "as in 3x224x224",
                     text);
}

weft_status weft_train_summary(weft_context *context, const weft_train_options *options,
                               const char *input, int classes, weft_layer_fn fn, void *user)
{
    WEFT_NEED(context, options, fn);
    weft_model_options model;
    weft_shape sample;
    weft_trainer *t = NULL;
    const char *freeze = options->weights.freeze, *dtype = options->task.dtype;
    if (!input) {
        WEFT_TRY(weft_trainer_prepare(context, options, NULL, &t));
        weft_status status =
            summarize(context, &t->run_spec.model, &t->model, dtype, freeze, fn, user);
        weft_trainer_destroy(&t);
        return status;
    }
    WEFT_TRY(weft_options_valid(weft_train_table(context), options));
    WEFT_TRY(read_shape(input, &sample));
    if (classes < 0 || classes > MOST_CLASSES)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d classes, must be from 0 (a number) to %d", classes,
                         MOST_CLASSES);
    weft_model_options_init(&model);
    model.model = options->task.model;
    weft_model_options_set_sample(&model, sample);
    model.classes = classes;
    model.targets = classes > 0 ? 0 : 1;
    return summarize(context, &model, NULL, dtype, freeze, fn, user);
}

weft_status weft_checkpoint_summary(weft_context *context, const char *path, weft_layer_fn fn,
                                    void *user)
{
    WEFT_NEED(context, path, fn);
    weft_checkpoint c;
    weft_model_options model;
    WEFT_TRY(weft_checkpoint_open_model(path, weft_train_table(context), &c));
    weft_model_options_init(&model);
    model.model = weft_settings_find(&c.settings, "model");
    weft_model_options_fit(&model, &c.stats);
    const char *dtype = weft_settings_find(&c.settings, "dtype");
    weft_status status = summarize(context, &model, &c.model, dtype ? dtype : "f32",
                                   weft_settings_find(&c.settings, "freeze"), fn, user);
    weft_checkpoint_close(&c);
    return status;
}
