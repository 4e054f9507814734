/* Starts a learner of an exchange with servers: opens its client, with the actor id. In a job of
 * threads or MPI it also runs the servers and the coordinator as threads of the learners'
 * processes, and sends all learners the coordinator's address. */
#include <stdio.h>

#include "exchange/ps/ps_exchange.h"
#include "exchange/elastic.h"

/* Seconds between two heartbeats. A job detects lost ranks itself, so its coordinator has no
 * failure timeout. */
static const double BEAT = 1;

static int host_of(const weft_ps_exchange *x, int server)
{
    return weft_ps_host_of(server, x->head.setup.endpoint->learners);
}

static weft_actor_id server_id(int server)
{
    return (weft_actor_id)(WEFT_COORDINATOR + 1 + server);
}

static weft_actor_id learner_id(const weft_ps_exchange *x, int learner)
{
    return server_id(x->servers + learner);
}

/* The id of this learner's client. An elastic learner draws a random id that no other actor has,
 * since it may never return under an old one. */
static weft_actor_id own_id(const weft_ps_exchange *x)
{
    return x->head.setup.cluster ? weft_draw_id() : learner_id(x, x->head.setup.endpoint->learner);
}

static weft_member_options member_of(weft_actor_id id, int slot)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = id,
                                 .requested_slot = slot,
                                 .fingerprint = {.version = WEFT_VERSION},
                                 .heartbeat_interval = BEAT};
}

/* --- threads --- */

/* Broadcasts the coordinator's address from one learner to all others. */
static weft_status broadcast_address(const weft_ps_exchange *x, char *text, int from)
{
    return weft_learner_group_run(x->head.setup.endpoint,
                                  WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_U8,
                                                .what = "address of the coordinator", .send = text,
                                                .receive = text, .count = WEFT_ADDRESS,
                                                .peer = from));
}

static weft_status run_coordinator(weft_ps_exchange *x, weft_reach reach,
                                   char address[WEFT_ADDRESS])
{
    const weft_learner_group *between = x->head.setup.endpoint;
    weft_actor *coordinator;
    weft_coordinator_options options = {.struct_size = sizeof(options),
                                        .run = weft_net_context_id(x->world),
                                        .expected = {between->learners, x->servers},
                                        .ranges = x->range_count,
                                        .replicas = x->head.setup.replicas > 0,
                                        .limit = WEFT_NO_FAILURE_TIMEOUT,
                                        .fingerprint = {.version = WEFT_VERSION}};
    if (between->learner == 0) {
        WEFT_TRY(weft_coordinator_create(&options, &coordinator));
        WEFT_TRY(weft_actor_thread_start(x->world, coordinator, WEFT_COORDINATOR, NULL, reach,
                                         &x->coordinator));
        (void)snprintf(address, WEFT_ADDRESS, "%s", weft_actor_thread_address(x->coordinator));
    }
    return broadcast_address(x, address, 0);
}

static weft_status run_server(weft_ps_exchange *x, int k, const char *coordinator, weft_reach reach)
{
    weft_actor *server;
    weft_own_server *own = &x->own[k];
    const weft_exchange_setup *setup = &x->head.setup;
    weft_range_factory_options ranges = {.context = setup->context,
                                         .store = setup->store,
                                         .optimizer = setup->optimizer,
                                         .options = x->options,
                                         .dtype = x->dtype,
                                         .count = x->count,
                                         .range_count = x->range_count,
                                         .segments = x->segments,
                                         .codec = x->codec,
                                         .back = x->back,
                                         .gaps = weft_codec_checkpoint_padding(x->codec_states)};
    WEFT_TRY(weft_range_factory_create(&ranges, &own->ranges));
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = member_of(server_id(k), k),
                                   .first_timeout = 1,
                                   .open = weft_range_factory_open,
                                   .close = weft_range_factory_close,
                                   .user = own->ranges};
    WEFT_TRY(weft_server_create(&options, &server));
    return weft_actor_thread_start(x->world, server, server_id(k), coordinator, reach,
                                   &own->hosted);
}

