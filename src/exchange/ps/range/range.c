/* The state machine of a range. Pushed updates wait until all updates of a version are there; then
 * their mean makes the version. weft_range_may_begin enforces the bound of SSP: a learner that is
 * further ahead of the slowest one gets no answer to its pull yet (server/pending_pulls.c). */
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
    free(r->waiting);
    free(r->staleness);
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

static member *find(const weft_range *r, weft_actor_id id)
{
    for (size_t i = 0; i < r->member_count; i++)
        if (r->members[i].id == id) return &r->members[i];
    return NULL;
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
    return find(r, learner) != NULL;
}

int64_t weft_range_clock(const weft_range *r, weft_actor_id learner)
{
    const member *m = find(r, learner);
    return m && m->here ? m->clock : -1;
}

int64_t weft_range_slowest(const weft_range *r)
{
    int64_t slowest = INT64_MAX;
    for (size_t i = 0; i < r->member_count; i++)
        if (r->members[i].here) slowest = WEFT_MIN(slowest, r->members[i].clock);
    return slowest == INT64_MAX ? r->begun : slowest;
}

/* The step of the run, after which a new learner begins. With a bound that is the clock of the
 * slowest learner, since the others wait for the new one; without a bound that of the fastest, now
 * or earlier, since a slow learner, or one that is suspended, holds nobody back. */
static int64_t run_clock(const weft_range *r)
{
    int64_t fastest = r->begun;
    if (r->options.policy.bound != WEFT_NO_BOUND) return weft_range_slowest(r);
    for (size_t i = 0; i < r->member_count; i++)
        if (r->members[i].here) fastest = WEFT_MAX(fastest, r->members[i].clock);
    return fastest;
}

bool weft_range_may_begin(const weft_range *r, int64_t clock)
{
    int64_t bound = r->options.policy.bound;
    /* Not slowest + bound, which may overflow: a clock in a forged message may be any number. */
    return bound == WEFT_NO_BOUND || clock <= bound || clock - bound <= weft_range_slowest(r);
}

/* --- versions --- */

static weft_status note_staleness(weft_range *r, int64_t staleness)
{
    staleness = WEFT_MIN(staleness, (int64_t)WEFT_MOST_STALE);
    while (r->staleness_count <= (size_t)staleness) {
        WEFT_TRY(WEFT_GROW(&r->staleness, &r->staleness_capacity, r->staleness_count));
        r->staleness[r->staleness_count++] = 0;
    }
    r->staleness[staleness]++;
    return WEFT_OK;
}

static void note_met(weft_range *r, weft_actor_id learner, int64_t staleness)
{
    member *m = find(r, learner);
    if (!m) return;
    m->met++;
    m->stale += staleness;
    m->recent[m->met % WEFT_RECENT] = staleness;
}

void weft_range_met(const weft_range *r, weft_actor_id learner, int64_t *met, int64_t *stale)
{
    const member *m = find(r, learner);
    *met = m ? m->met : 0;
    *stale = m ? m->stale : 0;
}

int weft_range_staleness_of_each(const weft_range *r, weft_actor_id learner, int64_t after,
                                 int64_t out[WEFT_RECENT])
{
    const member *m = find(r, learner);
    if (!m || after < m->unknown || after >= m->met || m->met - after > WEFT_RECENT) return 0;
    for (int64_t i = after + 1; i <= m->met; i++) out[i - after - 1] = m->recent[i % WEFT_RECENT];
    return (int)(m->met - after);
}

static int by_learner(const void *a, const void *b)
{
    const pushed *x = a, *y = b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    if (x->push.learner != y->push.learner) return x->push.learner < y->push.learner ? -1 : 1;
    return (x->push.sequence > y->push.sequence) - (x->push.sequence < y->push.sequence);
}

/* Mean sample weight of the first n pending updates; 0: all weights are equal, and none is
 * applied. */
