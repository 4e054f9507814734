/* Builds models that compute one position of a sequence in a run, for generation: layers that read
 * earlier positions carry states, such as the cells of an LSTM or the keys and values of attention.
 */
#include "models/models.h"

void weft_model_steps_free(weft_model_steps *steps)
{
    free(steps->states);
    *steps = (weft_model_steps){.count = 0};
}

int64_t weft_model_builder_positions(const weft_model_builder *net)
{
    return net->options->input[0].shape.dim[0];
}

weft_value weft_model_builder_state(weft_model_builder *net, const weft_layer *layer,
                                    const char *name, weft_shape shape, bool row)
{
    weft_model_steps *s = net->steps;
    weft_status status = WEFT_GROW(&s->states, &s->capacity, s->count);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    weft_value in = weft_layer_leaf(net, layer, name, WEFT_VALUE_INPUT, shape,
                                    (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_graph_set_domain(net->graph, in, 0);
    s->states[s->count++] = (weft_step_state){.in = in, .out = WEFT_NO_VALUE, .row = row};
    return in;
}

void weft_model_builder_carry(weft_model_builder *net, weft_value in, weft_value out)
{
    weft_model_steps *s = net->steps;
    for (size_t i = 0; i < s->count; i++)
        if (s->states[i].in == in) s->states[i].out = out;
}

void weft_model_builder_whole(weft_model_builder *net, weft_value x, const weft_layer *layer,
                              const char *why)
{
    if (net->steps && weft_layer_shape(net, x).rank > 2)
        (void)weft_model_builder_fail_steps(net, layer, why);
}

weft_value weft_model_builder_fail_steps(weft_model_builder *net, const weft_layer *layer,
                                         const char *why)
{
    return weft_graph_stick(net->graph,
                            weft_fail(WEFT_ERR_UNSUPPORTED,
                                      "layer '%s' %s, so the model cannot generate one token after "
                                      "the other",
                                      layer->name, why));
}
