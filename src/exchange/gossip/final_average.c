/* Makes the final average of elastic peers: when every peer has ended and has all updates, their
 * parameters are summed over a tree, and the root sends the mean back down the tree. The tree is
 * the one of a job's collectives, with the peers in the order of their slots, so the mean has the
 * same bits as there.
 *
 * Parameters do not change any more by then, so a view change restarts the reduction. A peer that
 * has the mean keeps it and sends it to others that lack it, so there is one result even if peers
 * fail. */
#include "base/tree_sum.h"
#include "exchange/gossip/peer_internal.h"
#include "gossip.pb-c.h"

static void reset(weft_final_average_state *s)
{
    for (int k = 0; k < WEFT_FINAL_AVERAGE_CHILDREN; k++) weft_buffer_unref(&s->partial_sums[k]);
    weft_buffer_unref(&s->sum);
    s->acked = false;
}

void weft_final_average_close(weft_peer *p)
{
    reset(&p->final_average);
    weft_buffer_unref(&p->final_average.mean);
}

/* Finds this peer's parent and children in the tree, and drops sums of the former view. A subtree
 * is a range of peers that is split in two; the first peer of the first part sums both parts. */
void weft_final_average_arrange(weft_peer *p)
{
    weft_final_average_state *s = &p->final_average;
    int first = 0, last = p->peers;
    reset(s);
    s->parent = -1;
    s->child_count = 0;
    while (p->me >= 0 && last - first > 1) {
        int middle = weft_tree_next(p->peers, first, last - 1);
        if (p->me >= middle) {
            s->parent = first;
            first = middle;
            continue;
        }
        if (p->me == first) s->children[s->child_count++] = middle;
        last = middle;
    }
}

/* --- up --- */

static weft_status send_partial_sum(weft_peer *p)
{
    weft_final_average_state *s = &p->final_average;
    Weft__PartialSum m = WEFT__PARTIAL_SUM__INIT;
    m.view = weft_member_view(p->member)->number;
    m.members = p->members;
    m.sent = s->sent = weft_actor_now(&p->head);
    WEFT_TRY(weft_rpc_send(&p->head, p->ids[s->parent], WEFT_RPC_PARTIAL_SUM, &m, s->sum));
    return weft_peer_arm_timer(p);
}

static weft_status send_mean(weft_peer *p, int to)
{
    weft_final_average_state *s = &p->final_average;
    Weft__FinalMean m = WEFT__FINAL_MEAN__INIT;
    m.contributors = (uint32_t)s->contributors;
    s->sent = weft_actor_now(&p->head);
    WEFT_TRY(weft_rpc_send(&p->head, p->ids[to], WEFT_RPC_FINAL_MEAN, &m, s->mean));
    return weft_peer_arm_timer(p);
}

static int child_of(const weft_peer *p, int i)
{
    for (int k = 0; k < p->final_average.child_count; k++)
        if (p->final_average.children[k] == i) return k;
    return -1;
}

/* Whether peer i is next to this one in the tree, has all updates, and lacks the mean. */
static bool lacks_mean(const weft_peer *p, int i)
{
    const weft_peer_record *record = &p->records[i];
    bool next = i == p->final_average.parent || child_of(p, i) >= 0;
    return next && record->same_view && record->version_hash != 0 && !record->has_mean;
}

static bool is_needed(const weft_peer *p)
{
    for (int i = 0; i < p->peers; i++)
        if (lacks_mean(p, i)) return true;
    return false;
}

static weft_status send_means(weft_peer *p)
{
    for (int i = 0; i < p->peers; i++)
        if (lacks_mean(p, i)) WEFT_TRY(send_mean(p, i));
    return weft_peer_arm_timer(p);
}

/* Announces in heartbeats that this peer has the mean, and sends the mean to its neighbours in the
 * tree that lack it. */
static weft_status announce_mean(weft_peer *p, int contributors)
{
    weft_final_average_state *s = &p->final_average;
    reset(s);
    s->contributors = contributors;
    s->progress++;
    WEFT_TRY(weft_peer_send_heartbeat(p));
    return send_means(p);
}

static void divide(const weft_peer *p, void *numbers)
{
    weft_dtype dtype = p->options.dtype;
    for (int64_t i = 0; i < p->options.count; i++)
        weft_number_put(dtype, numbers, i, weft_number_get(dtype, numbers, i) / p->peers);
}

