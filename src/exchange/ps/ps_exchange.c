/* Common part of the exchanges with servers (`server`, `easgd`): opening and closing, waiting for
 * replies, pulling all parameters and collecting the codecs' residuals for a checkpoint, and the
 * end of a run. */
#include "exchange/ps/ps_exchange.h"
#include "exchange/elastic.h"

/* Seconds of a poll, after which a learner checks whether the job goes on. */
static const double NAP = 0.05;

/* --- opening and closing --- */

/* Largest number of servers that are threads of a job. Each of them receives a view for every
 * server that joins, so the time of the start grows with the square of their number: 128 servers
 * begin in two seconds on two cores, 256 in a minute and a half. */
enum { MOST_HOSTED = 128 };

weft_status weft_ps_exchange_fits(const weft_exchange *exchange, const weft_exchange_plan *plan)
{
    const weft_policy *policy = &((const weft_ps_exchange *)exchange)->options.policy;
    const char *name = exchange->ops->name;
    if (policy->count > plan->learners && !plan->resumed_run)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s: a version of c=%d updates, but there %s %d learner%s; "
                         "give c=%d%s",
                         name, policy->count, plan->learners == 1 ? "is" : "are", plan->learners,
                         weft_plural(plan->learners), plan->learners,
                         plan->learners == 1 ? ", or more learners" : " or less");
    if (plan->replicas > 0 && plan->servers < 2)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s: a replica is kept by another server, so --replicas 1 "
                         "needs --servers 2 or more",
                         name);
    if (plan->hosted && plan->servers > MOST_HOSTED)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "exchange %s: %d servers would be threads of this job, and each receives every view, "
            "so that more than %d take minutes to start; give --servers %d or fewer",
            name, plan->servers, MOST_HOSTED, MOST_HOSTED);
    return WEFT_OK;
}

/* Counts the sockets: a learner has one of its own and one to each server; with replicas, so does a
 * server. Without replicas, each server and the coordinator have one. */
weft_status weft_ps_exchange_sockets(const weft_exchange *exchange, const weft_exchange_plan *plan,
                                     int64_t *out)
{
    int64_t servers = WEFT_MAX(plan->servers, 1);
    (void)exchange;
    *out = (plan->learners + (plan->replicas > 0 ? servers : 1)) * (servers + 1);
    return WEFT_OK;
}

/* Notes that a resumed run has fewer learners than a version has updates: its versions then have as
 * many updates as there are learners, until others join. */
static void log_count(const weft_ps_exchange *x, const weft_exchange_setup *setup)
{
    int learners = setup->endpoint->learners;
    if (x->options.policy.count > learners && setup->endpoint->learner == 0)
        weft_log(setup->context, WEFT_LOG_NOTE,
                 "the policy has c=%d updates per version, but the resumed run has %d learners: "
                 "c=%d from now on",
                 x->options.policy.count, learners, learners);
}

weft_status weft_ps_exchange_make_room(weft_ps_exchange *x, const weft_exchange_setup *setup)
{
    size_t bytes;
    log_count(x, setup);
    WEFT_TRY(weft_exchange_parameters(setup->store, &x->dtype, &x->count, &bytes));
    /* With fewer parameters than servers, only as many servers run as there are parameters. */
    x->servers = (int)WEFT_MIN(setup->servers ? setup->servers : 1, WEFT_MAX(x->count, 1));
    if (!x->options.adds)
        WEFT_TRY(weft_segments_of(setup->store, setup->optimizer, x->servers, &x->segments));
    x->range_count = weft_segments_ranges(x->segments, x->count, x->dtype, x->servers);
    WEFT_TRY(weft_strdup(setup->codec && *setup->codec ? setup->codec : "none", &x->codec));
    WEFT_TRY(
        weft_strdup(weft_range_factory_back(x->options.adds, setup->codec, setup->back), &x->back));
    if (!x->options.adds && (setup->saves || setup->resumed_run))
        WEFT_TRY(weft_ps_exchange_list_states(x, setup->context, setup->store, setup->optimizer));
    WEFT_TRY(weft_shared_params_open(setup->learner, setup->store, &x->shared));
    WEFT_TRY(weft_codec_checkpoint_open(setup->context, x->codec, x->back, setup->store, x->shared,
                                        &x->codec_states));
    if (setup->endpoint->learner == 0)
        WEFT_TRY(weft_codec_checkpoint_note_momentum(x->codec_states, setup->context, setup->store,
                                                     setup->codec, setup->optimizer));
    WEFT_TRY(weft_elastic_check_ranks(setup, x->shared));
    x->parameters = weft_shared_params_parameters(x->shared);
    x->leads = weft_shared_params_is_leader(x->shared);
    if (!x->leads) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(bytes, &x->gradients));
    if (x->options.fetch > 1 && !x->options.adds)
        WEFT_TRY(weft_local_sgd_open(setup->context, setup->store, setup->optimizer, x->dtype,
                                     x->count, x->segments, &x->descent));
    WEFT_TRY(WEFT_NEW(&x->own, x->servers));
    WEFT_TRY(WEFT_NEW(&x->ranges, x->range_count));
    WEFT_TRY(WEFT_NEW(&x->missing, x->range_count));
    return WEFT_NEW(&x->gradient_counts, x->range_count);
}

