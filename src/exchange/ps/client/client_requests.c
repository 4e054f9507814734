/* Range requests: a learner pushes and pulls each range, and retransmits each request (RTO
 * estimator) until a server has answered it. */
#include "exchange/ps/client/client_internal.h"

#include <stdio.h>

/* Bound on the retransmission timeout, in units of the first timeout. A server may have waited for
 * other learners before it replied; so long a round trip does not predict the next one. */
enum { MOST_TIMEOUTS = 32 };

int weft_server_ranges(int64_t count, weft_dtype dtype, int servers)
{
    int64_t each = count / WEFT_MAX(servers, 1) * (int64_t)weft_dtype_size(dtype);
    int64_t pieces = WEFT_MAX(each / WEFT_RANGE_BYTES, (int64_t)1);
    return servers * (int)WEFT_MIN(pieces, (int64_t)WEFT_MAX(WEFT_MOST_RANGES / servers, 1));
}

size_t weft_server_messages(int ranges)
{
    return 4 * (size_t)ranges;
}

size_t weft_server_message_bytes(int64_t count, weft_dtype dtype, int learners)
{
    return (8 + (size_t)learners) * (size_t)count * weft_dtype_size(dtype);
}

range_request *weft_range_request_find(ps_client *l, uint32_t range)
{
    return range < (uint32_t)l->options.range_count ? &l->requests[range] : NULL;
}

size_t weft_range_request_offset(const ps_client *l, const range_request *r)
{
    return (size_t)r->of.begin * weft_dtype_size(l->options.dtype);
}

size_t weft_range_request_bytes(const ps_client *l, const range_request *r)
{
    return (size_t)r->of.count * weft_dtype_size(l->options.dtype);
}

bool weft_range_request_is_waiting(const range_request *r)
{
    return r->asked || r->update || r->initial;
}

static weft_status set_timer(ps_client *l)
{
    double least = l->options.first_timeout, timeout = weft_rto_timeout(&l->rto, least);
    l->sent_at = weft_actor_now(&l->head);
    return weft_actor_set_timer(&l->head, WEFT_PS_RESEND_TIMER,
                                WEFT_MIN(timeout, MOST_TIMEOUTS * least));
}

weft_status weft_range_request_arm(ps_client *l)
{
    l->retransmitted = l->retransmitted && l->awaiting_reply;
    l->awaiting_reply = true;
    l->began = weft_actor_now(&l->head);
    return set_timer(l);
}

weft_status weft_range_request_resend_overdue(ps_client *l)
{
    double now = weft_actor_now(&l->head);
    bool leaves = false, early = now - l->began < MOST_TIMEOUTS * l->options.first_timeout;
    for (int i = 0; i < l->options.range_count; i++) {
        const range_request *r = &l->requests[i];
        if (early && (weft_buffer_is_shared(r->update) || weft_buffer_is_shared(r->initial))) {
            leaves = true;
        } else if (weft_range_request_is_waiting(r)) {
            l->retransmitted = true;
            WEFT_TRY(weft_range_request_resend(l, r));
        }
    }
    if (!leaves) weft_rto_backoff(&l->rto);
    return set_timer(l);
}

weft_status weft_range_request_rest(ps_client *l)
{
    if (l->awaiting_reply && !l->retransmitted)
        weft_rto_sample(&l->rto, weft_actor_now(&l->head) - l->sent_at);
    l->awaiting_reply = l->retransmitted = false;
    return weft_actor_set_timer(&l->head, WEFT_PS_RESEND_TIMER, -1);
}

/* --- messages --- */

static weft_status send_push(ps_client *l, const range_request *r)
{
    Weft__Push m = WEFT__PUSH__INIT;
    m.range = (uint32_t)(r - l->requests);
    m.sequence = r->sequence;
    m.clock = r->clock;
    m.version = r->update_version;
    m.step = r->update_step;
    m.weight = r->update_weight;
    m.last = l->end;
    m.view = weft_member_view(l->member)->number;
    return weft_rpc_send(&l->head, r->server, WEFT_RPC_PUSH, &m, r->update);
}

