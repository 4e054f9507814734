/* Which learner runs which server, with which part of the parameters, and where it is reached. */
#include "exchange/server/remote.h"

static int host_of(const weft_remote *x, int server)
{
    return server % x->head.site.endpoint->learners;
}

static weft_actor_id learner_id(const weft_remote *x, int learner)
{
    return (weft_actor_id)(x->servers + learner);
}

static weft_status optimize(void *user, void *parameters, const void *mean)
{
    (void)parameters; /* the optimiser's own, as */
    (void)mean;       /* is this */
    return weft_flat_optimizer_run(user);
}

/* --- servers --- */

static weft_status make_range(weft_remote *x, int k)
{
    const weft_exchange_site *site = &x->head.site;
    const weft_server_range *of = &x->ranges[k];
    weft_own_server *own = &x->own[k];
    size_t size = weft_dtype_size(x->dtype);
    WEFT_TRY(weft_flat_optimizer_open(site->context, site->store, site->optimizer, x->dtype,
                                      of->count, &own->optimizer));
    weft_range_options options = {.struct_size = sizeof(options),
                                  .policy = x->policy,
                                  .dtype = x->dtype,
                                  .count = of->count,
                                  .update = optimize,
                                  .user = own->optimizer};
    weft_flat_optimizer_rooms(own->optimizer, &options.parameters, &options.gradient);
    WEFT_TRY(weft_range_create(&options, &own->range));
    memcpy(weft_range_parameters(own->range),
           (const char *)x->parameters + (size_t)of->begin * size, (size_t)of->count * size);
    weft_status status = weft_remote_give_state(x, k);
    for (int i = 0; i < site->endpoint->learners && status == WEFT_OK; i++)
        status = weft_range_join(own->range, learner_id(x, i), 0);
    if (status != WEFT_OK) weft_range_destroy(&own->range);
    return status;
}

static weft_status run_server(weft_remote *x, int k, bool others)
{
    weft_actor *server;
    WEFT_TRY(make_range(x, k));
    weft_served served = {k, x->own[k].range, x->own[k].states, x->state_count};
    weft_status status = weft_server_create(&served, 1, &server);
    if (status != WEFT_OK) {
        weft_range_destroy(&x->own[k].range);
        return status;
    }
    return weft_hosted_start(x->world, server, (weft_actor_id)k, others, &x->own[k].hosted);
}

/* --- where they are --- */

static weft_status tell_places(weft_remote *x)
{
    for (int k = 0; k < x->servers; k++) {
        if (x->own[k].hosted) x->places[k] = *weft_hosted_at(x->own[k].hosted);
        WEFT_TRY(
            weft_endpoint_run(x->head.site.endpoint, &(weft_transfer){.kind = WEFT_BROADCAST,
                                                                      .dtype = WEFT_U8,
                                                                      .what = "where servers are",
                                                                      .send = &x->places[k],
                                                                      .receive = &x->places[k],
                                                                      .count = sizeof(weft_place),
                                                                      .peer = host_of(x, k)}));
    }
    return WEFT_OK;
}

/* --- the learner --- */

static weft_status descend(void *user, int64_t turn)
{
    weft_remote *x = user;
    (void)turn;
    return weft_descent_step(x->descent, x->step, x->parameters, x->gradients);
}

static weft_status open_learner(weft_remote *x)
{
    const weft_exchange_site *site = &x->head.site;
    weft_actor *learner;
    weft_server_learner_options options = {.struct_size = sizeof(options),
                                           .dtype = x->dtype,
                                           .ranges = x->ranges,
                                           .range_count = x->servers,
                                           .steps = INT64_MAX,
                                           .parameters = x->parameters,
                                           .gradients = x->gradients,
                                           .patience = 1,
                                           .push = x->push,
                                           .fetch = x->fetch,
                                           .descend = x->descent ? descend : NULL,
                                           .take_state = weft_remote_take_state,
                                           .user = x};
    WEFT_TRY(weft_server_learner_create(&options, &learner));
    WEFT_TRY(
        weft_net_open(x->world, learner, learner_id(x, site->endpoint->learner), NULL, &x->net));
    for (int k = 0; k < x->servers; k++) {
        WEFT_TRY(
            weft_net_know(x->net, (weft_actor_id)k, weft_place_address(&x->places[k], x->world)));
    }
    return weft_net_begin(x->net);
}

weft_status weft_remote_place(weft_remote *x)
{
    const weft_exchange_site *site = &x->head.site;
    bool others = false;
    WEFT_TRY(weft_net_world_of(site->context, &x->world));
    WEFT_TRY(weft_learners_meet(&x->head, x->world, &others));
    for (int k = 0; k < x->servers; k++) {
        weft_server_range *r = &x->ranges[k];
        r->server = (weft_actor_id)k;
        r->begin = weft_part_start(x->count, k, x->servers);
        r->count = weft_part_start(x->count, k + 1, x->servers) - r->begin;
        WEFT_TRY(weft_codec_open(site->context, x->codec, x->dtype, r->count, &r->codec));
        WEFT_TRY(weft_kept_give(x->kept, r->codec, r->begin));
        if (host_of(x, k) == site->endpoint->learner) WEFT_TRY(run_server(x, k, others));
    }
    WEFT_TRY(tell_places(x));
    return open_learner(x);
}

weft_status weft_remote_unplace(weft_remote *x)
{
    weft_status status = WEFT_OK;
    weft_net_close(&x->net);
    for (int k = 0; k < x->servers; k++) {
        weft_status ended = weft_hosted_stop(&x->own[k].hosted);
        if (status == WEFT_OK) status = ended;
        weft_flat_optimizer_close(&x->own[k].optimizer);
        free(x->own[k].states);
        x->own[k].states = NULL;
        weft_codec_close(&x->ranges[k].codec);
    }
    return status;
}
