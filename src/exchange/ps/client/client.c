/* The client, the actor of a learner: it requests the computation of a step, pushes each range when
 * its gradients are ready, and pulls all ranges for the next step. */
#include "exchange/ps/client/client_internal.h"

int64_t weft_ps_client_clock(const weft_actor *actor)
{
    return ((const ps_client *)actor)->clock;
}

bool weft_ps_client_halted(const weft_actor *actor)
{
    const ps_client *l = (const ps_client *)actor;
    return l->halted || (l->last > 0 && l->clock + 1 >= l->last);
}

void weft_ps_client_set_end_clock(weft_actor *actor, int64_t clock)
{
    ((ps_client *)actor)->end = clock;
}

bool weft_ps_client_dismissed(const weft_actor *actor)
{
    return weft_member_dismissed(((const ps_client *)actor)->member);
}

const weft_member *weft_ps_client_member(const weft_actor *actor)
{
    return ((const ps_client *)actor)->member;
}

int64_t weft_ps_client_acknowledged(const weft_actor *actor, int range)
{
    const range_request *r = &((const ps_client *)actor)->requests[range];
    return r->sequence - (r->update != NULL);
}

weft_status weft_ps_client_write_gradient(weft_actor *actor, int range, const void *gradient,
                                          int64_t at, int64_t n, bool *laid)
{
    const ps_client *l = (const ps_client *)actor;
    return weft_range_request_write(l, &l->requests[range], gradient, at, n, laid);
}

const double *weft_ps_client_staleness(const weft_actor *actor)
{
    return ((const ps_client *)actor)->staleness;
}

uint64_t weft_ps_client_replies(const weft_actor *actor)
{
    return ((const ps_client *)actor)->reply_count;
}

void weft_ps_client_set_stats(weft_actor *actor, double loss, double rate)
{
    ps_client *l = (ps_client *)actor;
    l->figures.loss = loss;
    l->figures.rate = rate;
    weft_member_set_stats(l->member, &l->figures);
}

bool weft_ps_client_is_waiting(const weft_actor *actor)
{
    const ps_client *l = (const ps_client *)actor;
    /* The client waits for the acknowledgement of every push. With elastic averaging it does so
     * only before it leaves, or when it pulls the optimizer state. */
    bool all = !l->options.elastic.options || l->leaving || l->with_state;
    if (l->gone) return false;
    if (!l->in || l->arriving || l->responds) return true;
    for (int i = 0; i < l->options.range_count; i++)
        if (all ? weft_range_request_is_waiting(&l->requests[i]) : l->requests[i].asked)
            return true;
    return false;
}

/* --- from step to step --- */

static void set_clock(ps_client *l, int64_t clock)
{
    l->clock = l->figures.clock = clock;
    weft_member_set_stats(l->member, &l->figures);
}

static bool all_answered(const ps_client *l)
{
    for (int i = 0; i < l->options.range_count; i++)
        if (weft_range_request_is_waiting(&l->requests[i])) return false;
    return true;
}

/* Ends the join of a learner. A new learner joins each range separately, so the ranges may offer
 * different start clocks. The learner begins with the latest, and pulls again if they differ, which
 * tells the other ranges its clock. */
static weft_status arrive(ps_client *l, bool *informs)
{
    int64_t first = INT64_MAX, last = 0;
    for (int i = 0; i < l->options.range_count; i++) {
        first = WEFT_MIN(first, l->requests[i].begins);
        last = WEFT_MAX(last, l->requests[i].begins);
    }
    for (int i = 0; i < l->options.range_count; i++) l->requests[i].clock = last;
    l->arriving = false;
    set_clock(l, last);
    *informs = first < last;
    return *informs ? weft_range_request_pull_all(l) : WEFT_OK;
}

static weft_status take_leave(ps_client *l)
{
    l->gone = true;
    if (l->stays) return WEFT_OK;
    return weft_member_leave(l->member, !weft_member_dismissed(l->member));
}

static weft_status push_all(ps_client *l)
{
    for (int i = 0; i < l->options.range_count; i++)
        WEFT_TRY(weft_range_request_push(l, &l->requests[i], l->clock));
    return WEFT_OK;
}

static bool is_done(const ps_client *l)
{
    return l->leaving || l->clock >= l->options.steps;
}

