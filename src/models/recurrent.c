/* Adds recurrent layers: for each layer and direction a projection of all positions, and the
 * recurrence over them. */
#include <math.h>
#include <stdio.h>

#include "models/models.h"

/* One direction of one layer of a recurrent layer. */
typedef struct way {
    const weft_layer *layer;
    bool gru, reverse;
    int number; /* of the layer, from 0 */
} way;

/* Formats "<what>_l1_reverse"; the first layer and the forward direction have no suffix. */
static const char *named(const way *w, const char *what, char *out, size_t room)
{
    char number[16] = "";
    if (w->number > 0) (void)snprintf(number, sizeof(number), "_l%d", w->number);
    (void)snprintf(out, room, "%s%s%s", what, number, w->reverse ? "_reverse" : "");
    return out;
}

static weft_value parameter(weft_model_builder *net, const way *w, const char *what,
                            weft_shape shape)
{
    char name[64];
    weft_init init = {WEFT_INIT_UNIFORM, 1 / sqrt((double)w->layer->filters)};
    return weft_layer_leaf(net, w->layer, named(w, what, name, sizeof(name)), WEFT_VALUE_PARAM,
                           shape, init);
}

static weft_value node(weft_model_builder *net, const way *w, const char *what, const char *op,
                       const weft_value *in, int count, const weft_attr *attr)
{
    char name[64];
    return weft_layer_emit(net, w->layer->name, named(w, what, name, sizeof(name)), op, in, count,
                           attr, attr ? 1 : 0);
}

/* Returns the sequence of states; the value after it is the last state. */
static weft_value run(weft_model_builder *net, weft_value x, const way *w)
{
    weft_shape in = weft_layer_shape(net, x);
    int64_t units = w->layer->filters, all = (w->gru ? 3 : 4) * units;
    weft_shape vector = weft_shape_of(1, &all);
    weft_attr axis = WEFT_ATTR_INT("axis", 2), reverse = WEFT_ATTR_INT("reverse", w->reverse);
    weft_value weight =
        parameter(net, w, "weight", weft_shape_of(2, (int64_t[]){in.rank ? in.dim[2] : 1, all}));
    weft_value recurrent =
        parameter(net, w, "recurrent", weft_shape_of(2, (int64_t[]){units, all}));
    weft_value bias = parameter(net, w, "bias", vector);
    x = node(net, w, "project", "dense", (weft_value[]){x, weight}, 2, NULL);
    x = node(net, w, "add_bias", "bias", (weft_value[]){x, bias}, 2, &axis);
    weft_value operands[4] = {x, recurrent};
    int count = 2;
    if (w->gru) operands[count++] = parameter(net, w, "recurrent_bias", vector);
    if (w->layer->lengths)
        operands[count++] = weft_layer_lengths(net, w->layer, in.rank ? in.dim[1] : 0);
    return node(net, w, "steps", w->gru ? "gru" : "lstm", operands, count, &reverse);
}

static weft_value recurrent_layer(weft_model_builder *net, weft_value x, const weft_layer *layer,
                                  bool gru)
{
    int layers = layer->layers ? (int)layer->layers : 1;
    if (!weft_layer_reads_sequence(net, x, layer, gru ? "gru" : "lstm")) return WEFT_NO_VALUE;
    for (int n = 0; n < layers; n++) {
        bool last = layer->last && n == layers - 1;
        way forward = {layer, gru, false, n}, backward = {layer, gru, true, n};
        weft_attr axis = WEFT_ATTR_INT("axis", last ? 1 : 2);
        weft_value both[2] = {run(net, x, &forward), WEFT_NO_VALUE};
        if (layer->bidirectional) both[1] = run(net, x, &backward);
        if (both[0] == WEFT_NO_VALUE) return WEFT_NO_VALUE;
        for (int i = 0; i < 2; i++) both[i] += last ? 1 : 0;
        x = layer->bidirectional ? node(net, &forward, "join", "concat", both, 2, &axis) : both[0];
    }
    return x;
}

weft_value weft_layer_lstm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return recurrent_layer(net, x, layer, false);
}

weft_value weft_layer_gru(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return recurrent_layer(net, x, layer, true);
}
