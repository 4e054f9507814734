/* Primary-backup replication of a range (cf. Viewstamped Replication, Oki and Liskov 1988). The
 * primary numbers the changes of a range and sends them to the replica, which applies them in the
 * same order; a new replica first gets a snapshot. The primary sends no reply that reveals a change
 * before the replica has acknowledged it, so the loss of a primary loses nothing that a learner
 * knows of. */
#include "exchange/ps/server/server_internal.h"

/* --- the primary --- */

/* Header of a snapshot: before the serialized range, and the parameters with the optimizer
 * state. */
typedef struct state_card {
    uint64_t snapshot_bytes; /* bytes of parameters and state */
    int64_t version;         /* of the downlink, if there is one */
} state_card;

static weft_status pack_state(const hosted_range *f, weft_buffer **out)
{
    weft_buffer *range = NULL, *snapshot = NULL;
    WEFT_TRY(weft_range_save(f->of.range, &range));
    weft_status status = weft_hosted_range_snapshot(f, &snapshot);
    if (status == WEFT_OK)
        status = weft_buffer_new(sizeof(state_card) + range->bytes + snapshot->bytes, out);
    if (status == WEFT_OK) {
        char *at = (*out)->data;
        state_card card = {.snapshot_bytes = snapshot->bytes};
        if (f->of.published) card.version = weft_downlink_version(f->of.published);
        memcpy(at, &card, sizeof(card));
        memcpy(at + sizeof(card), range->data, range->bytes);
        memcpy(at + sizeof(card) + range->bytes, snapshot->data, snapshot->bytes);
    }
    weft_buffer_unref(&range);
    weft_buffer_unref(&snapshot);
    return status;
}

static weft_status send_state(server *s, hosted_range *f)
{
    Weft__RangeSnapshot m = WEFT__RANGE_SNAPSHOT__INIT;
    m.range = (uint32_t)f->of.number;
    m.index = f->state_index;
    return weft_rpc_send(&s->head, f->replica, WEFT_RPC_RANGE_SNAPSHOT, &m, f->state);
}

static weft_status send_change(server *s, const hosted_range *f, const change *c)
{
    Weft__Append m = WEFT__APPEND__INIT;
    m.range = (uint32_t)f->of.number;
    m.index = c->index;
    m.kind = c->kind;
    m.learner = c->learner;
    m.slot = (uint32_t)c->slot;
    m.sequence = c->sequence;
    m.clock = c->clock;
    m.version = c->version;
    m.step = c->step;
    m.weight = c->weight;
    m.empty = c->empty;
    return weft_rpc_send(&s->head, f->replica, WEFT_RPC_APPEND, &m, c->update);
}

/* Arms the retransmission timer with the first timeout. */
static weft_status arm_resend(server *s)
{
    s->resend_timeout = s->options.first_timeout;
    return weft_actor_set_timer(&s->head, WEFT_PS_RESEND_TIMER, s->resend_timeout);
}

weft_status weft_hosted_range_append(server *s, hosted_range *f, const change *c)
{
    WEFT_TRY(WEFT_GROW(&f->log, &f->log_capacity, f->log_count));
    f->log[f->log_count] = *c;
    (void)weft_buffer_ref(f->log[f->log_count++].update);
    if (f->state || f->acked_index < 0) return WEFT_OK; /* the replica lacks the snapshot */
    WEFT_TRY(send_change(s, f, c));
    return f->log_count == 1 ? arm_resend(s) : WEFT_OK;
}

static void cut_log(hosted_range *f, int64_t index)
{
    size_t gone = 0;
    while (gone < f->log_count && f->log[gone].index <= index)
        weft_buffer_unref(&f->log[gone++].update);
    if (gone == 0) return;
    f->log_count -= gone;
    memmove(f->log, f->log + gone, f->log_count * sizeof(*f->log));
}

