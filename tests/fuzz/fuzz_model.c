#include "fuzz.h"

#include "weft/model.h"

/* Fuzzes models from YAML: the graph of each model that is accepted is built and differentiated,
 * which must not fail, but not lowered. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_context *context;
    weft_graph *graph;
    weft_model_options o;
    weft_model_values v;
    if (!context && weft_context_create(&context) != WEFT_OK) return 0;
    if (weft_graph_create(context, WEFT_F32, &graph) != WEFT_OK) return 0;
    weft_model_options_init(&o);
    o.model = "fuzz.yaml";
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){2, 9, 9}));
    o.batch = 2;
    o.classes = 3;
    o.training = true;
    if (weft_model_build_text(graph, &o, "fuzz", data, size, &v) == WEFT_OK &&
        weft_graph_differentiate(graph, weft_model_value(&v, WEFT_PORT_LOSS)) != WEFT_OK)
        abort();
    weft_graph_destroy(&graph);
    return 0;
}
