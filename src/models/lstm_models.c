/* Builds the models char-lstm, a recurrent net that predicts the next token, and twin-lstm, which
 * encodes two sequences with one LSTM and classifies the pair. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

/* --- char-lstm --- */

typedef struct char_keys {
    double layers, units, dropout;
} char_keys;

static weft_status read_char_keys(const char *arguments, char_keys *k)
{
    *k = (char_keys){.layers = 2, .units = 128};
    const weft_spec_key keys[] = {
        {.name = "layers", .number = &k->layers, .low = 1, .high = 64, .integer = true},
        {.name = "units", .number = &k->units, .low = 1, .high = 65536, .integer = true},
        {.name = "dropout", .number = &k->dropout, .low = 0, .high = 0.999},
        {.name = NULL}};
    return *arguments ? weft_spec_parse("model 'char-lstm'", arguments, keys) : WEFT_OK;
}

static weft_value build_char(weft_model_builder *net, weft_value x)
{
    char_keys k;
    char name[32];
    weft_status status = read_char_keys(net->arguments, &k);
    if (status == WEFT_OK) status = weft_model_builder_tokens(net, "char-lstm");
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = weft_layer_embedding(net, x, &(weft_layer){.name = "tokens", .filters = (int64_t)k.units});
    for (int l = 1; l <= (int)k.layers; l++) {
        (void)snprintf(name, sizeof(name), "lstm%d", l);
        x = weft_layer_lstm(net, x, &(weft_layer){.name = name, .filters = (int64_t)k.units});
        (void)snprintf(name, sizeof(name), "dropout%d", l);
        x = weft_layer_dropout(net, x, &(weft_layer){.name = name, .rate = k.dropout});
    }
    return weft_layer_linear(
        net, x, &(weft_layer){.name = "head", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_char_lstm = {
    .name = "char-lstm",
    .form = "char-lstm[:layers=2,units=128,dropout=0]",
    .summary = "LSTM layers that predict the next token at each position",
    .build = build_char,
};

/* --- twin-lstm, a Siamese network (Bromley et al. 1993) --- */

/* Both encoders have the same weights; their layers begin with a/ and b/, so that a placement can
 * put them on two devices. */
static weft_value encode(weft_model_builder *net, const char *input, double units,
                         const char *share)
{
    char name[WEFT_INPUT_NAME + 8], lengths[WEFT_INPUT_NAME + 8];
    (void)snprintf(name, sizeof(name), "%s/lstm", input);
    (void)snprintf(lengths, sizeof(lengths), "%s_lengths", input);
    bool given = weft_model_builder_feature(net, lengths) != WEFT_NO_VALUE;
    return weft_layer_lstm(net, weft_model_builder_feature(net, input),
                           &(weft_layer){.name = name,
                                         .filters = (int64_t)units,
                                         .last = true,
                                         .lengths = given ? lengths : NULL,
                                         .share = share});
}

static weft_status check_pair(const weft_model_builder *net)
{
    const weft_model_options *o = net->options;
    int found = 0;
    for (int i = 0; i < o->inputs; i++) {
        const weft_input *in = &o->input[i];
        bool named = strcmp(in->name, "a") == 0 || strcmp(in->name, "b") == 0;
        found += named && in->shape.rank == 2 && in->values == 0;
    }
    if (found == 2) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "model twin-lstm needs two inputs a and b [positions, features], such as "
                     "those of data pairs:FILE, and perhaps a_lengths and b_lengths");
}

static weft_value build_siamese(weft_model_builder *net, weft_value x)
{
    double units = 64;
    const weft_spec_key keys[] = {
        {.name = "units", .number = &units, .low = 1, .high = 65536, .integer = true},
        {.name = NULL}};
    weft_status status =
        *net->arguments ? weft_spec_parse("model 'twin-lstm'", net->arguments, keys) : WEFT_OK;
    (void)x;
    if (status == WEFT_OK) status = check_pair(net);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    weft_value both[] = {encode(net, "a", units, NULL), encode(net, "b", units, "a/lstm")};
    weft_value joined = weft_layer_concat(net, both, 2, &(weft_layer){.name = "join"});
    return weft_layer_dense(
        net, joined, &(weft_layer){.name = "head", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_siamese_lstm = {
    .name = "twin-lstm",
    .form = "twin-lstm[:units=64]",
    .summary = "one LSTM that encodes two sequences, and a classifier of the pair; --place can put "
               "the encoders on two devices; inputs a_lengths and b_lengths say how many positions "
               "count",
    .build = build_siamese,
};
