/* Adds the nodes of layers of sequences. */
#include "models/models.h"

/* The number of different tokens of the input that is this value; 0: it is no input of tokens. */
static int64_t tokens_of(const weft_model_builder *net, weft_value x)
{
    for (int i = 0; i < net->options->inputs; i++)
        if (net->values.ports[i].value == x) return net->options->input[i].values;
    return 0;
}

/* Initialised as in GPT-2: normal, with deviation 0.02. */
weft_value weft_layer_embedding(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    int64_t tokens = tokens_of(net, x);
    if (tokens == 0 && x != WEFT_NO_VALUE)
        return weft_graph_stick(net->graph,
                                weft_fail(WEFT_ERR_ARGUMENT,
                                          "layer '%s' (embedding) reads tokens, an input such as "
                                          "that of data text:FILE, and no numbers",
                                          layer->name));
    weft_value table = weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM,
                                       weft_shape_of(2, (int64_t[]){tokens, layer->filters}),
                                       (weft_init){WEFT_INIT_NORMAL, 0.02});
    return weft_layer_emit(net, layer->name, "", "embedding", (weft_value[]){x, table}, 2, NULL, 0);
}
