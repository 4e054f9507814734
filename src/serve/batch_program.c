/* Builds and runs the programs of one batch size: one for the whole model, or one for each rank of
 * a mesh, with the rewrite that training uses. */
#include "models/models.h"
#include "serve/servable.h"

static weft_status build(weft_served *s, weft_sized *v)
{
    weft_model_options model;
    weft_model_values values;
    weft_model_options_init(&model);
    model.model = s->run.task.model;
    weft_model_options_fit(&model, &s->checkpoint.stats);
    model.batch = v->rows;
    model.seed = (uint64_t)s->run.task.seed;
    model.training = false;
    WEFT_TRY(weft_graph_create(s->context, s->real, &v->graph));
    WEFT_TRY(weft_build_model(v->graph, &model, &s->checkpoint.model, &values));
    v->x = weft_model_value(&values, WEFT_PORT_FEATURES);
    v->prediction = weft_model_value(&values, WEFT_PORT_PREDICTION);
    v->logits = weft_model_value(&values, WEFT_PORT_LOGITS);
    if (v->x == WEFT_NO_VALUE || v->prediction == WEFT_NO_VALUE)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "the model %s has no features or no prediction",
                         model.model);
    if (v->logits == v->prediction) v->logits = WEFT_NO_VALUE;
    return WEFT_OK;
}

weft_status weft_served_row_flops(weft_served *s, double *out)
{
    weft_sized one = {.rows = 1};
    weft_status status = build(s, &one);
    *out = 0;
    for (int i = 0; status == WEFT_OK && i < weft_graph_node_count(one.graph); i++)
        *out += weft_graph_node_cost(one.graph, i).flops;
    weft_graph_destroy(&one.graph);
    return status;
}

static weft_status rewrite(weft_served *s, weft_sized *v)
{
    weft_plan_options o;
    if (s->ranks == 1) {
        v->parts[0] = (weft_part){.graph = v->graph,
                                  .x = v->x,
                                  .prediction = v->prediction,
                                  .logits = v->logits,
                                  .says = {true, true}};
        return WEFT_OK;
    }
    weft_plan_options_init(&o);
    o.ranks = s->ranks;
    o.mesh = s->mesh;
    o.plain_sums = true; /* parts of different sizes may have different layouts */
    if (!s->plan) WEFT_TRY(weft_plan_create(v->graph, &o, &s->plan));
    for (int r = 0; r < s->ranks; r++) {
        weft_part *p = &v->parts[r];
        WEFT_TRY(weft_plan_rewrite(s->plan, v->graph, r, &p->mine));
        p->graph = weft_rewritten_graph(p->mine);
        p->x = weft_rewritten_value(p->mine, v->x);
        p->prediction = weft_rewritten_value(p->mine, v->prediction);
        p->logits = weft_rewritten_value(p->mine, v->logits);
        p->says[0] = weft_rewritten_counts(p->mine, v->prediction);
        p->says[1] = weft_rewritten_counts(p->mine, v->logits);
    }
    return WEFT_OK;
}

/* A task for every rank of an executor. */
typedef struct task {
    weft_served *served;
    weft_sized *sized;
    int executor;
} task;

static weft_status make_program(void *user, int rank)
{
    const task *t = user;
    weft_part *p = &t->sized->parts[rank];
    weft_value wanted[2];
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = wanted;
    if (p->prediction != WEFT_NO_VALUE) wanted[o.fetch_count++] = p->prediction;
    if (p->logits != WEFT_NO_VALUE) wanted[o.fetch_count++] = p->logits;
    return weft_program_create_with(t->served->stores[rank], p->graph, &o, &p->program);
}

weft_status weft_sized_plan(weft_served *s, weft_sized *v)
{
    task t = {.served = s, .sized = v};
    WEFT_TRY(WEFT_NEW(&v->parts, s->ranks));
    WEFT_TRY(build(s, v));
    WEFT_TRY(rewrite(s, v));
    for (int r = 0; r < s->ranks; r++) WEFT_TRY(WEFT_NEW(&v->parts[r].instances, s->executors));
    return weft_mesh_run(s->meshes[0], make_program, &t);
}