static weft_status send_pull(ps_client *l, const range_request *r)
{
    Weft__Pull m = WEFT__PULL__INIT;
    m.range = (uint32_t)(r - l->requests);
    m.request = r->request;
    m.clock = r->clock;
    m.have = r->moved ? -1 : r->version;
    m.leaving = l->leaving;
    m.halt = l->halt;
    m.whole = l->with_state;
    m.sequence = r->sequence;
    m.arriving = l->arriving;
    m.view = weft_member_view(l->member)->number;
    return weft_rpc_send(&l->head, r->server, WEFT_RPC_PULL, &m, NULL);
}

static weft_status send_init(ps_client *l, const range_request *r)
{
    Weft__Init m = WEFT__INIT__INIT;
    m.range = (uint32_t)(r - l->requests);
    return weft_rpc_send(&l->head, r->server, WEFT_RPC_INIT, &m, r->initial);
}

weft_status weft_range_request_resend(ps_client *l, const range_request *r)
{
    if (r->server == WEFT_NOBODY) return WEFT_OK;
    if (r->initial) return send_init(l, r);
    if (r->update) WEFT_TRY(send_push(l, r));
    return r->asked ? send_pull(l, r) : WEFT_OK;
}

/* --- requests --- */

int64_t weft_range_request_step(const ps_client *l, int64_t clock)
{
    return l->options.step ? *l->options.step : clock;
}

/* Sum of the sample weights of the running step. An elastic difference belongs to no step. */
static double step_weight(const ps_client *l)
{
    return l->options.weight && !l->options.elastic.options ? *l->options.weight : 1;
}

/* Weight of the next push, by which a server multiplies it. Accumulated gradients are a sum, so
 * the weight is the mean over their steps. */
static double weight_of(const ps_client *l, const range_request *r)
{
    return r->accrual.steps > 0 ? r->accrual.weight / (double)r->accrual.steps : step_weight(l);
}

static weft_status renew(const ps_client *l, range_request *r)
{
    r->next = r->spare;
    r->spare = NULL;
    return weft_buffer_reuse(weft_encoded_bound(l->options.dtype, r->of.count), &r->next);
}

weft_status weft_range_request_write(const ps_client *l, range_request *r, const void *gradient,
                                     int64_t at, int64_t n, bool *laid)
{
    /* Sums of gradients, local SGD and the elastic difference read `gradients`. */
    *laid = l->options.push <= 1 && !l->options.descent && !l->options.elastic.options &&
            r->of.codec->ops->plain;
    if (!*laid) return WEFT_OK;
    if (!r->next) WEFT_TRY(renew(l, r));
    return weft_codec_lay(r->of.codec, gradient, at, n, r->next->data);
}

/* Encodes the next push. A server multiplies an update by its weight. So the message of a learner
 * without samples is zeros, and the codec keeps its residual for a message that counts. */
static weft_status encode(const ps_client *l, range_request *r, const void *gradient)
{
    weft_buffer *to = r->update;
    if (r->update_weight != 0 || !r->of.codec->residual)
        return weft_codec_encode(r->of.codec, gradient, to->data, &to->bytes);
    to->bytes = weft_encoded_bound(l->options.dtype, r->of.count);
    (void)weft_encoded_begin_sum(l->options.dtype, r->of.count, to->data);
    return WEFT_OK;
}

/* Encodes and pushes the gradient of step `clock`, or the accumulated gradients of the steps up to
 * `clock`. */
static weft_status send_update(ps_client *l, range_request *r, int64_t clock)
{
    const void *gradient = (const char *)l->options.gradients + weft_range_request_offset(l, r);
    if (r->accrual.steps > 0) gradient = r->accrual.sum;
    if (r->update)
        return weft_fail(WEFT_ERR_INTERNAL,
                         "a range is pushed before its last push was acknowledged");
    if (r->next)
        gradient = NULL;
    else
        WEFT_TRY(renew(l, r));
    r->update = r->next;
    r->next = NULL;
    r->update_weight = weight_of(l, r);
    weft_status status = encode(l, r, gradient);
    if (status != WEFT_OK) {
        weft_buffer_unref(&r->update); /* nothing was sent, so no reply is due */
        return status;
    }
    r->sequence++;
    r->clock = clock;
    r->update_version = r->accrual.steps > 0 ? r->accrual.version : r->version;
    r->update_step = weft_range_request_step(l, clock);
    r->accrual.steps = 0;
    WEFT_TRY(weft_range_request_arm(l));
    return r->server == WEFT_NOBODY ? WEFT_OK : send_push(l, r);
}