weft_status weft_hosted_range_flush(server *s, hosted_range *f)
{
    size_t sent = 0;
    weft_status status = WEFT_OK;
    for (; sent < f->deferred_count && status == WEFT_OK; sent++) {
        deferred *d = &f->deferred[sent];
        if (f->replica != WEFT_NOBODY && !f->postponed && d->index > f->acked_index) break;
        status = weft_actor_send(&s->head, d->to,
                                 &(weft_message){.type = (uint32_t)d->type,
                                                 .head = d->head,
                                                 .head_bytes = d->head_bytes,
                                                 .payload = d->payload});
        weft_buffer_unref(&d->payload);
    }
    if (sent == 0) return status;
    f->deferred_count -= sent;
    memmove(f->deferred, f->deferred + sent, f->deferred_count * sizeof(*f->deferred));
    return status;
}

/* Sets the replica that the view names, and sends it a snapshot if the range is initialized.
 * Without a replica, sends all deferred replies. */
weft_status weft_hosted_range_set_replica(server *s, hosted_range *f, weft_actor_id replica)
{
    if (f->replica == replica) return WEFT_OK;
    f->replica = replica;
    f->postponed = false;
    f->acked_index = -1;
    weft_buffer_unref(&f->state);
    cut_log(f, INT64_MAX);
    if (replica == WEFT_NOBODY) return weft_hosted_range_flush(s, f);
    return f->initialized ? weft_hosted_range_begin_replica(s, f) : WEFT_OK;
}

/* A snapshot has no pending updates, which may be as many as there are learners, so its size does
 * not depend on how many have joined. Each version leaves none of them. */
weft_status weft_hosted_range_begin_replica(server *s, hosted_range *f)
{
    if (f->replica == WEFT_NOBODY) return WEFT_OK;
    cut_log(f, INT64_MAX);
    f->postponed = weft_range_pending(f->of.range) > 0;
    if (f->postponed) return weft_hosted_range_flush(s, f);
    f->state_index = f->index;
    WEFT_TRY(pack_state(f, &f->state));
    WEFT_TRY(send_state(s, f));
    return arm_resend(s);
}

static bool view_says_in_sync(const server *s, const hosted_range *f)
{
    const weft_view *v = weft_member_view(s->member);
    const weft_range_owner *k = &v->ranges[f->of.number];
    return k->primary != s->head.id || k->replica != f->replica || k->in_sync;
}

/* Retransmits the snapshot, or the log entries, that the replica has not acknowledged. Also reports
 * to the coordinator again that the replica is in sync, until a view says so. */
weft_status weft_hosted_range_resend(server *s, hosted_range *f, bool *some)
{
    if (!f->primary || f->replica == WEFT_NOBODY) return WEFT_OK;
    if (f->state) WEFT_TRY(send_state(s, f));
    for (size_t i = 0; i < f->log_count && !f->state && f->acked_index >= 0; i++)
        WEFT_TRY(send_change(s, f, &f->log[i]));
    bool unreported = f->acked_index >= 0 && !view_says_in_sync(s, f);
    if (unreported) WEFT_TRY(weft_member_report_in_sync(s->member, f->of.number, f->replica));
    *some = *some || f->state || f->log_count > 0 || unreported;
    return WEFT_OK;
}

weft_status weft_take_append_ack(void *self, const weft_message *message, const void *content)
{
    server *s = self;
    const Weft__AppendAck *m = content;
    hosted_range *f = weft_hosted_range_find(s, m->range);
    if (!f || !f->primary || f->replica != message->from || f->postponed ||
        m->index <= f->acked_index || m->index > f->index)
        return WEFT_OK;
    if (f->state && m->index < f->state_index) return WEFT_OK;
    bool first = f->state != NULL;
    f->acked_index = m->index;
    weft_buffer_unref(&f->state);
    cut_log(f, f->acked_index);
    if (first) {
        WEFT_TRY(weft_member_report_in_sync(s->member, f->of.number, f->replica));
        for (size_t i = 0; i < f->log_count; i++) WEFT_TRY(send_change(s, f, &f->log[i]));
        WEFT_TRY(arm_resend(s));
    }
    return weft_hosted_range_flush(s, f);
}

