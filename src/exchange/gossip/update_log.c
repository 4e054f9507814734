/* Keeps the version vector and the update log of a peer. When the tree over which updates came has
 * broken, a neighbour sends from its log the updates that a peer lacks. */
#include "exchange/gossip/peer_internal.h"

/* Largest number of origins: of peers over the whole run, present and past. */
enum { MOST_ORIGINS = 65536 };
/* Retention time of logged updates, in failure timeouts. */
static const double RETENTION = 12;
/* Bound on the bytes of the log: MOST_BYTES, or MOST_COPIES times the parameters if that is
 * more. */
static const size_t MOST_BYTES = (size_t)256 << 20, MOST_COPIES = 8;

size_t weft_update_log_most(size_t parameter_bytes)
{
    return WEFT_MAX(MOST_BYTES, MOST_COPIES * parameter_bytes);
}

/* --- origins --- */

/* Index of the first origin that is not below `id`. */
static size_t lower_bound(const weft_origin *origins, size_t count, weft_actor_id id)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (origins[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

weft_origin *weft_origin_find(const weft_broadcast *u, weft_actor_id id)
{
    size_t at = lower_bound(u->origins, u->origin_count, id);
    return at < u->origin_count && u->origins[at].id == id ? &u->origins[at] : NULL;
}

weft_status weft_origin_of(weft_broadcast *u, weft_actor_id id, weft_origin **out)
{
    size_t at = lower_bound(u->origins, u->origin_count, id);
    *out = weft_origin_find(u, id);
    if (*out || u->origin_count >= MOST_ORIGINS) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&u->origins, &u->origin_capacity, u->origin_count));
    memmove(&u->origins[at + 1], &u->origins[at], (u->origin_count - at) * sizeof(*u->origins));
    u->origins[at] = (weft_origin){.id = id};
    u->origin_count++;
    *out = &u->origins[at];
    return WEFT_OK;
}

bool weft_origins_read(const weft_buffer *payload, size_t at, const weft_origin **out,
                       size_t *count)
{
    size_t bytes = payload ? payload->bytes : 0;
    if (bytes < at || (bytes - at) % sizeof(weft_origin)) return false;
    const weft_origin *o = bytes > at ? (const void *)((const char *)payload->data + at) : NULL;
    size_t n = (bytes - at) / sizeof(*o);
    if (n > MOST_ORIGINS) return false;
    for (size_t i = 0; i < n; i++)
        if (o[i].applied < 0 || o[i].applied == INT64_MAX || o[i].ended > 1 ||
            (o[i].ended && o[i].applied == 0) || (i > 0 && o[i].id <= o[i - 1].id))
            return false;
    *out = o;
    *count = n;
    return true;
}

static int64_t applied_by(const weft_origin *theirs, size_t count, weft_actor_id id)
{
    size_t at = lower_bound(theirs, count, id);
    return at < count && theirs[at].id == id ? theirs[at].applied : 0;
}

/* --- the log --- */

static weft_gossip_update *entry(const weft_broadcast *u, size_t i)
{
    return &u->log[u->log_first + i];
}

static void drop_first(weft_broadcast *u)
{
    weft_gossip_update *r = entry(u, 0);
    u->log_bytes -= r->payload->bytes;
    weft_buffer_unref(&r->payload);
    u->log_first++;
    u->log_count--;
}

void weft_update_log_free(weft_broadcast *u)
{
    while (u->log_count > 0) drop_first(u);
    free(u->log);
}

/* A time: updates that arrived before it may be dropped from the log, since they are older than the
 * retention time and every neighbour has acknowledged them. */
static double oldest_needed(const weft_peer *p, double now)
{
    double oldest = now - RETENTION * weft_member_view(p->member)->failure_timeout;
    for (int i = 0; i < p->neighbour_count; i++) {
        const weft_link *e = &p->broadcast.links[i];
        if (!e->open) oldest = WEFT_MIN(oldest, e->unsent_since);
        if (e->open && e->count > 0) oldest = WEFT_MIN(oldest, e->queue[0].arrived);
    }
    return oldest;
}

