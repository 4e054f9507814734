/* The server actor: hosts the ranges that the view assigns to it, applies pushes, and answers
 * pulls. A view may make it the primary of a range of which it was the replica (failover). */
#include "exchange/ps/server/server_internal.h"

weft_range *weft_server_range_of(const weft_actor *actor, int number, bool primary)
{
    const hosted_range *f = weft_hosted_range_find((const server *)actor, (uint32_t)number);
    return f && (f->primary || !primary) ? f->of.range : NULL;
}

const weft_member *weft_server_member(const weft_actor *actor)
{
    return ((const server *)actor)->member;
}

weft_status weft_server_sign_off(weft_actor *actor)
{
    return weft_member_leave_if_safe(((server *)actor)->member);
}

weft_status weft_server_give_up(weft_actor *actor)
{
    ((server *)actor)->failed = true;
    return weft_server_sign_off(actor);
}

/* --- views --- */

static weft_status add_joined_learners(server *s, hosted_range *f, const weft_view *v)
{
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        change c = {
            .kind = WEFT__APPEND__KIND__JOIN, .learner = m->id, .slot = m->slot, .clock = 0};
        if (m->role == WEFT_MEMBER_LEARNER && !weft_range_knows(f->of.range, m->id))
            WEFT_TRY(weft_hosted_range_apply(s, f, &c, NULL));
    }
    return WEFT_OK;
}

static weft_status remove_left_learners(server *s, hosted_range *f, const weft_view *v)
{
    weft_actor_id learner;
    for (int i = 0; weft_range_learner_at(f->of.range, i, &learner);) {
        change c = {.kind = WEFT__APPEND__KIND__LEAVE, .learner = learner};
        if (weft_view_find(v, learner))
            i++;
        else
            WEFT_TRY(weft_hosted_range_apply(s, f, &c, NULL));
    }
    return WEFT_OK;
}

/* Takes the role that a view gives this server in a range: opens or removes the range. A primary
 * sets the replica, and lets learners join and leave the range as in the view. */
static weft_status host_range(server *s, int number, const weft_view *v)
{
    const weft_range_owner *k = &v->ranges[number];
    bool primary = k->primary == s->head.id, mine = primary || k->replica == s->head.id;
    hosted_range *f = weft_hosted_range_find(s, (uint32_t)number);
    if (f && !mine) weft_hosted_range_remove(s, f);
    if (!mine) return WEFT_OK;
    if (!f) WEFT_TRY(weft_hosted_range_add(s, number, primary, &f));
    f->primary = primary;
    if (!primary) return WEFT_OK;
    WEFT_TRY(weft_hosted_range_set_replica(s, f, k->replica));
    WEFT_TRY(add_joined_learners(s, f, v));
    WEFT_TRY(remove_left_learners(s, f, v));
    return weft_hosted_range_answer_pulls(s, f);
}

/* Asks the learners whose requests came from a view that this server had not installed to
 * retransmit (Resend). */
static weft_status request_resends(server *s)
{
    const Weft__Resend resend = WEFT__RESEND__INIT;
    for (size_t i = 0; i < s->early_count; i++)
        WEFT_TRY(weft_rpc_send(&s->head, s->early[i], WEFT_RPC_RESEND, &resend, NULL));
    s->early_count = 0;
    return WEFT_OK;
}

/* Checks that a learner can initialize the ranges of this server that have no parameters yet. If no
 * learner of the view has the state of the run (has loaded its checkpoint), that state is lost,
 * which the server reports to the coordinator. */
static weft_status report_lost_state(const server *s)
{
    const weft_view *v = weft_member_view(s->member);
    bool learners = false, lacks = false;
    for (size_t i = 0; i < v->member_count; i++) {
        if (v->members[i].role != WEFT_MEMBER_LEARNER) continue;
        if (!v->members[i].lacks_state) return WEFT_OK;
        learners = true;
    }
    for (size_t i = 0; i < s->count; i++)
        lacks = lacks || (s->hosted[i].primary && !s->hosted[i].initialized);
    return learners && lacks && !v->over && !v->fault
               ? weft_member_report_state_lost(s->member, true)
               : WEFT_OK;
}

static weft_status take_view(server *s)
{
    const weft_view *v = weft_member_view(s->member);
    for (int k = 0; k < v->range_count && !v->fault; k++) WEFT_TRY(host_range(s, k, v));
    WEFT_TRY(request_resends(s));
    WEFT_TRY(report_lost_state(s));
    if (!v->over && !v->fault && !weft_member_dismissed(s->member)) return WEFT_OK;
    if (s->leaving) return WEFT_OK;
    s->leaving = true;
    return weft_member_leave(s->member, false);
}

/* --- messages of learners --- */

static hosted_range *primary_of(const server *s, uint32_t number)
{
    hosted_range *f = weft_hosted_range_find(s, number);
    return f && f->primary ? f : NULL;
}

static bool is_ahead(const server *s, int64_t view)
{
    return view > weft_member_view(s->member)->number;
}

/* Records the sender of a request that this server cannot answer yet, if the request comes from a
 * newer view; when the server has installed that view, it asks the sender to retransmit. */
