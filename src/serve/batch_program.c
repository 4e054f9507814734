/* Builds and runs the batch program of one batch size: a forward program of the whole model, or
 * with a mesh one program for each rank, made by the rewrite that training uses. */
#include "models/models.h"
#include "serve/servable.h"

static weft_status build(weft_servable *s, weft_batch_program *v)
{
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
    return WEFT_OK;
}

weft_status weft_servable_row_cost(weft_servable *s, double *flops, size_t *bytes)
{
    weft_batch_program one = {.rows = 1};
    weft_status status = build(s, &one);
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

static weft_status rewrite(weft_servable *s, weft_batch_program *v)
{
    weft_plan_options o;
    if (s->ranks == 1) {
        v->parts[0] = (weft_rank_program){.graph = v->graph,
                                          .prediction = v->prediction,
                                          .logits = v->logits,
                                          .contributes = {true, true}};
        memcpy(v->parts[0].x, v->x, sizeof(v->x));
        return WEFT_OK;
    }
    weft_plan_options_init(&o);
    o.ranks = s->ranks;
    o.mesh = s->mesh;
    o.plain_sums = true; /* ranks with uneven parts may choose different layouts */
    if (!s->plan) WEFT_TRY(weft_plan_create(v->graph, &o, &s->plan));
    for (int r = 0; r < s->ranks; r++) {
        weft_rank_program *p = &v->parts[r];
        WEFT_TRY(weft_plan_rewrite(s->plan, v->graph, r, &p->rewritten));
        p->graph = weft_rewritten_graph(p->rewritten);
        for (int k = 0; k < s->checkpoint.stats.inputs; k++)
            p->x[k] = weft_rewritten_value(p->rewritten, v->x[k]);
        p->prediction = weft_rewritten_value(p->rewritten, v->prediction);
        p->logits = weft_rewritten_value(p->rewritten, v->logits);
        p->contributes[0] = weft_rewritten_counts(p->rewritten, v->prediction);
        p->contributes[1] = weft_rewritten_counts(p->rewritten, v->logits);
    }
    return WEFT_OK;
}

/* The argument of a function that each rank of one executor runs. */
typedef struct task {
    weft_servable *served;
    weft_batch_program *sized;
    int executor;
} task;

static weft_status make_program(void *user, int rank)
{
    const task *t = user;
    weft_rank_program *p = &t->sized->parts[rank];
    weft_value wanted[2];
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = wanted;
    if (p->prediction != WEFT_NO_VALUE) wanted[o.fetch_count++] = p->prediction;
    if (p->logits != WEFT_NO_VALUE) wanted[o.fetch_count++] = p->logits;
    return weft_program_create_with(t->served->stores[rank], p->graph, &o, &p->program);
}

weft_status weft_batch_program_plan(weft_servable *s, weft_batch_program *v)
{
    task t = {.served = s, .sized = v};
    WEFT_TRY(WEFT_NEW(&v->parts, s->ranks));
    WEFT_TRY(build(s, v));
    WEFT_TRY(rewrite(s, v));
    for (int r = 0; r < s->ranks; r++) WEFT_TRY(WEFT_NEW(&v->parts[r].instances, s->executors));
    return weft_rank_team_run(s->teams[0], make_program, &t);
}

/* Creates this rank's instance for the task's executor. The first instance that a rank creates on
 * an executor also splits the rank's communicators off, since that needs the plan. */
static weft_status make_instance(void *user, int rank)
{
    const task *t = user;
    weft_servable *s = t->served;
    weft_rank_program *p = &t->sized->parts[rank];
    weft_comm *world = weft_rank_team_world(s->teams[t->executor], rank);
    weft_comms *comms = &s->comms[t->executor * s->ranks + rank];
    if (s->plan && !comms->learner) WEFT_TRY(weft_plan_split(s->plan, world, comms));
    return weft_instance_create(p->program, s->stores[rank], s->plan ? comms : NULL,
                                &p->instances[t->executor]);
}

static weft_status prepare(void *user, int rank)
{
    const task *t = user;
    return weft_instance_prepare(t->sized->parts[rank].instances[0]);
}

weft_status weft_batch_program_bind(weft_servable *s, weft_batch_program *v)
{
    for (int e = 0; e < s->executors; e++) {
        task t = {.served = s, .sized = v, .executor = e};
        WEFT_TRY(weft_rank_team_run(s->teams[e], make_instance, &t));
        if (e == 0) WEFT_TRY(weft_rank_team_run(s->teams[0], prepare, &t));
    }
    return WEFT_OK;
}

void weft_batch_program_free(weft_servable *s, weft_batch_program *v)
{
    for (int r = 0; v->parts && r < s->ranks; r++) {
        weft_rank_program *p = &v->parts[r];
        for (int e = 0; p->instances && e < s->executors; e++)
            weft_instance_destroy(&p->instances[e]);
        free(p->instances);
        weft_program_destroy(&p->program);
        weft_rewritten_destroy(&p->rewritten);
    }
    free(v->parts);
    weft_graph_destroy(&v->graph);
    v->parts = NULL;
}

/* --- running --- */

static void add_part(const weft_rank_program *p, weft_value value, const weft_instance *instance,
                     double *output)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], at[WEFT_MAX_RANK] = {0};
    weft_type type = weft_graph_value_type(p->graph, value);
    const void *from = weft_instance_output(instance, value);
    int64_t count = weft_shape_elements(&type.shape);
    weft_graph_part(p->graph, value, &whole, start);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0;
        for (int d = 0; d < whole.rank; d++) place = place * whole.dim[d] + start[d] + at[d];
        output[place] += weft_number_get(type.dtype, from, i);
        for (int d = whole.rank; d-- > 0 && ++at[d] == type.shape.dim[d];) at[d] = 0;
    }
}

