/* Adds the nodes of layers of sequences: embeddings, positions, attention. */
#include <stdio.h>

#include "models/models.h"

/* The number of different tokens of the input that is this value; 0: it is no input of tokens. */
static int64_t tokens_of(const weft_model_builder *net, weft_value x)
{
    for (int i = 0; i < net->options->inputs; i++)
        if (net->values.ports[i].value == x) return net->options->input[i].values;
    return 0;
}

weft_status weft_model_builder_tokens(const weft_model_builder *net, const char *model)
{
    if (net->options->input[0].values > 0 && net->options->positions > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "model %s needs tokens with a label for each position, such as those of data "
                     "text:FILE",
                     model);
}

/* The initial numbers of a table of tokens or positions are normal: with the deviation that the
 * layer gives, or else 1, as in PyTorch. */
static weft_init table_init(const weft_layer *layer)
{
    return (weft_init){WEFT_INIT_NORMAL, layer->deviation > 0 ? layer->deviation : 1};
}

weft_value weft_layer_embedding(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    int64_t tokens = tokens_of(net, x);
    if (tokens == 0 && x != WEFT_NO_VALUE)
        return weft_graph_stick(net->graph,
                                weft_fail(WEFT_ERR_ARGUMENT,
                                          "layer '%s' (embedding) reads tokens, an input such as "
                                          "that of data text:FILE, and no numbers",
                                          layer->name));
    weft_value table =
        weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM,
                        weft_shape_of(2, (int64_t[]){tokens, layer->filters}), table_init(layer));
    return weft_layer_emit_any(net, layer->name, "", "embedding", (weft_value[]){x, table}, 2, NULL,
                               0);
}

bool weft_layer_reads_sequence(weft_model_builder *net, weft_value x, const weft_layer *layer,
                               const char *type)
{
    weft_shape in = weft_layer_shape(net, x);
    weft_model_builder_sequences(net);
    if (in.rank == 3 || x == WEFT_NO_VALUE) return in.rank == 3;
    (void)weft_graph_stick(net->graph,
                           weft_fail(WEFT_ERR_ARGUMENT,
                                     "layer '%s' (%s) needs samples [positions, width], such as "
                                     "those of an embedding; here they have %d dimension%s "
                                     "(samples [positions, width] of npy: have layout=tc)",
                                     layer->name, type, in.rank - 1, weft_plural(in.rank - 1)));
    return false;
}

weft_value weft_layer_positions(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    const weft_attr axis = WEFT_ATTR_INT("axis", 1);
    if (!weft_layer_reads_sequence(net, x, layer, "positions")) return WEFT_NO_VALUE;
    weft_value table =
        weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM,
                        weft_shape_of(2, (int64_t[]){in.dim[1], in.dim[2]}), table_init(layer));
    return weft_layer_emit(net, layer->name, "", "bias", (weft_value[]){x, table}, 2, &axis, 1);
}

weft_value weft_layer_rms_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    weft_shape last = weft_shape_of(1, (int64_t[]){in.rank > 0 ? in.dim[in.rank - 1] : 1});
    weft_value gamma = weft_layer_leaf(net, layer, "gamma", WEFT_VALUE_PARAM, last,
                                       (weft_init){WEFT_INIT_CONSTANT, 1});
    return weft_layer_emit_norm(net, layer, "", "rms_norm", (weft_value[]){x, gamma}, 2);
}

/* The names of the inputs, as in "x, lengths". */
static void list_inputs(const weft_model_builder *net, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < net->options->inputs && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "",
                                 net->options->input[i].name);
}

/* The input of the data with this name; NULL: there is none. */
static const weft_input *input_named(const weft_model_builder *net, const char *name)
{
    for (int i = 0; i < net->options->inputs; i++)
        if (strcmp(net->options->input[i].name, name) == 0) return &net->options->input[i];
    return NULL;
}

static weft_status check_lengths(const weft_model_builder *net, const weft_layer *layer,
                                 int64_t positions)
{
    char names[WEFT_MAX_INPUTS * (WEFT_INPUT_NAME + 2)];
    const weft_input *in = input_named(net, layer->lengths);
    list_inputs(net, names, sizeof(names));
    if (!in)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' reads the lengths '%s', which is no input of these data: they "
                         "have %s",
                         layer->name, layer->lengths, names);
    if (in->values == 0 || in->shape.rank != 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' reads '%s' as lengths, which must be one whole number a "
                         "sample, such as those of an array [n] of integers",
                         layer->name, layer->lengths);
    if (in->values - 1 <= positions) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "layer '%s' reads sequences of %lld positions, and the lengths '%s' go up to "
                     "%d",
                     layer->name, (long long)positions, layer->lengths, in->values - 1);
}

