/* Implements the simulator's links, which delay, lose, duplicate and reorder messages, and
 * partitions, which lose them. */
#include "actor/envelope.h"
#include "actor/sim_internal.h"

/* Header bytes of a message on a real wire. */
enum { ENVELOPE = 64 };

static uint64_t key_of(weft_actor_id from, weft_actor_id to)
{
    return (uint64_t)from << 32 | to;
}

static way *slot_of(way *ways, size_t capacity, uint64_t key)
{
    size_t i = (size_t)weft_mix(key, 0) & (capacity - 1);
    while (ways[i].key && ways[i].key != key) i = (i + 1) & (capacity - 1);
    return &ways[i];
}

/* Finds or adds a link in the hash table (open addressing, at most half full). Keys are never 0,
 * since no actor writes to itself. */
static weft_status find_way(weft_sim *sim, weft_actor_id from, weft_actor_id to, way **out)
{
    uint64_t key = key_of(from, to);
    if (2 * (sim->way_count + 1) > sim->way_capacity) {
        size_t capacity = WEFT_MAX(2 * sim->way_capacity, 64);
        way *larger;
        WEFT_TRY(WEFT_NEW(&larger, capacity));
        for (size_t i = 0; i < sim->way_capacity; i++)
            if (sim->ways[i].key) *slot_of(larger, capacity, sim->ways[i].key) = sim->ways[i];
        free(sim->ways);
        sim->ways = larger;
        sim->way_capacity = capacity;
    }
    *out = slot_of(sim->ways, sim->way_capacity, key);
    if ((*out)->key) return WEFT_OK;
    (*out)->key = key;
    sim->way_count++;
    return WEFT_OK;
}

weft_status weft_sim_connect(weft_sim *sim, weft_actor_id from, weft_actor_id to,
                             const weft_sim_link *link)
{
    way *w;
    WEFT_TRY(find_way(sim, from, to, &w));
    w->own = true;
    w->link = *link;
    return WEFT_OK;
}

static bool is_cut(const weft_sim *sim, weft_actor_id a, weft_actor_id b, double from, double until)
{
    for (size_t i = 0; i < sim->cut_count; i++) {
        const cut *c = &sim->cuts[i];
        bool these = (c->a == a && c->b == b) || (c->a == b && c->b == a);
        if (these && c->at <= until && c->until > from) return true;
    }
    return false;
}

static bool happens(weft_sim *sim, double share)
{
    return share > 0 && weft_random_unit(&sim->random) < share;
}

static weft_status pack(const weft_actor *from, const weft_message *message, size_t bytes,
                        double now, parcel **out)
{
    WEFT_TRY(weft_new_bytes(out, 1, sizeof(parcel) + message->head_bytes));
    parcel *p = *out;
    p->message = *message;
    p->message.from = from->id;
    if (message->head_bytes) memcpy(p->head, message->head, message->head_bytes);
    p->message.head = p->head;
    p->message.payload = weft_buffer_ref(message->payload);
    p->bytes = bytes;
    p->sent = now;
    return WEFT_OK;
}

void weft_sim_forget(weft_sim *sim, parcel **message, bool lost)
{
    parcel *p = *message;
    if (!p) return;
    *message = NULL;
    sim->report.lost += lost;
    sim->report.waiting--;
    sim->report.held_bytes -= p->bytes;
    weft_buffer_unref(&p->message.payload);
    free(p);
}

/* Whether a message passes between the packets of those with payloads, as it is short. */
static bool passes(const weft_sim_link *link, const weft_message *message)
{
    return link->uneven > 0 && !message->payload;
}

/* Adds to the time of a node's transfers, out or in, that of a message. A node sends one message at
 * a time and receives one at a time, so its transfers never take longer than the virtual time that
 * has passed: bytes over a link never exceed its rate times the time. */
static weft_status add_transfer(const weft_sim *sim, double *transfers, const parcel *p,
                                const weft_sim_link *link)
{
    if (passes(link, &p->message)) return WEFT_OK; /* others do not wait for it then */
    if (link->bandwidth > 0) *transfers += (double)p->bytes / link->bandwidth;
    if (*transfers <= sim->now * (1 + 1e-9)) return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERNAL,
                     "the transfers of a simulated node take %.17g s of the %.17g s that have "
                     "passed",
                     *transfers, sim->now);
}