static double mean_weight(const weft_range *r, int n)
{
    double sum = 0;
    bool alike = true;
    for (int i = 0; i < n; i++) {
        sum += r->waiting[i].push.weight;
        alike = alike && r->waiting[i].push.weight == r->waiting[0].push.weight;
    }
    return alike ? 0 : sum / n;
}

/* Mean factor of the learning rate of the first n pending updates: exactly that of each if all are
 * equally stale. */
static double mean_rate(const weft_range *r, int n)
{
    double sum = 0, first = 0;
    bool alike = true;
    for (int i = 0; i < n; i++) {
        double rate = weft_policy_rate(&r->options.policy, r->version - r->waiting[i].push.version);
        if (i == 0) first = rate;
        sum += rate;
        alike = alike && rate == first;
    }
    return alike ? first : sum / n;
}

/* Makes an update of the mean that r->mean has gathered. */
static weft_status update(weft_range *r, int64_t step, double rate)
{
    const weft_range_options *o = &r->options;
    const void *sum = weft_weighted_mean_in_place(&r->mean);
    if (!sum) weft_weighted_mean_make(&r->mean, r->gradient);
    if (o->at && step > 0) o->at(o->user, step);
    return o->update(o->user, r->parameters, sum ? sum : r->gradient, rate);
}

/* Makes a version of the first n pending updates, which are summed in the order of their learners'
 * slots, not of their arrival. If none of them has samples, the optimizer makes no step, in which
 * momentum and weight decay would change the parameters. */
static weft_status apply(weft_range *r, int n)
{
    const weft_range_options *o = &r->options;
    int64_t step = 0;
    bool empty = true;
    double mean = mean_weight(r, n), rate = mean_rate(r, n);
    qsort(r->waiting, (size_t)n, sizeof(pushed), by_learner);
    WEFT_TRY(weft_weighted_mean_begin(&r->mean, o->dtype, o->count, n));
    for (int v = 0; v < n; v++) {
        const weft_push *push = &r->waiting[v].push;
        int64_t staleness = r->version - push->version;
        double share = mean > 0 ? push->weight / mean : 1;
        WEFT_TRY(note_staleness(r, staleness));
        note_met(r, push->learner, staleness);
        weft_weighted_mean_take(&r->mean, v, &r->waiting[v].message,
                                (rate > 0 ? weft_policy_rate(&o->policy, staleness) / rate : 1) *
                                    share);
        step = WEFT_MAX(step, push->step);
        empty = empty && push->empty;
    }
    if (!empty) WEFT_TRY(update(r, step, rate));
    for (int v = 0; v < n; v++) weft_buffer_unref(&r->waiting[v].push.update);
    r->waiting_count -= (size_t)n;
    memmove(r->waiting, r->waiting + n, r->waiting_count * sizeof(pushed));
    r->version++;
    return WEFT_OK;
}

/* Moves the pending updates of one clock to the front, in the order of arrival, and counts them. */
static int gather_clock(weft_range *r, int64_t clock)
{
    int front = 0;
    for (size_t i = 0; i < r->waiting_count; i++) {
        if (r->waiting[i].push.clock != clock) continue;
        pushed p = r->waiting[i];
        memmove(r->waiting + front + 1, r->waiting + front, (i - (size_t)front) * sizeof(pushed));
        r->waiting[front++] = p;
    }
    return front;
}

/* Number of pending updates, from the front, that make the next version; 0: an update of that
 * version is missing. */
static int complete(weft_range *r)
{
    int count = r->options.policy.count, here = weft_range_learners(r);
    if (r->waiting_count == 0) return 0;
    if (count > 0) {
        /* With fewer learners than `count`, a version has as many updates as there are learners. */
        count = here ? WEFT_MIN(count, here) : 1;
        return r->waiting_count >= (size_t)count ? count : 0;
    }
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < r->waiting_count; i++) next = WEFT_MIN(next, r->waiting[i].push.clock);
    return here == 0 || weft_range_slowest(r) >= next ? gather_clock(r, next) : 0;
}