bool weft_range_request_due(const ps_client *l, int64_t every, int64_t clock)
{
    return every <= 1 || clock % every == 0 || clock == l->options.steps;
}

weft_status weft_range_request_push(ps_client *l, range_request *r, int64_t clock)
{
    const char *gradients = l->options.gradients;
    if (r->pushed) return WEFT_OK;
    r->pushed = true;
    if (l->options.push > 1)
        WEFT_TRY(weft_grad_accumulator_add(&r->accrual, l->options.dtype, r->of.count,
                                           gradients + weft_range_request_offset(l, r), r->version,
                                           step_weight(l)));
    return weft_range_request_due(l, l->options.push, clock) ? send_update(l, r, clock) : WEFT_OK;
}

weft_status weft_range_request_push_rest(ps_client *l)
{
    for (int i = 0; i < l->options.range_count; i++)
        if (l->requests[i].accrual.steps > 0) WEFT_TRY(send_update(l, &l->requests[i], l->clock));
    return WEFT_OK;
}

weft_status weft_range_request_pull(ps_client *l, range_request *r)
{
    r->request++;
    r->asked = true;
    return r->server == WEFT_NOBODY ? WEFT_OK : send_pull(l, r);
}

weft_status weft_range_request_pull_all(ps_client *l)
{
    /* The flat parameters are in the order in which backward makes their gradients, so a forward
     * pass reads the last ranges first; they are pulled first. */
    for (int i = l->options.range_count; i-- > 0;)
        WEFT_TRY(weft_range_request_pull(l, &l->requests[i]));
    return weft_range_request_arm(l);
}

weft_status weft_range_request_send_initial(ps_client *l, range_request *r)
{
    const weft_ps_client_options *o = &l->options;
    int k = (int)(r - l->requests);
    size_t numbers = weft_range_request_bytes(l, r),
           state = o->give_state ? o->state_bytes(o->user, k) : 0;
    if (r->initial) return WEFT_OK;
    WEFT_TRY(weft_buffer_new(numbers + state, &r->initial));
    memcpy(r->initial->data, (const char *)o->parameters + weft_range_request_offset(l, r),
           numbers);
    if (state) WEFT_TRY(o->give_state(o->user, k, (char *)r->initial->data + numbers, state));
    return send_init(l, r);
}

/* --- the timeout error --- */

weft_status weft_ps_client_timeout_error(const weft_actor *actor, double seconds)
{
    const ps_client *l = (const ps_client *)actor;
    const weft_view *v = weft_member_view(l->member);
    weft_coordinator_status word = weft_member_coordinator_status(l->member);
    char what[160] = "it has ended, or the network to it is down", name[WEFT_MEMBER_NAME];
    int k = 0;
    if (!l->in) return weft_member_timeout_error(l->member, seconds);
    while (k < l->options.range_count && !weft_range_request_is_waiting(&l->requests[k])) k++;
    if (k == l->options.range_count)
        return weft_fail(WEFT_ERR_INTERNAL,
                         "a learner has timed out without an outstanding range request");
    const range_request *r = &l->requests[k];
    bool behind =
        word.slowest != WEFT_NOBODY && word.slowest != l->head.id && word.slowest_clock < l->clock;
    if (!weft_view_find(v, r->server))
        (void)snprintf(what, sizeof(what), "it is no longer a member of the run");
    else if (word.silent > seconds)
        (void)snprintf(what, sizeof(what), "nor has the coordinator, so the network is down");
    else if (behind)
        (void)snprintf(
            what, sizeof(what),
            "it waits for %s, which is at step %lld and sent its last heartbeat %.0f s ago",
            weft_view_name(v, word.slowest, name), (long long)word.slowest_clock,
            word.slowest_silent);
    return weft_fail(WEFT_ERR_PEER, "%s has not answered after step %lld for %g s: %s",
                     weft_view_name(v, r->server, name), (long long)l->clock, seconds, what);
}