static weft_status respond(ps_client *l)
{
    const weft_ps_client_options *o = &l->options;
    const weft_server_range *last = &l->requests[o->range_count - 1].of;
    int there = weft_view_count(weft_member_view(l->member), WEFT_MEMBER_LEARNER);
    l->responds = false;
    /* With alpha = beta / learners, too small a number of learners makes alpha too large: all
     * elastic updates together would move the centre past the learners. */
    o->elastic.options->draw(o->elastic.options, WEFT_MAX(there, o->elastic.learners), o->dtype,
                             last->begin + last->count, o->elastic.own, o->parameters,
                             o->elastic.force);
    return push_all(l);
}

static weft_status compute(ps_client *l)
{
    for (int i = 0; i < l->options.range_count; i++) l->requests[i].pushed = false;
    l->computing = true;
    return weft_actor_compute(&l->head, l->clock + 1);
}

weft_status weft_range_request_advance(ps_client *l)
{
    bool informs = false;
    if (!l->in || l->gone || !all_answered(l)) return WEFT_OK;
    WEFT_TRY(weft_range_request_rest(l));
    l->with_state = false;
    if (l->arriving) WEFT_TRY(arrive(l, &informs));
    if (informs || l->computing) return WEFT_OK;
    if (l->responds) WEFT_TRY(respond(l));
    if (is_done(l)) return all_answered(l) ? take_leave(l) : WEFT_OK;
    return compute(l);
}

weft_status weft_ps_client_push_rest(weft_actor *actor)
{
    return weft_range_request_push_rest((ps_client *)actor);
}

weft_status weft_ps_client_pull_with_state(weft_actor *actor)
{
    ps_client *l = (ps_client *)actor;
    l->with_state = true;
    WEFT_TRY(weft_range_request_push_rest(l));
    return weft_range_request_pull_all(l);
}

weft_status weft_ps_client_leave(weft_actor *actor, bool halt, bool with_state)
{
    ps_client *l = (ps_client *)actor;
    if (l->gone) return WEFT_OK;
    l->with_state = with_state;
    l->leaving = true;
    l->halt = halt;
    l->computing = false;
    WEFT_TRY(weft_range_request_push_rest(l));
    return weft_range_request_pull_all(l);
}

void weft_ps_client_hold(weft_actor *actor)
{
    ((ps_client *)actor)->stays = true;
}

weft_status weft_ps_client_release(weft_actor *actor)
{
    ps_client *l = (ps_client *)actor;
    if (!l->gone || !l->stays) return WEFT_OK;
    l->stays = false;
    return take_leave(l);
}

weft_status weft_ps_client_leave_now(weft_actor *actor)
{
    ps_client *l = (ps_client *)actor;
    if (l->gone) return WEFT_OK;
    l->gone = true;
    l->computing = false;
    return weft_member_leave(l->member, false);
}

bool weft_ps_client_lacks_range(const weft_actor *actor, int range)
{
    const ps_client *l = (const ps_client *)actor;
    if (l->options.elastic.options || l->gone)
        return false; /* elastic: the learner computes with its own parameters */
    return range == WEFT_ANY_PART ? !all_answered(l)
                                  : weft_range_request_is_waiting(&l->requests[range]);
}

static bool learner_lacks(const weft_actor *actor, int64_t ticket, int part)
{
    (void)ticket;
    return weft_ps_client_lacks_range(actor, part);
}

static weft_status learner_part(weft_actor *actor, int64_t ticket, int part)
{
    ps_client *l = (ps_client *)actor;
    range_request *r = weft_range_request_find(l, (uint32_t)part);
    return r && !l->gone ? weft_range_request_push(l, r, ticket) : WEFT_OK;
}

static weft_status learner_computed(weft_actor *actor, int64_t ticket)
{
    ps_client *l = (ps_client *)actor;
    if (l->gone) return WEFT_OK;
    l->computing = false;
    set_clock(l, ticket);
    l->responds = l->options.elastic.options && weft_range_request_due(l, l->options.fetch, ticket);
    if (!l->options.elastic.options) WEFT_TRY(push_all(l));
    if (weft_range_request_due(l, l->options.fetch, ticket)) {
        WEFT_TRY(weft_range_request_pull_all(l));
        /* The next step begins before the replies have arrived, and waits at the first missing
         * range (learner_lacks). */
        return l->options.elastic.options || is_done(l) ? WEFT_OK : compute(l);
    }
    for (int i = 0; i < l->options.range_count; i++) l->requests[i].moved = l->options.descent;
    if (l->options.descent)
        WEFT_TRY(weft_local_sgd_step(l->options.descent, weft_range_request_step(l, ticket),
                                     l->options.parameters, l->options.gradients));
    return weft_range_request_advance(l);
}

