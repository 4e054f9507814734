/* Functions of all exchanges with elastic learners: the options of their member, checks at the
 * start, limits on waiting, and the leave. */
#include "exchange/elastic.h"

/* Seconds that a learner still waits for an answer when it is to stop: a live member answers within
 * this time over any network that a run can use. */
static const double IN_A_HURRY = 1;

weft_member_options weft_elastic_member(const weft_exchange_setup *setup, double heartbeat_interval)
{
    const weft_learner_link *link = setup->cluster;
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = weft_draw(),
                                 .requested_slot = link->slot,
                                 .run = link->run,
                                 .fingerprint = {.version = WEFT_VERSION,
                                                 .model = link->model,
                                                 .data = link->data,
                                                 .parameters = weft_store_form(setup->store),
                                                 .checkpoint = link->checkpoint,
                                                 .step = link->step,
                                                 .run = link->checkpoint_run},
                                 .removal = link->removal,
                                 .heartbeat_interval = heartbeat_interval};
}

void weft_elastic_note_step(weft_member_stats *stats, const weft_step_result *result)
{
    stats->loss = result->loss;
    stats->rate = result->rate;
    stats->device_busy = result->device_busy;
    stats->device_used = result->device_used;
    stats->device_total = result->device_total;
}

weft_status weft_elastic_check_ranks(const weft_exchange_setup *setup,
                                     const weft_shared_params *shared)
{
    if (!setup->cluster || weft_shared_params_are_unsharded(shared)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "in an elastic run each rank of a learner must hold all parameters, but this "
        "mesh shards them; split only the batch or the images (--mesh data=N, domain=N)");
}

static double count_learners(const weft_member *member)
{
    return member ? weft_view_count(weft_member_view(member), WEFT_MEMBER_LEARNER) : 0;
}

void weft_elastic_note_end(weft_exchange *e, const weft_member *member)
{
    e->learners_at[1] = count_learners(member);
}

weft_status weft_elastic_begin(weft_exchange *e, const weft_member *member)
{
    const weft_learner_link *link = e->setup.cluster;
    e->learners_at[0] = count_learners(member);
    if (!link || weft_member_slot(member) == link->slot) return WEFT_OK;
    weft_member_note_removed(member);
    return weft_fail(WEFT_ERR_PEER,
                     "another learner took slot %d of the run while this one started; join again",
                     link->slot);
}

bool weft_elastic_is_stopped(const weft_exchange *e)
{
    const weft_learner_link *link = e->setup.cluster;
    return link && !link->job && link->stop && atomic_load(link->stop);
}

double weft_elastic_limit(const weft_exchange *e, double usual)
{
    return weft_elastic_is_stopped(e) ? WEFT_MIN(usual, IN_A_HURRY) : usual;
}

/* Whether the coordinator has not answered for longer than it would wait for this member. */
static bool lacks_coordinator(const weft_member *member, double *silent)
{
    *silent = member ? weft_member_coordinator_status(member).silent : 0;
    return member && weft_member_view(member)->failure_timeout > 0 &&
           *silent > weft_member_view(member)->failure_timeout;
}

void weft_elastic_watch(weft_exchange *e, const weft_member *member)
{
    double silent;
    bool lost = lacks_coordinator(member, &silent);
    if (!e->setup.cluster || e->setup.cluster->job || lost == e->coordinator_lost) return;
    e->coordinator_lost = lost;
    if (lost)
        weft_log(e->setup.context, WEFT_LOG_WARNING,
                 "the coordinator has not answered for %.0f s: the run goes on without it, and no "
                 "member can join until it is started again at its address",
                 silent);
    else
        weft_log(e->setup.context, WEFT_LOG_NOTE, "the coordinator answers again");
}

weft_status weft_elastic_await_leave(const weft_exchange *e, const weft_member *member,
                                     weft_net *net, bool hurry)
{
    static const double LONG_ENOUGH = 15, TOLD = 2, NAP = 0.05;
    double began = weft_seconds(), silent;
    bool told = hurry;
    while (!weft_net_actor(net)->done) {
        double most = hurry || lacks_coordinator(member, &silent) ? IN_A_HURRY : LONG_ENOUGH;
        double waited = weft_seconds() - began;
        if (waited >= weft_elastic_limit(e, most)) break;
        if (waited > TOLD && !told)
            weft_log(e->setup.context, WEFT_LOG_NOTE,
                     "waits for the coordinator, which has not answered, for %.0f s at most",
                     LONG_ENOUGH);
        told = told || waited > TOLD;
        WEFT_TRY(weft_net_poll(net, NAP));
    }
    return WEFT_OK;
}

void weft_elastic_abandon(const weft_exchange *e, weft_net *net,
                          weft_status (*leave_now)(weft_actor *actor))
{
    const weft_learner_link *link = e->setup.cluster;
    if (!net || !link || link->job || (link->removal && atomic_load(&link->removal->removed)))
        return;
    weft_error error = {0};
    weft_error_catch(&error, WEFT_ERR_PEER); /* the message of the error that makes it leave */
    weft_status status = leave_now(weft_net_actor(net));
    if (status == WEFT_OK) status = weft_elastic_await_leave(e, NULL, net, true);
    (void)status;
    status = weft_error_raise(&error);
    (void)status;
}
