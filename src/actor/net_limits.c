/* Limits inbound peers: admits a message only if its sender's id came with the same key
 * before, limits the rate of each sender, and logs rejected connections and messages. */
#include "actor/net_internal.h"

enum { MEMBERS = 4096, MESSAGES_A_SECOND = 100000, FORGOTTEN_SECONDS = 60 };

static weft_inbound *slot_of(weft_inbound *slots, size_t capacity, weft_actor_id id)
{
    size_t i = (size_t)weft_mix(id, 0) & (capacity - 1);
    while (slots[i].taken && slots[i].id != id) i = (i + 1) & (capacity - 1);
    return &slots[i];
}

/* Makes room for another peer in the hash table (open addressing, at most half full); growing drops
 * peers that were silent for FORGOTTEN_SECONDS. false: there are too many peers. */
static bool make_room(weft_inbound_table *c, double now)
{
    if (2 * (c->count + 1) <= c->capacity) return true;
    size_t left = 0, capacity = 64;
    for (size_t i = 0; i < c->capacity; i++)
        if (c->slots[i].taken) left += now - c->slots[i].last_message < FORGOTTEN_SECONDS;
    if (left >= MEMBERS) return false;
    while (capacity < 4 * (left + 1)) capacity *= 2;
    weft_inbound *slots;
    if (WEFT_NEW(&slots, capacity) != WEFT_OK) return false;
    for (size_t i = 0; i < c->capacity; i++)
        if (c->slots[i].taken && now - c->slots[i].last_message < FORGOTTEN_SECONDS)
            *slot_of(slots, capacity, c->slots[i].id) = c->slots[i];
    free(c->slots);
    *c = (weft_inbound_table){slots, left, capacity};
    return true;
}

bool weft_inbound_admit(weft_inbound_table *c, weft_actor_id id, uint64_t route, const char *user,
                        double now, bool inside)
{
    uint64_t key = user ? weft_hash_text(user) : 0;
    weft_inbound *who = c->capacity ? slot_of(c->slots, c->capacity, id) : NULL;
    if (!who || !who->taken) {
        if (!make_room(c, now)) return false;
        who = slot_of(c->slots, c->capacity, id);
        *who = (weft_inbound){.taken = true, .id = id, .key = key, .second = now};
        c->count++;
    }
    /* A message with another key under this id is rejected. */
    if (who->key != key) return false;
    if (now - who->second >= 1) {
        who->second = now;
        who->messages = 0;
    }
    who->last_message = now;
    who->route = route;
    who->inside = inside;
    return who->messages++ < MESSAGES_A_SECOND;
}

bool weft_inbound_route(const weft_inbound_table *c, weft_actor_id id, uint64_t *route,
                        bool *inside)
{
    const weft_inbound *who = c->capacity ? slot_of(c->slots, c->capacity, id) : NULL;
    if (!who || !who->taken) return false;
    *route = who->route;
    *inside = who->inside;
    return true;
}

void weft_net_log_rejected(weft_net *net)
{
    weft_reject_log *w = &net->watch;
    uint64_t refused = net->report.refused, damaged = net->report.damaged;
    if (refused == w->refused && damaged == w->damaged) return;
    double now = weft_seconds();
    char name[48];
    if (w->logged_at > 0 && now - w->logged_at < 1) return;
    weft_log(net->world->context, WEFT_LOG_WARNING,
             "%s at %s: connections that failed in the handshake so far (key not admitted, or "
             "no Weft process): %llu; messages dropped (damaged, or too many): %llu",
             weft_actor_name(net->actor, name), net->at ? net->at : "inproc://",
             (unsigned long long)refused, (unsigned long long)damaged);
    *w = (weft_reject_log){refused, damaged, now};
}
