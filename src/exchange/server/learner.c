/* The learner: computes, pushes each range as soon as it can, and pulls before it goes on. */
#include "exchange/server/server.h"

#include "exchange/server/downpour.h"
#include "exchange/wire.h"
#include "server.pb-c.h"

enum { AGAIN = 0 }; /* the timer */

typedef struct reach {
    weft_server_range of;
    int64_t sequence, version, request;
    weft_blob *update; /* of push number `sequence`, until it is acknowledged */
    weft_blob *spare;  /* the one before it */
    int64_t update_version;
    int64_t clock; /* of the learner, with the last update */
    weft_accrual accrual;
    bool pushed, asked; /* in this step; a pull that is not answered */
    bool moved;         /* the learner's own parameters are no longer what it has pulled */
} reach;

typedef struct learner {
    weft_actor head;
    weft_server_learner_options options;
    reach *reaches;
    int64_t clock;
    bool computing;
    bool leaving, halt, halted; /* it leaves, and all are to; it was told to */
    bool whole;                 /* it asks for the state, too */
    double patience;
} learner;

int64_t weft_server_learner_clock(const weft_actor *actor)
{
    return ((const learner *)actor)->clock;
}

/* Where the range begins in the flat numbers. */
static size_t offset(const learner *l, const reach *r)
{
    return (size_t)r->of.begin * weft_dtype_size(l->options.dtype);
}

static reach *find_reach(learner *l, uint32_t range)
{
    return range < (uint32_t)l->options.range_count ? &l->reaches[range] : NULL;
}

static weft_status send_push(learner *l, const reach *r)
{
    Weft__Push m = WEFT__PUSH__INIT;
    m.range = (uint32_t)(r - l->reaches);
    m.sequence = r->sequence;
    m.clock = r->clock;
    m.version = r->update_version;
    return weft_wire_send(&l->head, r->of.server, WEFT_WIRE_PUSH, &m, r->update);
}

static weft_status send_pull(learner *l, const reach *r)
{
    Weft__Pull m = WEFT__PULL__INIT;
    m.range = (uint32_t)(r - l->reaches);
    m.request = r->request;
    m.clock = r->clock;
    m.have = r->moved ? -1 : r->version;
    m.leaving = l->leaving;
    m.halt = l->halt;
    m.whole = l->whole;
    return weft_wire_send(&l->head, r->of.server, WEFT_WIRE_PULL, &m, NULL);
}

/* What is sent now is sent again if nobody answers. */
static weft_status hope(learner *l)
{
    l->patience = l->options.patience;
    return weft_actor_set_timer(&l->head, AGAIN, l->patience);
}

/* What the steps up to `clock` have come to goes. */
static weft_status send_update(learner *l, reach *r, int64_t clock)
{
    const void *gradient = (const char *)l->options.gradients + offset(l, r);
    if (r->accrual.steps > 0) gradient = r->accrual.sum;
    if (!r->update) {
        r->update = r->spare;
        r->spare = NULL;
    }
    WEFT_TRY(weft_blob_renew(weft_message_bound(l->options.dtype, r->of.count), &r->update));
    WEFT_TRY(weft_codec_encode(r->of.codec, gradient, r->update->data, &r->update->bytes));
    r->sequence++;
    r->clock = clock;
    r->update_version = r->accrual.steps > 0 ? r->accrual.version : r->version;
    r->accrual.steps = 0;
    WEFT_TRY(hope(l));
    return send_push(l, r);
}

/* After step number `clock`, once: whether it is time for what happens every so many. */
static bool due(const learner *l, int64_t every, int64_t clock)
{
    return every <= 1 || clock % every == 0 || clock == l->options.steps;
}

/* The gradient of a range in step number `clock` is there. */
static weft_status push(learner *l, reach *r, int64_t clock)
{
    const char *gradients = l->options.gradients;
    if (r->pushed) return WEFT_OK;
    r->pushed = true;
    if (l->options.push > 1)
        WEFT_TRY(weft_accrual_add(&r->accrual, l->options.dtype, r->of.count,
                                  gradients + offset(l, r), r->version));
    return due(l, l->options.push, clock) ? send_update(l, r, clock) : WEFT_OK;
}

