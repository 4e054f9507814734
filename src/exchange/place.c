#include "exchange/place.h"

#include <stdio.h>

weft_status weft_place_open(weft_net_world *world, weft_actor *actor, weft_actor_id id, bool others,
                            weft_net **net, weft_place *out)
{
    *out = (weft_place){.token = weft_net_world_token(world)};
    /* Of the same number there may be others in this process, of other runs or ranks. */
    (void)snprintf(out->inside, sizeof(out->inside), "inproc://weft-%u-%p", id, (void *)actor);
    WEFT_TRY(weft_net_open(world, actor, id, out->inside, net));
    if (!others) return WEFT_OK;
    weft_status status =
        weft_net_bind(*net, "tcp://127.0.0.1:*", out->outside, sizeof(out->outside));
    if (status != WEFT_OK) weft_net_close(net);
    return status;
}

const char *weft_place_address(const weft_place *place, const weft_net_world *world)
{
    return place->token == weft_net_world_token(world) ? place->inside : place->outside;
}

/* What a learner says of itself. */
typedef struct card {
    uint64_t form;  /* how its parameters lie */
    uint64_t token; /* of its world */
} card;

weft_status weft_learners_meet(const weft_exchange *e, const weft_net_world *world, bool *others)
{
    int n = e->site.endpoint->learners;
    card mine = {weft_store_form(e->site.store), weft_net_world_token(world)}, *all;
    bool alike = true;
    *others = false;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status =
        weft_endpoint_run(e->site.endpoint, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                             .dtype = WEFT_U8,
                                                             .what = "how parameters lie",
                                                             .send = &mine,
                                                             .receive = all,
                                                             .count = sizeof(mine)});
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        alike = alike && all[i].form == mine.form;
        *others = *others || all[i].token != mine.token;
    }
    free(all);
    if (status == WEFT_OK && !alike)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "exchange %s: learners lay tensors in memory in different ways, as their "
                         "devices do; give all of them the same device",
                         e->ops->name);
    return status;
}
