/* Collects state over channels: each other learner has a channel to the first one, a transfer of
 * the learner group that is started again for each buffer with the learner's state. */
#include "exchange/collect_state.h"

#include <time.h>

/* Pause between two tests of a transfer. A learner that ends tests for A_WHILE seconds whether its
 * last buffer has arrived; after that it postpones the end of its channel until all learners have
 * left the exchange. */
static const struct timespec NAP = {.tv_nsec = 2000000};
static const double A_WHILE = 1;
/* Step number of a learner's final buffer, whose state the first learner ignores. */
enum { LAST = -1 };
/* HEAD: bytes of a buffer's header, which holds the step of the state; also the alignment of each
 * state, a cache line. TAG: tag of the transfers. */
enum { HEAD = 64, TAG = 77 };

/* The channel between the first learner and another one. */
typedef struct channel {
    char *parcel; /* the buffer in transit */
    char *latest; /* on the first learner: copy of the buffer received last; NULL: none yet */
    weft_group_request *request;
    bool started, ended; /* the request was started; the final buffer was sent or received */
} channel;

struct weft_collect {
    weft_exchange *exchange;
    bool first;   /* this is the first learner */
    size_t bytes; /* size of a buffer */
    channel
        *channels; /* [count]: on the first learner one per other learner; else one, to the first */
    int count;
};

static const weft_learner_group *between(const weft_collect *o)
{
    return o->exchange->setup.endpoint;
}

/* Finds the next state that differs between learners (not `alike`), from number *i on. */
static bool next_own(weft_exchange *e, int *i, weft_exchange_state *out)
{
    while (weft_exchange_state_at(e, *i, out))
        if (!out->alike)
            return true;
        else
            ++*i;
    return false;
}

static size_t parcel_bytes(weft_exchange *e)
{
    weft_exchange_state s;
    size_t bytes = 0;
    for (int i = 0; next_own(e, &i, &s); i++) bytes += (s.bytes + HEAD - 1) / HEAD * HEAD;
    return bytes ? HEAD + bytes : 0;
}

static void pack(const weft_collect *o, int64_t step, char *to)
{
    weft_exchange_state s;
    memcpy(to, &step, sizeof(step));
    to += HEAD;
    for (int i = 0; next_own(o->exchange, &i, &s); i++) {
        memcpy(to, s.data, s.bytes);
        to += (s.bytes + HEAD - 1) / HEAD * HEAD;
    }
}

void *weft_collect_data(const weft_collect *o, int learner, int i)
{
    weft_exchange_state s;
    if (!o || !o->first || learner < 1 || learner > o->count) return NULL;
    char *at = o->channels[learner - 1].latest;
    if (!at) return NULL;
    at += HEAD;
    for (int k = 0; next_own(o->exchange, &k, &s) && k < i; k++)
        at += (s.bytes + HEAD - 1) / HEAD * HEAD;
    return at;
}

/* --- opening --- */

static weft_status open_lane(const weft_collect *o, int k)
{
    channel *l = &o->channels[k];
    WEFT_TRY(weft_new_aligned(o->bytes, &l->parcel));
    weft_transfer t = {.kind = o->first ? WEFT_RECEIVE : WEFT_SEND,
                       .dtype = WEFT_U8,
                       .what = "exchange state of the learners",
                       .send = l->parcel,
                       .receive = l->parcel,
                       .count = (int64_t)o->bytes,
                       .peer = o->first ? k + 1 : 0,
                       .tag = TAG};
    WEFT_TRY(weft_learner_group_bind(o->exchange->setup.endpoint, &t, &l->request));
    if (!o->first) return WEFT_OK;
    l->started = true;
    return weft_group_request_start(l->request);
}

weft_status weft_collect_open(weft_exchange *e, weft_collect **out)
{
    size_t bytes = parcel_bytes(e);
    int learners = e->setup.endpoint->learners;
    weft_collect *o;
    *out = NULL;
    if (e->ops->lockstep || e->setup.cluster || learners < 2 || bytes == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&o, 1));
    *o = (weft_collect){.exchange = e, .first = e->setup.endpoint->learner == 0, .bytes = bytes};
    o->count = o->first ? learners - 1 : 1;
    weft_status status = WEFT_NEW(&o->channels, o->count);
    for (int k = 0; k < o->count && status == WEFT_OK; k++) status = open_lane(o, k);
    if (status == WEFT_OK)
        *out = o;
    else
        weft_collect_close(&o);
    return status;
}

void weft_collect_close(weft_collect **others)
{
    if (!others || !*others) return;
    weft_collect *o = *others;
    for (int k = 0; o->channels && k < o->count; k++) {
        weft_group_request_destroy(&o->channels[k].request);
        free(o->channels[k].parcel);
        free(o->channels[k].latest);
    }
    free(o->channels);
    free(o);
    *others = NULL;
}

