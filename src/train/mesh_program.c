/* Implements mesh programs. */
#include "train/mesh_program.h"

#include "program/program.h"

enum { MOST_RANKS = 64 };

/* --- weights --- */

weft_status weft_mesh_rank_count(const char *mesh, int *out)
{
    int64_t ranks = 1;
    if (mesh && *mesh) WEFT_TRY(weft_mesh_ranks(mesh, &ranks));
    if (ranks < 1 || ranks > MOST_RANKS)
        return weft_fail(WEFT_ERR_ARGUMENT, "mesh %s has %lld ranks, must be from 1 to %d", mesh,
                         (long long)ranks, MOST_RANKS);
    *out = (int)ranks;
    return WEFT_OK;
}

weft_status weft_mesh_weights_open(weft_context *context, const char *device, uint64_t seed,
                                   const char *mesh, const weft_checkpoint *checkpoint,
                                   weft_mesh_weights *out)
{
    int ranks = 1;
    WEFT_TRY(weft_mesh_rank_count(mesh, &ranks));
    out->mesh = ranks > 1 ? mesh : NULL;
    WEFT_TRY(WEFT_NEW(&out->stores, ranks));
    out->ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        WEFT_TRY(weft_store_create(context, device, seed, &out->stores[r]));
        weft_store_leave_blank(out->stores[r]);
        WEFT_TRY(weft_checkpoint_tune(checkpoint, out->stores[r]));
    }
    return WEFT_OK;
}

void weft_mesh_weights_close(weft_mesh_weights *weights)
{
    for (int r = 0; r < weights->ranks; r++) weft_store_destroy(&weights->stores[r]);
    free(weights->stores);
    weft_plan_destroy(&weights->plan);
    *weights = (weft_mesh_weights){0};
}

weft_status weft_mesh_weights_load(const weft_mesh_weights *weights,
                                   const weft_checkpoint *checkpoint, const weft_graph *graph)
{
    for (int r = 0; r < weights->ranks; r++)
        WEFT_TRY(weft_checkpoint_load(checkpoint, weights->stores[r], graph));
    return WEFT_OK;
}

weft_status weft_mesh_weights_rows(const weft_mesh_weights *weights, int64_t *out)
{
    *out = 1;
    return weights->mesh ? weft_mesh_axis(weights->mesh, "data", out) : WEFT_OK;
}

/* --- programs --- */

static weft_status rewrite(weft_mesh_weights *w, const weft_graph *graph, weft_mesh_program *p)
{
    weft_plan_options o;
    if (w->ranks == 1) {
        p->parts[0].graph = graph;
        return WEFT_OK;
    }
    weft_plan_options_init(&o);
    o.ranks = w->ranks;
    o.mesh = w->mesh;
    o.plain_sums = true; /* ranks with uneven parts may choose different layouts */
    if (!w->plan) WEFT_TRY(weft_plan_create(graph, &o, &w->plan));
    for (int r = 0; r < w->ranks; r++) {
        WEFT_TRY(weft_plan_rewrite(w->plan, graph, r, &p->parts[r].rewritten));
        p->parts[r].graph = weft_rewritten_graph(p->parts[r].rewritten);
    }
    return WEFT_OK;
}

/* The argument of the functions that each rank runs. */
typedef struct task {
    const weft_mesh_program *program;
    const weft_mesh_weights *weights;
    const weft_value *fetch;
    int count;
    weft_rank_team *team;
    bool prepare;
    weft_instance **instances;
} task;

static weft_status make_program(void *user, int rank)
{
    const task *t = user;
    weft_mesh_part *part = &t->program->parts[rank];
    weft_value *wanted;
    weft_program_options o;
    const weft_comms *comms;
    weft_program_options_init(&o);
    if (t->weights->plan) {
        WEFT_TRY(weft_rank_team_comms(t->team, rank, t->weights->plan, &comms));
        WEFT_TRY(weft_store_reach(t->weights->stores[rank], comms, false));
    }
    WEFT_TRY(WEFT_NEW(&wanted, t->count));
    for (int i = 0; i < t->count; i++) {
        weft_value v = weft_mesh_program_value(t->program, rank, t->fetch[i]);
        if (v != WEFT_NO_VALUE) wanted[o.fetch_count++] = v;
    }
    o.fetch = wanted;
    weft_status status =
        weft_program_create_with(t->weights->stores[rank], part->graph, &o, &part->program);
    free(wanted);
    return status;
}