static weft_status defer_until_view(server *s, weft_actor_id who, int64_t view)
{
    if (!is_ahead(s, view) || s->early_count >= WEFT_MOST_MEMBERS) return WEFT_OK;
    for (size_t i = 0; i < s->early_count; i++)
        if (s->early[i] == who) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&s->early, &s->early_capacity, s->early_count));
    s->early[s->early_count++] = who;
    return WEFT_OK;
}

/* Lowers the end clock of a range, beyond which no learner goes; the change is replicated. */
static weft_status end_at(server *s, hosted_range *f, int64_t clock)
{
    change c = {.kind = WEFT__APPEND__KIND__HALT, .clock = clock};
    if (s->options.goes_on || clock >= f->halted) return WEFT_OK;
    f->halted = clock;
    return weft_hosted_range_apply(s, f, &c, NULL);
}

/* Whether a learner is the first one, which alone sets the end clock of a synchronous run. */
static bool is_first(const server *s, weft_actor_id learner)
{
    const weft_view_member *m = weft_view_find(weft_member_view(s->member), learner);
    return m && m->role == WEFT_MEMBER_LEARNER && m->slot == 0;
}

static weft_status take_push(void *self, const weft_message *message, const void *content)
{
    server *s = self;
    const Weft__Push *m = content;
    hosted_range *f = primary_of(s, m->range);
    Weft__PushAck reply = WEFT__PUSH_ACK__INIT;
    weft_push_result result = WEFT_PUSH_UNKNOWN_CLIENT;
    change c = {.kind = WEFT__APPEND__KIND__PUSH,
                .learner = message->from,
                .sequence = m->sequence,
                .clock = m->clock,
                .version = m->version,
                .step = m->step,
                .weight = m->weight,
                .empty = m->empty,
                .update = message->payload};
    if (!f || !f->initialized) return defer_until_view(s, message->from, m->view);
    if (m->last > 0 && is_first(s, message->from)) WEFT_TRY(end_at(s, f, m->last));
    weft_status status = weft_hosted_range_apply(s, f, &c, &result);
    /* A damaged update fails its learner, not the server. */
    if (status != WEFT_OK && status != WEFT_ERR_FORMAT) return status;
    if (result == WEFT_PUSH_UNKNOWN_CLIENT && is_ahead(s, m->view))
        return defer_until_view(s, message->from, m->view);
    reply.range = m->range;
    reply.sequence = m->sequence;
    reply.fate = status == WEFT_ERR_FORMAT            ? WEFT__PUSH_ACK__FATE__DAMAGED
                 : result == WEFT_PUSH_OUT_OF_ORDER   ? WEFT__PUSH_ACK__FATE__EARLY
                 : result == WEFT_PUSH_UNKNOWN_CLIENT ? WEFT__PUSH_ACK__FATE__UNKNOWN
                                                      : WEFT__PUSH_ACK__FATE__TAKEN;
    WEFT_TRY(
        weft_hosted_range_send(s, f, message->from, WEFT_RPC_PUSH_ACK, m->sequence, &reply, NULL));
    return weft_hosted_range_answer_pulls(s, f);
}

/* Whether this learner is to initialize the ranges: it has the lowest slot among the learners that
 * have the state of the run. */
static bool is_initializer(const server *s, weft_actor_id learner)
{
    const weft_view *v = weft_member_view(s->member);
    const weft_view_member *me = weft_view_find(v, learner);
    if (!me || me->role != WEFT_MEMBER_LEARNER || me->lacks_state) return false;
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        if (m->role == WEFT_MEMBER_LEARNER && !m->lacks_state && m->slot < me->slot) return false;
    }
    return true;
}

static weft_status send_pull_refusal(server *s, const weft_message *message, const Weft__Pull *m,
                                     bool wanted)
{
    Weft__PullReply p = WEFT__PULL_REPLY__INIT;
    p.range = m->range;
    p.request = m->request;
    p.version = wanted ? 0 : -1;
    p.wanted = wanted;
    return weft_rpc_send(&s->head, message->from, WEFT_RPC_PULL_REPLY, &p, NULL);
}

static weft_status take_pull(void *self, const weft_message *message, const void *content)
{
    server *s = self;
    const Weft__Pull *m = content;
    hosted_range *f = primary_of(s, m->range);
    if (!f) return defer_until_view(s, message->from, m->view);
    bool known = m->leaving ? weft_range_knows(f->of.range, message->from)
                            : weft_range_clock(f->of.range, message->from) >= 0;
    if (!known && is_ahead(s, m->view)) return defer_until_view(s, message->from, m->view);
    if (!known) return send_pull_refusal(s, message, m, false);
    if (!f->initialized && is_initializer(s, message->from))
        return send_pull_refusal(s, message, m, true);
    s->halt = s->halt || (m->halt && !s->options.goes_on);
    if (m->halt) WEFT_TRY(end_at(s, f, m->clock));
    pending_pull q = {.learner = message->from,
                      .request = m->request,
                      .clock = m->clock,
                      .have = m->have,
                      .sequence = m->sequence,
                      .met = m->met,
                      .leaving = m->leaving,
                      .with_state = m->whole,
                      .arriving = m->arriving};
    WEFT_TRY(weft_hosted_range_add_pull(s, f, &q));
    return weft_hosted_range_answer_pulls(s, f);
}

