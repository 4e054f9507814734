/* Handles the replies of servers to a learner: push acks, pull replies with parameters, init acks,
 * and requests to resend. */
#include "exchange/ps/client/client_internal.h"

/* The range request that a reply is for; NULL if the sender is not the range's primary in the
 * view. */
static range_request *request_of(ps_client *c, uint32_t range, weft_actor_id from)
{
    range_request *r = weft_range_request_find(c, range);
    if (!r || r->server != from) return NULL;
    c->reply_count++;
    return r;
}

static const char *server_of(const ps_client *c, const range_request *r, char out[WEFT_MEMBER_NAME])
{
    return weft_view_name(weft_member_view(c->member), r->server, out);
}

/* The failure of a learner whose update a server rejects. NUMERIC: the update has a number that is
 * too large for the servers. */
static weft_status rejected(const ps_client *c, const range_request *r, const char *server)
{
    weft_encoded message;
    const weft_buffer *update = r->update;
    if (weft_encoded_open(update->data, update->bytes, r->of.codec->ops, c->options.dtype,
                          r->of.count, &message) == WEFT_OK &&
        !weft_encoded_squares(&message))
        return weft_fail(WEFT_ERR_NUMERIC,
                         "%s rejects an update of this learner, since the square of a number in it "
                         "is not finite in %s. A smaller --lr, --clip-norm or --warmup may help",
                         server, weft_dtype_name(c->options.dtype));
    return weft_fail(WEFT_ERR_PEER,
                     "%s rejects an update of this learner: its data, step or version is not valid",
                     server);
}

static weft_status take_pushed(void *self, const weft_message *message, const void *content)
{
    ps_client *c = self;
    const Weft__PushAck *m = content;
    char name[WEFT_MEMBER_NAME];
    range_request *r = request_of(c, m->range, message->from);
    if (!r || m->sequence != r->sequence || !r->update) return WEFT_OK;
    if (m->fate == WEFT__PUSH_ACK__FATE__EARLY) return WEFT_OK;
    if (m->fate == WEFT__PUSH_ACK__FATE__UNKNOWN) weft_member_note_removed(c->member);
    if (m->fate == WEFT__PUSH_ACK__FATE__UNKNOWN)
        return weft_fail(WEFT_ERR_PEER,
                         "%s does not know this learner, which was removed from the run; join "
                         "again",
                         server_of(c, r, name));
    if (m->fate != WEFT__PUSH_ACK__FATE__TAKEN) return rejected(c, r, server_of(c, r, name));
    weft_buffer_unref(&r->spare);
    r->spare = r->update;
    r->update = NULL;
    return weft_ps_client_advance(c);
}

static weft_status take_init_ack(void *self, const weft_message *message, const void *content)
{
    ps_client *c = self;
    const Weft__InitAck *m = content;
    range_request *r = request_of(c, m->range, message->from);
    if (!r || !r->initial) return WEFT_OK;
    weft_buffer_unref(&r->initial);
    return weft_range_request_pull(c, r);
}

static weft_status check_size(const ps_client *c, const range_request *r, const Weft__PullReply *m,
                              size_t have)
{
    size_t bytes = weft_range_request_bytes(c, r);
    char name[WEFT_MEMBER_NAME];
    if (m->changes && !c->with_state && have && r->version >= 0 && !r->moved) return WEFT_OK;
    if (m->changes      ? false
        : c->with_state ? have >= bytes
        : have          ? have == bytes
                        : m->version == r->version || (r->of.frozen && r->version >= 0))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s sends %zu bytes of parameters for a range of %zu bytes",
                     server_of(c, r, name), have, bytes);
}

/* Counts the staleness of the updates that have gone into versions since the last reply. If the
 * reply has only the sum of their staleness, as after a failover, the two bins next to the mean
 * share them. */
static void note_staleness(ps_client *c, range_request *r, const Weft__PullReply *m)
{
    int64_t n = m->met - r->met, sum = m->stale - r->stale, last = WEFT_STALENESS - 1;
    if (n <= 0 || sum < 0 || m->met > r->sequence) return;
    bool known = (int64_t)m->n_each == n;
    for (int64_t i = 0; i < n; i++) {
        int64_t staleness = known ? m->each[i] : sum / n + (i < sum % n);
        c->staleness[WEFT_MIN(WEFT_MAX(staleness, (int64_t)0), last)]++;
    }
    r->met = m->met;
    r->stale = m->stale;
}

static weft_status take_parameters(void *self, const weft_message *message, const void *content)
{
    ps_client *c = self;
    const Weft__PullReply *m = content;
    range_request *r = request_of(c, m->range, message->from);
    const weft_buffer *payload = message->payload;
    char name[WEFT_MEMBER_NAME];
    if (!r || !r->asked || r->initial || m->request != r->request) return WEFT_OK;
    if (m->version < 0) {
        weft_member_note_removed(c->member);
        return weft_fail(
            WEFT_ERR_PEER,
            "%s does not know this learner, which was removed from the run; join again",
            server_of(c, r, name));
    }
    if (m->wanted) return weft_range_request_send_initial(c, r);
    size_t bytes = weft_range_request_bytes(c, r), have = payload ? payload->bytes : 0;
    WEFT_TRY(check_size(c, r, m, have));
    if (c->with_state)
        WEFT_TRY(c->options.take_state(c->options.user, (int)m->range,
                                       (const char *)payload->data + bytes, have - bytes));
    char *numbers = (char *)c->options.parameters + weft_range_request_offset(c, r);
    if (m->changes)
        WEFT_TRY(
            weft_downlink_apply(payload, c->options.back, c->options.dtype, r->of.count, numbers));
    else if (have)
        memcpy(numbers, payload->data, bytes);
    if (have)
        weft_actor_work(&c->head, m->changes ? WEFT_WORK_DECODE : WEFT_WORK_PASS,
                        m->changes ? c->options.back->name : NULL, 2 * (double)bytes);
    note_staleness(c, r, m);
    r->version = m->version;
    r->begins = WEFT_MAX(m->clock, (int64_t)0);
    r->asked = r->moved = false;
    c->halted = c->halted || m->halt;
    if (m->last > 0 && (c->last == 0 || m->last < c->last)) c->last = m->last;
    return weft_ps_client_advance(c);
}

static weft_status take_resend(void *self, const weft_message *message, const void *content)
{
    ps_client *c = self;
    (void)content;
    for (int i = 0; i < c->options.range_count; i++)
        if (c->requests[i].server == message->from)
            WEFT_TRY(weft_range_request_resend(c, &c->requests[i]));
    return WEFT_OK;
}

const weft_rpc_handler weft_range_request_handlers[] = {
    {WEFT_RPC_PUSH_ACK, &weft__push_ack__descriptor, take_pushed},
    {WEFT_RPC_PULL_REPLY, &weft__pull_reply__descriptor, take_parameters},
    {WEFT_RPC_INIT_ACK, &weft__init_ack__descriptor, take_init_ack},
    {WEFT_RPC_RESEND, NULL, take_resend},
    {0},
};
