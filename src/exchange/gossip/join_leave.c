/* Connects a learner of a real run with its peer, which joins the other peers, waits for them, and
 * leaves. */
#include "exchange/gossip/join_leave.h"

/* Seconds that one poll waits; then the learner checks whether the job has failed or is to stop. */
static const double POLL_SECONDS = 0.05;
/* Seconds between two heartbeats of an elastic peer. */
static const double HEARTBEAT_SECONDS = 1;

static weft_status make_peer(const gossip *x, weft_actor **out)
{
    const weft_exchange_setup *setup = &x->head.setup;
    const weft_learner_link *link = setup->cluster;
    weft_peer_options options = {.struct_size = sizeof(options),
                                 .mode = x->mode,
                                 .me = setup->endpoint->learner,
                                 .topology = &x->topology,
                                 .topology_name = link ? x->topology_name : NULL,
                                 .job = link && link->job,
                                 .late = link && link->late,
                                 .seed = WEFT_GOSSIP_SEED,
                                 .dtype = x->dtype,
                                 .count = x->count,
                                 .parameters = x->parameters,
                                 .codec = x->codec,
                                 .empty = &x->head.empty,
                                 .steps = INT64_MAX,
                                 .min_rto = 1};
    if (link) options.member = weft_elastic_member(setup, HEARTBEAT_SECONDS);
    return weft_peer_create(&options, out);
}

static weft_status exchange_addresses(gossip *x, const weft_bootstrap_addresses *mine)
{
    const weft_learner_group *e = x->head.setup.endpoint;
    weft_bootstrap_addresses *all;
    WEFT_TRY(WEFT_NEW(&all, e->learners));
    weft_status status = weft_learner_group_run(
        x->head.setup.endpoint,
        WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = "where peers are",
                      .send = mine, .receive = all, .count = sizeof(*mine)));
    for (int i = 0; i < e->learners && status == WEFT_OK; i++)
        if (i != e->learner)
            status = weft_net_add_peer(x->net, (weft_actor_id)i,
                                       weft_bootstrap_address(&all[i], x->net_context));
    free(all);
    return status;
}

/* A learner that is to stop leaves the run without waiting any longer for other peers. */
static weft_status give_up(const gossip *x)
{
    weft_actor *peer = weft_net_actor(x->net);
    WEFT_TRY(weft_peer_leave_now(peer));
    WEFT_TRY(weft_elastic_await_leave(&x->head, weft_peer_member(peer), x->net, true));
    return weft_member_stopped_error(weft_peer_member(peer), "other peers");
}

/* Makes the peers that still take steps end, when the job is asked to stop after this one has
 * ended: it broadcasts its end again, with the request. */
static weft_status halt_others(gossip *x)
{
    if (!x->ended || x->halts || !weft_exchange_is_asked(&x->head)) return WEFT_OK;
    x->halts = true;
    return weft_peer_finish(weft_net_actor(x->net), true);
}

weft_status weft_gossip_wait(gossip *x, bool (*condition)(const weft_actor *actor))
{
    weft_wait_clock wait_clock = {0}, stop_clock = {0}; /* a message resets wait_clock only */
    double limit = x->head.setup.endpoint->timeout;
    while (!condition(weft_net_actor(x->net))) {
        uint64_t received = weft_net_stats(x->net).received;
        WEFT_TRY(weft_net_poll(x->net, POLL_SECONDS));
        WEFT_TRY(weft_learner_group_check(x->head.setup.endpoint));
        WEFT_TRY(halt_others(x));
        if (weft_net_stats(x->net).received != received) wait_clock = (weft_wait_clock){0};
        double waited = weft_wait_clock_read(&wait_clock, 1);
        if (weft_elastic_is_stopped(&x->head) &&
            weft_wait_clock_read(&stop_clock, 1) > weft_elastic_limit(&x->head, limit))
            return give_up(x);
        if (waited > limit) return weft_peer_timeout_error(weft_net_actor(x->net), limit);
    }
    return WEFT_OK;
}

/* Opens the fixed peer of a learner of one job, and exchanges addresses with the other learners. */
weft_status weft_gossip_connect(gossip *x)
{
    const weft_learner_group *e = x->head.setup.endpoint;
    weft_actor *peer;
    weft_bootstrap_addresses mine;
    weft_reach reach;
    WEFT_TRY(weft_learners_meet(&x->head, x->net_context, &reach));
    WEFT_TRY(make_peer(x, &peer));
    WEFT_TRY(weft_bootstrap_open(x->net_context, peer, (weft_actor_id)e->learner, reach, &x->net,
                                 &mine));
    return exchange_addresses(x, &mine);
}

/* Opens an elastic peer. Its address goes to the coordinator with Join, and from there to the other
 * peers. */
weft_status weft_gossip_join(gossip *x)
{
    const char *coordinator = x->head.setup.cluster->coordinator;
    const char *given = x->head.setup.cluster->listen;
    char listen[WEFT_ADDRESS];
    weft_actor *peer;
    weft_learners_expect(&x->head, x->net_context);
    WEFT_TRY(make_peer(x, &peer));
    if (!given) given = weft_member_listens_at(x->net_context, coordinator, listen);
    WEFT_TRY(weft_net_open(x->net_context, peer, weft_draw_id(), given, &x->net));
    return weft_net_add_peer(x->net, WEFT_COORDINATOR, coordinator);
}

weft_status weft_gossip_leave_together(gossip *x)
{
    weft_group_request *request;
    x->head.early = !x->head.finished;
    bool done = false;
    WEFT_TRY(weft_learner_group_bind(
        x->head.setup.endpoint,
        WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64, .what = "the peers' leave",
                      .send = &x->head.early, .receive = &x->head.early, .count = 1,
                      .polled = true),
        &request));
    weft_status status = weft_group_request_start(request);
    while (status == WEFT_OK && !done) {
        status = weft_net_poll(x->net, POLL_SECONDS / 10);
        if (status == WEFT_OK) status = weft_group_request_test(request, &done);
        if (status == WEFT_OK) status = weft_learner_group_check(x->head.setup.endpoint);
    }
    weft_group_request_destroy(&request);
    return status;
}