/* Waits until the coordinator has acknowledged the leave. In a job that was stopped the wait is
 * short: the result is sent and saved by then, and no other coordinator replaces one that does not
 * answer. */
static weft_status await_leave(const weft_ps_exchange *x)
{
    const weft_learner_link *link = x->head.setup.cluster;
    return weft_elastic_await_leave(&x->head, weft_ps_client_member(weft_net_actor(x->net)), x->net,
                                    link && link->job && !x->head.finished);
}

static weft_status leave_run(const weft_ps_exchange *x)
{
    if (!x->stays || !x->net) return WEFT_OK;
    WEFT_TRY(weft_ps_client_release(weft_net_actor(x->net)));
    return await_leave(x);
}

void weft_ps_exchange_close(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    weft_status ended = leave_run(x);
    if (x->leads && !x->ended) weft_elastic_abandon(exchange, x->net, weft_ps_client_leave_now);
    if (x->ranges) ended = weft_ps_exchange_stop(x);
    (void)ended; /* a learner that waited for a failed server has reported its error */
    weft_shared_params_close(&x->shared);
    weft_local_sgd_close(&x->descent);
    for (int i = 0; i < x->state_count; i++) free(x->states[i].data);
    free(x->states);
    free(x->segments.at);
    weft_codec_checkpoint_close(&x->codec_states);
    free(x->codec);
    free(x->back);
    free(x->own);
    free(x->ranges);
    free(x->missing);
    free(x->gradient_counts);
    free(x->late);
    free(x->gradients);
}

/* --- waiting --- */

static weft_status check_servers(const weft_ps_exchange *x)
{
    if (x->coordinator) WEFT_TRY(weft_actor_thread_check(x->coordinator));
    for (int k = 0; k < x->servers; k++)
        if (x->own[k].hosted) WEFT_TRY(weft_actor_thread_check(x->own[k].hosted));
    return weft_learner_group_check(x->head.setup.endpoint);
}

/* Makes a learner that is asked to stop leave the run, since the reply that it waits for does not
 * come. The learner writes no checkpoint, which would lack the state of the servers. */
static weft_status give_up(const weft_ps_exchange *x)
{
    weft_actor *client = weft_net_actor(x->net);
    WEFT_TRY(weft_ps_client_leave_now(client));
    WEFT_TRY(await_leave(x));
    return weft_member_stopped_error(weft_ps_client_member(client),
                                     x->head.setup.cluster->saves
                                         ? "a server, so no checkpoint of that step is written"
                                         : "a server");
}

static bool lacks(const weft_ps_exchange *x, int range)
{
    const weft_actor *learner = weft_net_actor(x->net);
    return range == WEFT_ANY_PART ? weft_ps_client_is_waiting(learner)
                                  : weft_ps_client_lacks_range(learner, range);
}

/* A number that changes while the run makes progress, as far as a waiting learner knows it: with
 * each reply of a server. Only the last learner that ends gets a reply to its leave at once, so a
 * learner that has ended follows the steps of the slowest one. */
