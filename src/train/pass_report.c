/* Shows what each pass makes of a run's graph, as text (weft plan --passes). */
#include "graph/incremental.h"
#include "train/step_program.h"
#include "train/trainer.h"

/* Adds the graph that only predicts, and for a model of the next token that of one position. */
static weft_status add_prediction(weft_trainer *t, weft_text *text)
{
    const weft_run_spec *k = &t->run_spec;
    weft_model_options model = k->model;
    weft_model_values values;
    weft_graph *graph = NULL;
    weft_value *map = NULL;
    weft_incremental one = {0};
    model.training = false;
    WEFT_TRY(weft_graph_create(k->context, k->real, &graph));
    weft_status status = weft_build_model(graph, &model, k->text, &values);
    if (status == WEFT_OK) status = weft_graph_show(graph, "inference", text);
    bool next = status == WEFT_OK && model.inputs == 1 && model.positions > 0 &&
                model.input[0].values == model.classes;
    if (next) status = WEFT_NEW(&map, graph->value_count);
    if (next && status == WEFT_OK)
        status = weft_graph_incremental(graph, weft_model_value(&values, WEFT_PORT_FEATURES),
                                        weft_model_value(&values, WEFT_PORT_LOGITS), &one, map);
    if (next && status == WEFT_OK)
        status = weft_graph_show(one.graph, "incremental decoding", text);
    /* A model that cannot generate has no such graph. */
    if (status == WEFT_ERR_UNSUPPORTED) status = WEFT_OK;
    weft_incremental_free(&one);
    weft_graph_destroy(&graph);
    free(map);
    return status;
}

weft_status weft_train_passes_text(weft_context *context, const weft_train_options *options,
                                   int rank, char **out)
{
    WEFT_NEED(context, options, out);
    weft_trainer *t;
    weft_text text = {0};
    WEFT_TRY(weft_trainer_prepare(context, options, false, &t));
    weft_status status = WEFT_OK;
    if (rank < 0 || rank >= t->mesh)
        status =
            weft_fail(WEFT_ERR_ARGUMENT, "there is no rank %d; the mesh has %d", rank, t->mesh);
    if (status == WEFT_OK) {
        weft_rank *r = &t->runs[0].rank;
        *r = (weft_rank){.run_spec = &t->run_spec, .rank = rank, .graphs = &text};
        status = weft_rank_rewrite(r);
    }
    if (status == WEFT_OK) status = add_prediction(t, &text);
    weft_trainer_destroy(&t);
    if (status == WEFT_OK) return weft_text_take(&text, out);
    free(text.data);
    return status;
}
