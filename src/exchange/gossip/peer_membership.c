/* Membership of elastic peers: installs new views, chooses the donor of a state transfer, exchanges
 * heartbeats, and removes silent peers while the coordinator is unreachable (failure detector). */
#include "exchange/gossip/peer_internal.h"
#include "membership.pb-c.h"
#include "gossip.pb-c.h"

static weft_status send_heartbeat(weft_peer *p, weft_actor_id to, bool is_answer)
{
    Weft__PeerHeartbeat m = WEFT__PEER_HEARTBEAT__INIT;
    m.view = weft_member_view(p->member)->number;
    m.members = p->members;
    m.has_state = p->has_state;
    m.answer = is_answer;
    m.version_hash = p->version_hash;
    m.has_mean = p->final_average.contributors > 0;
    return weft_rpc_send(&p->head, to, WEFT_RPC_PEER_HEARTBEAT, &m, NULL);
}

weft_status weft_peer_send_heartbeat(weft_peer *p)
{
    for (int i = 0; i < p->peers; i++)
        if (i != p->me) WEFT_TRY(send_heartbeat(p, p->ids[i], false));
    return WEFT_OK;
}

/* --- the state of the run --- */

/* The donor of a state transfer: a neighbour that has the state of the run, else any such peer;
 * WEFT_NOBODY: none has it. */
static weft_actor_id choose_donor(const weft_peer *p)
{
    for (int i = 0; i < p->neighbour_count; i++)
        if (p->records[p->neighbours[i]].has_state) return p->ids[p->neighbours[i]];
    for (int i = 0; i < p->peers; i++)
        if (i != p->me && p->records[i].has_state) return p->ids[i];
    return WEFT_NOBODY;
}

/* The lowest index of a peer that may begin the run with its own parameters; -1: all peers lack the
 * state (weft_view_member.lacks_state). In a job that is index 0, since `late` tells each peer
 * whether the run has taken steps. */
static int first_initial_peer(const weft_peer *p)
{
    const weft_view *v = weft_member_view(p->member);
    for (int i = 0; i < p->peers; i++)
        if (p->options.job || !weft_view_find(v, p->ids[i])->lacks_state) return i;
    return -1;
}

/* For a peer that lacks the state of the run: requests it from a donor. If all other peers report,
 * with this view, that they lack it, too, the first peer begins the run with its own parameters or,
 * if the run had taken steps, reports that the state is lost. */
static weft_status find_state(weft_peer *p)
{
    if (p->has_state || p->leaving || p->donor != WEFT_NOBODY || p->peers == 0) return WEFT_OK;
    weft_actor_id donor = choose_donor(p);
    if (donor != WEFT_NOBODY) return weft_state_request_from(p, donor);
    int first = first_initial_peer(p);
    bool none = p->me == WEFT_MAX(first, 0);
    for (int i = 0; i < p->peers; i++)
        none = none && (i == p->me || (p->records[i].same_view && !p->records[i].has_state));
    if (!none) return WEFT_OK;
    if (!p->options.late && first >= 0) return weft_peer_start_at(p, 0);
    if (!weft_member_coordinator_unreachable(p->member))
        return weft_member_report_state_lost(p->member, p->options.late);
    return weft_fail(WEFT_ERR_PEER, "no learner is left that has the state of the run, and the "
                                    "coordinator cannot be reached; begin the run again, with "
                                    "--resume where a learner has saved a checkpoint");
}

/* --- views --- */

static int slot_of(const weft_view *view, weft_actor_id id)
{
    return weft_view_find(view, id)->slot;
}

/* Lists the ids of the view's peers, sorted by slot. */
static weft_status list_ids(const weft_peer *p, weft_actor_id **out, int *count)
{
    const weft_view *v = weft_member_view(p->member);
    weft_actor_id *ids;
    int n = 0;
    WEFT_TRY(WEFT_NEW(&ids, v->member_count + 1));
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        int at = n;
        if (m->role != p->options.member.role) continue;
        for (; at > 0 && slot_of(v, ids[at - 1]) > m->slot; at--) ids[at] = ids[at - 1];
        ids[at] = m->id;
        n++;
    }
    *out = ids;
    *count = n;
    return WEFT_OK;
}

/* Replaces ids and records by those of the new view, and frees `ids` on failure. Peers that were in
 * the former view keep `has_state`. */
static weft_status take_records(weft_peer *p, weft_actor_id *ids, int count)
{
    weft_peer_record *records;
    weft_status status = WEFT_NEW(&records, count + 1);
    if (status != WEFT_OK) {
        free(ids);
        return status;
    }
    for (int i = 0; i < count; i++) {
        int before = weft_peer_index(p, ids[i]);
        /* A new peer is assumed to have no state until its first heartbeat. */
        records[i] = (weft_peer_record){.last_message = weft_actor_now(&p->head),
                                        .has_state = before >= 0 && p->records[before].has_state};
    }
    free(p->records);
    free(p->ids);
    p->records = records;
    p->ids = ids;
    p->peers = count;
    return WEFT_OK;
}

static weft_status arrange(weft_peer *p)
{
    weft_actor_id *ids;
    int count;
    WEFT_TRY(list_ids(p, &ids, &count));
    WEFT_TRY(take_records(p, ids, count));
    p->me = weft_peer_index(p, p->head.id);
    p->members = (uint64_t)count;
    for (int i = 0; i < count; i++) p->members = weft_mix(p->members, ids[i]);
    weft_topology_free(&p->own_topology);
    if (count > 1)
        WEFT_TRY(weft_topology_make(p->options.topology_name, count, p->mode->pairs,
                                    p->options.seed, &p->own_topology));
    weft_final_average_arrange(p);
    WEFT_TRY(weft_broadcast_arrange(p));
    if (p->mode->view_changed) p->mode->view_changed(p);
    return WEFT_OK;
}

