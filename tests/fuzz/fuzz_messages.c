/*
 * Fuzzes the messages that actors receive: messages of the run's actors in order, late, repeated or
 * changed, made-up messages, and messages of unknown senders. A coordinator, servers with replicas,
 * learners and peers of both gossip modes run on a host that holds their messages back; the input
 * chooses the next event. An actor may end only by a message of the coordinator, a server or a peer
 * that it has to believe (a peer of an elastic run also by a timeout), and no actor may keep more
 * memory than the messages that it has received.
 */
#include <malloc.h>

#include "messages.h"

/* Bytes that are allocated now, by the sanitizer's allocator where there is one. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));
static size_t allocated_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
                                                   : mallinfo2().uordblks;
}

/* --- events that the input chooses --- */

static uint8_t next(cluster *c)
{
    if (c->size == 0) return 0;
    c->size--;
    return *c->data++;
}

/* Whether actor `id` has to believe messages of `from`, so that one may end it. */
static bool is_believed(const cluster *c, int id, weft_actor_id from)
{
    if (c->elastic) return id >= PEER && (from == COORDINATOR || from >= PEER);
    bool server = from == SERVER || from == OTHER_SERVER;
    return id >= SERVER && id <= OTHER_LEARNER && (from == COORDINATOR || server);
}

static void judge(cluster *c, int id, weft_status status, bool believed)
{
    if (status == WEFT_OK) return;
    if (!believed) abort();
    c->actors[id]->ops->destroy(c->actors[id]);
    c->actors[id] = NULL;
}

static void deliver(cluster *c, int to, const weft_message *message)
{
    if (to >= ACTORS || !c->actors[to] || c->actors[to]->done || (int)message->from == to) return;
    judge(c, to, c->actors[to]->ops->message(c->actors[to], message),
          is_believed(c, to, message->from));
}

/* Delivers message i that the host holds back, unchanged or (bent) with a changed byte or a shorter
 * payload. */
static void deliver_held(cluster *c, int i, bool bent)
{
    if (i >= c->message_count) return;
    held h = c->messages[i];
    weft_buffer *payload = NULL;
    weft_message message = {h.from, h.type, h.head, h.head_bytes, h.payload};
    if (bent && h.payload) {
        size_t at = (size_t)next(c) | (size_t)next(c) << 8;
        must(weft_buffer_new(h.payload->bytes, &payload));
        memcpy(payload->data, h.payload->data, h.payload->bytes);
        if (payload->bytes) ((uint8_t *)payload->data)[at % payload->bytes] = next(c);
        payload->bytes -= payload->bytes ? next(c) % payload->bytes : 0;
        message.payload = payload;
    } else if (bent && h.head_bytes) {
        h.head[next(c) % h.head_bytes] = next(c);
    }
    weft_buffer_ref(h.payload);
    deliver(c, (int)h.to, &message);
    weft_buffer_unref(&h.payload);
    weft_buffer_unref(&payload);
}

static void deliver_made_up(cluster *c, int to)
{
    weft_buffer *payload = NULL;
    uint8_t from = next(c), type = next(c), head_bytes = next(c), unit = next(c);
    size_t payload_bytes = WEFT_MIN((size_t)unit * 4, (size_t)MOST_PAYLOAD);
    weft_message message = {.from = from, .type = type, .head = c->data};
    message.head_bytes = WEFT_MIN((size_t)head_bytes, c->size);
    c->data += message.head_bytes;
    c->size -= message.head_bytes;
    payload_bytes = WEFT_MIN(payload_bytes, c->size);
    if (unit) {
        must(weft_buffer_new(payload_bytes, &payload));
        memcpy(payload->data, c->data, payload_bytes);
        c->data += payload_bytes;
        c->size -= payload_bytes;
    }
    message.payload = payload;
    deliver(c, to, &message);
    weft_buffer_unref(&payload);
}

static void compute(cluster *c, int id)
{
    weft_actor *a = c->actors[id];
    if (!c->computes[id] || !a) return;
    /* Gradients are computed only when all parameters that the step reads have arrived. */
    if (a->ops->lacks && a->ops->lacks(a, c->tickets[id], WEFT_ANY_PART)) return;
    c->computes[id] = false;
    for (int i = 0; i < COUNT && id >= PEER; i++) c->parameters[id][i] += c->gradients[i];
    if (id < PEER && next(c) % 2) judge(c, id, a->ops->part(a, c->tickets[id], 1), false);
    judge(c, id, a->ops->computed(a, c->tickets[id]), false);
}

static void go_on(cluster *c)
{
    uint8_t what = next(c);
    int id = (what >> 3) % ACTORS, i = next(c);
    weft_actor *a = id < ACTORS ? c->actors[id] : NULL;
    c->now += 0.01;
    switch (what & 7) {
    case 0:
    case 1: /* even: the oldest message, once; odd: any message, which may come again */
        deliver_held(c, what & 1 ? i % HELD : 0, false);
        if (!(what & 1) && c->message_count) cluster_forget(c, 0);
        break;
    case 2: deliver_held(c, i % HELD, true); break;
    case 3: deliver_made_up(c, id); break;
    case 4: /* actors that are members also have the membership timer */
        if (a && (id <= OTHER_LEARNER || c->elastic) && i & 1 && id != COORDINATOR)
            judge(c, id, a->ops->timer(a, WEFT_MEMBER_TIMER), c->elastic);
        else if (a)
            judge(c, id, a->ops->timer(a, 0), c->elastic);
        break;
    case 5: compute(c, id % ACTORS); break;
    case 6:
        if (c->message_count) cluster_forget(c, i % c->message_count);
        break;
    case 7:
        if (a && (id == LEARNER || id == OTHER_LEARNER))
            judge(c, id,
                  i & 1 ? weft_ps_client_pull_with_state(a) : weft_ps_client_leave(a, i & 2, i & 4),
                  false);
        break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cluster *c = calloc(1, sizeof(*c));
    if (!c || size == 0) {
        free(c);
        return 0;
    }
    cluster_begin(c, data[0]);
    /* All messages that were sent arrive first. */
    while (c->message_count > 0 && c->message_count < HELD && data[0] & 2) {
        deliver_held(c, 0, false);
        cluster_forget(c, 0);
    }
    c->data = data + 1;
    c->size = size - 1;
    size_t at_first = allocated_bytes();
    while (c->size > 0) {
        size_t left = c->size;
        go_on(c);
        size_t now = allocated_bytes();
        /* Allowed are about a thousand bytes for each event, which has at least two bytes of input,
         * and the histograms of staleness of all ranges on both servers. */
        size_t counts = (size_t)2 * RANGES * 2 * WEFT_MOST_STALE * sizeof(int64_t);
        if (now > at_first + counts + (1 << 16) + 512 * (size - left)) abort();
    }
    cluster_end(c);
    free(c);
    return 0;
}
