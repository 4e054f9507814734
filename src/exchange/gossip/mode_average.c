/* Mode `average` (AD-PSGD, Lian et al. 2018): the active peer sends its parameters; the passive one
 * moves half the way to them and replies with its parameters of before; the active one moves half
 * the way from those that it sent to those of the reply. The sum of both is invariant, whatever
 * either has added meanwhile, and no peer waits. */
#include "exchange/gossip/peer_internal.h"
#include "actor/rpc.h"
#include "gossip.pb-c.h"

typedef struct average {
    weft_random random;
    int64_t request;    /* number of the last request */
    weft_buffer *asked; /* the parameters that it sent; NULL: no request is outstanding */
    weft_actor_id whom;
    double sent; /* time of the last send, or when it was last seen in transit */
    weft_rto trip;
    struct answer {
        weft_actor_id to;
        int64_t request;  /* the last one of this peer */
        weft_buffer *had; /* the parameters of the reply */
    } * answers;
    size_t answer_count, answer_capacity;
} average;

static void average_close(weft_peer *p)
{
    average *a = p->state;
    for (size_t i = 0; i < a->answer_count; i++) weft_buffer_unref(&a->answers[i].had);
    weft_buffer_unref(&a->asked);
    free(a->answers);
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
    memcpy((*out)->data, p->now, p->bytes);
    return WEFT_OK;
}

static weft_status send_meet(weft_peer *p)
{
    average *a = p->state;
    Weft__AverageRequest m = WEFT__AVERAGE_REQUEST__INIT;
    m.request = a->request;
    m.sent = a->sent = weft_actor_now(&p->head);
    WEFT_TRY(weft_rpc_send(&p->head, a->whom, WEFT_RPC_AVERAGE_REQUEST, &m, a->asked));
    return weft_peer_arm_timer(p);
}

static weft_status average_computed(weft_peer *p, void *change)
{
    average *a = p->state;
    weft_peer_add_scaled(p, p->now, 1, change, NULL);
    if (p->neighbour_count == 0 || !p->topology->asks[p->me] || a->asked) return WEFT_OK;
    uint32_t which = weft_random_u32(&a->random) % (uint32_t)p->neighbour_count;
    a->whom = p->ids[p->neighbours[which]];
    a->request++;
    WEFT_TRY(copy_now(p, &a->asked));
    return send_meet(p);
}

/* A valid payload has the size of the parameters, and finite elements. */
static bool is_someones(const weft_peer *p, const weft_buffer *payload)
{
    return payload && payload->bytes == p->bytes &&
           weft_numbers_finite(p->options.dtype, payload->data, p->options.count);
}

/* The last reply to a peer. *out is NULL: the peer is not in the view. */
static weft_status find_answer(const weft_peer *p, weft_actor_id to, struct answer **out)
{
    average *a = p->state;
    *out = NULL;
    for (size_t i = 0; i < a->answer_count; i++)
        if (a->answers[i].to == to) *out = &a->answers[i];
    if (*out || weft_peer_index(p, to) < 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&a->answers, &a->answer_capacity, a->answer_count));
    *out = &a->answers[a->answer_count++];
    **out = (struct answer){.to = to};
    return WEFT_OK;
}

/* A peer outside the view neither replies nor asks again. A former neighbour may do both. */
static void average_view(weft_peer *p)
{
    average *a = p->state;
    for (size_t i = a->answer_count; i-- > 0;) {
        if (weft_peer_index(p, a->answers[i].to) >= 0) continue;
        weft_buffer_unref(&a->answers[i].had);
        a->answers[i] = a->answers[--a->answer_count];
    }
    if (a->asked && weft_peer_index(p, a->whom) < 0) weft_buffer_unref(&a->asked);
}

/* A repeated request gets the same reply: this peer has moved already. */
static weft_status take_meet(weft_peer *p, const Weft__AverageRequest *m,
                             const weft_message *message)
{
    struct answer *answer;
    Weft__AverageReply reply = WEFT__AVERAGE_REPLY__INIT;
    if (!is_someones(p, message->payload)) return WEFT_OK;
    WEFT_TRY(find_answer(p, message->from, &answer));
    if (!answer || m->request < answer->request || m->request <= 0) return WEFT_OK;
    if (m->request > answer->request) {
        weft_buffer_unref(&answer->had);
        WEFT_TRY(copy_now(p, &answer->had));
        answer->request = m->request;
        /* The final average is not moved by peers that joined later. */
        if (p->settling.of == 0)
            weft_peer_add_scaled(p, p->now, 0.5, message->payload->data, answer->had->data);
    }
    reply.request = m->request;
    reply.sent = m->sent;
    return weft_rpc_send(&p->head, message->from, WEFT_RPC_AVERAGE_REPLY, &reply, answer->had);
}

static weft_status take_met(weft_peer *p, const Weft__AverageReply *m, const weft_message *message)
{
    average *a = p->state;
    if (!a->asked || message->from != a->whom || m->request != a->request ||
        !is_someones(p, message->payload))
        return WEFT_OK;
    weft_rto_sample(&a->trip, weft_actor_now(&p->head) - m->sent);
    weft_peer_add_scaled(p, p->now, 0.5, message->payload->data, a->asked->data);
    weft_buffer_unref(&a->asked);
    return WEFT_OK;
}

static weft_status average_message(weft_peer *p, const weft_message *message)
{
    weft_status status = WEFT_OK;
    void *m = NULL;
    if (message->type == WEFT_RPC_AVERAGE_REQUEST &&
        (m = weft_rpc_parse(message, &weft__average_request__descriptor)))
        status = take_meet(p, m, message);
    else if (message->type == WEFT_RPC_AVERAGE_REPLY &&
             (m = weft_rpc_parse(message, &weft__average_reply__descriptor)))
        status = take_met(p, m, message);
    weft_rpc_free(m);
    return status;
}

static bool average_waits(const weft_peer *p)
{
    return ((const average *)p->state)->asked;
}

static weft_status average_repeat(weft_peer *p)
{
    average *a = p->state;
    double now = weft_actor_now(&p->head);
    if (weft_buffer_is_shared(a->asked)) {
        a->sent = now;
        return weft_peer_arm_timer(p);
    }
    if (now - a->sent < weft_rto_timeout(&a->trip, p->options.patience))
        return weft_peer_arm_timer(p);
    weft_rto_backoff(&a->trip);
    return send_meet(p);
}

const weft_peer_mode weft_peer_average = {
    .open = average_open,
    .close = average_close,
    .computed = average_computed,
    .message = average_message,
    .waits = average_waits,
    .repeat = average_repeat,
    .view = average_view,
};