/* Counts a message that has left its sender; a copy was made on the way. */
static weft_status count_sent(weft_sim *sim, const parcel *p, const weft_sim_link *link)
{
    if (p->copy) return WEFT_OK;
    sim->report.bytes += p->bytes;
    sim->report.arrived = sim->now;
    if (p->here) return WEFT_OK;
    machine *node = weft_sim_node(sim, weft_sim_machine(sim, p->message.from));
    return add_transfer(sim, &node->sending, p, link);
}

/* Bytes on the wire. */
static size_t bytes_of(const weft_sim *sim, const weft_message *message)
{
    const weft_buffer *b = message->payload;
    size_t fixed = b ? WEFT_MIN(b->fixed, b->bytes) : 0;
    double grows = b ? (double)(b->bytes - fixed) : 0;
    return ENVELOPE + message->head_bytes + fixed + (size_t)(weft_sim_scaled(sim, grows) + 0.5);
}

/* Sends one copy of a message, which takes `takes` seconds of the link, and whose last byte leaves
 * at time `left`. */
static weft_status post(weft_sim *sim, weft_actor *from, weft_actor_id to,
                        const weft_message *message, way *w, double takes, double left, bool copy)
{
    weft_sim_report *r = &sim->report;
    parcel *p;
    double at = left + w->link.latency + w->link.jitter * weft_random_unit(&sim->random);
    if (w->link.uneven > 0 && message->payload)
        at += w->link.uneven * takes * weft_random_unit(&sim->random);
    bool lost = happens(sim, w->link.lost);
    WEFT_TRY(pack(from, message, bytes_of(sim, message), sim->now, &p));
    r->waiting++;
    r->held_bytes += p->bytes;
    r->most_waiting = WEFT_MAX(r->most_waiting, r->waiting);
    r->most_bytes = WEFT_MAX(r->most_bytes, r->held_bytes);
    if (happens(sim, w->link.reordered))
        at += 10 * (w->link.latency + w->link.jitter) * weft_random_unit(&sim->random);
    else
        w->last = at = WEFT_MAX(at, w->last);
    const machine *m = weft_sim_machine(sim, to);
    p->copy = copy;
    p->here = m && m->node == weft_sim_machine(sim, from->id)->node;
    p->crosses = w->crosses;
    p->lost = lost || !m || !m->actor;
    weft_status status = weft_sim_plan(
        sim,
        (event){.at = at, .kind = EVENT_ARRIVE, .to = to, .life = m ? m->life : 0, .parcel = p});
    if (status != WEFT_OK) weft_sim_forget(sim, &p, true);
    return status;
}

static weft_sim_link usual_link(const weft_sim *sim, weft_actor_id from, weft_actor_id to)
{
    const weft_sim_options *o = &sim->options;
    return o->link_of ? o->link_of(o->user, from, to) : o->link;
}

/* Whether two actors of a node are in different processes. */
static bool cross_processes(const weft_sim *sim, weft_actor_id from, weft_actor_id to)
{
    const weft_sim_options *o = &sim->options;
    return o->crosses && o->crosses(o->user, from, to);
}

/* The node sends a message of some bytes, which takes `takes` seconds, until time `left`. */
static void add_sent(machine *node, double now, double left, double takes, double bytes)
{
    double before = WEFT_MAX(node->sends_until - now, 0.0), after = left - now;
    node->rate = after > 0 ? (before * node->rate + bytes) / after : 0;
    node->rate_busy = after > 0 ? (before * node->rate_busy + takes) / after : 0;
    node->sends_until = left;
    node->given += takes;
    node->given_bytes += bytes;
}

/* Gives a message to the link of its node; returns when its last byte leaves. Packets of
 * connections alternate, so a message without a payload, which is short, waits for those with one
 * only on its own way; they wait for all that are before them. */
static double pass(machine *node, way *w, double now, double begin, double takes, double bytes,
                   bool shorter)
{
    double all = WEFT_MAX(node->sends_until, begin) + takes, left = all;
    if (shorter) {
        node->short_until = WEFT_MAX(node->short_until, begin) + takes;
        left = WEFT_MAX(node->short_until, w->leaves + takes);
    }
    add_sent(node, now, all, takes, bytes);
    w->leaves = left;
    return left;
}

