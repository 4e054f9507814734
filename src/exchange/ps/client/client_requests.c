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

size_t weft_server_message_bytes(int64_t count, weft_dtype dtype)
{
    return 8 * (size_t)count * weft_dtype_size(dtype);
}

range_request *weft_range_request_find(ps_client *c, uint32_t range)
{
    return range < (uint32_t)c->options.range_count ? &c->requests[range] : NULL;
}

size_t weft_range_request_offset(const ps_client *c, const range_request *r)
{
    return (size_t)r->of.begin * weft_dtype_size(c->options.dtype);
}

size_t weft_range_request_bytes(const ps_client *c, const range_request *r)
{
    return (size_t)r->of.count * weft_dtype_size(c->options.dtype);
}

bool weft_range_request_is_waiting(const range_request *r)
{
    return r->asked || r->update || r->initial;
}

static weft_status set_timer(ps_client *c)
{
    double least = c->options.first_timeout, timeout = weft_rto_timeout(&c->rto, least);
    c->sent_at = weft_actor_now(&c->head);
    return weft_actor_set_timer(&c->head, WEFT_PS_RESEND_TIMER,
                                WEFT_MIN(timeout, MOST_TIMEOUTS * least));
}

weft_status weft_range_request_arm(ps_client *c)
{
    c->retransmitted = c->retransmitted && c->awaiting_reply;
    c->awaiting_reply = true;
    c->began = weft_actor_now(&c->head);
    return set_timer(c);
}

weft_status weft_range_request_resend_overdue(ps_client *c)
{
    double now = weft_actor_now(&c->head);
    bool leaves = false, early = now - c->began < MOST_TIMEOUTS * c->options.first_timeout;
    for (int i = 0; i < c->options.range_count; i++) {
        const range_request *r = &c->requests[i];
        if (early && (weft_buffer_is_shared(r->update) || weft_buffer_is_shared(r->initial))) {
            leaves = true;
        } else if (weft_range_request_is_waiting(r)) {
            c->retransmitted = true;
            WEFT_TRY(weft_range_request_resend(c, r));
        }
    }
    if (!leaves) weft_rto_backoff(&c->rto);
    return set_timer(c);
}

weft_status weft_range_request_disarm_timer(ps_client *c)
{
    if (c->awaiting_reply && !c->retransmitted)
        weft_rto_sample(&c->rto, weft_actor_now(&c->head) - c->sent_at);
    c->awaiting_reply = c->retransmitted = false;
    return weft_actor_set_timer(&c->head, WEFT_PS_RESEND_TIMER, -1);
}

/* --- messages --- */

static weft_status send_push(ps_client *c, const range_request *r)
{
    Weft__Push m = WEFT__PUSH__INIT;
    m.range = (uint32_t)(r - c->requests);
    m.sequence = r->sequence;
    m.clock = r->clock;
    m.version = r->update_version;
    m.step = r->update_step;
    m.weight = r->update_weight;
    m.empty = r->update_empty;
    m.last = c->end;
    m.view = weft_member_view(c->member)->number;
    return weft_rpc_send(&c->head, r->server, WEFT_RPC_PUSH, &m, r->update);
}

static weft_status send_pull(ps_client *c, const range_request *r)
{
    Weft__Pull m = WEFT__PULL__INIT;
    m.range = (uint32_t)(r - c->requests);
    m.request = r->request;
    m.clock = r->clock;
    m.have = r->moved ? -1 : r->version;
    m.leaving = c->leaving;
    m.halt = c->halt;
    m.whole = c->with_state;
    m.sequence = r->sequence;
    m.met = r->met;
    m.arriving = c->arriving;
    m.view = weft_member_view(c->member)->number;
    return weft_rpc_send(&c->head, r->server, WEFT_RPC_PULL, &m, NULL);
}

static weft_status send_init(ps_client *c, const range_request *r)
{
    Weft__Init m = WEFT__INIT__INIT;
    m.range = (uint32_t)(r - c->requests);
    return weft_rpc_send(&c->head, r->server, WEFT_RPC_INIT, &m, r->initial);
}

