/* Registers the built-in models, and builds a model: its inputs, its layers and its loss. */
#include <stdio.h>

#include "base/registry.h"
#include "formats/formats.h"
#include "graph/inference.h"
#include "models/models.h"

static const weft_model *const models[] = {
    &weft_model_lenet,     &weft_model_mlp,         &weft_model_vgg11,     &weft_model_inception,
    &weft_model_vgg,       &weft_model_resnet,      &weft_model_mobilenet, &weft_model_densenet,
    &weft_model_googlenet, &weft_model_vit,         &weft_model_unet,      &weft_model_autoencoder,
    &weft_model_gpt,       &weft_model_transformer, &weft_model_char_lstm, &weft_model_siamese_lstm,
};

weft_status weft_models_register(weft_context *context)
{
    weft_context_extend(context, &weft_models_extension);
    weft_entry entries[WEFT_COUNT(models)];
    for (size_t i = 0; i < WEFT_COUNT(models); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_MODEL,
                                  .name = models[i]->name,
                                  .form = models[i]->form,
                                  .summary = models[i]->summary,
                                  .ops = models[i]};
    WEFT_TRY(weft_layers_register(context));
    WEFT_TRY(weft_losses_register(context));
    return weft_registry_add(context, entries, WEFT_COUNT(models));
}