/* The first instance of a rank splits its communicators off, once the plan exists. */
static weft_status make_instance(void *user, int rank)
{
    const task *t = user;
    weft_served *s = t->served;
    weft_part *p = &t->sized->parts[rank];
    weft_comm *world = weft_mesh_world(s->meshes[t->executor], rank);
    weft_comms *comms = &s->comms[t->executor * s->ranks + rank];
    if (s->plan && !comms->learner) WEFT_TRY(weft_plan_split(s->plan, world, comms));
    WEFT_TRY(weft_instance_create(p->program, s->stores[rank], s->plan ? comms : NULL,
                                  &p->instances[t->executor]));
    return t->executor == 0 ? weft_instance_prepare(p->instances[0]) : WEFT_OK;
}

weft_status weft_sized_bind(weft_served *s, weft_sized *v)
{
    for (int e = 0; e < s->executors; e++) {
        task t = {.served = s, .sized = v, .executor = e};
        WEFT_TRY(weft_mesh_run(s->meshes[e], make_instance, &t));
    }
    return WEFT_OK;
}

void weft_sized_free(weft_served *s, weft_sized *v)
{
    for (int r = 0; v->parts && r < s->ranks; r++) {
        weft_part *p = &v->parts[r];
        for (int e = 0; p->instances && e < s->executors; e++)
            weft_instance_destroy(&p->instances[e]);
        free(p->instances);
        weft_program_destroy(&p->program);
        weft_rewritten_destroy(&p->mine);
    }
    free(v->parts);
    weft_graph_destroy(&v->graph);
    v->parts = NULL;
}

/* --- running --- */

static void add_part(const weft_part *p, weft_value value, const weft_instance *instance,
                     double *said)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], at = 0;
    weft_type type = weft_graph_value_type(p->graph, value);
    const void *from = weft_instance_output(instance, value);
    weft_graph_part(p->graph, value, &whole, start);
    int64_t columns = weft_shape_elements(&whole) / whole.dim[0];
    int64_t here = weft_shape_elements(&type.shape) / type.shape.dim[0];
    int64_t first = whole.rank > 1 ? start[1] : 0;
    for (int64_t row = 0; row < type.shape.dim[0]; row++)
        for (int64_t j = 0; j < here; j++)
            said[(start[0] + row) * columns + first + j] += weft_number_get(type.dtype, from, at++);
}

static weft_status run_rank(void *user, int rank)
{
    const task *t = user;
    const weft_served *s = t->served;
    const weft_part *p = &t->sized->parts[rank];
    weft_instance *instance = p->instances[t->executor];
    if (s->wholes) weft_feed(p->graph, instance, p->x, s->wholes[t->executor].x, s->real);
    WEFT_TRY(weft_instance_run(instance, WEFT_PHASE_MICRO));
    /* The outputs sent to other ranks must have been read before the next run. */
    return s->wholes ? weft_instance_drain(instance) : WEFT_OK;
}

weft_status weft_sized_run(weft_served *s, const weft_sized *v, int executor)
{
    task t = {.served = s, .sized = (weft_sized *)(uintptr_t)v, .executor = executor};
    WEFT_TRY(weft_mesh_run(s->meshes[executor], run_rank, &t));
    if (!s->wholes) return WEFT_OK;
    weft_whole *w = &s->wholes[executor];
    size_t bytes = (size_t)v->rows * (size_t)s->outputs * sizeof(double);
    for (int k = 0; k < 2; k++) memset(w->said[k], 0, bytes);
    /* Ranks contribute disjoint parts, or terms of a sum; adding them up covers both. */
    for (int r = 0; r < s->ranks; r++) {
        const weft_part *p = &v->parts[r];
        if (p->says[0]) add_part(p, p->prediction, p->instances[executor], w->said[0]);
        if (p->says[1]) add_part(p, p->logits, p->instances[executor], w->said[1]);
    }
    return WEFT_OK;
}