static weft_status run_rank(void *user, int rank)
{
    const task *t = user;
    const weft_servable *s = t->served;
    const weft_rank_program *p = &t->sized->parts[rank];
    weft_instance *instance = p->instances[t->executor];
    for (int k = 0; s->full_batches && k < s->checkpoint.stats.inputs; k++)
        weft_feed(p->graph, instance, p->x[k], s->full_batches[t->executor].x[k],
                  weft_servable_input_type(s, k));
    WEFT_TRY(weft_instance_run(instance, WEFT_PHASE_MICRO));
    /* Waits until the other ranks have received the values that this rank sent, since the next run
     * overwrites them. */
    return s->full_batches ? weft_instance_drain(instance) : WEFT_OK;
}

/* Makes the ranks of an executor and their instances anew: after a failure in one rank, all of its
 * team have broken communicators. The weights in the stores remain. */
static weft_status recover(weft_servable *s, int executor)
{
    for (int i = 0; i < s->count; i++)
        for (int r = 0; r < s->ranks; r++)
            weft_instance_destroy(&s->sizes[i].parts[r].instances[executor]);
    for (int r = 0; r < s->ranks; r++) {
        weft_comms *comms = &s->comms[executor * s->ranks + r];
        weft_plan_close_comms(comms);
        *comms = (weft_comms){0};
    }
    WEFT_TRY(weft_rank_team_restart(s->context, s->teams[executor]));
    for (int i = 0; i < s->count; i++) {
        task t = {.served = s, .sized = &s->sizes[i], .executor = executor};
        WEFT_TRY(weft_rank_team_run(s->teams[executor], make_instance, &t));
    }
    return WEFT_OK;
}

weft_status weft_batch_program_run(weft_servable *s, const weft_batch_program *v, int executor)
{
    task t = {.served = s, .sized = (weft_batch_program *)(uintptr_t)v, .executor = executor};
    if (weft_rank_team_has_failed(s->teams[executor])) WEFT_TRY(recover(s, executor));
    WEFT_TRY(weft_rank_team_run(s->teams[executor], run_rank, &t));
    if (!s->full_batches) return WEFT_OK;
    weft_full_batch *w = &s->full_batches[executor];
    size_t bytes = (size_t)v->rows * (size_t)s->outputs * sizeof(double);
    for (int k = 0; k < 2; k++) memset(w->output[k], 0, bytes);
    /* Each rank contributes either a disjoint part of the output or a term of a sum. Adding all of
     * them to zeros gives the output in both cases. */
    for (int r = 0; r < s->ranks; r++) {
        const weft_rank_program *p = &v->parts[r];
        if (p->contributes[0]) add_part(p, p->prediction, p->instances[executor], w->output[0]);
        if (p->contributes[1]) add_part(p, p->logits, p->instances[executor], w->output[1]);
    }
    return WEFT_OK;
}
