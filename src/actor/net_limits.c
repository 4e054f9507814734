/* Limits inbound peers: admits a message only if its sender's id belongs to the key with which it
 * comes, limits the rate of each sender, and logs rejected connections and messages. */
#include "actor/net_internal.h"

enum { MEMBERS = 4096, MESSAGES_A_SECOND = 100000, FORGOTTEN_SECONDS = 60 };

static weft_inbound *slot_of(weft_inbound *slots, size_t capacity, weft_actor_id id)
{
    size_t i = (size_t)weft_mix(id, 0) & (capacity - 1);
    while (slots[i].taken && slots[i].id != id) i = (i + 1) & (capacity - 1);
    return &slots[i];
}

/* A peer that is bound to no key is forgotten when it was silent. */
static bool stays(const weft_inbound *who, double now)
{
    return who->taken && (who->bound || now - who->last_message < FORGOTTEN_SECONDS);
}

/* Makes room for another peer in the hash table (open addressing, at most half full); growing drops
 * peers that do not stay. false: there are too many peers. */
static bool make_room(weft_inbound_table *c, double now)
{
    if (2 * (c->count + 1) <= c->capacity) return true;
    size_t left = 0, capacity = 64;
    for (size_t i = 0; i < c->capacity; i++) left += stays(&c->slots[i], now);
    if (left >= MEMBERS) return false;
    while (capacity < 4 * (left + 1)) capacity *= 2;
    weft_inbound *slots;
    if (WEFT_NEW(&slots, capacity) != WEFT_OK) return false;
    for (size_t i = 0; i < c->capacity; i++)
        if (stays(&c->slots[i], now)) *slot_of(slots, capacity, c->slots[i].id) = c->slots[i];
    free(c->slots);
    *c = (weft_inbound_table){slots, left, capacity};
    return true;
}

/* The slot of an id, which is added if it is new; NULL: there are too many peers. */
static weft_inbound *slot_for(weft_inbound_table *c, weft_actor_id id, double now)
{
    weft_inbound *who = c->capacity ? slot_of(c->slots, c->capacity, id) : NULL;
    if (who && who->taken) return who;
    if (!make_room(c, now)) return NULL;
    who = slot_of(c->slots, c->capacity, id);
    *who = (weft_inbound){.taken = true, .id = id, .second = now, .last_message = now};
    c->count++;
    return who;
}

bool weft_inbound_bind(weft_inbound_table *c, weft_actor_id id, const char *list)
{
    uint64_t address = weft_hash_text(list);
    weft_inbound *who = slot_for(c, id, weft_seconds());
    if (!who || (who->bound && who->address == address)) return true;
    uint64_t key = weft_net_address_key(list);
    bool fits = !who->heard || who->key == 0 || who->key == key;
    if (!fits) who->heard = false; /* replies would go to the other sender */
    who->bound = true;
    who->address = address;
    who->key = key;
    return fits;
}

void weft_inbound_unbind(weft_inbound_table *c, weft_actor_id id)
{
    weft_inbound *who = c->capacity ? slot_of(c->slots, c->capacity, id) : NULL;
    if (who && who->taken) who->bound = false;
}

bool weft_inbound_admit(weft_inbound_table *c, weft_actor_id id, uint64_t route, const char *user,
                        double now, bool inside)
{
    uint64_t key = user && *user ? weft_hash_text(user) : 0;
    weft_inbound *who = slot_for(c, id, now);
    if (!who) return false;
    if (!who->bound && !who->heard) who->key = key;
    /* A message without a key comes from this machine, or nothing is encrypted. */
    if (key != 0 && who->key != key) return false;
    if (now - who->second >= 1) {
        who->second = now;
        who->messages = 0;
    }
    who->last_message = now;
    who->heard = true;
    who->route = route;
    who->inside = inside;
    return who->messages++ < MESSAGES_A_SECOND;
}

bool weft_inbound_route(const weft_inbound_table *c, weft_actor_id id, uint64_t *route,
                        bool *inside)
{
    const weft_inbound *who = c->capacity ? slot_of(c->slots, c->capacity, id) : NULL;
    if (!who || !who->taken || !who->heard) return false;
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
