/* Implements mode `average` (AD-PSGD, Lian et al. 2018): the active peer sends its parameters x;
 * the passive peer replies with its parameters y and adds (x - y) / 2 to them; the active peer adds
 * (y - x) / 2. The sum of both peers' parameters is invariant, whatever either peer has added
 * meanwhile, and no peer waits. */
#include "exchange/gossip/peer_internal.h"
#include "gossip.pb-c.h"

typedef struct average {
    weft_random random;
    int64_t request; /* number of the last request */
    /* The parameters sent with the request; NULL: no request is outstanding. */
    weft_buffer *request_parameters;
    weft_actor_id partner;
    double sent; /* time when the request was last sent, or last seen in transit */
    weft_rto rto;
    struct peer_reply {
        weft_actor_id to;
        int64_t request;         /* number of the last request of peer `to` */
        weft_buffer *parameters; /* sent in reply, and again if the request is repeated */
    } * replies;
    size_t reply_count, reply_capacity;
} average;

static void average_close(weft_peer *p)
{
    average *a = p->state;
    for (size_t i = 0; i < a->reply_count; i++) weft_buffer_unref(&a->replies[i].parameters);
    weft_buffer_unref(&a->request_parameters);
    free(a->replies);
    free(a);
}

static weft_status average_open(weft_peer *p)
{
    average *a;
    WEFT_TRY(WEFT_NEW(&a, 1));
    p->state = a;
    weft_random_start(&a->random, p->options.seed,
                      p->member ? p->options.member.key : (uint64_t)p->options.me);
    return WEFT_OK;
}

static weft_status copy_now(const weft_peer *p, weft_buffer **out)
{
    WEFT_TRY(weft_buffer_new(p->bytes, out));
    memcpy((*out)->data, p->current, p->bytes);
    return WEFT_OK;
}

static weft_status send_request(weft_peer *p)
{
    average *a = p->state;
    Weft__AverageRequest m = WEFT__AVERAGE_REQUEST__INIT;
    m.request = a->request;
    m.sent = a->sent = weft_actor_now(&p->head);
    WEFT_TRY(
        weft_rpc_send(&p->head, a->partner, WEFT_RPC_AVERAGE_REQUEST, &m, a->request_parameters));
    return weft_peer_arm_timer(p);
}

static weft_status average_computed(weft_peer *p, void *change)
{
    average *a = p->state;
    weft_peer_add_scaled(p, p->current, 1, change, NULL);
    weft_peer_passes(p, 4);
    /* A neighbour would not answer such a request. */
    if (!weft_numbers_finite(p->options.dtype, p->current, p->options.count))
        return weft_fail(
            WEFT_ERR_NUMERIC,
            "a parameter is not finite after step %lld; a smaller --lr, --clip-norm or "
            "--warmup may help",
            (long long)p->clock);
    if (p->neighbour_count == 0 || !p->topology->active[p->me] || a->request_parameters)
        return WEFT_OK;
    uint32_t which = weft_random_u32(&a->random) % (uint32_t)p->neighbour_count;
    a->partner = p->ids[p->neighbours[which]];
    a->request++;
    WEFT_TRY(copy_now(p, &a->request_parameters));
    weft_peer_passes(p, 2);
    return send_request(p);
}

/* A valid payload has the size of the parameters, and finite elements. */
static bool is_valid(const weft_peer *p, const weft_buffer *payload)
{
    return payload && payload->bytes == p->bytes &&
           weft_numbers_finite(p->options.dtype, payload->data, p->options.count);
}

/* Finds or adds the record of the last reply to a peer. *out is NULL: the peer is not in the
 * view. */
static weft_status find_reply(const weft_peer *p, weft_actor_id to, struct peer_reply **out)
{
    average *a = p->state;
    *out = NULL;
    for (size_t i = 0; i < a->reply_count; i++)
        if (a->replies[i].to == to) *out = &a->replies[i];
    if (*out || weft_peer_index(p, to) < 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&a->replies, &a->reply_capacity, a->reply_count));
    *out = &a->replies[a->reply_count++];
    **out = (struct peer_reply){.to = to};
    return WEFT_OK;
}

/* Drops replies to peers outside the view, and a request to such a peer, since it neither replies
 * nor asks again. A former neighbour that is still in the view may do both. */
static void average_view_changed(weft_peer *p)
{
    average *a = p->state;
    for (size_t i = a->reply_count; i-- > 0;) {
        if (weft_peer_index(p, a->replies[i].to) >= 0) continue;
        weft_buffer_unref(&a->replies[i].parameters);
        a->replies[i] = a->replies[--a->reply_count];
    }
    if (a->request_parameters && weft_peer_index(p, a->partner) < 0)
        weft_buffer_unref(&a->request_parameters);
}

/* Replies to a request, and moves this peer halfway to the sender's parameters. A repeated request
 * gets the same reply again, without another move. */
static weft_status take_request(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__AverageRequest *m = content;
    struct peer_reply *last;
    Weft__AverageReply reply = WEFT__AVERAGE_REPLY__INIT;
    if (!is_valid(p, message->payload)) return WEFT_OK;
    WEFT_TRY(find_reply(p, message->from, &last));
    if (!last || m->request < last->request || m->request <= 0) return WEFT_OK;
    if (m->request > last->request) {
        weft_buffer_unref(&last->parameters);
        WEFT_TRY(copy_now(p, &last->parameters));
        weft_peer_passes(p, 7); /* finite? a copy, and the move */
        last->request = m->request;
        /* A peer that has the final average keeps it when a peer that joined later requests. */
        if (p->final_average.contributors == 0)
            weft_peer_add_scaled(p, p->current, 0.5, message->payload->data,
                                 last->parameters->data);
    }
    reply.request = m->request;
    reply.sent = m->sent;
    return weft_rpc_send(&p->head, message->from, WEFT_RPC_AVERAGE_REPLY, &reply, last->parameters);
}

static weft_status take_reply(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__AverageReply *m = content;
    average *a = p->state;
    if (!a->request_parameters || message->from != a->partner || m->request != a->request ||
        !is_valid(p, message->payload))
        return WEFT_OK;
    weft_rto_sample(&a->rto, weft_actor_now(&p->head) - m->sent);
    weft_peer_add_scaled(p, p->current, 0.5, message->payload->data, a->request_parameters->data);
    weft_peer_passes(p, 5);
    weft_buffer_unref(&a->request_parameters);
    return WEFT_OK;
}

static const weft_rpc_handler average_handlers[] = {
    {WEFT_RPC_AVERAGE_REQUEST, &weft__average_request__descriptor, take_request},
    {WEFT_RPC_AVERAGE_REPLY, &weft__average_reply__descriptor, take_reply},
    {0},
};

static bool average_is_waiting(const weft_peer *p)
{
    return ((const average *)p->state)->request_parameters;
}

static weft_status average_resend(weft_peer *p)
{
    average *a = p->state;
    double now = weft_actor_now(&p->head);
    if (weft_buffer_is_shared(a->request_parameters)) {
        a->sent = now;
        return weft_peer_arm_timer(p);
    }
    if (now - a->sent < weft_rto_timeout(&a->rto, p->options.min_rto))
        return weft_peer_arm_timer(p);
    weft_rto_backoff(&a->rto);
    return send_request(p);
}

const weft_peer_mode weft_peer_average = {
    .name = "average",
    .pairs = true,
    .least = {.passed = 4},
    .open = average_open,
    .close = average_close,
    .computed = average_computed,
    .handlers = average_handlers,
    .is_waiting = average_is_waiting,
    .resend = average_resend,
    .view_changed = average_view_changed,
};