void weft_model_options_init_size(weft_model_options *options, size_t size)
{
    const weft_model_options ours = {
        .struct_size = sizeof(weft_model_options), .model = "lenet", .batch = 1, .classes = 2};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

void weft_model_options_set_sample(weft_model_options *options, weft_shape sample)
{
    WEFT_NEED_VOID(options);
    options->inputs = 1;
    options->input[0] = (weft_input){.name = "x", .dtype = WEFT_F32, .shape = sample};
}

static weft_status check_options(const weft_model_options *o)
{
    if (!o->model || !*o->model)
        return weft_fail(WEFT_ERR_ARGUMENT, "the model is %s, must be a name or a file",
                         o->model ? "empty" : "NULL");
    if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the label smoothing is %g, must be from 0 up to but not including 1",
                         o->label_smoothing);
    if (o->batch < 1 || o->batch > INT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT, "batch is %lld, must be from 1 to %d",
                         (long long)o->batch, INT32_MAX);
    if (o->targets < 0 || (o->targets > 0 && o->classes != 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "classes is %d and targets %d: a target is a class, then targets is 0, or "
                         "it is numbers, then classes is 0",
                         o->classes, o->targets);
    if (o->targets == 0 && o->classes < 2)
        return weft_fail(WEFT_ERR_ARGUMENT, "the data have %d class, a classifier needs at least 2",
                         o->classes);
    if (o->inputs < 1 || o->inputs > WEFT_MAX_INPUTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "a sample has %d inputs, 1 to %d are possible",
                         o->inputs, WEFT_MAX_INPUTS);
    for (int i = 0; i < o->inputs; i++)
        if (o->input[i].shape.rank < (o->input[i].values > 0 ? 0 : 1) ||
            o->input[i].shape.rank >= WEFT_MAX_RANK)
            return weft_fail(WEFT_ERR_ARGUMENT, "a sample has %d dimensions, 1 to %d are possible",
                             o->input[i].shape.rank, WEFT_MAX_RANK - 1);
    if (o->positions < 0 || (o->positions > 0 && o->targets > 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "positions is %lld and targets %d: positions have classes, not numbers",
                         (long long)o->positions, o->targets);
    return WEFT_OK;
}

weft_value weft_model_value(const weft_model_values *values, weft_port_role role)
{
    WEFT_NEED_ELSE(WEFT_NO_VALUE, values);
    WEFT_CHECK_INDEX_ELSE(WEFT_NO_VALUE, role, WEFT_PORT_ROLES);
    for (int i = 0; i < values->count; i++)
        if (values->ports[i].role == role) return values->ports[i].value;
    return WEFT_NO_VALUE;
}

weft_value weft_model_builder_input(const weft_model_builder *net, weft_port_role role)
{
    if (role == WEFT_PORT_FEATURES && net->embeds) return net->embedded;
    return weft_model_value(&net->values, role);
}

int64_t weft_model_builder_outputs(const weft_model_builder *net)
{
    return net->options->targets ? net->options->targets : net->options->classes;
}

weft_value weft_model_feature(const weft_model_values *values, const char *name)
{
    WEFT_NEED_ELSE(WEFT_NO_VALUE, values, name);
    for (int i = 0; i < values->count; i++) {
        const weft_port *p = &values->ports[i];
        if (p->role == WEFT_PORT_FEATURES && strcmp(p->name, name) == 0) return p->value;
    }
    return WEFT_NO_VALUE;
}

weft_value weft_model_builder_feature(const weft_model_builder *net, const char *name)
{
    weft_value x = weft_model_feature(&net->values, name);
    return net->embeds && x == weft_model_value(&net->values, WEFT_PORT_FEATURES) ? net->embedded
                                                                                  : x;
}

void weft_model_builder_sequences(weft_model_builder *net)
{
    for (int i = 0; i < net->values.count; i++) {
        const weft_port *p = &net->values.ports[i];
        if (p->role != WEFT_PORT_FEATURES || p->value == WEFT_NO_VALUE) continue;
        int rank = weft_value_type(net->graph, p->value)->shape.rank;
        if (rank == 2 || rank == 3) weft_graph_set_domain(net->graph, p->value, 1);
    }
}

void weft_model_builder_port(weft_model_builder *net, const char *name, weft_port_role role,
                             weft_value value)
{
    weft_port *port = &net->values.ports[net->values.count++];
    *port = (weft_port){.role = role, .value = value};
    (void)snprintf(port->name, sizeof(port->name), "%s", name);
}

static void add_input(weft_model_builder *net, const char *name, weft_port_role role,
                      weft_dtype dtype, weft_shape shape)
{
    const weft_init none = {WEFT_INIT_CONSTANT, 0};
    weft_value v = weft_graph_leaf(net->graph, WEFT_VALUE_INPUT, name, dtype, &shape, none);
    bool sequence = shape.rank == 2 || shape.rank == 3; /* positions of images are their pixels */
    if (net->options->positions > 0 && sequence) weft_graph_set_domain(net->graph, v, 1);
    weft_model_builder_port(net, name, role, v);
}

static bool mixes(const weft_model_options *o)
{
    return o->mixes && o->training && o->classes > 0;
}

static void add_inputs(weft_model_builder *net)
{
    const weft_model_options *o = net->options;
    weft_dtype real = net->graph->real;
    weft_shape scalar = {0}, numbers = weft_shape_of(2, (int64_t[]){o->batch, o->targets});
    weft_shape labels = weft_shape_of(o->positions ? 2 : 1, (int64_t[]){o->batch, o->positions});
    for (int i = 0; i < o->inputs; i++) {
        const weft_input *in = &o->input[i];
        weft_shape x = {.rank = in->shape.rank + 1, .dim = {o->batch}};
        memcpy(x.dim + 1, in->shape.dim, (size_t)in->shape.rank * sizeof(*x.dim));
        add_input(net, in->name, WEFT_PORT_FEATURES, in->values ? WEFT_I32 : real, x);
    }
    if (o->targets > 0)
        add_input(net, "target", WEFT_PORT_TARGET, real, numbers);
    else
        add_input(net, "labels", WEFT_PORT_TARGET, WEFT_I32, labels);
    add_input(net, "weights", WEFT_PORT_WEIGHTS, real, labels);
    if (mixes(o)) {
        add_input(net, "mixed_labels", WEFT_PORT_TARGET, WEFT_I32, labels);
        add_input(net, "mixed_weights", WEFT_PORT_WEIGHTS, real, labels);
    }
    add_input(net, "first_sample", WEFT_PORT_POSITION, WEFT_I32, scalar);
    weft_model_builder_embed(net);
}

/* Refuses inputs of the data that no layer reads: the model would not learn from them. */
static weft_status check_inputs_read(const weft_model_builder *net)
{
    weft_readers readers;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_readers_find(net->graph, &readers));
    for (int i = 0; i < net->values.count && status == WEFT_OK; i++) {
        const weft_port *p = &net->values.ports[i];
        if (p->role == WEFT_PORT_FEATURES && weft_readers_count(&readers, p->value) == 0)
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "no layer of the model reads the input '%s' of these data; read it, "
                               "or leave it out of the data",
                               p->name);
    }
    weft_readers_free(&readers);
    return status;
}

/* Checks what the operator of an added loss gives. */
static weft_status check_loss(const weft_model_builder *net, weft_value logits, weft_value loss)
{
    const weft_graph *g = net->graph;
    const weft_node *node = g->nodes[g->values[loss].node];
    if (node->out_count == 2 && weft_value_type(g, loss)->shape.rank == 0 &&
        weft_shape_equal(&weft_value_type(g, loss + 1)->shape, &weft_value_type(g, logits)->shape))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "loss %s: its operator %s must give two values, a scalar and predictions "
                     "shaped as its first operand",
                     net->loss->name, net->loss->op);
}