static void trim(weft_peer *p)
{
    weft_broadcast *u = &p->broadcast;
    double oldest = oldest_needed(p, weft_actor_now(&p->head));
    size_t most = weft_update_log_most(p->bytes);
    while (u->log_count > 0 && (entry(u, 0)->arrived < oldest || u->log_bytes > most))
        drop_first(u);
    if (u->log_first < u->log_count + 16) return;
    memmove(u->log, entry(u, 0), u->log_count * sizeof(*u->log));
    u->log_first = 0;
}

weft_status weft_update_log_append(weft_peer *p, const weft_gossip_update *update)
{
    weft_broadcast *u = &p->broadcast;
    if (!p->member || !update->payload) return WEFT_OK; /* ends are in the version vector */
    weft_buffer *payload;
    WEFT_TRY(WEFT_GROW(&u->log, &u->log_capacity, u->log_first + u->log_count));
    WEFT_TRY(weft_buffer_compact(weft_link_unwrap(update->payload), &payload));
    weft_gossip_update *r = entry(u, u->log_count++);
    *r = *update;
    r->arrived = weft_actor_now(&p->head);
    r->payload = payload;
    u->log_bytes += r->payload->bytes;
    trim(p);
    return WEFT_OK;
}

void weft_update_log_forget(weft_broadcast *u, weft_actor_id origin)
{
    size_t remaining = 0;
    for (size_t i = 0; i < u->log_count; i++) {
        weft_gossip_update *r = entry(u, i);
        if (r->origin != origin) {
            *entry(u, remaining++) = *r;
            continue;
        }
        u->log_bytes -= r->payload->bytes;
        weft_buffer_unref(&r->payload);
    }
    u->log_count = remaining;
}

/* Counts for each origin the updates that this peer has applied, the vector `theirs` lacks, and the
 * log no longer has; *some: there is one. A logged sum that overlaps `theirs` supplies none. */
static weft_status count_unsupplied(const weft_peer *p, const weft_origin *theirs, size_t count,
                                    int64_t **out, bool *some)
{
    const weft_broadcast *u = &p->broadcast;
    int64_t *unsupplied;
    *some = false;
    WEFT_TRY(WEFT_NEW(&unsupplied, u->origin_count + 1));
    for (size_t i = 0; i < u->origin_count; i++)
        unsupplied[i] = WEFT_MAX(u->origins[i].applied - (int64_t)u->origins[i].ended -
                                     applied_by(theirs, count, u->origins[i].id),
                                 (int64_t)0);
    for (size_t i = 0; i < u->log_count; i++) {
        const weft_gossip_update *r = entry(u, i);
        if (r->first > applied_by(theirs, count, r->origin))
            unsupplied[lower_bound(u->origins, u->origin_count, r->origin)] -=
                r->sequence - r->first + 1;
    }
    for (size_t i = 0; i < u->origin_count; i++) *some = *some || unsupplied[i] > 0;
    *out = unsupplied;
    return WEFT_OK;
}

/* Whether the log must supply an origin's updates when a snapshot is installed: no other peer may
 * be able to supply those of this peer, or of an origin outside the view, and a peer that has all
 * updates up to the ends never goes back. */
static bool is_needed(const weft_peer *p, const weft_origin *o)
{
    return p->version_hash || o->id == p->head.id || weft_peer_index(p, o->id) < 0;
}

weft_status weft_update_log_covers(const weft_peer *p, const weft_origin *theirs, size_t count,
                                   bool *out)
{
    const weft_broadcast *u = &p->broadcast;
    int64_t *unsupplied;
    bool some;
    WEFT_TRY(count_unsupplied(p, theirs, count, &unsupplied, &some));
    *out = true;
    for (size_t i = 0; i < u->origin_count; i++)
        *out = *out && (unsupplied[i] == 0 || !is_needed(p, &u->origins[i]));
    free(unsupplied);
    return WEFT_OK;
}

