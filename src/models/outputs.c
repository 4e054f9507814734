/* The outputs of a model: the prediction, and further ones that the model names. */
#include <stdio.h>

#include "models/models.h"

/* The further outputs are the ports with this role; the prediction comes before them. */
static bool is_output(const weft_port *p, bool first)
{
    return p->role == (first ? WEFT_PORT_PREDICTION : WEFT_PORT_OUTPUT);
}

bool weft_model_output_at(const weft_graph *graph, const weft_model_values *values, int i,
                          weft_model_output *out, weft_value *value)
{
    WEFT_NEED_ELSE_AS(false, "graph, values, out", graph, values, out);
    int left = i < 1 ? i : i - 1;
    const weft_port *p = values->ports, *end = p + values->count;
    if (i < 0 || weft_graph_status(graph) != WEFT_OK) return false;
    while (p < end && (!is_output(p, i == 0) || left-- > 0)) p++;
    if (p == end || !weft_graph_has(graph, p->value)) return false;
    const weft_type *type = weft_value_type(graph, p->value);
    *out = (weft_model_output){.dtype = type->dtype, .shape.rank = type->shape.rank - 1};
    memcpy(out->shape.dim, type->shape.dim + 1, (size_t)out->shape.rank * sizeof(*out->shape.dim));
    (void)snprintf(out->name, sizeof(out->name), "%s", p->name);
    if (value) *value = p->value;
    return true;
}

/* Why a model cannot have another output of this name; NULL: it can. */
static const char *refuse_output(const weft_model_builder *net, const char *name)
{
    int used = net->options->inputs + net->outputs + 1;
    if (!*name || strlen(name) >= WEFT_INPUT_NAME) return "a name has 1 to 31 bytes";
    if (net->outputs + 1 >= WEFT_MODEL_OUTPUTS) return "a model has at most 8 outputs";
    if (used >= WEFT_MAX_PORTS - 5) return "a model has at most 11 inputs and outputs together";
    if (net->options->mixes && used >= WEFT_MAX_PORTS - 7)
        return "a model that mixes samples has at most 9 inputs and outputs together";
    for (int i = 0; i < net->outputs; i++)
        if (strcmp(net->output[i].name, name) == 0) return "the model has one of that name already";
    return NULL;
}

void weft_model_builder_output(weft_model_builder *net, const char *name, weft_value value)
{
    if (weft_graph_status(net->graph) != WEFT_OK || !weft_graph_has(net->graph, value)) return;
    const char *why = refuse_output(net, name);
    if (why) {
        (void)weft_graph_stick(net->graph,
                               weft_fail(WEFT_ERR_ARGUMENT, "output '%s': %s", name, why));
        return;
    }
    weft_port *port = &net->output[net->outputs++];
    *port = (weft_port){.role = WEFT_PORT_OUTPUT, .value = value};
    (void)snprintf(port->name, sizeof(port->name), "%s", name);
}

weft_status weft_model_builder_finish_outputs(weft_model_builder *net, const char *first)
{
    char have[128];
    for (int i = 0; i < net->outputs; i++) {
        const weft_port *o = &net->output[i];
        const weft_shape *s = &weft_value_type(net->graph, o->value)->shape;
        if (strcmp(o->name, first) == 0)
            return weft_fail(WEFT_ERR_ARGUMENT, "output '%s': the model has two of that name",
                             first);
        if (s->rank < 1 || s->dim[0] != net->options->batch)
            return weft_fail(
                WEFT_ERR_ARGUMENT, "output '%s' is %s, must be [%lld, ...]: one a sample", o->name,
                weft_shape_text(s, have, sizeof(have)), (long long)net->options->batch);
        weft_model_builder_port(net, o->name, WEFT_PORT_OUTPUT, o->value);
    }
    return WEFT_OK;
}

void weft_model_outputs_text(const weft_graph *graph, const weft_model_values *values,
                             weft_text *text)
{
    weft_model_output o;
    char shape[128];
    if (!weft_model_output_at(graph, values, 1, &o, NULL)) return;
    weft_text_add(text, "\noutputs of a sample:\n");
    for (int i = 0; weft_model_output_at(graph, values, i, &o, NULL); i++)
        weft_text_add(text, "  %-32s %-4s %s%s\n", o.name, weft_dtype_name(o.dtype),
                      weft_shape_text(&o.shape, shape, sizeof(shape)),
                      i == 0 ? ", the prediction" : "");
}
