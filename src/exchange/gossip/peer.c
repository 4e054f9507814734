/* What peers of both modes have in common: computing on a copy of what they have. */
#include "exchange/gossip/peer.h"

static const weft_peer_mode *const modes[] = {
    [WEFT_GOSSIP_UPDATES] = &weft_peer_updates,
    [WEFT_GOSSIP_AVERAGE] = &weft_peer_average,
};

#define MOVE(type)                                                                                 \
    do {                                                                                           \
        type *t = to;                                                                              \
        const type *x = a, *y = b;                                                                 \
        for (int64_t i = 0; i < peer->options.count; i++)                                          \
            t[i] += (type)scale * (y ? x[i] - y[i] : x[i]);                                        \
    } while (0)

void weft_peer_move(const weft_peer *peer, void *to, double scale, const void *a, const void *b)
{
    if (peer->options.dtype == WEFT_F64)
        MOVE(double);
    else
        MOVE(float);
}

weft_status weft_peer_listen(weft_peer *p)
{
    if (p->listens) return WEFT_OK;
    p->listens = true;
    return weft_actor_set_timer(&p->head, 0, p->options.patience);
}

weft_status weft_peer_go_on(weft_peer *p)
{
    if (p->computing || p->clock == p->options.steps || !weft_rumours_have_room(p)) return WEFT_OK;
    p->computing = true;
    memcpy(p->before, p->now, p->bytes);
    memcpy(p->options.parameters, p->now, p->bytes);
    return weft_actor_compute(&p->head, p->clock + 1);
}

static weft_status peer_begin(weft_actor *actor)
{
    weft_peer *p = (weft_peer *)actor;
    memcpy(p->now, p->options.parameters, p->bytes);
    return weft_peer_go_on(p);
}

static weft_status peer_computed(weft_actor *actor, int64_t ticket)
{
    weft_peer *p = (weft_peer *)actor;
    if (!p->computing) return WEFT_OK; /* it has ended meanwhile */
    p->computing = false;
    p->clock = ticket;
    /* The learner's memory is its own again only with the next computation. */
    weft_peer_move(p, p->options.parameters, -1, p->before, NULL);
    WEFT_TRY(p->mode->computed(p, p->options.parameters));
    if (p->clock == p->options.steps) WEFT_TRY(weft_rumours_say(p, NULL, false));
    return weft_peer_go_on(p);
}

static weft_status peer_letter(weft_actor *actor, const weft_letter *letter)
{
    weft_peer *p = (weft_peer *)actor;
    WEFT_TRY(weft_rumours_letter(p, letter));
    if (p->mode->letter) WEFT_TRY(p->mode->letter(p, letter));
    return weft_peer_go_on(p);
}

static weft_status peer_timer(weft_actor *actor, int timer)
{
    weft_peer *p = (weft_peer *)actor;
    bool more, waits = p->mode->waits && p->mode->waits(p);
    (void)timer;
    p->listens = false;
    WEFT_TRY(weft_rumours_repeat(p, &more));
    if (waits) WEFT_TRY(p->mode->repeat(p));
    return more || waits ? weft_peer_listen(p) : WEFT_OK;
}

static void peer_destroy(weft_actor *actor)
{
    weft_peer *p = (weft_peer *)actor;
    if (p->state) p->mode->close(p);
    weft_rumours_close(p);
    free(p->now);
    free(p->before);
    free(p);
}

static const weft_actor_ops peer_ops = {
    .name = "peer",
    .begin = peer_begin,
    .letter = peer_letter,
    .timer = peer_timer,
    .computed = peer_computed,
    .destroy = peer_destroy,
};

static weft_status make(weft_peer *p)
{
    const weft_peer_options *o = &p->options;
    p->bytes = (size_t)o->count * weft_dtype_size(o->dtype);
    WEFT_TRY(weft_new_aligned(p->bytes, &p->now));
    WEFT_TRY(weft_new_aligned(p->bytes, &p->before));
    const weft_topology *t = o->topology;
    p->peers = t->peers;
    p->neighbours = t->list + t->first[o->me];
    p->neighbour_count = t->first[o->me + 1] - t->first[o->me];
    WEFT_TRY(weft_rumours_open(p));
    return p->mode->open ? p->mode->open(p) : WEFT_OK;
}

weft_status weft_peer_create(const weft_peer_options *options, weft_actor **out)
{
    weft_peer *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->head.ops = &peer_ops;
    p->options = *options;
    p->mode = modes[options->mode];
    weft_status status = make(p);
    if (status == WEFT_OK)
        *out = &p->head;
    else
        peer_destroy(&p->head);
    return status;
}

weft_status weft_peer_end(weft_actor *actor, bool halt)
{
    weft_peer *p = (weft_peer *)actor;
    p->computing = false;
    p->options.steps = p->clock;
    return weft_rumours_say(p, NULL, halt);
}

bool weft_peer_halted(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->rumours.halted;
}

bool weft_peer_computes(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->computing;
}

int64_t weft_peer_clock(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->clock;
}

bool weft_peer_finished(const weft_actor *actor)
{
    const weft_peer *p = (const weft_peer *)actor;
    return p->clock == p->options.steps && weft_rumours_all_ended(p) &&
           !(p->mode->waits && p->mode->waits(p));
}

const void *weft_peer_parameters(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->now;
}