static weft_value port_named(const weft_model_builder *net, const char *name)
{
    for (int i = 0; i < net->values.count; i++)
        if (strcmp(net->values.ports[i].name, name) == 0) return net->values.ports[i].value;
    return WEFT_NO_VALUE;
}

/* The loss of the other labels of samples that are mixed. in: the operands of the loss of their
 * own, whose weights lose what is the others'. */
static weft_value add_mixed_loss(weft_model_builder *net, weft_value *in,
                                 const weft_attr *smoothing, bool smooth)
{
    weft_value labels = port_named(net, "mixed_labels"), weights = port_named(net, "mixed_weights");
    in[2] = weft_graph_node(net->graph, "sub", "own_weights", (weft_value[]){in[2], weights}, 2,
                            NULL, 0);
    return weft_graph_node(net->graph, net->loss->op, "mixed_loss",
                           (weft_value[]){in[0], labels, weights}, 3, smoothing, smooth);
}

static weft_status add_loss(weft_model_builder *net, weft_value logits, weft_model_values *out)
{
    char have[128], each[32] = "";
    bool named = *net->scored;
    WEFT_TRY(weft_graph_status(net->graph));
    const weft_shape *s = &weft_value_type(net->graph, logits)->shape;
    int64_t positions = net->options->positions;
    int last = positions > 0 ? 2 : 1;
    if (positions > 0) (void)snprintf(each, sizeof(each), "%lld, ", (long long)positions);
    if (s->rank != last + 1 || s->dim[last] != weft_model_builder_outputs(net) ||
        (positions > 0 && s->dim[1] != positions))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s%s%s gives %s, must give [batch, %s%lld]: one number a %s "
            "(units: outputs)",
            named ? "output '" : "the last layer", net->scored,
            named ? "', which the loss reads," : "", weft_shape_text(s, have, sizeof(have)), each,
            (long long)weft_model_builder_outputs(net), net->loss->classes ? "class" : "target");
    WEFT_TRY(check_inputs_read(net));
    weft_value in[] = {logits, weft_model_builder_input(net, WEFT_PORT_TARGET),
                       weft_model_builder_input(net, WEFT_PORT_WEIGHTS)};
    const weft_attr smoothing = WEFT_ATTR_REAL("smoothing", net->options->label_smoothing);
    bool smooth = smoothing.real > 0;
    if (smooth && !net->loss->classes)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "label smoothing spreads the probability of a class, and %s; leave it at "
                         "0",
                         net->loss->binary ? "these data have several labels, each 0 or 1"
                                           : "the target of these data is numbers");
    if (smooth && net->loss->build)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "label smoothing is part of the loss cross_entropy, and this run has %s; "
                         "leave it at 0",
                         net->loss->name);
    weft_value loss, prediction, mixed = WEFT_NO_VALUE;
    if (mixes(net->options) && net->loss->build)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "mixup and cutmix give a sample two classes, and the loss %s takes none; "
                         "leave them out of the augmentations",
                         net->loss->name);
    if (net->loss->build) {
        WEFT_TRY(weft_model_builder_build_loss(net, in, &loss, &prediction));
    } else {
        if (mixes(net->options)) mixed = add_mixed_loss(net, in, &smoothing, smooth);
        loss = weft_graph_node(net->graph, net->loss->op, "loss", in, 3, &smoothing, smooth);
        prediction = loss + 1;
        WEFT_TRY(weft_graph_status(net->graph));
        WEFT_TRY(check_loss(net, logits, loss));
    }
    if (mixed != WEFT_NO_VALUE)
        loss = weft_graph_node(net->graph, "add", "both_losses", (weft_value[]){loss, mixed}, 2,
                               NULL, 0);
    weft_model_builder_port(net, "logits", WEFT_PORT_LOGITS, logits);
    const char *first = named ? net->scored : "prediction";
    weft_model_builder_port(net, first, WEFT_PORT_PREDICTION, prediction);
    weft_model_builder_port(net, "loss", WEFT_PORT_LOSS, loss);
    WEFT_TRY(weft_model_builder_finish_outputs(net, first));
    *out = net->values;
    return WEFT_OK;
}

