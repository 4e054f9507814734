/* Simulates runs whose ranks wait for each other: meshes of one learner, and learners of exchanges
 * in lock step. The ranks are those of a real run, as threads, so all numbers are, too; only the
 * clock is that of the estimated step. */
#include "train/estimate/learner_time.h"
#include "train/sim/sim_internal.h"

/* Ranks wait for one that is kept in the report of an event, as by the search for a target. */
static const double FOR_EVER = 1e6;

weft_status weft_learners_wait(weft_context *context, const char *exchange, bool *out)
{
    weft_meetings m;
    *out = true;
    if (!exchange) return WEFT_OK;
    WEFT_TRY(weft_exchange_meetings(context, exchange, &m));
    *out = m.period >= 0;
    return WEFT_OK;
}

weft_status weft_simulate_ranks(const char *path, weft_train_options *o)
{
    int64_t machines = 1;
    weft_cluster cluster;
    if (o->job.ranks != 1) return WEFT_OK;
    if (!o->parallel.exchange)
        return o->parallel.mesh ? weft_mesh_ranks(o->parallel.mesh, &o->job.ranks) : WEFT_OK;
    WEFT_TRY(weft_cluster_open(path, &machines, &cluster));
    weft_cluster_free(&cluster);
    o->job.ranks = machines;
    return WEFT_OK;
}

static weft_status create(weft_context *context, const weft_simulate_options *given,
                          const weft_stop *stop, const weft_pauses *pauses, weft_train_options *o,
                          weft_trainer **out)
{
    weft_step_estimate step;
    if (!given->cluster)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "ranks that wait for each other take the time that is estimated for their step; give "
            "--cluster a file of weft measure%s",
            o->parallel.exchange ? "" : ", or --exchange for learners that do not");
    WEFT_TRY(weft_simulate_ranks(given->cluster, o));
    o->job.timeout = FOR_EVER;
    WEFT_TRY(weft_estimate_run(context, o, given->cluster, stop, &step));
    WEFT_TRY(weft_trainer_create_passing(context, o, stop, false, out));
    (*out)->clock =
        (weft_step_clock){.seconds = step.seconds,
                          .utilisation = WEFT_MIN((step.computed + step.rest) / step.seconds, 1),
                          .bytes = step.wire_bytes,
                          .pauses = pauses};
    return WEFT_OK;
}

weft_status weft_simulate_synchronous(weft_context *context, const weft_simulate_options *given,
                                      const weft_stop *stop, const weft_pauses *pauses,
                                      weft_event_fn fn, void *user)
{
    weft_train_options o;
    weft_trainer *t = NULL;
    WEFT_TRY(weft_train_options_copy(context, &given->train, &o));
    weft_status status = create(context, given, stop, pauses, &o, &t);
    if (status == WEFT_OK) status = weft_trainer_run(t, fn, user);
    weft_trainer_destroy(&t);
    weft_options_free(weft_train_table(context), &o);
    return status;
}

weft_status weft_simulate_synchronous_check(weft_context *context,
                                            const weft_simulate_options *given)
{
    weft_train_options o;
    weft_trainer *t = NULL;
    WEFT_TRY(weft_train_options_copy(context, &given->train, &o));
    weft_status status = create(context, given, NULL, NULL, &o, &t);
    weft_trainer_destroy(&t);
    weft_options_free(weft_train_table(context), &o);
    return status;
}