weft_status weft_range_request_resend(ps_client *c, const range_request *r)
{
    if (r->server == WEFT_NOBODY) return WEFT_OK;
    if (r->initial) return send_init(c, r);
    if (r->update) WEFT_TRY(send_push(c, r));
    return r->asked ? send_pull(c, r) : WEFT_OK;
}

/* --- requests --- */

int64_t weft_range_request_step(const ps_client *c, int64_t clock)
{
    return c->options.step ? *c->options.step : clock;
}

/* Sum of the sample weights of the running step. An elastic difference belongs to no step. */
static double step_weight(const ps_client *c)
{
    return c->options.weight && !c->options.elastic.options ? *c->options.weight : 1;
}

/* Whether the running step, or all steps since the last elastic update, have no samples. */
static bool step_empty(const ps_client *c)
{
    return c->options.elastic.options ? c->idle : c->options.empty && *c->options.empty;
}

/* Weight of the next push, by which a server multiplies it. Accumulated gradients are a sum, so
 * the weight is the mean over their steps. */
static double weight_of(const ps_client *c, const range_request *r)
{
    return r->accrual.steps > 0 ? r->accrual.weight / (double)r->accrual.steps : step_weight(c);
}

static weft_status renew(const ps_client *c, range_request *r)
{
    r->next = r->spare;
    r->spare = NULL;
    return weft_buffer_reuse(weft_encoded_bound(c->options.dtype, r->of.count), &r->next);
}

weft_status weft_range_request_write(const ps_client *c, range_request *r, const void *gradient,
                                     int64_t at, int64_t n, bool *laid)
{
    /* Accumulation over steps, local SGD and the elastic difference need the gradient in the flat
     * buffer, which the caller then fills; nothing is written here. */
    *laid = c->options.push <= 1 && !c->options.descent && !c->options.elastic.options &&
            r->of.codec->ops->plain && !r->of.frozen;
    if (!*laid) return WEFT_OK;
    if (!r->next) WEFT_TRY(renew(c, r));
    return weft_codec_write_slice(r->of.codec, gradient, at, n, r->next->data);
}

/* Encodes the next push. A server multiplies an update by its weight, and does not add an elastic
 * difference without samples. So the message of a learner without samples, or of a range that is
 * frozen, has no numbers, and the codec keeps its residual for a message that counts. */
static weft_status encode(const ps_client *c, range_request *r, const void *gradient)
{
    weft_buffer *to = r->update;
    bool counts = r->update_weight != 0 && !(c->options.elastic.options && r->update_empty);
    to->fixed = WEFT_MESSAGE_HEADER;
    if (!r->of.frozen && (counts || !r->of.codec->residual))
        return weft_codec_encode(r->of.codec, gradient, to->data, &to->bytes);
    to->bytes = weft_encoded_zeros(c->options.dtype, r->of.count, to->data);
    return WEFT_OK;
}

/* Encodes and pushes the gradient of step `clock`, or the accumulated gradients of the steps up to
 * `clock`. */
static weft_status send_update(ps_client *c, range_request *r, int64_t clock)
{
    const void *gradient = (const char *)c->options.gradients + weft_range_request_offset(c, r);
    if (r->accrual.steps > 0) gradient = r->accrual.sum;
    if (r->update)
        return weft_fail(WEFT_ERR_INTERNAL,
                         "a range is pushed before its last push was acknowledged");
    if (r->next)
        gradient = NULL;
    else
        WEFT_TRY(renew(c, r));
    r->update = r->next;
    r->next = NULL;
    r->update_weight = weight_of(c, r);
    r->update_empty = r->accrual.steps > 0 ? r->accrual.empty : step_empty(c);
    weft_status status = encode(c, r, gradient);
    if (status != WEFT_OK) {
        weft_buffer_unref(&r->update); /* nothing was sent, so no reply is due */
        return status;
    }
    size_t bytes = weft_range_request_bytes(c, r);
    if (!r->of.frozen)
        weft_actor_work(&c->head, WEFT_WORK_ENCODE, r->of.codec->ops->name, 2 * (double)bytes);
    r->sequence++;
    r->clock = clock;
    r->update_version = r->accrual.steps > 0 ? r->accrual.version : r->version;
    r->update_step = weft_range_request_step(c, clock);
    r->accrual.steps = 0;
    WEFT_TRY(weft_range_request_arm(c));
    return r->server == WEFT_NOBODY ? WEFT_OK : send_push(c, r);
}

