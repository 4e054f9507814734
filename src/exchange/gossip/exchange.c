/* Implements the hooks of the gossip exchange, which trains without servers. Each learner updates
 * its own parameters, and its peer broadcasts the encoded change of each step (Strom 2015) or
 * averages with a neighbour (Lian et al. 2018). */
#include "exchange/gossip/join_leave.h"
#include "exchange/gossip/peer_internal.h"

/* --- opening --- */

static weft_status prepare(gossip *x, const weft_exchange_setup *setup)
{
    size_t bytes;
    const char *codec = NULL;
    WEFT_TRY(weft_gossip_codec(x->mode, setup->codec, &codec));
    if (!setup->cluster)
        WEFT_TRY(weft_topology_make(x->topology_name, setup->endpoint->learners, x->mode->pairs,
                                    WEFT_GOSSIP_SEED, &x->topology));
    WEFT_TRY(weft_strdup(codec, &x->codec_name));
    WEFT_TRY(weft_exchange_parameters(setup->store, &x->dtype, &x->count, &bytes));
    WEFT_TRY(weft_shared_params_open(setup->learner, setup->store, &x->shared));
    WEFT_TRY(weft_codec_checkpoint_open(setup->context, x->codec_name, NULL, setup->store,
                                        x->shared, &x->codec_state));
    if (setup->endpoint->learner == 0)
        WEFT_TRY(weft_codec_checkpoint_note_momentum(x->codec_state, setup->context, setup->store,
                                                     setup->codec, setup->optimizer));
    x->parameters = weft_shared_params_parameters(x->shared);
    WEFT_TRY(weft_elastic_check_ranks(setup, x->shared));
    x->is_leader = weft_shared_params_is_leader(x->shared);
    if (!x->is_leader) return WEFT_OK;
    return weft_codec_open(setup->context, x->codec_name, x->dtype, x->count, &x->codec);
}

/* In the process of slot 0 of a job: lets this process's peer leave the job. A failure is ignored,
 * since the result of the run is saved. */
static void release_hold(const gossip *x)
{
    if (!x->holds_slot || !x->net) return;
    if (weft_peer_release_hold(weft_net_actor(x->net)) == WEFT_OK)
        (void)!weft_elastic_await_leave(&x->head, weft_peer_member(weft_net_actor(x->net)), x->net,
                                        false);
}

static void gossip_close(weft_exchange *exchange)
{
    gossip *x = (gossip *)exchange;
    release_hold(x);
    weft_elastic_abandon(exchange, x->net, weft_peer_leave_now); /* if it has not ended */
    weft_net_close(&x->net);
    weft_shared_params_close(&x->shared);
    weft_codec_close(&x->codec);
    weft_codec_checkpoint_close(&x->codec_state);
    weft_topology_free(&x->topology);
    free(x->topology_name);
    free(x->codec_name);
}

static weft_status gossip_open(weft_exchange *exchange, const char *arguments,
                               const weft_exchange_setup *setup)
{
    gossip *x = (gossip *)exchange;
    WEFT_TRY(weft_gossip_parse(arguments, &x->topology_name, &x->mode));
    return setup ? prepare(x, setup) : WEFT_OK;
}

static weft_status gossip_fits(const weft_exchange *exchange, const weft_exchange_plan *plan)
{
    const char *codec;
    return weft_gossip_codec(((const gossip *)exchange)->mode, plan->codec, &codec);
}

/* A peer has one socket of its own and one to each neighbour. */
static weft_status gossip_sockets(const weft_exchange *exchange, const weft_exchange_plan *plan,
                                  int64_t *out)
{
    const gossip *x = (const gossip *)exchange;
    weft_topology topology;
    *out = 1;
    if (plan->learners < 2) return WEFT_OK; /* there are no neighbours */
    WEFT_TRY(weft_topology_make(x->topology_name, plan->learners, x->mode->pairs, WEFT_GOSSIP_SEED,
                                &topology));
    *out = (int64_t)plan->learners + topology.first[plan->learners];
    weft_topology_free(&topology);
    return WEFT_OK;
}

/* A peer keeps its parameters and those of the begin of the step, its codec, and the messages of a
 * step. One that others may join has a log of all updates, too. */