/* Adds the loss. A model builds the graph of training; one that only predicts is made of that. */
static weft_status finish(weft_model_builder *net, weft_value logits, weft_model_values *out)
{
    weft_value *wanted[WEFT_MAX_PORTS];
    WEFT_TRY(add_loss(net, logits, out));
    if (net->options->training)
        return weft_graph_check_samples(net->graph, net->options->batch,
                                        "a batch, a micro-batch and the part of a virtual worker "
                                        "need 2 samples or more");
    for (int i = 0; i < out->count; i++) wanted[i] = &out->ports[i].value;
    WEFT_TRY(weft_graph_infer(net->graph, wanted, out->count));
    return weft_graph_narrow(net->graph, wanted, out->count);
}

bool weft_model_is_file(const char *model)
{
    size_t size = strlen(model);
    return (size > 5 && strcmp(model + size - 5, ".yaml") == 0) ||
           (size > 4 && strcmp(model + size - 4, ".yml") == 0);
}

static weft_status build_text(weft_graph *graph, const weft_model_options *options,
                              const char *name, const void *data, size_t size,
                              weft_model_values *out)
{
    WEFT_TRY(check_options(options));
    weft_model_builder net = {.graph = graph, .options = options, .counts = WEFT_NO_VALUE};
    weft_value logits = WEFT_NO_VALUE;
    add_inputs(&net);
    WEFT_TRY(weft_model_builder_read(&net, name, data, size, &logits));
    weft_status status = finish(&net, logits, out);
    return status == WEFT_OK ? status : weft_fail_within(status, "%s", name);
}

static weft_status take_options(const weft_model_options *given, weft_model_options *own)
{
    weft_model_options_init(own);
    WEFT_TAKE(weft_model_options, given, batch, own);
    return check_options(own);
}

weft_status weft_model_build_text(weft_graph *graph, const weft_model_options *options,
                                  const char *name, const void *data, size_t size,
                                  weft_model_values *out)
{
    WEFT_NEED(graph, options, name, out);
    weft_model_options own;
    WEFT_TRY(take_options(options, &own));
    if (size > 0) WEFT_NEED(data);
    WEFT_TRY(weft_graph_status(graph));
    return build_text(graph, &own, name, data, size, out);
}

static weft_status build_named(weft_graph *graph, const weft_model_options *options,
                               weft_model_values *out)
{
    if (weft_model_is_file(options->model)) {
        weft_bytes bytes;
        WEFT_TRY(weft_file_map(options->model, &bytes));
        weft_status status =
            build_text(graph, options, options->model, bytes.data, bytes.size, out);
        weft_file_unmap(&bytes);
        return status;
    }
    WEFT_TRY(check_options(options));
    weft_model_builder net = {.graph = graph, .options = options, .counts = WEFT_NO_VALUE};
    const weft_entry *entry;
    size_t size = strcspn(options->model, ":");
    WEFT_TRY(weft_registry_find(graph->context, WEFT_KIND_MODEL, options->model, size, &entry));
    const weft_model *model = entry->ops;
    net.arguments = options->model[size] ? options->model + size + 1 : "";
    if (options->model[size] && !model->form)
        return weft_fail(WEFT_ERR_ARGUMENT, "model '%s' has no arguments; give %s", options->model,
                         model->name);
    WEFT_TRY(weft_model_builder_set_loss(&net, NULL));
    add_inputs(&net);
    net.model = model;
    weft_value logits = model->build(&net, weft_model_builder_input(&net, WEFT_PORT_FEATURES));
    return finish(&net, logits, out);
}

void weft_model_options_fit(weft_model_options *o, const weft_data_stats *stats)
{
    o->inputs = stats->inputs;
    memcpy(o->input, stats->input, sizeof(o->input));
    o->positions = stats->positions;
    o->classes = stats->classes;
    o->targets = stats->targets;
    o->binary = stats->binary;
    o->table = stats->table;
}

weft_status weft_model_build(weft_graph *graph, const weft_model_options *options,
                             weft_model_values *out)
{
    WEFT_NEED(graph, options, out);
    weft_model_options own;
    WEFT_TRY(take_options(options, &own));
    WEFT_TRY(weft_graph_status(graph));
    return build_named(graph, &own, out);
}

weft_status weft_build_model(weft_graph *graph, const weft_model_options *o, const weft_bytes *text,
                             weft_model_values *out)
{
    if (text && text->size > 0) return build_text(graph, o, o->model, text->data, text->size, out);
    return build_named(graph, o, out);
}
