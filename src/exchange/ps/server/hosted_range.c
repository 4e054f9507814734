/* A hosted range: the server applies log entries to it, defers replies until the replica has
 * acknowledged what they reveal, and copies and installs its state. */
#include "exchange/ps/server/server_internal.h"

hosted_range *weft_hosted_range_find(const server *s, uint32_t number)
{
    for (size_t i = 0; i < s->count; i++)
        if ((uint32_t)s->hosted[i].of.number == number) return &s->hosted[i];
    return NULL;
}

weft_status weft_hosted_range_add(server *s, int number, bool primary, hosted_range **out)
{
    weft_served of = {.number = number};
    WEFT_TRY(WEFT_GROW(&s->hosted, &s->capacity, s->count));
    WEFT_TRY(s->options.open(s->options.user, number, &of));
    of.number = number;
    *out = &s->hosted[s->count++];
    **out = (hosted_range){.of = of, .primary = primary, .halted = INT64_MAX};
    return WEFT_OK;
}

void weft_hosted_range_remove(server *s, hosted_range *f)
{
    int number = f->of.number;
    weft_range_destroy(&f->of.range);
    weft_downlink_close(&f->of.published);
    if (s->options.close) s->options.close(s->options.user, number);
    weft_buffer_unref(&f->copy);
    weft_buffer_unref(&f->last);
    weft_buffer_unref(&f->state);
    for (size_t i = 0; i < f->log_count; i++) weft_buffer_unref(&f->log[i].update);
    for (size_t i = 0; i < f->deferred_count; i++) weft_buffer_unref(&f->deferred[i].payload);
    free(f->pulls);
    free(f->log);
    free(f->deferred);
    *f = s->hosted[--s->count];
}

/* --- log entries --- */

static weft_status publish(hosted_range *f)
{
    weft_range *r = f->of.range;
    if (!f->of.published) return weft_fail(WEFT_ERR_FORMAT, "a range without a downlink codec");
    return weft_downlink_update(f->of.published, weft_range_parameters(r), weft_range_version(r));
}

static weft_status apply(hosted_range *f, const change *c, weft_push_result *result)
{
    weft_range *r = f->of.range;
    weft_push push = {.learner = c->learner,
                      .sequence = c->sequence,
                      .clock = c->clock,
                      .version = c->version,
                      .update = c->update,
                      .step = c->step,
                      .weight = c->weight,
                      .empty = c->empty};
    switch (c->kind) {
    case WEFT__APPEND__KIND__PUSH: return weft_range_push(r, &push, result);
    case WEFT__APPEND__KIND__JOIN: return weft_range_join(r, c->learner, c->slot, c->clock);
    case WEFT__APPEND__KIND__ADVANCE: return weft_range_advance(r, c->learner, c->clock);
    case WEFT__APPEND__KIND__LEAVE: return weft_range_leave(r, c->learner);
    case WEFT__APPEND__KIND__HALT: weft_range_halt(r, c->clock); return WEFT_OK;
    case WEFT__APPEND__KIND__PUBLISH: return publish(f);
    default: return weft_fail(WEFT_ERR_FORMAT, "a replicated change of an unknown kind");
    }
}

/* The work of a change: an update is decoded and added to the others of its version; a version is
 * an update of the optimizer; to publish is to encode a difference, and to add what was encoded. */
static void report_work(server *s, const hosted_range *f, const change *c, int64_t before)
{
    double bytes = (double)weft_range_bytes(f->of.range);
    double versions = (double)(weft_range_version(f->of.range) - before);
    if (f->of.frozen) return;
    if (c->kind == WEFT__APPEND__KIND__PUSH)
        weft_actor_work(&s->head, WEFT_WORK_DECODE, f->of.codec, 2 * bytes);
    if (versions > 0)
        weft_actor_work(&s->head, WEFT_WORK_PASS, NULL, versions * f->of.update_bytes);
    if (c->kind != WEFT__APPEND__KIND__PUBLISH) return;
    weft_actor_work(&s->head, WEFT_WORK_PASS, NULL, 3 * bytes);
    weft_actor_work(&s->head, WEFT_WORK_ENCODE, weft_downlink_codec(f->of.published), 2 * bytes);
    weft_actor_work(&s->head, WEFT_WORK_DECODE, weft_downlink_codec(f->of.published), 2 * bytes);
}