/* --- the replica --- */

/* Finds the replica that a message of `from` may change. Fencing: only the primary in this server's
 * view may. A deposed primary gets no acknowledgements, so it can release no deferred replies. */
static hosted_range *replica_of(const server *s, uint32_t range, weft_actor_id from)
{
    const weft_view *v = weft_member_view(s->member);
    hosted_range *f = range < (uint32_t)v->range_count ? weft_hosted_range_find(s, range) : NULL;
    return f && !f->primary && v->ranges[range].primary == from ? f : NULL;
}

static weft_status send_append_ack(server *s, const hosted_range *f, weft_actor_id to)
{
    Weft__AppendAck m = WEFT__APPEND_ACK__INIT;
    m.range = (uint32_t)f->of.number;
    m.index = f->index;
    return weft_rpc_send(&s->head, to, WEFT_RPC_APPEND_ACK, &m, NULL);
}

static weft_status load_state(hosted_range *f, const weft_buffer *blob)
{
    state_card card;
    size_t used = 0;
    if (!blob || blob->bytes < sizeof(card))
        return weft_fail(WEFT_ERR_FORMAT, "the snapshot of a range is truncated");
    memcpy(&card, blob->data, sizeof(card));
    if (card.snapshot_bytes > blob->bytes - sizeof(card))
        return weft_fail(WEFT_ERR_FORMAT, "the snapshot of a range is truncated");
    size_t range = blob->bytes - sizeof(card) - (size_t)card.snapshot_bytes;
    const char *at = (const char *)blob->data + sizeof(card);
    weft_buffer snapshot = {.bytes = (size_t)card.snapshot_bytes,
                            .data = (void *)(uintptr_t)(at + range)}; /* only read */
    WEFT_TRY(weft_range_load(f->of.range, at, range, &used));
    WEFT_TRY(weft_hosted_range_restore(f, &snapshot));
    if (f->of.published) weft_downlink_continue(f->of.published, card.version);
    return WEFT_OK;
}

weft_status weft_take_range_snapshot(void *self, const weft_message *message, const void *content)
{
    server *s = self;
    const Weft__RangeSnapshot *m = content;
    hosted_range *f = replica_of(s, m->range, message->from);
    if (!f) return WEFT_OK;
    if (!f->initialized || f->index < m->index) {
        weft_status status = load_state(f, message->payload);
        if (status == WEFT_ERR_FORMAT) return WEFT_OK;
        WEFT_TRY(status);
        f->initialized = true;
        f->index = m->index;
    }
    return send_append_ack(s, f, message->from);
}

weft_status weft_take_append(void *self, const weft_message *message, const void *content)
{
    server *s = self;
    const Weft__Append *m = content;
    char name[WEFT_MEMBER_NAME];
    hosted_range *f = replica_of(s, m->range, message->from);
    if (!f || !f->initialized) return WEFT_OK;
    if (m->index == f->index + 1) {
        change c = {.kind = m->kind,
                    .learner = m->learner,
                    .slot = (int)WEFT_MIN(m->slot, (uint32_t)INT32_MAX),
                    .sequence = m->sequence,
                    .clock = m->clock,
                    .version = m->version,
                    .step = m->step,
                    .weight = m->weight,
                    .empty = m->empty,
                    .update = message->payload};
        weft_push_result result;
        weft_status status = weft_hosted_range_apply(s, f, &c, &result);
        if (status == WEFT_OK && result != WEFT_PUSH_ACCEPTED)
            status = weft_fail(WEFT_ERR_INTERNAL,
                               "range %u: this replica rejects update %lld of client %u, which "
                               "its primary has applied",
                               (unsigned)m->range, (long long)m->sequence, (unsigned)m->learner);
        if (status != WEFT_OK)
            return weft_fail_within(
                status, "the replica of range %u differs from its primary on %s", m->range,
                weft_view_name(weft_member_view(s->member), message->from, name));
    }
    return send_append_ack(s, f, message->from);
}