static weft_status reduce(weft_peer *p)
{
    const weft_peer_options *o = &p->options;
    weft_final_average_state *s = &p->final_average;
    WEFT_TRY(weft_buffer_new(p->bytes, &s->sum));
    memcpy(s->sum->data, p->current, p->bytes);
    for (int k = s->child_count; k-- > 0;)
        weft_tree_add(o->dtype, s->sum->data, s->partial_sums[k]->data, s->sum->data, o->count);
    s->progress++;
    if (s->parent >= 0) return send_partial_sum(p);
    divide(p, s->sum->data);
    memcpy(p->current, s->sum->data, p->bytes);
    s->mean = weft_buffer_ref(s->sum);
    return announce_mean(p, p->peers);
}

weft_status weft_final_average_advance(weft_peer *p)
{
    const weft_final_average_state *s = &p->final_average;
    if (s->contributors > 0) return is_needed(p) ? weft_peer_arm_timer(p) : WEFT_OK;
    if (p->me < 0 || s->sum || !weft_peer_all_converged(p)) return WEFT_OK;
    for (int k = 0; k < s->child_count; k++)
        if (!s->partial_sums[k]) return WEFT_OK;
    return reduce(p);
}

weft_status weft_final_average_resend(weft_peer *p, bool *more)
{
    weft_final_average_state *s = &p->final_average;
    double now = weft_actor_now(&p->head);
    bool sends_sum = s->sum && s->parent >= 0 && !s->acked;
    *more = sends_sum || (s->contributors > 0 && is_needed(p));
    if (!*more) return WEFT_OK;
    /* The last message is still in transit. */
    if (weft_buffer_is_shared(sends_sum ? s->sum : s->mean)) s->sent = now;
    if (now - s->sent < weft_rto_timeout(&s->rto, p->options.min_rto)) return WEFT_OK;
    weft_rto_backoff(&s->rto);
    return sends_sum ? send_partial_sum(p) : send_means(p);
}

bool weft_final_average_all_have(const weft_peer *p)
{
    for (int i = 0; i < p->peers; i++)
        if (i != p->me && !p->records[i].has_mean) return false;
    return p->final_average.contributors > 0;
}

/* --- messages --- */

static bool is_valid(const weft_peer *p, const weft_buffer *payload)
{
    return payload && payload->bytes == p->bytes &&
           weft_numbers_finite(p->options.dtype, payload->data, p->options.count);
}

/* Stores the partial sum of a child and acknowledges it. The sum may arrive before this peer knows
 * that all peers have ended, but a sum of another view is ignored, and the child sends it again. */
weft_status weft_final_average_take_sum(void *self, const weft_message *message,
                                        const void *content)
{
    weft_peer *p = self;
    const Weft__PartialSum *m = content;
    weft_final_average_state *s = &p->final_average;
    Weft__PartialSumAck reply = WEFT__PARTIAL_SUM_ACK__INIT;
    bool same;
    int from = weft_peer_index(p, message->from), child = child_of(p, from);
    WEFT_TRY(weft_peer_same_view(p, message->from, m->view, m->members, &same));
    if (!same || child < 0 || !is_valid(p, message->payload)) return WEFT_OK;
    if (s->contributors == 0 && !s->partial_sums[child])
        s->partial_sums[child] = weft_buffer_ref(message->payload);
    s->progress++;
    reply.view = m->view;
    reply.members = m->members;
    reply.sent = m->sent;
    return weft_rpc_send(&p->head, message->from, WEFT_RPC_PARTIAL_SUM_ACK, &reply, NULL);
}

weft_status weft_final_average_take_ack(void *self, const weft_message *message,
                                        const void *content)
{
    weft_peer *p = self;
    const Weft__PartialSumAck *m = content;
    weft_final_average_state *s = &p->final_average;
    if (!s->sum || s->parent < 0 || message->from != p->ids[s->parent] ||
        m->members != p->members || m->view != weft_member_view(p->member)->number)
        return WEFT_OK;
    s->acked = true;
    weft_rto_sample(&s->rto, weft_actor_now(&p->head) - m->sent);
    return WEFT_OK;
}

weft_status weft_final_average_take_mean(void *self, const weft_message *message,
                                         const void *content)
{
    weft_peer *p = self;
    const Weft__FinalMean *m = content;
    weft_final_average_state *s = &p->final_average;
    if (weft_peer_index(p, message->from) < 0 || p->version_hash == 0 || p->computing ||
        m->contributors == 0 || m->contributors > WEFT_MOST_MEMBERS ||
        !is_valid(p, message->payload))
        return WEFT_OK;
    if (s->contributors > 0)
        return weft_peer_send_heartbeat(p); /* tells the sender that this peer has the mean */
    memcpy(p->current, message->payload->data, p->bytes);
    WEFT_TRY(weft_buffer_new(p->bytes, &s->mean));
    memcpy(s->mean->data, p->current, p->bytes);
    return announce_mean(p, (int)m->contributors);
}