static weft_status apply_complete(weft_range *r)
{
    for (int n = complete(r); n > 0; n = complete(r)) WEFT_TRY(apply(r, n));
    return WEFT_OK;
}

/* --- joins, leaves, pushes --- */

weft_status weft_range_join(weft_range *r, weft_actor_id learner, int slot, int64_t clock)
{
    if (find(r, learner))
        return weft_fail(WEFT_ERR_ARGUMENT, "the learner with number %u has already joined",
                         learner);
    int64_t begun = run_clock(r);
    WEFT_TRY(WEFT_GROW(&r->members, &r->member_capacity, r->member_count));
    r->members[r->member_count++] =
        (member){.id = learner, .slot = slot, .here = true, .clock = WEFT_MAX(clock, begun)};
    return WEFT_OK;
}

weft_status weft_range_advance(weft_range *r, weft_actor_id learner, int64_t clock)
{
    member *m = find(r, learner);
    if (!m || !m->here || m->sequence > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the clock of the learner with number %u cannot be raised: it has not "
                         "joined, has left, or has pushed before",
                         learner);
    m->clock = WEFT_MAX(m->clock, clock);
    return apply_complete(r);
}

weft_status weft_range_leave(weft_range *r, weft_actor_id learner)
{
    member *m = find(r, learner);
    if (!m || !m->here)
        return weft_fail(WEFT_ERR_ARGUMENT, "the learner with number %u has not joined", learner);
    r->begun = run_clock(r);
    m->here = false;
    return apply_complete(r);
}

/* Whether an update of this clock counts. With count 0 a version needs one update of this clock
 * from each learner, and after the end clock some learners push none. */
static bool counts(const weft_range *r, int64_t clock)
{
    return r->options.policy.count > 0 || clock <= r->last;
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
    if (!weft_range_may_begin(r, push->clock - 1))
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
    return weft_encoded_open(push->update->data, push->update->bytes, o->dtype, o->count, message);
}

/* Drops the pending update of a learner that has left, if learner `by` has its slot now and has
 * computed the same step again: with count 0 a version has one update of each slot. */
static void replace(weft_range *r, const weft_push *push, const member *by)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->waiting_count; i++) {
        pushed *p = &r->waiting[i];
        const member *from = find(r, p->push.learner);
        if (r->options.policy.count == 0 && p->slot == by->slot && p->push.clock == push->clock &&
            !(from && from->here))
            weft_buffer_unref(&p->push.update);
        else
            r->waiting[kept++] = *p;
    }
    r->waiting_count = kept;
}

weft_status weft_range_push(weft_range *r, const weft_push *push, weft_push_result *result)
{
    member *m = find(r, push->learner);
    weft_encoded message;
    /* The last update of a learner that has left may arrive again, and counts. */
    *result = !m                                 ? WEFT_PUSH_UNKNOWN_CLIENT
              : push->sequence <= m->sequence    ? WEFT_PUSH_DUPLICATE
              : !m->here                         ? WEFT_PUSH_UNKNOWN_CLIENT
              : push->sequence > m->sequence + 1 ? WEFT_PUSH_OUT_OF_ORDER
                                                 : WEFT_PUSH_ACCEPTED;
    if (*result != WEFT_PUSH_ACCEPTED) return WEFT_OK;
    WEFT_TRY(check(r, push, m, &message));
    if (counts(r, push->clock)) {
        WEFT_TRY(WEFT_GROW(&r->waiting, &r->waiting_capacity, r->waiting_count));
        replace(r, push, m);
        r->waiting[r->waiting_count++] = (pushed){*push, m->slot, message};
        weft_buffer_ref(push->update);
    }
    m->sequence = push->sequence;
    m->clock = push->clock;
    return apply_complete(r);
}