static weft_status gossip_memory(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                                 weft_exchange_memory *out)
{
    const gossip *x = (const gossip *)exchange;
    const char *codec;
    if (sizes->count == 0) return WEFT_OK;
    WEFT_TRY(weft_gossip_codec(x->mode, sizes->plan->codec, &codec));
    WEFT_TRY(
        weft_codec_bytes(sizes->plan->context, codec, sizes->dtype, sizes->count, &out->learner));
    double bytes = (double)sizes->count * (double)weft_dtype_size(sizes->dtype);
    double message = (double)weft_encoded_bound(sizes->dtype, sizes->count);
    out->learner += 2 * bytes + message;
    /* Between processes an update that has come, and without a log one that is still under way, in
     * rooms that the process keeps. */
    bool apart = sizes->plan->here == 1 && sizes->plan->learners > 1;
    out->learner += (apart + (apart && sizes->plan->hosted)) * message;
    if (!sizes->plan->hosted && x->mode->apply)
        out->learner += WEFT_MIN((double)weft_update_log_most((size_t)bytes),
                                 message * (double)(sizes->steps * sizes->plan->learners));
    return WEFT_OK;
}

/* The work of a peer's own step alone: updates of others may be merged on their way. */
static void gossip_least(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                         weft_exchange_least *out)
{
    (void)sizes;
    out->learner = ((const gossip *)exchange)->mode->least;
}

/* --- hooks --- */

static bool may_continue(const weft_actor *peer)
{
    return weft_peer_is_computing(peer) || weft_peer_is_leaving(peer);
}

/* Opens the peer and waits until it requests the first computation. An elastic learner then takes
 * over the parameters and the step of its peer, which may have received them from the run. */
static weft_status gossip_begin(weft_exchange *exchange)
{
    gossip *x = (gossip *)exchange;
    bool joins = exchange->setup.cluster;
    WEFT_TRY(weft_shared_params_read(x->shared));
    if (x->is_leader) {
        WEFT_TRY(weft_codec_checkpoint_load(x->codec_state, x->codec, 0));
        WEFT_TRY(weft_net_context_of(exchange->setup.context, &x->net_context));
        WEFT_TRY(joins ? weft_gossip_join(x) : weft_gossip_connect(x));
        WEFT_TRY(weft_net_begin(x->net));
        WEFT_TRY(weft_gossip_wait(x, may_continue));
        WEFT_TRY(weft_elastic_begin(exchange, weft_peer_member(weft_net_actor(x->net))));
        x->step = weft_peer_clock(weft_net_actor(x->net));
    }
    return joins ? weft_shared_params_write(x->shared) : WEFT_OK;
}

static weft_status gossip_poll(weft_exchange *exchange)
{
    gossip *x = (gossip *)exchange;
    return x->net ? weft_net_poll(x->net, 0) : WEFT_OK;
}

/* Passes the end of a step to the peer, which broadcasts the change or averages with a neighbour.
 * The next step begins with all updates that have arrived. */
static weft_status gossip_after(weft_exchange *exchange, weft_step_result *result)
{
    gossip *x = (gossip *)exchange;
    x->stepped = true;
    WEFT_TRY(weft_shared_params_read(x->shared));
    if (x->is_leader) {
        weft_peer_set_stats(weft_net_actor(x->net), result);
        weft_elastic_watch(exchange, weft_peer_member(weft_net_actor(x->net)));
        WEFT_TRY(weft_net_poll(x->net, 0));
        WEFT_TRY(weft_net_computed(x->net, ++x->step));
        WEFT_TRY(weft_gossip_wait(x, may_continue));
        bool halted = weft_peer_halted(weft_net_actor(x->net));
        result->dismissed = !halted && weft_peer_is_leaving(weft_net_actor(x->net));
        result->leave = halted || result->dismissed;
    }
    return weft_shared_params_write(x->shared);
}

static void take_result(gossip *x)
{
    memcpy(x->parameters, weft_peer_parameters(weft_net_actor(x->net)),
           (size_t)x->count * weft_dtype_size(x->dtype));
    x->figures[0] = (double)weft_net_stats(x->net).bytes_sent;
    x->figures[1] = (double)weft_net_stats(x->net).dropped;
}

/* Ends the learner of a job with fixed peers: waits for all updates. Replicas then differ by the
 * order of additions or, in mode average, by steps since they averaged, so the mean of all replicas
 * is the result of the run. */
static weft_status end_job(gossip *x)
{
    x->halts = !x->head.finished;
    x->ended = true;
    WEFT_TRY(weft_peer_finish(weft_net_actor(x->net), x->halts));
    WEFT_TRY(weft_gossip_wait(x, weft_peer_finished));
    WEFT_TRY(weft_gossip_leave_together(x));
    take_result(x);
    weft_net_close(&x->net);
    x->figures[2] = x->head.setup.endpoint->learners;
    WEFT_TRY(weft_exchange_sum(&x->head, "bytes of the peers", &x->figures[0]));
    WEFT_TRY(weft_exchange_sum(&x->head, "messages of the peers", &x->figures[1]));
    return weft_exchange_mean(&x->head, "parameters of the peers", x->dtype, x->parameters,
                              x->count);
}