static bool is_in_flight(const weft_peer *p, const weft_gossip_update *r)
{
    for (int i = 0; i < p->neighbour_count; i++) {
        const weft_link *e = &p->broadcast.links[i];
        if (!e->open && r->arrived >= e->unsent_since) return true;
        for (size_t k = 0; k < e->count; k++)
            if (e->queue[k].origin == r->origin && e->queue[k].first <= r->sequence &&
                e->queue[k].sequence >= r->first)
                return true;
    }
    return false;
}

void weft_update_log_roll_back(const weft_peer *p, void *numbers, weft_origin *origins)
{
    const weft_broadcast *u = &p->broadcast;
    size_t first = 0;
    while (first < u->log_count && !is_in_flight(p, entry(u, first))) first++;
    for (size_t i = u->log_count; i-- > first;) {
        const weft_gossip_update *r = entry(u, i);
        weft_origin *o = &origins[lower_bound(origins, u->origin_count, r->origin)];
        p->mode->add(p, -1, r->payload, numbers);
        o->applied = r->first - 1;
        o->ended = 0;
    }
}

static weft_status replay(weft_peer *p, const weft_origin *theirs, size_t count,
                          const int64_t *unsupplied)
{
    weft_broadcast *u = &p->broadcast;
    for (size_t i = 0; i < u->log_count; i++) {
        const weft_gossip_update *r = entry(u, i);
        if (r->first > applied_by(theirs, count, r->origin) &&
            unsupplied[lower_bound(u->origins, u->origin_count, r->origin)] == 0)
            WEFT_TRY(p->mode->apply(p, r->payload));
    }
    for (size_t i = 0; i < u->origin_count; i++) {
        weft_origin *o = &u->origins[i];
        if (unsupplied[i] == 0) continue;
        weft_update_log_forget(u, o->id);
        o->applied = applied_by(theirs, count, o->id);
        o->ended = 0;
    }
    return WEFT_OK;
}

weft_status weft_update_log_replay(weft_peer *p, const weft_origin *theirs, size_t count)
{
    int64_t *unsupplied;
    bool some;
    WEFT_TRY(count_unsupplied(p, theirs, count, &unsupplied, &some));
    weft_status status = replay(p, theirs, count, unsupplied);
    free(unsupplied);
    return status;
}

static weft_status send_missing(weft_peer *p, weft_link *link, const weft_origin *theirs,
                                size_t count, const int64_t *unsupplied)
{
    const weft_broadcast *u = &p->broadcast;
    for (size_t i = 0; i < u->log_count; i++) {
        const weft_gossip_update *r = entry(u, i);
        if (r->first > applied_by(theirs, count, r->origin) &&
            unsupplied[lower_bound(u->origins, u->origin_count, r->origin)] == 0)
            WEFT_TRY(weft_link_send(&p->head, link, r));
    }
    for (size_t i = 0; i < u->origin_count; i++) {
        const weft_origin *o = &u->origins[i];
        weft_gossip_update end = {.origin = o->id, .first = o->applied, .sequence = o->applied};
        if (o->ended && o->applied > applied_by(theirs, count, o->id) && unsupplied[i] == 0)
            WEFT_TRY(weft_link_send(&p->head, link, &end));
    }
    return weft_peer_arm_timer(p);
}

weft_status weft_update_log_send(weft_peer *p, weft_link *link, const weft_origin *theirs,
                                 size_t count)
{
    int64_t *unsupplied;
    WEFT_TRY(count_unsupplied(p, theirs, count, &unsupplied, &link->needs_snapshot));
    weft_status status = send_missing(p, link, theirs, count, unsupplied);
    free(unsupplied);
    return status;
}
