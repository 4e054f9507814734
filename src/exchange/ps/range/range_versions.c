/* Makes the versions of a range: pushed updates wait until all updates of a version are there; then
 * their mean makes the version. */
#include "exchange/ps/range/range_internal.h"

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
    member *m = weft_range_find(r, learner);
    if (!m) return;
    m->met++;
    m->stale += staleness;
    m->recent[m->met % WEFT_RECENT] = staleness;
}

void weft_range_met(const weft_range *r, weft_actor_id learner, int64_t *met, int64_t *stale)
{
    const member *m = weft_range_find(r, learner);
    *met = m ? m->met : 0;
    *stale = m ? m->stale : 0;
}

int weft_range_staleness_of_each(const weft_range *r, weft_actor_id learner, int64_t after,
                                 int64_t out[WEFT_RECENT])
{
    const member *m = weft_range_find(r, learner);
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

/* Mean sample weight of the first n pending updates. 0: all weights are equal; the caller then
 * leaves weights out. */
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

/* Adds the residual to the mean of a version of n updates, as if it were a part of their sum. */
static void add_residual(weft_range *r, int n)
{
    const weft_range_options *o = &r->options;
    for (int64_t i = 0; i < o->count; i++)
        weft_number_put(o->dtype, r->gradient, i,
                        weft_number_get(o->dtype, r->gradient, i) +
                            weft_number_get(o->dtype, r->residual, i) / n);
    free(r->residual);
    r->residual = NULL;
}

/* Makes an update of the mean of n updates that r->mean has gathered. */
static weft_status update(weft_range *r, int n, int64_t step, double rate)
{
    const weft_range_options *o = &r->options;
    const void *sum = r->residual ? NULL : weft_weighted_mean_in_place(&r->mean);
    if (!sum) weft_weighted_mean_make(&r->mean, r->gradient);
    if (r->residual) add_residual(r, n);
    if (o->at && step > 0) o->at(o->user, step);
    return o->update(o->user, r->parameters, sum ? sum : r->gradient, rate);
}

/* Makes a version of the first n pending updates. Updates, weights and rates are summed in the
 * order of the learners' slots, not of their arrival. If none of them has samples, the optimizer
 * makes no step, in which momentum and weight decay would change the parameters. */
static weft_status apply(weft_range *r, int n)
{
    const weft_range_options *o = &r->options;
    int64_t step = 0;
    bool empty = true;
    qsort(r->waiting, (size_t)n, sizeof(pushed), by_learner);
    double mean = mean_weight(r, n), rate = mean_rate(r, n);
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
        r->made = WEFT_MAX(r->made, push->clock);
    }
    if (!empty) WEFT_TRY(update(r, n, step, rate));
    for (int v = 0; v < n; v++) weft_buffer_unref(&r->waiting[v].push.update);
    r->waiting_count -= (size_t)n;
    memmove(r->waiting, r->waiting + n, r->waiting_count * sizeof(pushed));
    r->version++;
    return WEFT_OK;
}

/* Moves the pending updates of one clock to the front, in the order of arrival. */
static void gather_clock(weft_range *r, int64_t clock)
{
    int front = 0;
    for (size_t i = 0; i < r->waiting_count; i++) {
        if (r->waiting[i].push.clock != clock) continue;
        pushed p = r->waiting[i];
        memmove(r->waiting + front + 1, r->waiting + front, (i - (size_t)front) * sizeof(pushed));
        r->waiting[front++] = p;
    }
}

/* *out: number of pending updates, which it moves to the front, that make the next version; 0: an
 * update of that version is missing. */
static weft_status complete(weft_range *r, int *out)
{
    const weft_policy *p = &r->options.policy;
    *out = 0;
    if (r->waiting_count == 0) return WEFT_OK;
    weft_server_pending w = {.updates = (int)r->waiting_count,
                             .learners = weft_range_learners(r),
                             .slowest = weft_range_slowest(r),
                             .clock = INT64_MAX,
                             .count = p->count};
    for (size_t i = 0; i < r->waiting_count; i++) {
        int64_t clock = r->waiting[i].push.clock;
        w.of_clock = clock < w.clock ? 1 : w.of_clock + (clock == w.clock);
        w.clock = WEFT_MIN(w.clock, clock);
    }
    int n = p->rule->complete(&w), most = p->rule->rounds ? w.of_clock : w.updates;
    if (n < 0 || n > most)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the server policy's 'complete' has returned %d, must be from 0 to the %d "
                         "updates that can make a version",
                         n, most);
    if (n > 0 && p->rule->rounds) gather_clock(r, w.clock);
    *out = n;
    return WEFT_OK;
}

weft_status weft_range_apply_complete(weft_range *r)
{
    int n;
    WEFT_TRY(complete(r, &n));
    while (n > 0) {
        WEFT_TRY(apply(r, n));
        WEFT_TRY(complete(r, &n));
    }
    return WEFT_OK;
}

/* Adds an update to the residual, with its factor of the learning rate. */
static weft_status add_to_residual(weft_range *r, const pushed *late)
{
    const weft_range_options *o = &r->options;
    weft_encoded message = late->message;
    size_t bytes = weft_range_bytes(r);
    int64_t staleness =
        r->version - late->push.version; /* that of the next version, which has it */
    if (!r->residual) {
        WEFT_TRY(weft_new_aligned(bytes, &r->residual));
        memset(r->residual, 0, bytes);
    }
    weft_encoded_add(&message, o->count, weft_policy_rate(&o->policy, staleness), r->residual);
    note_met(r, late->push.learner, staleness);
    return note_staleness(r, staleness);
}

weft_status weft_range_take_late(weft_range *r, const pushed *late, weft_late fate)
{
    switch (fate) {
    case WEFT_LATE_DISCARD: return WEFT_OK;
    case WEFT_LATE_KEEP: return add_to_residual(r, late);
    case WEFT_LATE_APPLY: break;
    default:
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the server policy's 'late' has returned %d, which is no weft_late",
                         (int)fate);
    }
    WEFT_TRY(WEFT_GROW(&r->waiting, &r->waiting_capacity, r->waiting_count));
    memmove(r->waiting + 1, r->waiting, r->waiting_count++ * sizeof(pushed));
    r->waiting[0] = *late;
    weft_buffer_ref(late->push.update);
    return apply(r, 1);
}