weft_status weft_sim_send(weft_actor *from, weft_actor_id to, const weft_message *message)
{
    weft_sim *sim = (weft_sim *)from->host;
    machine *m = weft_sim_machine(sim, from->id);
    const machine *other = weft_sim_machine(sim, to);
    machine *node = weft_sim_node(sim, m);
    bool here = other && other->node == m->node;
    way *w;
    char name[48];
    if (to == from->id)
        return weft_fail(WEFT_ERR_INTERNAL, "%s sends a message to itself",
                         weft_actor_name(from, name));
    WEFT_TRY(find_way(sim, from->id, to, &w));
    if (!w->own) w->link = here ? (weft_sim_link){0} : usual_link(sim, from->id, to);
    if (!w->used) w->crosses = !here || cross_processes(sim, from->id, to);
    w->own = w->used = true;
    sim->report.messages++;
    double counted = (double)(bytes_of(sim, message) - ENVELOPE + WEFT_ENVELOPE_BYTES);
    m->posted += counted;
    sim->report.posted += counted;
    if (w->crosses && message->payload)
        weft_sim_charge(from, here ? WEFT_WORK_SEND_BESIDE : WEFT_WORK_SEND, NULL,
                        2 * (double)message->payload->bytes);
    double left = sim->now + m->working, takes = 0;
    if (!here) {
        double bytes = (double)bytes_of(sim, message), rate = w->link.bandwidth;
        takes = rate > 0 ? bytes / rate : 0;
        left = pass(node, w, sim->now, left, takes, bytes, passes(&w->link, message));
    }
    if (left - sim->now > WEFT_SIM_LONGEST)
        return weft_fail(WEFT_ERR_PEER,
                         "messages for %.3g s wait to be sent over a link of %g bytes/s",
                         left - sim->now, w->link.bandwidth);
    WEFT_TRY(post(sim, from, to, message, w, takes, left, false));
    if (!happens(sim, w->link.twice)) return WEFT_OK;
    return post(sim, from, to, message, w, takes, left, true);
}

weft_status weft_sim_received(weft_sim *sim, event *e)
{
    way *w;
    e->kind = EVENT_MESSAGE;
    sim->report.arrived = sim->now;
    if (e->parcel->here) return WEFT_OK;
    WEFT_TRY(find_way(sim, e->parcel->message.from, e->to, &w));
    machine *node = weft_sim_node(sim, weft_sim_machine(sim, e->to));
    return add_transfer(sim, &node->receiving, e->parcel, &w->link);
}

/* The time at which a node has received a message whose last byte is there at time `at`, as of
 * pass.
 */
static double take(machine *node, way *w, double at, double takes, bool shorter)
{
    double *queue = shorter ? &node->short_received : &node->receives_until;
    *queue = WEFT_MAX(at, *queue + takes);
    w->received = WEFT_MAX(*queue, w->received);
    return w->received;
}

weft_status weft_sim_arrive(weft_sim *sim, event *e, bool *delivered)
{
    machine *m = weft_sim_node(sim, weft_sim_machine(sim, e->to));
    const parcel *p = e->parcel;
    way *w;
    double takes = 0;
    *delivered = false;
    WEFT_TRY(find_way(sim, p->message.from, e->to, &w));
    WEFT_TRY(count_sent(sim, p, &w->link));
    if (p->lost || is_cut(sim, p->message.from, e->to, p->sent, e->at)) {
        weft_sim_forget(sim, &e->parcel, true);
        return WEFT_OK;
    }
    if (w->link.bandwidth > 0) takes = (double)p->bytes / w->link.bandwidth;
    /* A message is received while it is being sent, so e->at is its end, unless the node is still
     * receiving an earlier message. */
    double until = p->here ? e->at : take(m, w, e->at, takes, passes(&w->link, &p->message));
    *delivered = until <= e->at;
    if (*delivered) return weft_sim_received(sim, e);
    event later = *e;
    later.kind = EVENT_RECEIVED;
    later.at = until;
    e->parcel = NULL;
    weft_status status = weft_sim_plan(sim, later);
    if (status != WEFT_OK) weft_sim_forget(sim, &later.parcel, true);
    return status;
}