weft_status weft_mesh_program_create(weft_mesh_weights *weights, const weft_graph *graph,
                                     const weft_value *fetch, int count, weft_rank_team *team,
                                     weft_mesh_program *out)
{
    task t = {.program = out, .weights = weights, .fetch = fetch, .count = count, .team = team};
    WEFT_TRY(WEFT_NEW(&out->parts, weights->ranks));
    out->ranks = weights->ranks;
    WEFT_TRY(rewrite(weights, graph, out));
    return weft_rank_team_run(team, make_program, &t);
}

void weft_mesh_program_free(weft_mesh_program *program)
{
    for (int r = 0; r < program->ranks; r++) {
        weft_program_destroy(&program->parts[r].program);
        weft_rewritten_destroy(&program->parts[r].rewritten);
    }
    free(program->parts);
    *program = (weft_mesh_program){0};
}

static weft_status make_instance(void *user, int rank)
{
    const task *t = user;
    const weft_comms *comms = NULL;
    weft_instance **out = &t->instances[rank];
    if (t->weights->plan) WEFT_TRY(weft_rank_team_comms(t->team, rank, t->weights->plan, &comms));
    WEFT_TRY(weft_instance_create(t->program->parts[rank].program, t->weights->stores[rank], comms,
                                  out));
    return t->prepare ? weft_instance_prepare(*out) : WEFT_OK;
}

weft_status weft_mesh_program_instances(const weft_mesh_program *program,
                                        const weft_mesh_weights *weights, weft_rank_team *team,
                                        bool prepare, weft_instance **instances)
{
    task t = {.program = program,
              .weights = weights,
              .team = team,
              .prepare = prepare,
              .instances = instances};
    return weft_rank_team_run(team, make_instance, &t);
}

/* --- values --- */

weft_value weft_mesh_program_value(const weft_mesh_program *program, int rank, weft_value value)
{
    const weft_rewritten *rewritten = program->parts[rank].rewritten;
    if (value == WEFT_NO_VALUE || !rewritten) return value;
    return weft_rewritten_value(rewritten, value);
}

/* Adds a rank's part of a value to the whole. */
static void add_part(const weft_graph *graph, weft_value value, const weft_instance *instance,
                     weft_dtype dtype, void *to)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], at[WEFT_MAX_RANK] = {0};
    weft_type type = weft_graph_value_type(graph, value);
    const void *from = weft_instance_output(instance, value);
    int64_t count = weft_shape_elements(&type.shape);
    size_t size = weft_dtype_size(type.dtype);
    weft_graph_part(graph, value, &whole, start);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0;
        for (int d = 0; d < whole.rank; d++) place = place * whole.dim[d] + start[d] + at[d];
        if (weft_dtype_is_float(type.dtype))
            weft_number_put(dtype, to, place,
                            weft_number_get(dtype, to, place) +
                                weft_number_get(type.dtype, from, i));
        else
            memcpy((char *)to + (size_t)place * size, (const char *)from + (size_t)i * size, size);
        for (int d = whole.rank; d-- > 0 && ++at[d] == type.shape.dim[d];) at[d] = 0;
    }
}

/* Each rank that counts has a disjoint part of the value or, of a real one, a term of a sum. Adding
 * all of them to zeros gives the value in both cases. */
void weft_mesh_program_gather(const weft_mesh_program *program, weft_instance *const *instances,
                              weft_value value, const weft_type *type, void *to)
{
    memset(to, 0, weft_type_bytes(type));
    for (int r = 0; r < program->ranks; r++) {
        const weft_mesh_part *part = &program->parts[r];
        weft_value v = weft_mesh_program_value(program, r, value);
        if (v == WEFT_NO_VALUE) continue;
        if (part->rewritten && !weft_rewritten_counts(part->rewritten, value)) continue;
        add_part(part->graph, v, instances[r], type->dtype, to);
    }
}
