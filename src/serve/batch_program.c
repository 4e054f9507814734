/* Builds and runs the batch program of one batch size: a forward program of the whole model, or
 * with a mesh one program for each rank, made by the rewrite that training uses. */
#include "models/models.h"
#include "serve/servable.h"

/* Builds the graph of a batch program. outputs: set to those of the model; NULL: not wanted. */
static weft_status build(const weft_servable *s, weft_batch_program *v, weft_model_output *outputs)
{
    weft_model_output one;
    const weft_data_stats *stats = &s->checkpoint.stats;
    weft_model_options model;
    weft_model_values values;
    weft_model_options_init(&model);
    model.model = s->run.task.model;
    weft_model_options_fit(&model, stats);
    model.batch = v->rows;
    model.seed = (uint64_t)s->run.task.seed;
    model.training = false;
    WEFT_TRY(weft_graph_create(s->context, s->real, &v->graph));
    WEFT_TRY(weft_build_model(v->graph, &model, &s->checkpoint.model, &values));
    for (int k = 0; k < stats->inputs; k++)
        v->x[k] = weft_model_feature(&values, stats->input[k].name);
    v->prediction = weft_model_value(&values, WEFT_PORT_PREDICTION);
    v->logits = weft_model_value(&values, WEFT_PORT_LOGITS);
    if (v->prediction == WEFT_NO_VALUE)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "the model %s has no prediction", model.model);
    if (v->logits == v->prediction) v->logits = WEFT_NO_VALUE;
    for (int k = 0; weft_model_output_at(v->graph, &values, k, &one, &v->output[k]); k++)
        if (outputs) outputs[k] = one;
    return WEFT_OK;
}

weft_status weft_servable_row_cost(weft_servable *s, double *flops, size_t *bytes)
{
    weft_batch_program one = {.rows = 1};
    weft_status status = build(s, &one, s->output);
    while (s->output_count < WEFT_MODEL_OUTPUTS && *s->output[s->output_count].name)
        s->output_count++;
    *flops = 0;
    *bytes = 0;
    for (int i = 0; status == WEFT_OK && i < weft_graph_node_count(one.graph); i++)
        *flops += weft_graph_node_cost(one.graph, i).flops;
    for (weft_value v = 0; status == WEFT_OK && v < weft_graph_value_count(one.graph); v++) {
        weft_type type = weft_graph_value_type(one.graph, v);
        if (weft_graph_value_kind(one.graph, v) != WEFT_VALUE_PARAM)
            *bytes = WEFT_MAX(*bytes, weft_type_bytes(&type));
    }
    weft_graph_destroy(&one.graph);
    return status;
}

weft_status weft_batch_program_plan(weft_servable *s, weft_batch_program *v)
{
    int count = 0;
    WEFT_TRY(build(s, v, NULL));
    weft_value fetch[2 + WEFT_MODEL_OUTPUTS];
    fetch[count++] = v->prediction;
    if (v->logits != WEFT_NO_VALUE) fetch[count++] = v->logits;
    for (int k = 1; k < s->output_count; k++) fetch[count++] = v->output[k];
    WEFT_TRY(
        weft_mesh_program_create(&s->weights, v->graph, fetch, count, s->teams[0], &v->program));
    return WEFT_NEW(&v->instances, (size_t)s->executors * (size_t)s->weights.ranks);
}

static weft_instance **instances_of(const weft_servable *s, const weft_batch_program *v,
                                    int executor)
{
    return v->instances + (size_t)executor * (size_t)s->weights.ranks;
}

weft_status weft_batch_program_bind(weft_servable *s, weft_batch_program *v)
{
    for (int e = 0; e < s->executors; e++)
        WEFT_TRY(weft_mesh_program_instances(&v->program, &s->weights, s->teams[e], e == 0,
                                             instances_of(s, v, e)));
    return WEFT_OK;
}

void weft_batch_program_free(weft_servable *s, weft_batch_program *v)
{
    for (int i = 0; v->instances && i < s->executors * s->weights.ranks; i++)
        weft_instance_destroy(&v->instances[i]);
    free(v->instances);
    v->instances = NULL;
    weft_mesh_program_free(&v->program);
    weft_graph_destroy(&v->graph);
}

/* --- running --- */

/* The argument of a function that each rank of one executor runs. */
typedef struct task {
    const weft_servable *served;
    const weft_batch_program *sized;
    int executor;
} task;

static weft_status run_rank(void *user, int rank)
{
    const task *t = user;
    const weft_servable *s = t->served;
    const weft_mesh_program *p = &t->sized->program;
    weft_instance *instance = instances_of(s, t->sized, t->executor)[rank];
    for (int k = 0; s->full_batches && k < s->checkpoint.stats.inputs; k++)
        weft_feed(p->parts[rank].graph, instance, weft_mesh_program_value(p, rank, t->sized->x[k]),
                  s->full_batches[t->executor].x[k], weft_servable_input_type(s, k));
    WEFT_TRY(weft_instance_run(instance, WEFT_PHASE_MICRO));
    /* Waits until the other ranks have received the values that this rank sent, since the next run
     * overwrites them. */
    return s->full_batches ? weft_instance_drain(instance) : WEFT_OK;
}

/* Makes the ranks of an executor and their instances anew: after a failure in one rank, all of its
 * team have broken communicators. The weights in the stores remain. */
static weft_status recover(const weft_servable *s, int executor)
{
    weft_rank_team *team = s->teams[executor];
    for (int i = 0; i < s->count; i++)
        for (int r = 0; r < s->weights.ranks; r++)
            weft_instance_destroy(&instances_of(s, &s->sizes[i], executor)[r]);
    WEFT_TRY(weft_rank_team_restart(s->context, team));
    for (int i = 0; i < s->count; i++)
        WEFT_TRY(weft_mesh_program_instances(&s->sizes[i].program, &s->weights, team, false,
                                             instances_of(s, &s->sizes[i], executor)));
    return WEFT_OK;
}

/* Writes a value of a batch as numbers of this type. */
static void gather(const weft_servable *s, const weft_batch_program *v, int executor,
                   weft_value value, weft_dtype dtype, void *to)
{
    weft_type type = weft_graph_value_type(v->graph, value);
    type.dtype = dtype;
    weft_mesh_program_gather(&v->program, instances_of(s, v, executor), value, &type, to);
}

weft_status weft_batch_program_run(weft_servable *s, const weft_batch_program *v, int executor)
{
    task t = {.served = s, .sized = v, .executor = executor};
    if (weft_rank_team_has_failed(s->teams[executor])) WEFT_TRY(recover(s, executor));
    WEFT_TRY(weft_rank_team_run(s->teams[executor], run_rank, &t));
    if (!s->full_batches) return WEFT_OK;
    const weft_full_batch *w = &s->full_batches[executor];
    gather(s, v, executor, v->prediction, WEFT_F64, w->prediction);
    if (v->logits != WEFT_NO_VALUE) gather(s, v, executor, v->logits, WEFT_F64, w->logits);
    for (int k = 1; k < s->output_count; k++)
        gather(s, v, executor, v->output[k], s->output[k].dtype, w->output[k]);
    return WEFT_OK;
}
