/* The client, the actor of a learner: it requests the computation of a step, pushes each range when
 * its gradients are ready, and pulls all ranges for the next step. */
#include "exchange/elastic.h"
#include "exchange/ps/client/client_internal.h"

int64_t weft_ps_client_clock(const weft_actor *actor)
{
    return ((const ps_client *)actor)->clock;
}

bool weft_ps_client_halted(const weft_actor *actor)
{
    const ps_client *c = (const ps_client *)actor;
    return c->halted || (c->last > 0 && c->clock + 1 >= c->last);
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
    const ps_client *c = (const ps_client *)actor;
    return weft_range_request_write(c, &c->requests[range], gradient, at, n, laid);
}

const double *weft_ps_client_staleness(const weft_actor *actor)
{
    return ((const ps_client *)actor)->staleness;
}

uint64_t weft_ps_client_replies(const weft_actor *actor)
{
    return ((const ps_client *)actor)->reply_count;
}

void weft_ps_client_set_stats(weft_actor *actor, const weft_step_result *result)
{
    ps_client *c = (ps_client *)actor;
    weft_elastic_note_step(&c->figures, result);
    weft_member_set_stats(c->member, &c->figures);
}

bool weft_ps_client_is_waiting(const weft_actor *actor)
{
    const ps_client *c = (const ps_client *)actor;
    /* The client waits for the acknowledgement of every push. With elastic averaging it does so
     * only before it leaves, or when it pulls the optimizer state. */
    bool all = !c->options.elastic.options || c->leaving || c->with_state;
    if (c->gone) return false;
    if (!c->in || c->arriving || c->responds) return true;
    for (int i = 0; i < c->options.range_count; i++)
        if (all ? weft_range_request_is_waiting(&c->requests[i]) : c->requests[i].asked)
            return true;
    return false;
}

/* --- from step to step --- */

static void set_clock(ps_client *c, int64_t clock)
{
    int64_t steps = WEFT_MAX(c->options.clock_steps, (int64_t)1);
    c->clock = clock;
    c->figures.clock = WEFT_MIN(clock, INT64_MAX / steps) * steps;
    weft_member_set_stats(c->member, &c->figures);
}

static bool all_answered(const ps_client *c)
{
    for (int i = 0; i < c->options.range_count; i++)
        if (weft_range_request_is_waiting(&c->requests[i])) return false;
    return true;
}

/* Ends the join of a learner. A new learner joins each range separately, so the ranges may offer
 * different start clocks. The learner begins with the latest, and pulls again if they differ, which
 * tells the other ranges its clock. */
static weft_status arrive(ps_client *c, bool *informs)
{
    int64_t first = INT64_MAX, last = 0;
    for (int i = 0; i < c->options.range_count; i++) {
        first = WEFT_MIN(first, c->requests[i].begins);
        last = WEFT_MAX(last, c->requests[i].begins);
    }
    for (int i = 0; i < c->options.range_count; i++) c->requests[i].clock = last;
    c->arriving = false;
    set_clock(c, last);
    *informs = first < last;
    return *informs ? weft_range_request_pull_all(c) : WEFT_OK;
}

/* All pushes are acknowledged, and no other one follows. */
static weft_status take_leave(ps_client *c)
{
    c->gone = true;
    for (int i = 0; i < c->options.range_count; i++) {
        weft_buffer_unref(&c->requests[i].spare);
        weft_buffer_unref(&c->requests[i].next);
    }
    if (c->stays) return WEFT_OK;
    return weft_member_leave(c->member, !weft_member_dismissed(c->member));
}

static weft_status push_all(ps_client *c)
{
    for (int i = 0; i < c->options.range_count; i++)
        WEFT_TRY(weft_range_request_push(c, &c->requests[i], c->clock));
    return WEFT_OK;
}

static double all_bytes(const ps_client *c)
{
    const weft_server_range *last = &c->requests[c->options.range_count - 1].of;
    return (double)(last->begin + last->count) * (double)weft_dtype_size(c->options.dtype);
}

static bool is_done(const ps_client *c)
{
    return c->leaving || c->clock >= c->options.steps;
}