weft_status weft_peer_membership_view(weft_peer *p)
{
    const weft_view *v = weft_member_view(p->member);
    if (v->fault && !p->leaving) return weft_fail(WEFT_ERR_PEER, "%s", v->fault);
    if (v->over && !p->has_state && !p->leaving && !p->options.job)
        return weft_fail(WEFT_ERR_PEER, "this run is over; no step is left to train");
    WEFT_TRY(arrange(p));
    if (weft_peer_index(p, p->donor) < 0) p->donor = WEFT_NOBODY;
    if (p->has_state) return weft_sync_request_all(p);
    WEFT_TRY(weft_peer_send_heartbeat(p));
    return find_state(p);
}

/* --- failure detector --- */

/* Whether this peer sends heartbeats to peer i, and removes it if it is silent: neighbours, or all
 * peers while this peer lacks the state of the run. */
static bool is_monitored(const weft_peer *p, int i)
{
    return i != p->me && (!p->has_state || weft_peer_link(p, p->ids[i]));
}

/* While the coordinator is unreachable, removes peers that were silent for a failure timeout. A
 * pause of this process does not count as silence. */
static weft_status remove_silent(weft_peer *p, double now)
{
    double failure_timeout = weft_member_view(p->member)->failure_timeout,
           pause = now - p->last_tick;
    bool removed = false;
    for (int i = 0; i < p->peers && pause > 2 * p->options.member.heartbeat_interval; i++)
        p->records[i].last_message += pause;
    p->paused = p->paused || pause > failure_timeout;
    p->last_tick = now;
    for (int i = 0; i < p->peers && weft_member_coordinator_unreachable(p->member); i++)
        if (is_monitored(p, i) && now - p->records[i].last_message > failure_timeout)
            removed = weft_member_remove(p->member, p->ids[i]) || removed;
    if (removed && p->paused && weft_member_view(p->member)->member_count == 1) {
        weft_member_note_removed(p->member);
        return weft_fail(WEFT_ERR_PEER,
                         "this peer was stopped for more than %g s, and neither the coordinator "
                         "nor another peer answers; start it again when they do, or begin the run "
                         "again, with --resume where a learner has saved a checkpoint",
                         failure_timeout);
    }
    return removed ? weft_peer_membership_view(p) : WEFT_OK;
}

weft_status weft_peer_membership_tick(weft_peer *p)
{
    if (p->peers == 0) return WEFT_OK;
    for (int i = 0; i < p->peers; i++)
        if (is_monitored(p, i) || (p->ended && i != p->me))
            WEFT_TRY(send_heartbeat(p, p->ids[i], false));
    WEFT_TRY(remove_silent(p, weft_actor_now(&p->head)));
    return find_state(p);
}

bool weft_peer_all_converged(const weft_peer *p)
{
    for (int i = 0; i < p->peers; i++)
        if (i != p->me && p->records[i].version_hash != p->version_hash) return false;
    return p->version_hash != 0;
}

/* --- messages --- */

weft_status weft_peer_same_view(weft_peer *p, weft_actor_id sender, int64_t view, uint64_t members,
                                bool *same)
{
    const weft_view *v = weft_member_view(p->member);
    Weft__ViewRequest request = WEFT__VIEW_REQUEST__INIT;
    *same = view == v->number && members == p->members && v->number > 0;
    if (*same || v->number == 0) return WEFT_OK;
    bool known = weft_peer_index(p, sender) >= 0;
    /* A sender that was removed from this peer's view is sent that view. A sender that was never in
     * it has a newer view, which is requested. */
    if (!known && weft_member_was_removed(p->member, sender))
        return weft_member_send_view(p->member, sender);
    if (known && view < v->number) return send_heartbeat(p, sender, true);
    return weft_rpc_send(&p->head, sender, WEFT_RPC_VIEW_REQUEST, &request, NULL);
}

weft_status weft_peer_take_heartbeat(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__PeerHeartbeat *m = content;
    int i = weft_peer_index(p, message->from);
    bool same;
    WEFT_TRY(weft_peer_same_view(p, message->from, m->view, m->members, &same));
    if (i < 0) return WEFT_OK;
    weft_peer_record *record = &p->records[i];
    uint64_t hash = same ? m->version_hash : 0;
    bool mean = same && m->has_mean;
    /* Progress of another peer: a peer that waits to leave goes on waiting (check_leave). */
    if (hash != record->version_hash || mean != record->has_mean) p->final_average.progress++;
    record->has_state = m->has_state;
    record->same_view = same;
    record->version_hash = hash;
    record->has_mean = mean;
    if (!m->has_state && !m->answer) WEFT_TRY(send_heartbeat(p, message->from, true));
    return find_state(p);
}

weft_status weft_peer_take_view(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    weft_member_news news;
    (void)content;
    WEFT_TRY(weft_member_receive_view(p->member, message, &news));
    return news == WEFT_NEWS_VIEW ? weft_peer_membership_view(p) : WEFT_OK;
}

weft_status weft_peer_take_view_request(void *self, const weft_message *message,
                                        const void *content)
{
    const weft_peer *p = self;
    (void)content;
    return weft_peer_index(p, message->from) < 0 ? WEFT_OK
                                                 : weft_member_send_view(p->member, message->from);
}
