/* Builds the model transformer, an encoder of series (Vaswani et al. 2017): each position reads all
 * that count, and their mean, or each of them, is classified. */
#include "base/spec.h"
#include "models/models.h"

static const char LENGTHS[] = "lengths";

typedef struct transformer_keys {
    double layers, heads, width, dropout;
} transformer_keys;

static weft_status read_keys(const char *arguments, transformer_keys *k)
{
    *k = (transformer_keys){.layers = 2, .heads = 4, .width = 64};
    const weft_spec_key keys[] = {
        {.name = "layers", .number = &k->layers, .low = 1, .high = 1024, .integer = true},
        {.name = "heads", .number = &k->heads, .low = 1, .high = 1024, .integer = true},
        {.name = "width", .number = &k->width, .low = 1, .high = 65536, .integer = true},
        {.name = "dropout", .number = &k->dropout, .low = 0, .high = 0.999},
        {.name = NULL}};
    return *arguments ? weft_spec_parse("model 'transformer'", arguments, keys) : WEFT_OK;
}

/* Finds the input of the series, and whether there is one of their lengths. */
static weft_status find_inputs(const weft_model_builder *net, const weft_input **series,
                               bool *lengths)
{
    const weft_model_options *o = net->options;
    int count = 0;
    *lengths = false;
    for (int i = 0; i < o->inputs; i++) {
        if (strcmp(o->input[i].name, LENGTHS) == 0) {
            *lengths = true;
            continue;
        }
        *series = &o->input[i];
        count++;
    }
    if (count == 1 && ((*series)->shape.rank == 1 || (*series)->shape.rank == 2)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "model transformer needs one input, tokens or numbers [positions] or "
        "[positions, features], as in npy:x=FILE,label=FILE (an array without a name is an "
        "image unless layout=cw is given), and perhaps one named 'lengths'");
}

/* Projects each position to the width of the model. */
static weft_value embed(weft_model_builder *net, const weft_input *in, int64_t width)
{
    weft_value x = weft_model_builder_feature(net, in->name);
    if (in->values > 0)
        return weft_layer_embedding(net, x, &(weft_layer){.name = "tokens", .filters = width});
    weft_shape s = weft_layer_shape(net, x);
    weft_attr shape = {.name = "shape", .count = 3, .ints = {s.dim[0], s.dim[1], 1}};
    if (s.rank == 2) x = weft_layer_emit(net, "series", "", "reshape", &x, 1, &shape, 1);
    return weft_layer_linear(net, x, &(weft_layer){.name = "features", .filters = width});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    transformer_keys k;
    const weft_input *series = NULL;
    bool lengths;
    (void)x;
    weft_status status = read_keys(net->arguments, &k);
    if (status == WEFT_OK) status = find_inputs(net, &series, &lengths);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    const weft_blocks blocks = {.layers = (int)k.layers,
                                .heads = (int)k.heads,
                                .width = (int64_t)k.width,
                                .dropout = k.dropout,
                                .lengths = lengths ? LENGTHS : NULL};
    const weft_layer head = {.name = "head", .filters = weft_model_builder_outputs(net)};
    x = weft_layer_positioned_blocks(net, embed(net, series, blocks.width), &blocks);
    if (net->options->positions > 0) return weft_layer_linear(net, x, &head);
    x = weft_layer_sequence_mean(net, x, &(weft_layer){.name = "mean", .lengths = blocks.lengths});
    return weft_layer_dense(net, x, &head);
}

const weft_model weft_model_transformer = {
    .name = "transformer",
    .form = "transformer[:layers=2,heads=4,width=64,dropout=0]",
    .summary = "encoder of series: csv rows, npy arrays [n, positions, features] or tokens; an "
               "input named lengths says how many positions of a sample count",
    .build = build,
};