/* Nothing is kept back. */
static weft_status push_rest(learner *l)
{
    for (int i = 0; i < l->options.range_count; i++)
        if (l->reaches[i].accrual.steps > 0) WEFT_TRY(send_update(l, &l->reaches[i], l->clock));
    return WEFT_OK;
}

static weft_status pull_all(learner *l)
{
    for (int i = 0; i < l->options.range_count; i++) {
        reach *r = &l->reaches[i];
        r->request++;
        r->asked = true;
        WEFT_TRY(send_pull(l, r));
    }
    return hope(l);
}

bool weft_server_learner_waits(const weft_actor *actor)
{
    const learner *l = (const learner *)actor;
    for (int i = 0; i < l->options.range_count; i++)
        if (l->reaches[i].asked || l->reaches[i].update) return true;
    return false;
}

static weft_status go_on(learner *l)
{
    if (weft_server_learner_waits(&l->head)) return WEFT_OK;
    WEFT_TRY(weft_actor_set_timer(&l->head, AGAIN, -1));
    l->whole = false;
    if (l->computing) return WEFT_OK;
    if (l->leaving || l->clock == l->options.steps) {
        l->head.done = true;
        return WEFT_OK;
    }
    for (int i = 0; i < l->options.range_count; i++) l->reaches[i].pushed = false;
    l->computing = true;
    return weft_actor_compute(&l->head, l->clock + 1);
}

weft_status weft_server_learner_fetch(weft_actor *actor)
{
    learner *l = (learner *)actor;
    l->whole = true;
    WEFT_TRY(push_rest(l));
    return pull_all(l);
}

weft_status weft_server_learner_leave(weft_actor *actor, bool halt, bool whole)
{
    learner *l = (learner *)actor;
    l->whole = whole;
    l->leaving = true;
    l->halt = halt;
    l->computing = false;
    WEFT_TRY(push_rest(l));
    return pull_all(l);
}

weft_status weft_server_learner_explain(const weft_actor *actor, double seconds)
{
    const learner *l = (const learner *)actor;
    for (int i = 0; i < l->options.range_count; i++) {
        const reach *r = &l->reaches[i];
        if (!r->asked && !r->update) continue;
        return weft_fail(WEFT_ERR_PEER,
                         "server %u has not answered after step %lld for %g s: it is gone, or "
                         "waits for another learner",
                         r->of.server, (long long)l->clock, seconds);
    }
    return weft_fail(WEFT_ERR_INTERNAL, "a learner waits for nobody");
}

bool weft_server_learner_halted(const weft_actor *actor)
{
    return ((const learner *)actor)->halted;
}

/* --- what it is told --- */

static weft_status learner_begin(weft_actor *actor)
{
    return pull_all((learner *)actor);
}

static weft_status learner_part(weft_actor *actor, int64_t ticket, int part)
{
    learner *l = (learner *)actor;
    reach *r = find_reach(l, (uint32_t)part);
    return r ? push(l, r, ticket) : WEFT_OK;
}

static weft_status learner_computed(weft_actor *actor, int64_t ticket)
{
    learner *l = (learner *)actor;
    l->computing = false;
    for (int i = 0; i < l->options.range_count; i++) WEFT_TRY(push(l, &l->reaches[i], ticket));
    l->clock = ticket;
    if (due(l, l->options.fetch, ticket)) return pull_all(l);
    for (int i = 0; i < l->options.range_count; i++) l->reaches[i].moved = l->options.descend;
    if (l->options.descend) WEFT_TRY(l->options.descend(l->options.user, ticket));
    return go_on(l);
}

/* Twice as patient each time: who waits for a slow one need not shout. */
static weft_status learner_timer(weft_actor *actor, int timer)
{
    learner *l = (learner *)actor;
    (void)timer;
    for (int i = 0; i < l->options.range_count; i++) {
        if (l->reaches[i].update) WEFT_TRY(send_push(l, &l->reaches[i]));
        if (l->reaches[i].asked) WEFT_TRY(send_pull(l, &l->reaches[i]));
    }
    l->patience = WEFT_MIN(2 * l->patience, 32 * l->options.patience);
    return weft_actor_set_timer(actor, AGAIN, l->patience);
}