/* --- transfers --- */

static weft_status test_channel(channel *l, bool *done)
{
    *done = true;
    return l->started ? weft_group_request_test(l->request, done) : WEFT_OK;
}

/* Clears *so unless the condition holds on all ranks of this learner, so that all ranks act
 * alike. */
static weft_status agree(const weft_collect *o, bool *so)
{
    double all = *so;
    WEFT_TRY(weft_comm_run(o->exchange->setup.learner,
                           WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64,
                                         .what = "progress of the exchange state", .send = &all,
                                         .receive = &all, .count = 1)));
    *so = all == weft_comm_size(o->exchange->setup.learner);
    return WEFT_OK;
}

static weft_status send(const weft_collect *o, int64_t step)
{
    channel *l = &o->channels[0];
    pack(o, step, l->parcel);
    l->started = true;
    return weft_group_request_start(l->request);
}

weft_status weft_collect_send(weft_collect *o, int64_t step)
{
    bool free_again;
    WEFT_TRY(test_channel(&o->channels[0], &free_again));
    WEFT_TRY(agree(o, &free_again));
    if (!free_again) return WEFT_OK; /* in transit: the first learner is far behind */
    if (o->exchange->ops->life.store_state)
        WEFT_TRY(o->exchange->ops->life.store_state(o->exchange));
    return send(o, step);
}

/* Keeps the received buffer as the latest, and begins to receive the next one; after the final
 * buffer ends the channel. */
static weft_status accept_buffer(const weft_collect *o, channel *l, int64_t *step)
{
    memcpy(step, l->parcel, sizeof(*step));
    l->started = false;
    l->ended = *step == LAST;
    if (l->ended) return WEFT_OK;
    if (!l->latest) WEFT_TRY(weft_new_aligned(o->bytes, &l->latest));
    memcpy(l->latest, l->parcel, o->bytes);
    l->started = true;
    return weft_group_request_start(l->request);
}

/* Waits until the learner at the other end of the channel has sent its state after step `step`, or
 * has ended. */
static weft_status await(const weft_collect *o, channel *l, int64_t step)
{
    weft_wait_clock wait_clock = {0};
    double limit = between(o)->timeout;
    for (int64_t at = 0; !l->ended && at < step;) {
        bool done;
        WEFT_TRY(test_channel(l, &done));
        if (done) {
            WEFT_TRY(accept_buffer(o, l, &at));
            continue;
        }
        WEFT_TRY(weft_learner_group_check(o->exchange->setup.endpoint));
        nanosleep(&NAP, NULL);
        if (weft_wait_clock_read(&wait_clock, 1) > limit)
            return weft_fail(WEFT_ERR_PEER,
                             "learner %d has not sent for %g s its exchange state (residuals) "
                             "after step %lld, for a checkpoint",
                             (int)(l - o->channels) + 1, limit, (long long)step);
    }
    return WEFT_OK;
}

static weft_status take_what_is_there(const weft_collect *o, channel *l)
{
    bool done = true;
    while (done && !l->ended) {
        int64_t step;
        WEFT_TRY(test_channel(l, &done));
        WEFT_TRY(agree(o, &done));
        if (done) WEFT_TRY(accept_buffer(o, l, &step));
    }
    return WEFT_OK;
}

weft_status weft_collect_receive(weft_collect *o, int64_t step)
{
    bool together = weft_exchange_is_together(o->exchange);
    for (int k = 0; k < o->count; k++)
        WEFT_TRY(together ? await(o, &o->channels[k], step)
                          : take_what_is_there(o, &o->channels[k]));
    return WEFT_OK;
}

/* --- the end --- */

/* Sends the final buffer to the first learner, which may be waiting for a state that will not come.
 * With `before` the wait for the last buffer is limited to A_WHILE seconds, since the first learner
 * may still train; without `before` the learner waits until the final buffer has arrived. */
static weft_status send_final(const weft_collect *o, bool before)
{
    channel *l = &o->channels[0];
    bool done;
    double until = weft_seconds() + A_WHILE;
    if (!l->ended) {
        WEFT_TRY(test_channel(l, &done));
        while (!done && before && weft_seconds() < until) {
            nanosleep(&NAP, NULL);
            WEFT_TRY(test_channel(l, &done));
        }
        if (!done && before) return WEFT_OK;
        if (!done) WEFT_TRY(weft_group_request_wait(l->request));
        l->ended = true;
        WEFT_TRY(send(o, LAST));
    }
    return before ? WEFT_OK : weft_group_request_wait(l->request);
}

weft_status weft_collect_end(weft_collect *o, bool before)
{
    if (!o->first) return send_final(o, before);
    for (int k = 0; k < o->count && !before; k++) WEFT_TRY(await(o, &o->channels[k], INT64_MAX));
    return WEFT_OK;
}