static uint64_t progress(const weft_ps_exchange *x)
{
    const weft_actor *client = weft_net_actor(x->net);
    const weft_member *member = weft_ps_client_member(client);
    uint64_t replies = weft_ps_client_replies(client);
    return x->ended ? replies + (uint64_t)weft_member_coordinator_status(member).slowest_clock
                    : replies;
}

/* Makes the learners that still take steps end, when the job is asked to stop after this one has
 * left: its leave is sent again, with the request. */
static weft_status halt_others(weft_ps_exchange *x)
{
    if (!x->ended || x->halts || !weft_exchange_is_asked(&x->head)) return WEFT_OK;
    x->halts = true;
    return weft_ps_client_leave(weft_net_actor(x->net), true, x->head.setup.endpoint->learner == 0);
}

weft_status weft_ps_exchange_wait_for(weft_ps_exchange *x, int range)
{
    double limit = x->head.setup.endpoint->timeout, began = weft_seconds();
    weft_wait_clock wait_clock = {0};
    while (lacks(x, range)) {
        uint64_t before = progress(x);
        WEFT_TRY(weft_net_poll(x->net, NAP));
        WEFT_TRY(check_servers(x));
        WEFT_TRY(halt_others(x));
        if (progress(x) != before) wait_clock = (weft_wait_clock){0};
        double waited = weft_wait_clock_read(&wait_clock, 1);
        if (waited > weft_elastic_limit(&x->head, limit) && weft_elastic_is_stopped(&x->head))
            return give_up(x);
        if (waited > limit) return weft_ps_client_timeout_error(weft_net_actor(x->net), limit);
    }
    x->head.waited += weft_seconds() - began;
    return WEFT_OK;
}

weft_status weft_ps_exchange_wait(weft_ps_exchange *x)
{
    return weft_ps_exchange_wait_for(x, WEFT_ANY_PART);
}

/* --- begin and end --- */

weft_status weft_ps_exchange_begin(weft_ps_exchange *x)
{
    WEFT_TRY(weft_ps_exchange_start(x));
    WEFT_TRY(weft_ps_exchange_wait(x));
    x->clock = weft_ps_client_clock(weft_net_actor(x->net));
    return weft_elastic_begin(&x->head, weft_ps_client_member(weft_net_actor(x->net)));
}

weft_status weft_ps_exchange_poll(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    weft_status status = x->net ? weft_net_poll(x->net, 0) : WEFT_OK;
    return x->ended ? WEFT_OK : status; /* after the end a failure does not matter */
}

/* The first learner sets the end step NOTICE steps ahead: the other learners receive it with the
 * replies for the step after the next, and tell all their ranks one step later. A learner that has
 * not received it UNHEARD steps after it was asked to stop assumes that the first learner is gone,
 * and stops. */
enum { NOTICE = 3, UNHEARD = 8 };

/* Makes all learners of a synchronous run that is stopped end with the same step, so that no update
 * is discarded, and no residual or state of a learner is ahead of the parameters. */
static void agree_on_end(weft_ps_exchange *x, weft_step_result *result)
{
    const weft_learner_link *link = x->head.setup.cluster;
    if (!result->asked || !weft_exchange_ends_together(&x->head)) return;
    if ((link ? link->slot : x->head.setup.endpoint->learner) > 0) {
        result->until = ++x->asked > UNHEARD ? result->step : INT64_MAX;
        return;
    }
    if (x->until == 0) {
        x->until = result->step + NOTICE;
        if (x->leads)
            weft_ps_client_set_end_clock(weft_net_actor(x->net),
                                         weft_ps_client_clock(weft_net_actor(x->net)) + NOTICE);
    }
    result->until = x->until;
}

void weft_ps_exchange_after_step(weft_ps_exchange *x, weft_step_result *result)
{
    agree_on_end(x, result);
    if (!x->leads) return;
    weft_ps_client_set_stats(weft_net_actor(x->net), result);
    weft_elastic_watch(&x->head, weft_ps_client_member(weft_net_actor(x->net)));
    bool halted = weft_ps_client_halted(weft_net_actor(x->net));
    result->dismissed = !halted && weft_ps_client_dismissed(weft_net_actor(x->net));
    result->leave = halted || result->dismissed;
}

