/* Pending pulls: the server answers each pull when the policy lets its learner begin the next step
 * (the blocked read of SSP). */
#include "exchange/ps/server/server_internal.h"

static weft_status copy_parameters(server *s, hosted_range *f)
{
    weft_range *range = f->of.range;
    size_t bytes = weft_range_bytes(range);
    if (f->copy && f->copied == weft_range_version(range)) return WEFT_OK;
    weft_buffer *before = f->copy;
    f->copy = f->last;
    f->last = before;
    WEFT_TRY(weft_buffer_reuse(bytes, &f->copy));
    memcpy(f->copy->data, weft_range_parameters(range), bytes);
    weft_actor_work(&s->head, WEFT_WORK_PASS, NULL, 2 * (double)bytes);
    f->copied = weft_range_version(range);
    return WEFT_OK;
}

/* Brings the downlink to the newest version. Its state depends on the versions at which learners
 * pull, so this is a change that the replica makes, too. */
static weft_status publish(server *s, hosted_range *f)
{
    const change c = {.kind = WEFT__APPEND__KIND__PUBLISH};
    if (!f->of.published ||
        weft_downlink_version(f->of.published) == weft_range_version(f->of.range))
        return WEFT_OK;
    return weft_hosted_range_apply(s, f, &c, NULL);
}

/* Chooses the payload of a reply: all parameters, or with *changes the differences since the
 * learner's version; NULL: the learner has the newest parameters, which those of a frozen range
 * always are. */
static weft_status pick(server *s, hosted_range *f, const pending_pull *q, weft_buffer **out,
                        bool *changes)
{
    weft_downlink *p = f->of.published;
    int64_t version = weft_range_version(f->of.range);
    *out = NULL;
    *changes = false;
    if (q->with_state) return weft_hosted_range_snapshot(f, out);
    /* The final parameters are sent exactly, not compressed. */
    if (p && !q->leaving)
        return q->have == version ? WEFT_OK : weft_downlink_delta_since(p, q->have, out, changes);
    if (!p && (q->have == version || (f->of.frozen && q->have >= 0))) return WEFT_OK;
    WEFT_TRY(copy_parameters(s, f));
    *out = weft_buffer_ref(f->copy);
    return WEFT_OK;
}

static weft_status answer(server *s, hosted_range *f, const pending_pull *q)
{
    Weft__PullReply p = WEFT__PULL_REPLY__INIT;
    weft_buffer *what;
    bool changes;
    int64_t each[WEFT_RECENT];
    p.range = (uint32_t)f->of.number;
    p.request = q->request;
    p.version = weft_range_version(f->of.range);
    p.clock = weft_range_clock(f->of.range, q->learner);
    p.halt = s->halt;
    p.last = f->halted < INT64_MAX ? f->halted : 0;
    weft_range_met(f->of.range, q->learner, &p.met, &p.stale);
    p.n_each = (size_t)weft_range_staleness_of_each(f->of.range, q->learner, q->met, each);
    p.each = each;
    WEFT_TRY(publish(s, f));
    WEFT_TRY(pick(s, f, q, &what, &changes));
    p.changes = changes;
    weft_status status =
        weft_hosted_range_send(s, f, q->learner, WEFT_RPC_PULL_REPLY, q->request, &p, what);
    weft_buffer_unref(&what);
    return status;
}

/* Whether a pull may be answered: the learner's own updates have arrived, and the policy lets it
 * begin. A leaving learner gets the final parameters when all learners have left the range; a
 * joining one gets its start clock as soon as the range knows it. */
static bool may_answer(const hosted_range *f, const pending_pull *q, int64_t slowest, bool empty)
{
    if (!f->initialized) return false;
    if (q->leaving) return empty;
    int64_t clock = weft_range_clock(f->of.range, q->learner);
    if (q->arriving) return clock >= 0;
    return clock >= q->clock && weft_range_may_begin(f->of.range, slowest, q->clock);
}

/* Removes leaving learners from the range as soon as all their updates have arrived. */
static weft_status remove_leaving_learners(server *s, hosted_range *f)
{
    for (size_t i = 0; i < f->pull_count; i++) {
        const pending_pull *q = &f->pulls[i];
        int64_t clock = weft_range_clock(f->of.range, q->learner);
        change c = {.kind = WEFT__APPEND__KIND__LEAVE, .learner = q->learner};
        if (q->leaving && clock >= 0 && clock >= q->clock)
            WEFT_TRY(weft_hosted_range_apply(s, f, &c, NULL));
    }
    return WEFT_OK;
}

/* Raises the clock of a learner that has not pushed yet, if its pull has a later one: another range
 * has offered it a later start clock than this range. */
static weft_status advance(server *s, hosted_range *f, const pending_pull *q)
{
    int64_t clock = weft_range_clock(f->of.range, q->learner);
    if (q->sequence > 0 || q->arriving || q->leaving || clock < 0 || clock >= q->clock)
        return WEFT_OK;
    change c = {.kind = WEFT__APPEND__KIND__ADVANCE, .learner = q->learner, .clock = q->clock};
    weft_status status = weft_hosted_range_apply(s, f, &c, NULL);
    return status == WEFT_ERR_ARGUMENT ? WEFT_OK : status; /* an old pull: the learner has pushed */
}

weft_status weft_hosted_range_answer_pulls(server *s, hosted_range *f)
{
    size_t kept = 0;
    WEFT_TRY(remove_leaving_learners(s, f));
    /* An answer changes no clock, and removes no learner. */
    int64_t slowest = weft_range_slowest(f->of.range);
    bool empty = weft_range_learners(f->of.range) == 0;
    for (size_t i = 0; i < f->pull_count; i++) {
        pending_pull q = f->pulls[i];
        if (may_answer(f, &q, slowest, empty))
            WEFT_TRY(answer(s, f, &q));
        else if (q.leaving ? weft_range_knows(f->of.range, q.learner)
                           : weft_range_clock(f->of.range, q.learner) >= 0)
            f->pulls[kept++] = q; /* else dropped: the learner was removed */
    }
    f->pull_count = kept;
    return WEFT_OK;
}

/* A learner has at most one pending pull of a range: a newer one replaces it. */
weft_status weft_hosted_range_add_pull(server *s, hosted_range *f, const pending_pull *q)
{
    WEFT_TRY(advance(s, f, q));
    for (size_t i = 0; i < f->pull_count; i++)
        if (f->pulls[i].learner == q->learner) {
            if (q->request >= f->pulls[i].request) f->pulls[i] = *q;
            return WEFT_OK;
        }
    WEFT_TRY(WEFT_GROW(&f->pulls, &f->pull_capacity, f->pull_count));
    f->pulls[f->pull_count++] = *q;
    return WEFT_OK;
}