static weft_status open_learner(weft_ps_exchange *x, const char *coordinator)
{
    int me = x->head.setup.endpoint->learner;
    weft_actor_id id = own_id(x);
    weft_actor *learner;
    /* A learner of one job needs no fingerprint, since the learners have compared their settings
     * before. With elastic updates the client's clock counts these, so it pulls after each (fetch
     * 1). */
    const weft_codec_ops *back;
    WEFT_TRY(weft_codec_find(x->head.setup.context, x->back, &back));
    weft_ps_client_options options = {.struct_size = sizeof(options),
                                      .back = back,
                                      .member = x->head.setup.cluster
                                                    ? weft_elastic_member(&x->head.setup, BEAT)
                                                    : member_of(id, me),
                                      .dtype = x->dtype,
                                      .ranges = x->ranges,
                                      .range_count = x->range_count,
                                      .steps = INT64_MAX,
                                      .parameters = x->parameters,
                                      .gradients = x->gradients,
                                      .first_timeout = 1,
                                      .step = &x->step,
                                      .weight = &x->head.weight,
                                      .empty = x->options.draw ? &x->idle : &x->head.empty,
                                      .push = x->options.push,
                                      .fetch = x->options.draw ? 1 : x->options.fetch,
                                      .clock_steps = x->options.draw ? x->options.fetch : 1,
                                      .descent = x->descent,
                                      .elastic = {.options = x->options.draw ? &x->options : NULL,
                                                  .learners = x->head.setup.endpoint->learners,
                                                  .own = x->own_parameters,
                                                  .force = x->gradients},
                                      .state_bytes = weft_ps_exchange_state_bytes,
                                      .take_state = weft_ps_exchange_take_state,
                                      .user = x};
    /* Otherwise servers begin with the same state. */
    if (x->head.setup.resumed_run) options.give_state = weft_ps_exchange_give_state;
    WEFT_TRY(weft_ps_client_create(&options, &learner));
    WEFT_TRY(weft_net_open(x->world, learner, id, NULL, &x->net));
    WEFT_TRY(weft_net_add_peer(x->net, WEFT_COORDINATOR, coordinator));
    return weft_net_begin(x->net);
}

weft_status weft_ps_exchange_start(weft_ps_exchange *x)
{
    const weft_exchange_setup *setup = &x->head.setup;
    char coordinator[WEFT_ADDRESS] = "";
    weft_reach reach = WEFT_REACH_PROCESS;
    WEFT_TRY(weft_net_context_of(setup->context, &x->world));
    weft_learners_expect(&x->head, x->world);
    if (!setup->cluster) WEFT_TRY(weft_learners_meet(&x->head, x->world, &reach));
    if (setup->replicas > 0)
        weft_net_context_set_max_message(x->world, weft_server_message_bytes(x->count, x->dtype));
    if (!setup->cluster) WEFT_TRY(run_coordinator(x, reach, coordinator));
    weft_net_context_set_queue(x->world, weft_server_messages(x->range_count));
    for (int k = 0; k < x->range_count; k++) {
        weft_server_range *r = &x->ranges[k];
        r->begin = weft_segments_cut(x->segments, x->count, k, x->range_count);
        r->count = weft_segments_cut(x->segments, x->count, k + 1, x->range_count) - r->begin;
        r->frozen = weft_segments_frozen(x->segments, r->begin, r->begin + r->count);
        WEFT_TRY(weft_codec_open(setup->context, x->codec, x->dtype, r->count, &r->codec));
        WEFT_TRY(weft_codec_checkpoint_load(x->codec_states, r->codec, r->begin));
    }
    for (int k = 0; k < x->servers; k++)
        if (!setup->cluster && host_of(x, k) == setup->endpoint->learner)
            WEFT_TRY(run_server(x, k, coordinator, reach));
    return open_learner(x, setup->cluster ? setup->cluster->coordinator : coordinator);
}

weft_status weft_ps_exchange_stop(weft_ps_exchange *x)
{
    weft_status status = WEFT_OK;
    weft_net_close(&x->net);
    for (int k = 0; k < x->servers; k++) {
        weft_status ended = weft_actor_thread_stop(&x->own[k].hosted);
        if (status == WEFT_OK) status = ended;
        free(x->own[k].ranges);
        x->own[k].ranges = NULL;
    }
    for (int k = 0; k < x->range_count; k++) weft_codec_close(&x->ranges[k].codec);
    weft_status ended = weft_actor_thread_stop(&x->coordinator);
    return status == WEFT_OK ? ended : status;
}
