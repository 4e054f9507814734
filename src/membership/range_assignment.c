/* Assigns ranges: primaries round robin over the servers, replicas on the server with the fewest
 * ranges. When a server is removed, the replica that is in sync becomes primary (failover); without
 * one the run has failed. */
#include "membership/range_assignment.h"

#include <stdio.h>

/* The server of the lowest slot that is not below `from`; NULL: none. */
static const weft_view_member *next_server(const weft_view *v, int from)
{
    const weft_view_member *next = NULL;
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        if (m->role == WEFT_MEMBER_SERVER && m->slot >= from && (!next || m->slot < next->slot))
            next = m;
    }
    return next;
}

weft_status weft_assignment_begin(weft_view *v, int ranges)
{
    const weft_view_member *s = NULL;
    WEFT_TRY(WEFT_NEW(&v->ranges, WEFT_MAX(ranges, 1)));
    v->range_count = ranges;
    for (int k = 0; k < ranges; k++) {
        s = next_server(v, s ? s->slot + 1 : 0);
        if (!s) s = next_server(v, 0);
        if (!s) return weft_fail(WEFT_ERR_INTERNAL, "a run with ranges begins without servers");
        v->ranges[k] = (weft_range_owner){.primary = s->id};
    }
    return WEFT_OK;
}

static int load_of(const weft_view *v, weft_actor_id server)
{
    int load = 0;
    for (int k = 0; k < v->range_count; k++)
        load += (v->ranges[k].primary == server) + (v->ranges[k].replica == server);
    return load;
}

/* Chooses the server of a replica: the one with the fewest ranges that is neither the primary nor
 * dismissed; among equals, the first after the primary in cyclic order of slots. */
static weft_actor_id choose(const weft_view *v, weft_actor_id primary)
{
    const weft_view_member *owner = weft_view_find(v, primary), *best = NULL, *m;
    int from = owner ? owner->slot + 1 : 0, servers = weft_view_count(v, WEFT_MEMBER_SERVER);
    for (int i = 0; i < servers; i++, from = m->slot + 1) {
        m = next_server(v, from);
        if (!m) m = next_server(v, 0);
        if (m->id == primary || m->dismissed) continue;
        if (!best || load_of(v, m->id) < load_of(v, best->id)) best = m;
    }
    return best ? best->id : WEFT_NOBODY;
}

bool weft_assignment_add_replicas(weft_view *v)
{
    bool some = false;
    for (int k = 0; k < v->range_count; k++) {
        weft_range_owner *r = &v->ranges[k];
        if (r->primary == WEFT_NOBODY || r->replica != WEFT_NOBODY) continue;
        r->replica = choose(v, r->primary);
        r->in_sync = false;
        some = some || r->replica != WEFT_NOBODY;
    }
    return some;
}

static weft_status set_fault(weft_view *v, int range, const weft_view_member *server, bool replicas,
                             const char *advice)
{
    const char *why = "it has no replica (--replicas 1 keeps one on another server)";
    char name[WEFT_MEMBER_NAME];
    if (v->ranges[range].replica != WEFT_NOBODY)
        why = "its replica was not in sync";
    else if (replicas)
        why = "this was the last copy, since no other server was left to keep one";
    return weft_format(
        &v->fault, "%s is lost, and with it range %d of %d of the parameters: %s; %s",
        weft_member_name(server->role, server->slot, name), range, v->range_count, why, advice);
}

weft_status weft_assignment_remove_server(weft_view *v, const weft_view_member *server,
                                          bool replicas, const char *advice)
{
    for (int k = 0; k < v->range_count; k++) {
        weft_range_owner *r = &v->ranges[k];
        bool safe = r->replica != WEFT_NOBODY && r->replica != server->id && r->in_sync;
        if (r->primary == server->id && !safe && !v->fault)
            WEFT_TRY(set_fault(v, k, server, replicas, advice));
        if (r->primary == server->id)
            *r = (weft_range_owner){.primary = safe ? r->replica : WEFT_NOBODY};
        else if (r->replica == server->id)
            *r = (weft_range_owner){.primary = r->primary};
    }
    return WEFT_OK;
}

/* Whether a server keeps its ranges: it is a member and was not asked to leave. */
static bool keeps_ranges(const weft_view *v, weft_actor_id server)
{
    const weft_view_member *m = weft_view_find(v, server);
    return m && !m->dismissed;
}

bool weft_assignment_is_last_copy(const weft_view *v, weft_actor_id server)
{
    for (int k = 0; k < v->range_count; k++) {
        const weft_range_owner *r = &v->ranges[k];
        weft_actor_id replica = r->in_sync ? r->replica : WEFT_NOBODY;
        if (r->primary == server && !keeps_ranges(v, replica)) return true;
        if (replica == server && !keeps_ranges(v, r->primary)) return true;
    }
    return false;
}

bool weft_assignment_has_range(const weft_view *v, weft_actor_id server)
{
    for (int k = 0; k < v->range_count; k++)
        if (v->ranges[k].primary == server || v->ranges[k].replica == server) return true;
    return false;
}
