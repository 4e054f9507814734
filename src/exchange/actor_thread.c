/* The thread of an actor runs a poll loop, which ends on a stop or a failure. */
#include "exchange/actor_thread.h"

#include "membership/view.h"

struct weft_actor_thread {
    weft_net *net;
    weft_bootstrap_addresses addresses;
    pthread_t thread;
    atomic_bool stop, failed;
    bool ended;
    weft_error error; /* read once `failed` is set */
};

/* Seconds of a poll, after which the thread checks for a stop. */
static const double NAP = 0.02;

static void *serve(void *user)
{
    weft_actor_thread *h = user;
    weft_cores_roam(); /* on any core: it serves all learners, not only the one that started it */
    weft_status status = weft_net_begin(h->net);
    while (status == WEFT_OK && !atomic_load(&h->stop)) status = weft_net_poll(h->net, NAP);
    weft_error_catch(&h->error, status);
    atomic_store(&h->failed, status != WEFT_OK);
    return NULL;
}

weft_status weft_actor_thread_start(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                    const char *coordinator, weft_reach reach,
                                    weft_actor_thread **out)
{
    weft_actor_thread *h;
    weft_status status = WEFT_NEW(&h, 1);
    if (status != WEFT_OK) {
        actor->ops->destroy(actor);
        return status;
    }
    status = weft_bootstrap_open(world, actor, id, reach, &h->net, &h->addresses);
    if (status == WEFT_OK && coordinator)
        status = weft_net_add_peer(h->net, WEFT_COORDINATOR, coordinator);
    if (status == WEFT_OK) status = weft_thread_start(&h->thread, serve, h);
    if (status == WEFT_OK) {
        *out = h;
        return WEFT_OK;
    }
    weft_net_close(&h->net);
    free(h);
    return status;
}

weft_status weft_actor_thread_end(weft_actor_thread *h)
{
    atomic_store(&h->stop, true);
    if (!h->ended) pthread_join(h->thread, NULL);
    h->ended = true;
    return weft_error_raise(&h->error);
}

weft_net_report weft_actor_thread_stats(const weft_actor_thread *h)
{
    return weft_net_stats(h->net);
}

weft_status weft_actor_thread_stop(weft_actor_thread **hosted)
{
    if (!hosted || !*hosted) return WEFT_OK;
    weft_actor_thread *h = *hosted;
    weft_status status = weft_actor_thread_end(h);
    weft_net_close(&h->net);
    free(h);
    *hosted = NULL;
    return status;
}

weft_status weft_actor_thread_check(const weft_actor_thread *h)
{
    return atomic_load(&h->failed) ? weft_error_raise(&h->error) : WEFT_OK;
}

const weft_actor *weft_actor_thread_actor(const weft_actor_thread *h)
{
    return weft_net_actor(h->net);
}

const char *weft_actor_thread_address(const weft_actor_thread *h)
{
    return weft_actor_address(weft_net_actor(h->net));
}
