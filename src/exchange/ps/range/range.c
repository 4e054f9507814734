/* Keeps the learners of a range, which join, leave and push updates. weft_range_may_begin enforces
 * the bound of SSP: a learner that is further ahead of the slowest one gets no answer to its pull
 * yet (server/pending_pulls.c). */
#include "exchange/ps/range/range_internal.h"

static weft_status room_for(const weft_range_options *o, void *given, void **out, bool *own)
{
    *out = given;
    *own = !given;
    return given ? WEFT_OK : weft_new_aligned((size_t)o->count * weft_dtype_size(o->dtype), out);
}

weft_status weft_range_create(const weft_range_options *options, weft_range **out)
{
    weft_range *r;
    WEFT_TRY(WEFT_NEW(&r, 1));
    r->options = *options;
    r->last = INT64_MAX;
    weft_status status = room_for(options, options->parameters, &r->parameters, &r->own_parameters);
    if (status == WEFT_OK)
        status = room_for(options, options->gradient, &r->gradient, &r->own_gradient);
    if (status == WEFT_OK)
        *out = r;
    else
        weft_range_destroy(&r);
    return status;
}

void weft_range_destroy(weft_range **range)
{
    if (!range || !*range) return;
    weft_range *r = *range;
    for (size_t i = 0; i < r->waiting_count; i++) weft_buffer_unref(&r->waiting[i].push.update);
    weft_weighted_mean_free(&r->mean);
    if (r->own_parameters) free(r->parameters);
    if (r->own_gradient) free(r->gradient);
    free(r->members);
    weft_id_index_free(&r->places);
    free(r->waiting);
    free(r->staleness);
    free(r->residual);
    free(r);
    *range = NULL;
}

void *weft_range_parameters(weft_range *range)
{
    return range->parameters;
}

size_t weft_range_bytes(const weft_range *range)
{
    return (size_t)range->options.count * weft_dtype_size(range->options.dtype);
}

int64_t weft_range_version(const weft_range *range)
{
    return range->version;
}

size_t weft_range_pending(const weft_range *range)
{
    return range->waiting_count;
}

const int64_t *weft_range_staleness(const weft_range *range, size_t *size)
{
    *size = range->staleness_count;
    return range->staleness;
}

/* --- learners --- */

member *weft_range_find(const weft_range *r, weft_actor_id id)
{
    size_t at = weft_id_index_find(&r->places, id);
    return at == WEFT_NO_PLACE ? NULL : &r->members[at];
}

weft_status weft_range_add(weft_range *r, const member *m)
{
    WEFT_TRY(WEFT_GROW(&r->members, &r->member_capacity, r->member_count));
    WEFT_TRY(weft_id_index_put(&r->places, m->id, r->member_count));
    r->members[r->member_count++] = *m;
    return WEFT_OK;
}

int weft_range_learners(const weft_range *r)
{
    int count = 0;
    for (size_t i = 0; i < r->member_count; i++) count += r->members[i].here;
    return count;
}

bool weft_range_learner_at(const weft_range *r, int i, weft_actor_id *out)
{
    for (size_t k = 0; k < r->member_count; k++) {
        if (!r->members[k].here || i-- > 0) continue;
        *out = r->members[k].id;
        return true;
    }
    return false;
}

bool weft_range_knows(const weft_range *r, weft_actor_id learner)
{
    return weft_range_find(r, learner) != NULL;
}

int64_t weft_range_clock(const weft_range *r, weft_actor_id learner)
{
    const member *m = weft_range_find(r, learner);
    return m && m->here ? m->clock : -1;
}

int64_t weft_range_slowest(const weft_range *r)
{
    int64_t slowest = INT64_MAX;
    for (size_t i = 0; i < r->member_count; i++)
        if (r->members[i].here) slowest = WEFT_MIN(slowest, r->members[i].clock);
    return slowest == INT64_MAX ? r->begun : slowest;
}

/* The step of the run, after which a new learner begins. If learners wait, that is the clock of the
 * slowest one, since the others wait for the new one; otherwise that of the fastest, now
 * or earlier, since a slow learner, or one that is suspended, holds nobody back. */
static int64_t run_clock(const weft_range *r)
{
    int64_t fastest = r->begun;
    if (weft_policy_waits(&r->options.policy)) return weft_range_slowest(r);
    for (size_t i = 0; i < r->member_count; i++)
        if (r->members[i].here) fastest = WEFT_MAX(fastest, r->members[i].clock);
    return fastest;
}

bool weft_range_may_begin(const weft_range *r, int64_t slowest, int64_t clock)
{
    const weft_policy *p = &r->options.policy;
    return p->rule->may_begin(&(weft_server_waiting){
        .clock = clock, .slowest = slowest, .made = r->made, .bound = p->bound});
}

/* --- joins, leaves, pushes --- */

weft_status weft_range_join(weft_range *r, weft_actor_id learner, int slot, int64_t clock)
{
    if (weft_range_find(r, learner))
        return weft_fail(WEFT_ERR_ARGUMENT, "the learner with number %u has already joined",
                         learner);
    int64_t begun = run_clock(r);
    return weft_range_add(
        r, &(member){.id = learner, .slot = slot, .here = true, .clock = WEFT_MAX(clock, begun)});
}

