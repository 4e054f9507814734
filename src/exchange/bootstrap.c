/* Bootstrap of a job: opens actors under addresses of their own, and exchanges layouts, addresses
 * and keys between learners. */
#include "exchange/bootstrap.h"

#include <stdio.h>

weft_status weft_bootstrap_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                weft_reach reach, weft_net **net, weft_bootstrap_addresses *out)
{
    *out = (weft_bootstrap_addresses){.token = weft_net_context_id(world)};
    /* Other runs or ranks in this process may have actors with this id, so a number that is unique
     * in the process follows. */
    (void)snprintf(out->inside, sizeof(out->inside), "inproc://weft-%u-%llu", id,
                   (unsigned long long)weft_net_context_draw(world));
    WEFT_TRY(weft_net_open(world, actor, id, out->inside, net));
    if (reach == WEFT_REACH_PROCESS) return WEFT_OK;
    weft_status status =
        weft_net_bind(*net, reach == WEFT_REACH_NETWORK ? "tcp://*:*" : "tcp://127.0.0.1:*",
                      out->outside, sizeof(out->outside));
    if (status != WEFT_OK) weft_net_close(net);
    return status;
}

const char *weft_bootstrap_address(const weft_bootstrap_addresses *addresses,
                                   const weft_net_context *world)
{
    return addresses->token == weft_net_context_id(world) ? addresses->inside : addresses->outside;
}

/* Business card of a learner, which it sends to all others. */
typedef struct card {
    uint64_t token; /* id of its transport context; equal: the same process */
    uint64_t host;  /* id of its loopback; equal: the same machine */
} card;

static weft_status gather_texts(const weft_exchange *e, const char *what, const void *mine,
                                void *all, size_t bytes)
{
    return weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = what,
                                         .send = mine, .receive = all, .count = (int64_t)bytes));
}

/* Messages between processes are encrypted with keys made for this run, which learners exchange
 * over the job's own communicator. */
static weft_status gather_keys(const weft_exchange *e, weft_net_context *world)
{
    int n = e->setup.endpoint->learners;
    weft_key mine, *all;
    weft_status armed = weft_net_context_set_keys(world, NULL);
    /* A learner that cannot encrypt sends a key of zeros, so that all learners fail and none
     * waits. */
    if (armed != WEFT_OK || !weft_net_context_has_keys(world, &mine)) mine = (weft_key){{0}};
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = gather_texts(e, "keys of learners", &mine, all, sizeof(mine));
    for (int i = 0; i < n && status == WEFT_OK && armed == WEFT_OK; i++) {
        static const weft_key none;
        status = memcmp(&all[i], &none, sizeof(none)) != 0
                     ? weft_net_context_allow(world, &all[i])
                     : weft_fail(WEFT_ERR_UNSUPPORTED,
                                 "exchange %s: learner %d is in another process and has no "
                                 "encryption",
                                 e->ops->name, i);
    }
    free(all);
    return armed != WEFT_OK ? armed : status;
}

/* A message has at most all parameters and their optimizer state: less than eight times the bytes
 * of the parameters. */
void weft_learners_expect(const weft_exchange *e, weft_net_context *world)
{
    enum { MOST_STATES = 8 };
    size_t bytes = 0;
    for (int i = 0; i < weft_store_count(e->setup.store); i++) {
        weft_type type = weft_store_type(e->setup.store, i);
        if (weft_store_kind(e->setup.store, i) == WEFT_VALUE_PARAM)
            bytes += (size_t)weft_shape_elements(&type.shape) * weft_dtype_size(type.dtype);
    }
    weft_net_context_set_max_message(world, MOST_STATES * bytes);
}

weft_status weft_learners_meet(weft_exchange *e, weft_net_context *world, weft_reach *reach)
{
    int n = e->setup.endpoint->learners;
    card mine = {weft_net_context_id(world), weft_net_context_host()};
    card *all;
    bool others = false, apart = false;
    *reach = WEFT_REACH_PROCESS;
    WEFT_TRY(weft_exchange_check_layouts(e));
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = gather_texts(e, "places of learners", &mine, all, sizeof(mine));
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        others = others || all[i].token != mine.token;
        apart = apart || all[i].host != mine.host;
    }
    free(all);
    WEFT_TRY(status);
    weft_learners_expect(e, world);
    if (others) *reach = apart ? WEFT_REACH_NETWORK : WEFT_REACH_MACHINE;
    return others ? gather_keys(e, world) : WEFT_OK;
}