static weft_status respond(ps_client *c)
{
    const weft_ps_client_options *o = &c->options;
    const weft_server_range *last = &c->requests[o->range_count - 1].of;
    int there = weft_view_count(weft_member_view(c->member), WEFT_MEMBER_LEARNER);
    c->responds = false;
    /* With alpha = beta / learners, too small a number of learners makes alpha too large: all
     * elastic updates together would move the centre past the learners. */
    o->elastic.options->draw(o->elastic.options, WEFT_MAX(there, o->elastic.learners), o->dtype,
                             last->begin + last->count, o->elastic.own, o->parameters,
                             o->elastic.force);
    weft_actor_work(&c->head, WEFT_WORK_PASS, NULL, 6 * all_bytes(c));
    WEFT_TRY(push_all(c));
    c->idle = true;
    return WEFT_OK;
}

static weft_status compute(ps_client *c)
{
    for (int i = 0; i < c->options.range_count; i++) c->requests[i].pushed = false;
    c->computing = true;
    return weft_actor_compute(&c->head, c->clock + 1);
}

weft_status weft_ps_client_advance(ps_client *c)
{
    bool informs = false;
    if (!c->in || c->gone || !all_answered(c)) return WEFT_OK;
    WEFT_TRY(weft_range_request_disarm_timer(c));
    c->with_state = false;
    if (c->arriving) WEFT_TRY(arrive(c, &informs));
    if (informs || c->computing) return WEFT_OK;
    if (c->responds) WEFT_TRY(respond(c));
    if (is_done(c)) return all_answered(c) ? take_leave(c) : WEFT_OK;
    return compute(c);
}

weft_status weft_ps_client_flush_accumulated(weft_actor *actor)
{
    return weft_range_request_flush_accumulated((ps_client *)actor);
}

weft_status weft_ps_client_pull_with_state(weft_actor *actor)
{
    ps_client *c = (ps_client *)actor;
    c->with_state = true;
    WEFT_TRY(weft_range_request_flush_accumulated(c));
    return weft_range_request_pull_all(c);
}

weft_status weft_ps_client_leave(weft_actor *actor, bool halt, bool with_state)
{
    ps_client *c = (ps_client *)actor;
    if (c->gone) return WEFT_OK;
    c->with_state = with_state;
    c->leaving = true;
    c->halt = halt;
    c->computing = false;
    WEFT_TRY(weft_range_request_flush_accumulated(c));
    return weft_range_request_pull_all(c);
}

void weft_ps_client_hold(weft_actor *actor)
{
    ((ps_client *)actor)->stays = true;
}

weft_status weft_ps_client_release(weft_actor *actor)
{
    ps_client *c = (ps_client *)actor;
    if (!c->gone || !c->stays) return WEFT_OK;
    c->stays = false;
    return take_leave(c);
}

weft_status weft_ps_client_leave_now(weft_actor *actor)
{
    ps_client *c = (ps_client *)actor;
    if (c->gone) return WEFT_OK;
    c->gone = true;
    c->computing = false;
    return weft_member_leave(c->member, false);
}

bool weft_ps_client_lacks_range(const weft_actor *actor, int range)
{
    const ps_client *c = (const ps_client *)actor;
    if (c->options.elastic.options || c->gone)
        return false; /* elastic: the learner computes with its own parameters */
    return range == WEFT_ANY_PART ? !all_answered(c)
                                  : weft_range_request_is_waiting(&c->requests[range]);
}

static bool learner_lacks(const weft_actor *actor, int64_t ticket, int part)
{
    (void)ticket;
    return weft_ps_client_lacks_range(actor, part);
}

static weft_status learner_part(weft_actor *actor, int64_t ticket, int part)
{
    ps_client *c = (ps_client *)actor;
    range_request *r = weft_range_request_find(c, (uint32_t)part);
    return r && !c->gone ? weft_range_request_push(c, r, ticket) : WEFT_OK;
}