static weft_status take_init(void *self, const weft_message *message, const void *content)
{
    server *s = self;
    const Weft__Init *m = content;
    hosted_range *f = primary_of(s, m->range);
    Weft__InitAck reply = WEFT__INIT_ACK__INIT;
    if (!f || (!f->initialized && !is_initializer(s, message->from))) return WEFT_OK;
    if (!f->initialized) {
        weft_status status = weft_hosted_range_restore(f, message->payload);
        if (status == WEFT_ERR_FORMAT) return WEFT_OK;
        WEFT_TRY(status);
        f->initialized = true;
        WEFT_TRY(weft_hosted_range_begin_replica(s, f));
    }
    reply.range = m->range;
    WEFT_TRY(weft_hosted_range_send(s, f, message->from, WEFT_RPC_INIT_ACK, 0, &reply, NULL));
    return weft_hosted_range_answer_pulls(s, f);
}

static const weft_rpc_handler handlers[] = {
    {WEFT_RPC_PUSH, &weft__push__descriptor, take_push},
    {WEFT_RPC_PULL, &weft__pull__descriptor, take_pull},
    {WEFT_RPC_INIT, &weft__init__descriptor, take_init},
    {WEFT_RPC_APPEND, &weft__append__descriptor, weft_take_append},
    {WEFT_RPC_RANGE_SNAPSHOT, &weft__range_snapshot__descriptor, weft_take_range_snapshot},
    {WEFT_RPC_APPEND_ACK, &weft__append_ack__descriptor, weft_take_append_ack},
    {0},
};

static weft_status server_message(weft_actor *actor, const weft_message *message)
{
    server *s = (server *)actor;
    weft_member_news news;
    WEFT_TRY(weft_member_message(s->member, message, &news));
    if (news == WEFT_NEWS_VIEW && !s->failed) WEFT_TRY(take_view(s));
    actor->done = weft_member_has_left(s->member);
    bool serves = news == WEFT_NEWS_NONE && !s->leaving && !s->failed;
    return serves ? weft_rpc_dispatch(handlers, s, message) : WEFT_OK;
}

/* --- timers --- */

/* Sets the statistics of heartbeats, from the ranges whose primary this server is: the number of
 * the learners' updates, of which each has a part for every range and counts once, and the mean
 * staleness of the parts. */
static void report_figures(server *s)
{
    weft_member_stats figures = {.clock = 0};
    double parts = 0, sum = 0;
    size_t size;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t *staleness = weft_range_staleness(s->hosted[i].of.range, &size);
        int64_t updates = 0;
        for (size_t t = 0; t < size && s->hosted[i].primary; t++) {
            updates += staleness[t];
            sum += (double)staleness[t] * (double)t;
        }
        parts += (double)updates;
        figures.clock = WEFT_MAX(figures.clock, updates);
    }
    figures.staleness = parts > 0 ? sum / parts : 0;
    weft_member_set_stats(s->member, &figures);
}

/* The member's timer sends heartbeats; the other timer retransmits snapshots and log entries, with
 * exponential backoff. */
static weft_status server_timer(weft_actor *actor, int timer)
{
    server *s = (server *)actor;
    bool some = false;
    if (timer == WEFT_MEMBER_TIMER) {
        report_figures(s);
        if (!s->failed)
            WEFT_TRY(report_lost_state(s)); /* again, since the last report may be lost */
        WEFT_TRY(weft_member_timer(s->member));
        actor->done = weft_member_has_left(s->member);
        return WEFT_OK;
    }
    for (size_t i = 0; i < s->count && !s->failed; i++)
        WEFT_TRY(weft_hosted_range_resend(s, &s->hosted[i], &some));
    s->resend_timeout = WEFT_MIN(2 * s->resend_timeout, 32 * s->options.first_timeout);
    return weft_actor_set_timer(actor, WEFT_PS_RESEND_TIMER, some ? s->resend_timeout : -1);
}

static weft_status server_begin(weft_actor *actor)
{
    return weft_member_begin(((server *)actor)->member, actor);
}

static void server_destroy(weft_actor *actor)
{
    server *s = (server *)actor;
    while (s->count) weft_hosted_range_remove(s, &s->hosted[0]);
    weft_member_destroy(&s->member);
    free(s->early);
    free(s->hosted);
    free(s);
}

static const weft_actor_ops server_ops = {
    .name = "server",
    .begin = server_begin,
    .message = server_message,
    .timer = server_timer,
    .destroy = server_destroy,
};

weft_status weft_server_create(const weft_server_options *options, weft_actor **out)
{
    server *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head.ops = &server_ops;
    s->options = *options;
    s->options.member.role = WEFT_MEMBER_SERVER;
    weft_status status = weft_member_create(&s->options.member, &s->member);
    if (status == WEFT_OK)
        *out = &s->head;
    else
        free(s);
    return status;
}