weft_value weft_layer_lengths(weft_model_builder *net, const weft_layer *layer, int64_t positions)
{
    if (!layer->lengths) return WEFT_NO_VALUE;
    weft_status status = check_lengths(net, layer, positions);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    return weft_model_builder_feature(net, layer->lengths);
}

weft_value weft_layer_sequence_mean(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    const weft_attr axes = {.name = "axes", .count = 1, .ints = {1}};
    if (!weft_layer_reads_sequence(net, x, layer, "sequence_mean")) return WEFT_NO_VALUE;
    if (!layer->lengths)
        return weft_layer_emit(net, layer->name, "", "reduce_mean", &x, 1, &axes, 1);
    weft_value lengths = weft_layer_lengths(net, layer, weft_layer_shape(net, x).dim[1]);
    return weft_layer_emit(net, layer->name, "", "sequence_mean", (weft_value[]){x, lengths}, 2,
                           NULL, 0);
}

/* --- attention --- */

/* A linear layer "<layer>/<part>", initialised as the attention layer is; it shares that of the
 * layer whose weights the attention layer shares. */
static weft_value project(weft_model_builder *net, weft_value x, const weft_layer *layer,
                          const char *part, int64_t units, double deviation)
{
    weft_layer linear = {.filters = units, .deviation = deviation, .no_bias = layer->no_bias};
    char *name = weft_graph_format(net->graph, "%s/%s", layer->name, part);
    char *share = layer->share ? weft_graph_format(net->graph, "%s/%s", layer->share, part) : NULL;
    linear.name = name;
    linear.share = share;
    weft_value y = weft_layer_linear(net, x, &linear);
    free(name);
    free(share);
    return y;
}

/* Projects x to heads [batch, positions, heads, width of a head], and rotates them by their
 * positions if the layer requests that. */
static weft_value project_heads(weft_model_builder *net, weft_value x, const weft_layer *layer,
                                const char *part, int64_t heads, bool rotated)
{
    weft_shape in = weft_layer_shape(net, x);
    int64_t each = in.dim[2] / layer->heads;
    weft_attr shape = {.name = "shape", .count = 4, .ints = {in.dim[0], in.dim[1], heads, each}};
    char *name = weft_graph_format(net->graph, "%s_heads", part);
    weft_value y = project(net, x, layer, part, heads * each, layer->deviation);
    y = weft_layer_emit(net, layer->name, name, "reshape", &y, 1, &shape, 1);
    free(name);
    if (!rotated || layer->rotary == 0) return y;
    weft_attr base = WEFT_ATTR_REAL("base", layer->rotary);
    name = weft_graph_format(net->graph, "%s_rotated", part);
    y = weft_layer_emit(net, layer->name, name, "rotary", &y, 1, &base, 1);
    free(name);
    return y;
}

static weft_status check_heads(const weft_layer *layer, int64_t width, int64_t key_heads)
{
    if (layer->heads < 1 || width % layer->heads)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' (attention) has %lld heads and reads a width of %lld, which "
                         "must be a multiple of the heads",
                         layer->name, (long long)layer->heads, (long long)width);
    if (layer->heads % key_heads)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' (attention) has %lld heads, which must be a multiple of its "
                         "%lld key_heads",
                         layer->name, (long long)layer->heads, (long long)key_heads);
    if (layer->rotary > 0 && width / layer->heads % 2)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' (attention) rotates pairs, and a head has a width of %lld; "
                         "give another number of heads",
                         layer->name, (long long)(width / layer->heads));
    return WEFT_OK;
}

weft_value weft_layer_attention(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    int64_t keys = layer->key_heads ? layer->key_heads : layer->heads;
    if (!weft_layer_reads_sequence(net, x, layer, "attention")) return WEFT_NO_VALUE;
    weft_status fits = check_heads(layer, in.dim[2], keys);
    if (fits != WEFT_OK) return weft_graph_stick(net->graph, fits);
    weft_attr causal = WEFT_ATTR_INT("causal", layer->causal),
              shape = {.name = "shape", .count = 3, .ints = {in.dim[0], in.dim[1], in.dim[2]}};
    weft_value lengths = weft_layer_lengths(net, layer, in.dim[1]);
    weft_value heads[] = {project_heads(net, x, layer, "query", layer->heads, true),
                          project_heads(net, x, layer, "key", keys, true),
                          project_heads(net, x, layer, "value", keys, false), lengths};
    weft_value y = weft_layer_emit(net, layer->name, "attend", "attention", heads,
                                   layer->lengths ? 4 : 3, &causal, 1);
    y = weft_layer_emit(net, layer->name, "joined", "reshape", &y, 1, &shape, 1);
    return project(net, y, layer, "output", in.dim[2], layer->output_deviation);
}