static weft_status learner_computed(weft_actor *actor, int64_t ticket)
{
    ps_client *c = (ps_client *)actor;
    if (c->gone) return WEFT_OK;
    c->computing = false;
    c->idle = c->idle && c->options.empty && *c->options.empty;
    set_clock(c, ticket);
    c->responds = c->options.elastic.options && weft_range_request_due(c, c->options.fetch, ticket);
    /* Between two elastic updates a learner goes on whether or not its push is acknowledged. */
    if (c->options.elastic.options && !c->responds && !is_done(c)) return compute(c);
    if (!c->options.elastic.options) WEFT_TRY(push_all(c));
    if (weft_range_request_due(c, c->options.fetch, ticket)) {
        WEFT_TRY(weft_range_request_pull_all(c));
        /* The next step begins before the replies have arrived, and waits at the first missing
         * range (learner_lacks). */
        return c->options.elastic.options || is_done(c) ? WEFT_OK : compute(c);
    }
    for (int i = 0; i < c->options.range_count; i++) c->requests[i].moved = c->options.descent;
    if (c->options.descent) weft_actor_work(actor, WEFT_WORK_PASS, NULL, 7 * all_bytes(c));
    if (c->options.descent)
        WEFT_TRY(weft_local_sgd_step(c->options.descent, weft_range_request_step(c, ticket),
                                     c->options.parameters, c->options.gradients));
    return weft_ps_client_advance(c);
}

/* --- views --- */

/* Takes a new view: outstanding requests of a range are sent again to its new primary. The first
 * view begins the run. */
static weft_status take_view(ps_client *c)
{
    const weft_view *v = weft_member_view(c->member);
    if (c->gone) return WEFT_OK;
    if (v->fault) return weft_fail(WEFT_ERR_PEER, "%s", v->fault);
    if (v->range_count != c->options.range_count)
        return weft_fail(WEFT_ERR_FORMAT,
                         "the run has its parameters in %d ranges, this learner in %d",
                         v->range_count, c->options.range_count);
    for (int k = 0; k < v->range_count; k++) {
        range_request *r = &c->requests[k];
        bool other = r->server != v->ranges[k].primary;
        r->server = v->ranges[k].primary;
        /* The new primary does not know which version the learner has: the next pull asks for all
         * parameters. */
        r->moved = r->moved || (other && c->in);
        if (other) WEFT_TRY(weft_range_request_resend(c, r));
    }
    if (c->in) return WEFT_OK;
    c->in = c->arriving = true;
    return weft_range_request_pull_all(c);
}

/* --- messages --- */

static weft_status learner_message(weft_actor *actor, const weft_message *message)
{
    ps_client *c = (ps_client *)actor;
    weft_member_news news;
    WEFT_TRY(weft_member_message(c->member, message, &news));
    if (news == WEFT_NEWS_VIEW) WEFT_TRY(take_view(c));
    actor->done = weft_member_has_left(c->member);
    if (news != WEFT_NEWS_NONE || c->gone) return WEFT_OK;
    return weft_rpc_dispatch(weft_range_request_handlers, c, message);
}

static weft_status learner_timer(weft_actor *actor, int timer)
{
    ps_client *c = (ps_client *)actor;
    if (timer == WEFT_MEMBER_TIMER) {
        WEFT_TRY(weft_member_timer(c->member));
        actor->done = weft_member_has_left(c->member);
        return WEFT_OK;
    }
    return c->gone ? WEFT_OK : weft_range_request_resend_overdue(c);
}

/* --- creation --- */

static weft_status learner_begin(weft_actor *actor)
{
    return weft_member_begin(((ps_client *)actor)->member, actor);
}

static void learner_destroy(weft_actor *actor)
{
    ps_client *c = (ps_client *)actor;
    for (int i = 0; c->requests && i < c->options.range_count; i++) {
        weft_buffer_unref(&c->requests[i].update);
        weft_buffer_unref(&c->requests[i].spare);
        weft_buffer_unref(&c->requests[i].next);
        weft_buffer_unref(&c->requests[i].initial);
        weft_grad_accumulator_free(&c->requests[i].accrual);
    }
    weft_member_destroy(&c->member);
    free(c->requests);
    free(c);
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
    ps_client *c;
    WEFT_TRY(WEFT_NEW(&c, 1));
    c->head.ops = &learner_ops;
    c->idle = true;
    c->options = *options;
    c->options.member.role = WEFT_MEMBER_LEARNER;
    weft_status status = WEFT_NEW(&c->requests, options->range_count);
    if (status == WEFT_OK) status = weft_member_create(&c->options.member, &c->member);
    for (int i = 0; i < options->range_count && status == WEFT_OK; i++)
        c->requests[i] = (range_request){.of = options->ranges[i], .version = -1};
    if (status == WEFT_OK)
        *out = &c->head;
    else
        learner_destroy(&c->head);
    return status;
}