weft_status weft_hosted_range_apply(server *s, hosted_range *f, const change *c,
                                    weft_push_result *result)
{
    weft_push_result ignored, *become = result ? result : &ignored;
    int64_t before = weft_range_version(f->of.range);
    *become = WEFT_PUSH_ACCEPTED;
    WEFT_TRY(apply(f, c, become));
    if (*become != WEFT_PUSH_ACCEPTED) return WEFT_OK;
    report_work(s, f, c, before);
    f->index++;
    if (!f->primary || f->replica == WEFT_NOBODY) return WEFT_OK;
    if (f->postponed) return weft_hosted_range_begin_replica(s, f);
    change next = *c;
    next.index = f->index;
    return weft_hosted_range_append(s, f, &next);
}

/* --- held replies --- */

static bool is_deferred(const hosted_range *f, weft_actor_id to, weft_rpc_type type, int64_t number)
{
    for (size_t i = 0; i < f->deferred_count; i++) {
        const deferred *d = &f->deferred[i];
        if (d->to == to && d->type == type && d->number == number) return true;
    }
    return false;
}

weft_status weft_hosted_range_send(server *s, hosted_range *f, weft_actor_id to, weft_rpc_type type,
                                   int64_t number, const void *message, weft_buffer *payload)
{
    if (f->replica == WEFT_NOBODY || f->postponed || f->acked_index >= f->index)
        return weft_rpc_send(&s->head, to, type, message, payload);
    if (is_deferred(f, to, type, number)) return WEFT_OK;
    deferred d = {.to = to, .type = type, .number = number, .index = f->index};
    d.head_bytes = protobuf_c_message_get_packed_size(message);
    if (d.head_bytes > sizeof(d.head))
        return weft_fail(WEFT_ERR_INTERNAL, "a deferred reply of %zu bytes is too long",
                         d.head_bytes);
    WEFT_TRY(WEFT_GROW(&f->deferred, &f->deferred_capacity, f->deferred_count));
    protobuf_c_message_pack(message, d.head);
    d.payload = weft_buffer_ref(payload);
    f->deferred[f->deferred_count++] = d;
    return WEFT_OK;
}

/* --- snapshots --- */

weft_status weft_hosted_range_snapshot(const hosted_range *f, weft_buffer **out)
{
    size_t bytes = weft_range_bytes(f->of.range);
    for (int i = 0; i < f->of.state_count; i++) bytes += f->of.states[i].iov_len;
    WEFT_TRY(weft_buffer_new(bytes, out));
    char *at = (*out)->data;
    memcpy(at, weft_range_parameters(f->of.range), weft_range_bytes(f->of.range));
    at += weft_range_bytes(f->of.range);
    for (int i = 0; i < f->of.state_count; i++) {
        memcpy(at, f->of.states[i].iov_base, f->of.states[i].iov_len);
        at += f->of.states[i].iov_len;
    }
    return WEFT_OK;
}

weft_status weft_hosted_range_restore(hosted_range *f, const weft_buffer *blob)
{
    size_t numbers = weft_range_bytes(f->of.range), all = numbers;
    for (int i = 0; i < f->of.state_count; i++) all += f->of.states[i].iov_len;
    if (!blob || (blob->bytes != numbers && blob->bytes != all))
        return weft_fail(WEFT_ERR_FORMAT,
                         "a learner sends %zu bytes of initial parameters for a range of %zu bytes",
                         blob ? blob->bytes : 0, numbers);
    const char *at = blob->data;
    memcpy(weft_range_parameters(f->of.range), at, numbers);
    if (f->of.published) memcpy(weft_downlink_reference(f->of.published), at, numbers);
    at += numbers;
    for (int i = 0; i < f->of.state_count && blob->bytes == all; i++) {
        memcpy(f->of.states[i].iov_base, at, f->of.states[i].iov_len);
        at += f->of.states[i].iov_len;
    }
    return WEFT_OK;
}
