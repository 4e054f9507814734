/* Builds the model mlp, a multilayer perceptron, for samples of any shape. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

enum { DEEPEST = 64, WIDEST = 65536 };

/* Reads the units of the hidden layers, as in 256x128. *count: how many layers there are. */
static weft_status read_hidden(const char *text, int64_t units[DEEPEST], int *count)
{
    char number[24];
    for (const char *at = text; at; at = strchr(at, 'x')) {
        at += *at == 'x' && at != text;
        size_t size = strcspn(at, "x");
        (void)snprintf(number, sizeof(number), "%.*s", (int)WEFT_MIN(size, sizeof(number)), at);
        if (*count == DEEPEST || !weft_parse_int(number, &units[*count]) || units[*count] < 1 ||
            units[*count] > WIDEST)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "model 'mlp': hidden is '%s', must be the units of 1 to %d layers, "
                             "each from 1 to %d, as in 256x128",
                             text, DEEPEST, WIDEST);
        ++*count;
    }
    return WEFT_OK;
}

static weft_value add_layers(weft_model_builder *net, weft_value x, const int64_t *units, int count,
                             double dropout)
{
    char name[32];
    x = weft_layer_flatten(net, x, &(weft_layer){.name = "flatten"});
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "fc%d", i + 1);
        x = weft_layer_dense(net, x, &(weft_layer){.name = name, .filters = units[i]});
        (void)snprintf(name, sizeof(name), "relu%d", i + 1);
        x = weft_layer_activation(net, x, "relu", name);
        (void)snprintf(name, sizeof(name), "dropout%d", i + 1);
        x = weft_layer_dropout(net, x, &(weft_layer){.name = name, .rate = dropout});
    }
    (void)snprintf(name, sizeof(name), "fc%d", count + 1);
    return weft_layer_dense(
        net, x, &(weft_layer){.name = name, .filters = weft_model_builder_outputs(net)});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    int64_t units[DEEPEST];
    int count = 0;
    double dropout = 0;
    char *hidden = NULL;
    const weft_spec_key keys[] = {{.name = "hidden", .text = &hidden},
                                  {.name = "dropout", .number = &dropout, .low = 0, .high = 0.999},
                                  {.name = NULL}};
    weft_status status = weft_spec_parse_any("model 'mlp'", net->arguments, keys);
    if (status == WEFT_OK) status = read_hidden(hidden ? hidden : "256x128", units, &count);
    free(hidden);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    return add_layers(net, x, units, count, dropout);
}

const weft_model weft_model_mlp = {
    .name = "mlp",
    .form = "mlp[:hidden=256x128,dropout=0]",
    .summary = "hidden layers of so many units each, for samples of any shape",
    .build = build,
};