/* The range that a server speaks of, if it is its own: nobody else has a say in it. */
static reach *reach_of(learner *l, uint32_t range, weft_actor_id from)
{
    reach *r = find_reach(l, range);
    return r && r->of.server == from ? r : NULL;
}

static weft_status take_pushed(learner *l, const Weft__Pushed *m, weft_actor_id from)
{
    reach *r = reach_of(l, m->range, from);
    if (!r || m->sequence != r->sequence || !r->update) return WEFT_OK;
    if (m->fate == WEFT__PUSHED__FATE__EARLY) return WEFT_OK;
    if (m->fate != WEFT__PUSHED__FATE__TAKEN)
        return weft_fail(WEFT_ERR_PEER, "server %u %s", r->of.server,
                         m->fate == WEFT__PUSHED__FATE__UNKNOWN
                             ? "does not know this learner (any more)"
                             : "finds an update damaged");
    weft_blob_drop(&r->spare);
    r->spare = r->update;
    r->update = NULL;
    return go_on(l);
}

static weft_status take_parameters(learner *l, const Weft__Parameters *m, const weft_letter *letter)
{
    reach *r = reach_of(l, m->range, letter->from);
    const weft_blob *payload = letter->payload;
    size_t bytes = r ? (size_t)r->of.count * weft_dtype_size(l->options.dtype) : 0;
    if (!r || !r->asked || m->request != r->request) return WEFT_OK;
    if (m->version < 0)
        return weft_fail(WEFT_ERR_PEER, "server %u does not know this learner (any more)",
                         r->of.server);
    size_t have = payload ? payload->bytes : 0;
    if (l->whole ? have < bytes : payload ? have != bytes : m->version != r->version)
        return weft_fail(WEFT_ERR_FORMAT, "server %u sends %zu bytes of parameters, should be %zu",
                         r->of.server, have, bytes);
    if (l->whole)
        WEFT_TRY(l->options.take_state(l->options.user, (int)m->range,
                                       (const char *)payload->data + bytes, have - bytes));
    if (payload) memcpy((char *)l->options.parameters + offset(l, r), payload->data, bytes);
    r->version = m->version;
    r->asked = r->moved = false;
    l->halted = l->halted || m->halt;
    return go_on(l);
}

static weft_status learner_letter(weft_actor *actor, const weft_letter *letter)
{
    learner *l = (learner *)actor;
    weft_status status = WEFT_OK;
    void *m = NULL;
    if (letter->type == WEFT_WIRE_PUSHED && (m = weft_wire_read(letter, &weft__pushed__descriptor)))
        status = take_pushed(l, m, letter->from);
    else if (letter->type == WEFT_WIRE_PARAMETERS &&
             (m = weft_wire_read(letter, &weft__parameters__descriptor)))
        status = take_parameters(l, m, letter);
    weft_wire_free(m);
    return status;
}

static void learner_destroy(weft_actor *actor)
{
    learner *l = (learner *)actor;
    for (int i = 0; i < l->options.range_count; i++) {
        weft_blob_drop(&l->reaches[i].update);
        weft_blob_drop(&l->reaches[i].spare);
        weft_accrual_free(&l->reaches[i].accrual);
    }
    free(l->reaches);
    free(l);
}

static const weft_actor_ops learner_ops = {
    .name = "learner",
    .begin = learner_begin,
    .letter = learner_letter,
    .timer = learner_timer,
    .part = learner_part,
    .computed = learner_computed,
    .destroy = learner_destroy,
};

weft_status weft_server_learner_create(const weft_server_learner_options *options, weft_actor **out)
{
    learner *l;
    WEFT_TRY(WEFT_NEW(&l, 1));
    weft_status status = WEFT_NEW(&l->reaches, options->range_count);
    if (status != WEFT_OK) {
        free(l);
        return status;
    }
    l->head.ops = &learner_ops;
    l->options = *options;
    for (int i = 0; i < options->range_count; i++)
        l->reaches[i] = (reach){.of = options->ranges[i], .version = -1};
    *out = &l->head;
    return WEFT_OK;
}
