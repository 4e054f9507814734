/* Puts embeddings in front of a model: the features of a column of categories, of which one is 1 in
 * each sample (one-hot), times a matrix give the row of that category, so a lookup is a dense layer
 * of a slice. All meshes, exchanges and devices have these operators. Rows begin near 0, as those
 * of fastai do. */
#include "formats/table.h"
#include "models/models.h"

static weft_value features(weft_model_builder *net, weft_value x, int first, int stop,
                           const char *name)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("start", first),
                               WEFT_ATTR_INT("stop", stop)};
    return weft_layer_emit(net, name, "features", "slice", &x, 1, attrs, 3);
}

/* Adds what the columns from `*at` on are for the model: an embedding, or the features of all
 * columns up to the next one that is embedded, as they are. */
static weft_value add_part(weft_model_builder *net, weft_value x, const weft_table *t, int *at)
{
    const weft_table_column *c = &t->column[*at];
    int first = c->first, begin = *at;
    do {
        (*at)++;
    } while (!c->embedding && *at < t->columns && !t->column[*at].embedding);
    const weft_table_column *last = &t->column[*at - 1];
    char *name = weft_graph_format(net->graph, "column%d", begin);
    if (!name) return WEFT_NO_VALUE;
    weft_value part = features(net, x, first, last->first + last->features, name);
    if (c->embedding)
        part = weft_layer_linear(
            net, part,
            &(weft_layer){
                .name = name, .filters = c->embedding, .deviation = 0.01, .no_bias = true});
    free(name);
    return part;
}

weft_value weft_model_embedded(const weft_graph *graph, const weft_table *t, int *node)
{
    bool embeds = false;
    for (int i = 0; t && i < t->columns; i++) embeds |= t->column[i].embedding > 0;
    for (*node = 0; embeds && *node < weft_graph_node_count(graph); ++*node) {
        weft_value out;
        const char *name = weft_graph_node_name(graph, *node);
        (void)weft_graph_node_outputs(graph, *node, &out);
        if (strcmp(name, t->columns > 1 ? "columns" : "column0") == 0) return out;
    }
    *node = -1;
    return WEFT_NO_VALUE;
}

void weft_model_builder_embed(weft_model_builder *net)
{
    const weft_table *t = net->options->table;
    weft_value x = weft_model_builder_input(net, WEFT_PORT_FEATURES), *part;
    int count = 0, embedded = 0;
    for (int i = 0; t && i < t->columns; i++) embedded += t->column[i].embedding > 0;
    if (embedded == 0) return;
    weft_status status = WEFT_NEW(&part, t->columns);
    if (status != WEFT_OK) {
        (void)weft_graph_stick(net->graph, status);
        return;
    }
    for (int i = 0; i < t->columns;) part[count++] = add_part(net, x, t, &i);
    net->embedded =
        count > 1 ? weft_layer_concat(net, part, count, &(weft_layer){.name = "columns"}) : part[0];
    net->embeds = true;
    free(part);
}