/* Ends an elastic learner. One that stops early leaves alone while the others go on; otherwise all
 * learners end with the same final average. */
static weft_status end_elastic(gossip *x)
{
    const weft_learner_link *link = x->head.setup.cluster;
    weft_actor *peer = weft_net_actor(x->net);
    bool late = !x->stepped; /* a learner that joined too late to take a step ends with the run */
    bool alone = !x->head.finished && !late && !link->job;
    x->holds_slot = link->job && link->slot == 0;
    weft_elastic_note_end(&x->head, weft_peer_member(peer));
    WEFT_TRY(alone ? weft_peer_leave_now(peer)
                   : weft_peer_finish(peer, !x->head.finished && !late));
    weft_status status = weft_gossip_wait(x, weft_peer_finished);
    /* INTERRUPTED: the learner leaves without waiting for other peers. */
    if (status != WEFT_ERR_INTERRUPTED) WEFT_TRY(status);
    x->figures[2] = weft_peer_mean_contributors(peer);
    if (!alone && x->figures[2] == 0)
        weft_log(x->head.setup.context, WEFT_LOG_WARNING,
                 "no final average was made, since some peers did not answer: this learner ends "
                 "with its own parameters");
    if (!x->holds_slot)
        WEFT_TRY(weft_elastic_await_leave(&x->head, weft_peer_member(weft_net_actor(x->net)),
                                          x->net, false));
    take_result(x);
    if (!x->holds_slot) weft_net_close(&x->net);
    if (x->holds_slot) weft_peer_forget_updates(weft_net_actor(x->net));
    return WEFT_OK;
}

static weft_status gossip_save(weft_exchange *exchange)
{
    gossip *x = (gossip *)exchange;
    if (x->is_leader) weft_codec_checkpoint_store(x->codec_state, x->codec, 0);
    return WEFT_OK;
}

static weft_status gossip_end(weft_exchange *exchange)
{
    gossip *x = (gossip *)exchange;
    if (x->is_leader) WEFT_TRY(exchange->setup.cluster ? end_elastic(x) : end_job(x));
    return weft_shared_params_write(x->shared);
}

static int64_t gossip_began(weft_exchange *exchange)
{
    const gossip *x = (const gossip *)exchange;
    return x->is_leader ? x->step : -1;
}

static bool gossip_state(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    return weft_codec_checkpoint_state(((const gossip *)exchange)->codec_state, i, out);
}

static bool gossip_figure(weft_exchange *exchange, int i, weft_series *out)
{
    static const char *const names[] = {"exchange_bytes", "exchange_messages_dropped",
                                        "exchange_mean_contributors"};
    if (i >= (int)WEFT_COUNT(names)) return false;
    *out = (weft_series){names[i], &((const gossip *)exchange)->figures[i], 1, false};
    return true;
}

static const weft_exchange_actors gossip_actors = {.sockets = gossip_sockets,
                                                   .simulate = weft_gossip_simulate,
                                                   .began = gossip_began,
                                                   .least = gossip_least};

/* Worth trying: see weft_exchange_life. */
static const char *gossip_offered(int i)
{
    static const char *const offers[] = {"", "topology=ring", "mode=average"};
    return i < (int)WEFT_COUNT(offers) ? offers[i] : NULL;
}

static const weft_exchange_ops gossip_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .size = sizeof(gossip),
    .name = "gossip",
    .open = gossip_open,
    .close = gossip_close,
    .fits = gossip_fits,
    .step = {.poll = gossip_poll, .after = gossip_after},
    .life = {.offered = gossip_offered,
             .begin = gossip_begin,
             .state = gossip_state,
             .save = gossip_save,
             .store_state = gossip_save,
             .end = gossip_end,
             .memory = gossip_memory,
             .figure = gossip_figure},
    .actors = &gossip_actors,
};

const weft_entry weft_exchange_gossip = {
    .kind = WEFT_KIND_EXCHANGE,
    .name = "gossip",
    .form = "gossip[:topology=all|ring|torus|random,mode=updates|average]",
    .summary = "peers without servers: each sends the compressed update of a step to "
               "all others (mode=updates), or two neighbours average their parameters "
               "from time to time (mode=average)",
    .ops = &gossip_ops,
    .reads = "compress",
};
