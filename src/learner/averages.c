/* The averages of parameters (--ema) that an exchange updates, not the learner's own program. A
 * program of its own, on the store of the rank, moves them once for each step, by the parameters
 * that the learner holds after it. The last of these arrive while the next step runs, whose passes
 * read all of them: the averages move between the passes of that step and its update, or earlier
 * where the parameters are read outside the program. */
#include "learner/learner_internal.h"
#include "optim/optim.h"

struct weft_averages {
    weft_graph *graph;
    weft_rewritten *mine;
    weft_instance *instance;
    bool due; /* the parameters of the last step are still to be counted */
};

/* The rank's part of the graph; *out NULL: its own program moves the averages, if there are any. */
static weft_status build(const weft_rank *r, weft_averages **out)
{
    const weft_run_spec *k = r->run_spec;
    weft_averages *a;
    *out = NULL;
    if (!k->optimizer.averages || !weft_rank_updates_elsewhere(r)) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&a, 1));
    *out = a;
    WEFT_TRY(weft_graph_create(k->context, weft_graph_real(r->graph), &a->graph));
    WEFT_TRY(weft_average_build(a->graph, r->graph, &k->optimizer));
    return weft_plan_rewrite(r->plan, a->graph, r->rank % (int)k->plan.ranks, &a->mine);
}

static void destroy(weft_averages *a)
{
    if (!a) return;
    weft_instance_destroy(&a->instance);
    weft_rewritten_destroy(&a->mine);
    weft_graph_destroy(&a->graph);
    free(a);
}

weft_status weft_averages_open(weft_rank *r)
{
    weft_program_options p;
    weft_program_options_init(&p);
    WEFT_TRY(build(r, &r->averages));
    if (!r->averages) return WEFT_OK;
    return weft_instance_build_with(r->store, weft_rewritten_graph(r->averages->mine), &p,
                                    &r->comms, &r->averages->instance);
}

void weft_averages_close(weft_rank *r)
{
    destroy(r->averages);
    r->averages = NULL;
}

weft_status weft_averages_dry_program(const weft_rank *r, weft_store *store, weft_program **out)
{
    weft_averages *a;
    weft_program_options p;
    weft_program_options_init(&p);
    p.dry = true;
    *out = NULL;
    weft_status status = build(r, &a);
    if (status == WEFT_OK && a)
        status = weft_program_create_with(store, weft_rewritten_graph(a->mine), &p, out);
    destroy(a);
    return status;
}

weft_status weft_averages_clone(const weft_rank *r, weft_rank *out)
{
    out->averages = NULL;
    if (!r->averages) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&out->averages, 1));
    weft_program *program = (weft_program *)(uintptr_t)weft_instance_program(r->averages->instance);
    return weft_instance_create(program, r->store, &r->comms, &out->averages->instance);
}

weft_status weft_averages_use(weft_rank *r, weft_store *store, bool due)
{
    if (!r->averages) return WEFT_OK;
    r->averages->due = due;
    return weft_instance_use(r->averages->instance, store);
}

void weft_averages_stepped(weft_rank *r)
{
    if (r->averages) r->averages->due = true;
}

weft_status weft_averages_move(weft_rank *r)
{
    if (!r->averages || !r->averages->due) return WEFT_OK;
    r->averages->due = false;
    return weft_instance_run(r->averages->instance, WEFT_PHASE_UPDATE);
}

bool weft_averages_begun(const weft_rank *r)
{
    int32_t updates = 0;
    int entry = weft_store_find(r->store, WEFT_AVERAGE_PREFIX "steps");
    return r->run_spec->optimizer.averages && entry >= 0 &&
           weft_store_read(r->store, entry, &updates) == WEFT_OK && updates > 0;
}