static void store_codec_states(const weft_ps_exchange *x)
{
    for (int k = 0; k < x->range_count; k++)
        weft_codec_checkpoint_store(x->codec_states, x->ranges[k].codec, x->ranges[k].begin);
}

weft_status weft_ps_exchange_save(weft_ps_exchange *x)
{
    weft_ps_exchange_skip_overlap(x);
    if (!x->leads) return WEFT_OK;
    WEFT_TRY(weft_ps_client_pull_with_state(weft_net_actor(x->net)));
    WEFT_TRY(weft_ps_exchange_wait(x));
    store_codec_states(x);
    return WEFT_OK;
}

/* Pushes the gradients that are added up (push=N), and waits until the servers have them. */
static weft_status push_rest(weft_ps_exchange *x)
{
    if (x->options.push <= 1) return WEFT_OK;
    WEFT_TRY(weft_ps_client_flush_accumulated(weft_net_actor(x->net)));
    return weft_ps_exchange_wait(x);
}

weft_status weft_ps_exchange_store_state(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    if (!x->leads) return WEFT_OK;
    WEFT_TRY(push_rest(x));
    store_codec_states(x);
    return WEFT_OK;
}

/* Whether the other learners go on after this one has left. */
static bool leaves_alone(const weft_ps_exchange *x)
{
    const weft_learner_link *link = x->head.setup.cluster;
    const weft_actor *client = weft_net_actor(x->net);
    if (!link || weft_ps_client_halted(client)) return false;
    return weft_ps_client_dismissed(client) || (!link->job && !x->head.finished);
}

/* The servers send no state after a learner has left them. */
static weft_status leave_alone(weft_ps_exchange *x)
{
    weft_actor *client = weft_net_actor(x->net);
    if (x->head.setup.cluster->saves) {
        WEFT_TRY(weft_ps_client_pull_with_state(client));
        WEFT_TRY(weft_ps_exchange_wait(x));
    } else {
        WEFT_TRY(push_rest(x));
    }
    return weft_ps_client_leave_now(client);
}

/* Leaves the servers and pulls the final parameters. The sum over the learners waits until all of
 * them have these; only then may the servers end. */
weft_status weft_ps_exchange_end(weft_ps_exchange *x)
{
    x->head.early = !x->head.finished;
    weft_ps_exchange_skip_overlap(x);
    if (x->leads) weft_elastic_note_end(&x->head, weft_ps_client_member(weft_net_actor(x->net)));
    if (x->leads && leaves_alone(x)) WEFT_TRY(leave_alone(x));
    x->ended = true;
    if (x->leads) {
        bool halted = weft_ps_client_halted(weft_net_actor(x->net));
        const weft_learner_link *link = x->head.setup.cluster;
        /* If the learner of slot 0 fails before it has saved the result, its replacement must still
         * find the result at the servers; so this learner stays a member. */
        x->stays = link && link->job && link->slot == 0;
        if (x->stays) weft_ps_client_hold(weft_net_actor(x->net));
        x->halts = !x->head.finished || halted;
        bool first = x->head.setup.endpoint->learner == 0;
        /* Two answers would take twice the memory. */
        if (x->head.finished) WEFT_TRY(weft_ps_exchange_wait(x));
        WEFT_TRY(weft_ps_client_leave(weft_net_actor(x->net), x->halts,
                                      link ? link->saves : first && x->head.setup.saves));
        WEFT_TRY(weft_ps_exchange_wait(x));
        if (link && !x->stays) WEFT_TRY(await_leave(x));
        WEFT_TRY(weft_exchange_sum(&x->head, "the learners' leave", &x->head.early));
    }
    WEFT_TRY(weft_ps_exchange_count(x));
    if (x->leads) {
        store_codec_states(x);
        if (!x->stays) WEFT_TRY(weft_ps_exchange_stop(x));
        free(x->gradients); /* the client pushes no more */
        x->gradients = NULL;
    }
    return WEFT_OK;
}
