#include "exchange/actor_thread.h"

#include "membership/view.h"

struct weft_hosted {
    weft_net *net;
    weft_place place;
    pthread_t thread;
    atomic_bool stop, failed;
    bool ended;
    weft_error error; /* read once `failed` is set */
};

/* How long it may sleep when it is told to stop. */
static const double NAP = 0.02;

static void *serve(void *user)
{
    weft_hosted *h = user;
    weft_cores_roam(); /* it serves all learners, not the one that has started it */
    weft_status status = weft_net_begin(h->net);
    while (status == WEFT_OK && !atomic_load(&h->stop)) status = weft_net_pump(h->net, NAP);
    weft_error_catch(&h->error, status);
    atomic_store(&h->failed, status != WEFT_OK);
    return NULL;
}

weft_status weft_hosted_start(weft_net_world *world, weft_actor *actor, weft_actor_id id,
                              const char *coordinator, bool others, weft_hosted **out)
{
    weft_hosted *h;
    weft_status status = WEFT_NEW(&h, 1);
    if (status != WEFT_OK) {
        actor->ops->destroy(actor);
        return status;
    }
    status = weft_place_open(world, actor, id, others, &h->net, &h->place);
    if (status == WEFT_OK && coordinator)
        status = weft_net_know(h->net, WEFT_COORDINATOR, coordinator);
    if (status == WEFT_OK) status = weft_thread_start(&h->thread, serve, h);
    if (status == WEFT_OK) {
        *out = h;
        return WEFT_OK;
    }
    weft_net_close(&h->net);
    free(h);
    return status;
}

weft_status weft_hosted_end(weft_hosted *h)
{
    atomic_store(&h->stop, true);
    if (!h->ended) pthread_join(h->thread, NULL);
    h->ended = true;
    return weft_error_raise(&h->error);
}

weft_net_report weft_hosted_tell(const weft_hosted *h)
{
    return weft_net_tell(h->net);
}

weft_status weft_hosted_stop(weft_hosted **hosted)
{
    if (!hosted || !*hosted) return WEFT_OK;
    weft_hosted *h = *hosted;
    weft_status status = weft_hosted_end(h);
    weft_net_close(&h->net);
    free(h);
    *hosted = NULL;
    return status;
}

weft_status weft_hosted_check(const weft_hosted *h)
{
    return atomic_load(&h->failed) ? weft_error_raise(&h->error) : WEFT_OK;
}

const weft_actor *weft_hosted_actor(const weft_hosted *h)
{
    return weft_net_actor(h->net);
}

const char *weft_hosted_address(const weft_hosted *h)
{
    return weft_actor_address(weft_net_actor(h->net));
}