bool weft_range_request_due(const ps_client *c, int64_t every, int64_t clock)
{
    return every <= 1 || clock % every == 0 || clock == c->options.steps;
}

weft_status weft_range_request_push(ps_client *c, range_request *r, int64_t clock)
{
    const char *gradients = c->options.gradients;
    if (r->pushed) return WEFT_OK;
    r->pushed = true;
    if (c->options.push > 1) {
        weft_actor_work(&c->head, WEFT_WORK_PASS, NULL, 3 * (double)weft_range_request_bytes(c, r));
        WEFT_TRY(weft_grad_accumulator_add(&r->accrual, c->options.dtype, r->of.count,
                                           gradients + weft_range_request_offset(c, r), r->version,
                                           step_weight(c), step_empty(c)));
    }
    return weft_range_request_due(c, c->options.push, clock) ? send_update(c, r, clock) : WEFT_OK;
}

weft_status weft_range_request_flush_accumulated(ps_client *c)
{
    for (int i = 0; i < c->options.range_count; i++)
        if (c->requests[i].accrual.steps > 0) WEFT_TRY(send_update(c, &c->requests[i], c->clock));
    return WEFT_OK;
}

weft_status weft_range_request_pull(ps_client *c, range_request *r)
{
    r->request++;
    r->asked = true;
    return r->server == WEFT_NOBODY ? WEFT_OK : send_pull(c, r);
}

weft_status weft_range_request_pull_all(ps_client *c)
{
    /* The flat parameters are in the order in which backward makes their gradients, so a forward
     * pass reads the last ranges first; they are pulled first. */
    for (int i = c->options.range_count; i-- > 0;)
        WEFT_TRY(weft_range_request_pull(c, &c->requests[i]));
    return weft_range_request_arm(c);
}

weft_status weft_range_request_send_initial(ps_client *c, range_request *r)
{
    const weft_ps_client_options *o = &c->options;
    int k = (int)(r - c->requests);
    size_t numbers = weft_range_request_bytes(c, r),
           state = o->give_state ? o->state_bytes(o->user, k) : 0;
    if (r->initial) return WEFT_OK;
    WEFT_TRY(weft_buffer_new(numbers + state, &r->initial));
    memcpy(r->initial->data, (const char *)o->parameters + weft_range_request_offset(c, r),
           numbers);
    if (state) WEFT_TRY(o->give_state(o->user, k, (char *)r->initial->data + numbers, state));
    return send_init(c, r);
}

/* --- the timeout error --- */

weft_status weft_ps_client_timeout_error(const weft_actor *actor, double seconds)
{
    const ps_client *c = (const ps_client *)actor;
    const weft_view *v = weft_member_view(c->member);
    weft_coordinator_status word = weft_member_coordinator_status(c->member);
    char what[160] = "it has ended, or the network to it is down", name[WEFT_MEMBER_NAME];
    int k = 0;
    if (!c->in) return weft_member_timeout_error(c->member, seconds);
    while (k < c->options.range_count && !weft_range_request_is_waiting(&c->requests[k])) k++;
    if (k == c->options.range_count)
        return weft_fail(WEFT_ERR_INTERNAL,
                         "a learner has timed out without an outstanding range request");
    const range_request *r = &c->requests[k];
    bool behind = word.slowest != WEFT_NOBODY && word.slowest != c->head.id &&
                  word.slowest_clock < c->figures.clock;
    if (!weft_view_find(v, r->server))
        (void)snprintf(what, sizeof(what), "it is no longer a member of the run");
    else if (word.silent > seconds)
        (void)snprintf(what, sizeof(what),
                       "nor has the coordinator: the run has ended, or the network is down");
    else if (behind)
        (void)snprintf(
            what, sizeof(what),
            "it waits for %s, which is at step %lld and sent its last heartbeat %.0f s ago",
            weft_view_name(v, word.slowest, name), (long long)weft_view_step(v, word.slowest_clock),
            word.slowest_silent);
    return weft_fail(WEFT_ERR_PEER, "%s has not answered after step %lld for %g s: %s",
                     weft_view_name(v, r->server, name), (long long)weft_member_step(c->member),
                     seconds, what);
}