/* --- views --- */

/* Takes a new view: outstanding requests of a range are sent again to its new primary. The first
 * view begins the run. */
static weft_status take_view(ps_client *l)
{
    const weft_view *v = weft_member_view(l->member);
    if (l->gone) return WEFT_OK;
    if (v->fault) return weft_fail(WEFT_ERR_PEER, "%s", v->fault);
    if (v->range_count != l->options.range_count)
        return weft_fail(WEFT_ERR_FORMAT,
                         "the run has its parameters in %d ranges, this learner in %d",
                         v->range_count, l->options.range_count);
    for (int k = 0; k < v->range_count; k++) {
        range_request *r = &l->requests[k];
        bool other = r->server != v->ranges[k].primary;
        r->server = v->ranges[k].primary;
        /* The new primary does not know which version the learner has: the next pull asks for all
         * parameters. */
        r->moved = r->moved || (other && l->in);
        if (other) WEFT_TRY(weft_range_request_resend(l, r));
    }
    if (l->in) return WEFT_OK;
    l->in = l->arriving = true;
    return weft_range_request_pull_all(l);
}

/* --- messages --- */

static weft_status learner_message(weft_actor *actor, const weft_message *message)
{
    ps_client *l = (ps_client *)actor;
    weft_member_news news;
    WEFT_TRY(weft_member_message(l->member, message, &news));
    if (news == WEFT_NEWS_VIEW) WEFT_TRY(take_view(l));
    actor->done = weft_member_has_left(l->member);
    if (news != WEFT_NEWS_NONE || l->gone) return WEFT_OK;
    return weft_rpc_dispatch(weft_range_request_handlers, l, message);
}

static weft_status learner_timer(weft_actor *actor, int timer)
{
    ps_client *l = (ps_client *)actor;
    if (timer == WEFT_MEMBER_TIMER) {
        WEFT_TRY(weft_member_timer(l->member));
        actor->done = weft_member_has_left(l->member);
        return WEFT_OK;
    }
    return l->gone ? WEFT_OK : weft_range_request_resend_overdue(l);
}

/* --- creation --- */

static weft_status learner_begin(weft_actor *actor)
{
    return weft_member_begin(((ps_client *)actor)->member, actor);
}

static void learner_destroy(weft_actor *actor)
{
    ps_client *l = (ps_client *)actor;
    for (int i = 0; l->requests && i < l->options.range_count; i++) {
        weft_buffer_unref(&l->requests[i].update);
        weft_buffer_unref(&l->requests[i].spare);
        weft_buffer_unref(&l->requests[i].next);
        weft_buffer_unref(&l->requests[i].initial);
        weft_grad_accumulator_free(&l->requests[i].accrual);
    }
    weft_member_destroy(&l->member);
    free(l->requests);
    free(l);
}

static const weft_actor_ops learner_ops = {
    .name = "learner",
    .begin = learner_begin,
    .message = learner_message,
    .timer = learner_timer,
    .lacks = learner_lacks,
    .part = learner_part,
    .computed = learner_computed,
    .destroy = learner_destroy,
};

weft_status weft_ps_client_create(const weft_ps_client_options *options, weft_actor **out)
{
    ps_client *l;
    WEFT_TRY(WEFT_NEW(&l, 1));
    l->head.ops = &learner_ops;
    l->options = *options;
    l->options.member.role = WEFT_MEMBER_LEARNER;
    weft_status status = WEFT_NEW(&l->requests, options->range_count);
    if (status == WEFT_OK) status = weft_member_create(&l->options.member, &l->member);
    for (int i = 0; i < options->range_count && status == WEFT_OK; i++)
        l->requests[i] = (range_request){.of = options->ranges[i], .version = -1};
    if (status == WEFT_OK)
        *out = &l->head;
    else
        learner_destroy(&l->head);
    return status;
}