weft_status weft_range_advance(weft_range *r, weft_actor_id learner, int64_t clock)
{
    member *m = weft_range_find(r, learner);
    if (!m || !m->here || m->sequence > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the clock of the learner with number %u cannot be raised: it has not "
                         "joined, has left, or has pushed before",
                         learner);
    m->clock = WEFT_MAX(m->clock, clock);
    return weft_range_apply_complete(r);
}

weft_status weft_range_leave(weft_range *r, weft_actor_id learner)
{
    member *m = weft_range_find(r, learner);
    if (!m || !m->here)
        return weft_fail(WEFT_ERR_ARGUMENT, "the learner with number %u has not joined", learner);
    r->begun = run_clock(r);
    m->here = false;
    return weft_range_apply_complete(r);
}

/* Whether an update of this clock counts: with rounds, after the end clock some learners push
 * none. */
static bool counts(const weft_range *r, int64_t clock)
{
    return !r->options.policy.rule->rounds || clock <= r->last;
}

void weft_range_halt(weft_range *r, int64_t clock)
{
    size_t kept = 0;
    r->last = WEFT_MIN(r->last, clock);
    for (size_t i = 0; i < r->waiting_count; i++)
        if (counts(r, r->waiting[i].push.clock))
            r->waiting[kept++] = r->waiting[i];
        else
            weft_buffer_unref(&r->waiting[i].push.update);
    r->waiting_count = kept;
}

static weft_status check(const weft_range *r, const weft_push *push, const member *m,
                         weft_encoded *message)
{
    const weft_range_options *o = &r->options;
    if (push->version < 0 || push->version > r->version)
        return weft_fail(
            WEFT_ERR_FORMAT,
            "an update of learner %d was computed on version %lld, but the newest is %lld", m->slot,
            (long long)push->version, (long long)r->version);
    if (push->clock <= m->clock)
        return weft_fail(WEFT_ERR_FORMAT,
                         "an update of learner %d is of step %lld, but it has finished step %lld",
                         m->slot, (long long)push->clock, (long long)m->clock);
    /* This check also bounds the number of pending updates. */
    if (!weft_range_may_begin(r, weft_range_slowest(r), push->clock - 1))
        return weft_fail(WEFT_ERR_FORMAT,
                         "an update of learner %d is of step %lld, which its policy does not allow "
                         "it to begin: the slowest learner is at %lld",
                         m->slot, (long long)push->clock, (long long)weft_range_slowest(r));
    if (push->step < 0 || push->step > INT32_MAX || !(push->weight >= 0 && push->weight < 1e290))
        return weft_fail(WEFT_ERR_FORMAT,
                         "an update of learner %d has a step or a weight that is not valid: step "
                         "%lld, weight %g",
                         m->slot, (long long)push->step, push->weight);
    if (!push->update) return weft_fail(WEFT_ERR_FORMAT, "learner %d pushes no update", m->slot);
    WEFT_TRY(weft_encoded_open(push->update->data, push->update->bytes, o->codec, o->dtype,
                               o->count, message));
    if (weft_encoded_squares(message)) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "an update of learner %d has a number whose square is not finite in %s; it "
                     "would make the parameters NaN for all learners. A smaller --lr, --clip-norm "
                     "or --warmup may help",
                     m->slot, weft_dtype_name(o->dtype));
}

/* Drops the pending update of a learner that has left, if learner `by` has its slot now and has
 * computed the same step again: a round has one update of each slot. */
static void replace(weft_range *r, const weft_push *push, const member *by)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->waiting_count; i++) {
        pushed *p = &r->waiting[i];
        const member *from = weft_range_find(r, p->push.learner);
        if (r->options.policy.rule->rounds && p->slot == by->slot && p->push.clock == push->clock &&
            !(from && from->here))
            weft_buffer_unref(&p->push.update);
        else
            r->waiting[kept++] = *p;
    }
    r->waiting_count = kept;
}

weft_status weft_range_push(weft_range *r, const weft_push *push, weft_push_result *result)
{
    member *m = weft_range_find(r, push->learner);
    weft_encoded message;
    /* The last update of a learner that has left may arrive again, and counts. */
    *result = !m                                 ? WEFT_PUSH_UNKNOWN_CLIENT
              : push->sequence <= m->sequence    ? WEFT_PUSH_DUPLICATE
              : !m->here                         ? WEFT_PUSH_UNKNOWN_CLIENT
              : push->sequence > m->sequence + 1 ? WEFT_PUSH_OUT_OF_ORDER
                                                 : WEFT_PUSH_ACCEPTED;
    if (*result != WEFT_PUSH_ACCEPTED) return WEFT_OK;
    WEFT_TRY(check(r, push, m, &message));
    const weft_policy *policy = &r->options.policy;
    pushed p = {*push, m->slot, message};
    if (policy->rule->late && push->clock <= r->made) {
        WEFT_TRY(weft_range_take_late(r, &p, policy->rule->late(r->made - push->clock)));
    } else if (counts(r, push->clock)) {
        WEFT_TRY(WEFT_GROW(&r->waiting, &r->waiting_capacity, r->waiting_count));
        replace(r, push, m);
        r->waiting[r->waiting_count++] = p;
        weft_buffer_ref(push->update);
    }
    m->sequence = push->sequence;
    m->clock = push->clock;
    return weft_range_apply_complete(r);
}
