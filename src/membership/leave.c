/* Removes members that leave, whose failure timeout has run out (failure detector), or that are
 * replaced; and decides when the run is over. */
#include <stdio.h>

#include "membership/coordinator_internal.h"

bool weft_coordinator_has_removed(const coordinator_state *c, weft_actor_id id)
{
    for (size_t i = 0; i < WEFT_MIN(c->gone_count, (size_t)GONE); i++)
        if (c->gone[i] == id) return true;
    return false;
}

bool weft_coordinator_has_work(const coordinator_state *c)
{
    return weft_view_count(&c->view, WEFT_MEMBER_LEARNER) > 0;
}

/* Sets `over`: a job without servers is over when the learner of slot 0 has finished, any other run
 * when a learner (of a job: that of slot 0) has finished and no learner is left. */
static void look_for_end(coordinator_state *c)
{
    bool together = c->options.first && c->options.ranges == 0;
    c->view.over = c->view.over || (c->some_done && (together || !weft_coordinator_has_work(c)));
}

weft_status weft_coordinator_note(coordinator_state *c, const weft_view_member *m,
                                  weft_member_event_kind kind, double silent)
{
    weft_member_event event = {.kind = kind,
                               .id = m->id,
                               .role = m->role,
                               .slot = m->slot,
                               .when = weft_actor_now(&c->head),
                               .silent = silent};
    (void)snprintf(event.host, sizeof(event.host), "%s", m->host);
    return weft_view_note(&c->view, &event);
}

/* Whether the run ends with its coordinator: the learners, which save the parameters, have left. */
static bool ends(const coordinator_state *c)
{
    return c->stopping && !weft_coordinator_has_work(c);
}

void weft_coordinator_stop(weft_actor *coordinator)
{
    coordinator_state *c = (coordinator_state *)coordinator;
    c->stopping = true;
    c->left_at = weft_actor_now(&c->head);
}

bool weft_coordinator_awaits_leave(const weft_actor *coordinator, double seconds, int *server)
{
    const coordinator_state *c = (const coordinator_state *)coordinator;
    *server = -1;
    for (size_t i = 0; i < c->view.member_count && *server < 0; i++)
        if (c->records[i].asks_leave) *server = c->view.members[i].slot;
    if (c->view.member_count == 0) return false;
    return *server >= 0 || weft_actor_now(&c->head) - c->left_at < seconds;
}

static weft_status remove_member(coordinator_state *c, weft_actor_id id,
                                 weft_member_event_kind kind)
{
    weft_view *v = &c->view;
    const weft_view_member *m = weft_view_find(v, id), gone = *m;
    size_t at = (size_t)(m - v->members);
    double silent = weft_actor_now(&c->head) - c->records[at].last_message;
    c->left_at = weft_actor_now(&c->head);
    WEFT_TRY(weft_coordinator_note(c, m, kind, kind == WEFT_MEMBER_SILENT ? silent : 0));
    /* Before the run begins, a silent member has nothing to lose and joins again. */
    if (v->running || kind != WEFT_MEMBER_SILENT) c->gone[c->gone_count++ % GONE] = id;
    if (c->records[at].said) {
        WEFT_TRY(WEFT_GROW(&c->removed, &c->removed_capacity, c->removed_count));
        c->removed[c->removed_count++] = id;
    }
    (void)weft_view_remove(v, id);
    weft_actor_forget(&c->head, id);
    c->records[at] = c->records[v->member_count]; /* as in the view */
    if (gone.role != WEFT_MEMBER_SERVER || v->over || ends(c)) return WEFT_OK;
    return weft_assignment_remove_server(v, &gone, c->options.replicas, c->advice);
}

/* Whether a member may leave, which has requested that itself or is to be asked by a client; if
 * not, `why` is the reason. */
static bool may_leave(const coordinator_state *c, const weft_view_member *m, bool itself, char *why,
                      size_t size)
{
    bool tells = !itself && c->options.first && m->role == WEFT_MEMBER_LEARNER && m->slot == 0;
    bool keeps =
        m->role == WEFT_MEMBER_SERVER && !ends(c) && weft_assignment_is_last_copy(&c->view, m->id);
    bool waits = !itself && !c->view.running && !c->view.over;
    char name[WEFT_MEMBER_NAME];
    weft_member_name(m->role, m->slot, name);
    if (tells)
        (void)snprintf(why, size,
                       "%s cannot leave: it reports the results of this job; stop the job, or let "
                       "another learner leave",
                       name);
    if (keeps)
        (void)snprintf(why, size, "%s cannot leave: no other server has all of its parameters",
                       name);
    if (waits)
        (void)snprintf(why, size,
                       "%s cannot be asked to leave before the run begins; end its process instead "
                       "(SIGTERM, Ctrl-C)",
                       name);
    return !tells && !keeps && !waits;
}

weft_status weft_coordinator_take_out(coordinator_state *c, weft_actor_id id, bool done)
{
    const weft_view_member *m = weft_view_find(&c->view, id);
    bool counts = !c->options.first || m->slot == 0;
    bool ended = done || c->view.over || (m->role == WEFT_MEMBER_SERVER && c->view.fault);
    WEFT_TRY(remove_member(c, id,
                           m->dismissed ? WEFT_MEMBER_DISMISSED
                           : ended      ? WEFT_MEMBER_FINISHED
                                        : WEFT_MEMBER_STOPPED));
    c->some_done = c->some_done || (done && counts);
    look_for_end(c);
    return WEFT_OK;
}

static weft_status refuse_leave(coordinator_state *c, weft_actor_id to, char *reason)
{
    Weft__Reject no;
    weft__reject__init(&no);
    no.reason = reason;
    no.stays = true;
    return weft_rpc_send(&c->head, to, WEFT_RPC_REJECT, &no, NULL);
}

/* A server that has a copy of this server's ranges and was not heard after a time; NULL: none. */
static const weft_view_member *silent_copy(const coordinator_state *c, weft_actor_id server,
                                           double since)
{
    const weft_view *v = &c->view;
    for (int k = 0; k < v->range_count; k++) {
        const weft_range_owner *r = &v->ranges[k];
        weft_actor_id copy = r->primary == server   ? r->replica
                             : r->replica == server ? r->primary
                                                    : WEFT_NOBODY;
        const weft_view_member *m = weft_view_find(v, copy);
        if (m && c->records[m - v->members].heard <= since) return m;
    }
    return NULL;
}

/* Whether a member may leave now, at its own request or a client's; if not, `why` is the reason.
 * The server with the other copy of a range may just have died, so a server leaves when the other
 * one was heard after the request. *refused: the request is to be rejected; false: the sender
 * repeats it until that server was heard. */
static bool may_leave_now(coordinator_state *c, const weft_view_member *m, bool itself,
                          bool *refused, char *why, size_t size)
{
    member_record *record = &c->records[m - c->view.members];
    const weft_view_member *silent = NULL;
    char name[WEFT_MEMBER_NAME];
    *refused = !may_leave(c, m, itself, why, size);
    if (record->leave_requested == 0 || *refused)
        record->leave_requested = *refused ? 0 : weft_actor_now(&c->head);
    if (!*refused && m->role == WEFT_MEMBER_SERVER && !c->view.over && !c->view.fault)
        silent = silent_copy(c, m->id, record->leave_requested);
    if (silent) {
        weft_member_name(silent->role, silent->slot, name);
        (void)snprintf(
            why, size,
            "%s, which has a copy of its parameters, has not been heard since the request", name);
    }
    return !*refused && !silent;
}

weft_status weft_coordinator_leave(void *self, const weft_message *message, const void *content)
{
    coordinator_state *c = self;
    const Weft__Leave *m = content;
    Weft__LeaveAck reply = WEFT__LEAVE_ACK__INIT;
    weft_view_member *other = weft_view_find(&c->view, m->other);
    weft_view_member *here = weft_view_find(&c->view, message->from);
    const weft_view_member *asked = other && !other->dismissed              ? other
                                    : m->other == WEFT_NOBODY && m->if_safe ? here
                                                                            : NULL;
    char reason[160];
    bool refused;
    if (here && m->other != WEFT_NOBODY) { /* only clients (weft leave) ask others to leave */
        weft_coordinator_refuse(c, message->from, "a member cannot ask another one to leave");
        return WEFT_OK;
    }
    if (here && m->if_safe) c->records[here - c->view.members].asks_leave = true;
    if (asked && !may_leave_now(c, asked, asked == here, &refused, reason, sizeof(reason)))
        return refused || asked == here ? refuse_leave(c, message->from, reason) : WEFT_OK;
    if (other && !other->dismissed) {
        other->dismissed = true;
        WEFT_TRY(weft_coordinator_changed(c));
    } else if (m->other == WEFT_NOBODY && here) {
        if (m->figures) weft_coordinator_take_stats(c, here, weft_coordinator_stats_of(m->figures));
        WEFT_TRY(weft_coordinator_take_out(c, message->from, m->done));
        WEFT_TRY(weft_coordinator_changed(c));
    } else if (m->other == WEFT_NOBODY && !c->view.running) {
        if (m->if_safe) return WEFT_OK; /* the ranges are not known yet; the server asks again */
        WEFT_TRY(weft_coordinator_note_left(c, message->from, m));
        /* The sender may be the last one that has the view, so it must not end before it has sent
         * that. */
        if (m->run && m->run != c->refused_run && !c->view.fault && c->best.number == 0)
            return weft_coordinator_request_view(c, message->from, NULL);
    }
    return weft_rpc_send(&c->head, message->from, WEFT_RPC_LEAVE_ACK, &reply, NULL);
}

int64_t weft_coordinator_starts(const coordinator_state *c, weft_member_role role, int slot)
{
    return c->options.starts ? c->options.starts(c->options.user, role, slot) : 0;
}

void weft_coordinator_refuse(coordinator_state *c, weft_actor_id from, const char *request)
{
    char text[200], name[WEFT_MEMBER_NAME];
    (void)snprintf(text, sizeof(text), "%s is refused: %s", weft_view_name(&c->view, from, name),
                   request);
    weft_actor_warn(&c->head, text);
}

/* Removes the member of a slot at once, since its process has ended and a client replaces it. Only
 * the supervisor of a job knows that: it has started another process for the slot. A coordinator
 * that has recovered its view does not know which process a member is, so there the failure timeout
 * decides. */
weft_status weft_coordinator_replace(coordinator_state *c, weft_member_role role, int slot,
                                     bool *waits)
{
    *waits = false;
    for (size_t i = 0; i < c->view.member_count; i++) {
        const weft_view_member *m = &c->view.members[i];
        if (m->role != role || m->slot != slot) continue;
        *waits =
            c->options.starts && weft_coordinator_starts(c, role, slot) <= c->records[i].starts;
        if (!c->options.starts || *waits) return WEFT_OK;
        WEFT_TRY(remove_member(c, m->id, WEFT_MEMBER_REPLACED));
        return weft_coordinator_changed(c);
    }
    return WEFT_OK;
}

/* Adds a time in which this coordinator could hear nobody to the last messages of all members: it
 * does not count as silence of theirs. */
static void excuse_all(coordinator_state *c, double seconds)
{
    double now = weft_actor_now(&c->head);
    for (size_t i = 0; i < c->view.member_count; i++)
        c->records[i].last_message = WEFT_MIN(now, c->records[i].last_message + seconds);
}

bool weft_coordinator_is_cut_off(const coordinator_state *c)
{
    const weft_view *v = &c->view;
    return v->running && !v->over && !v->fault && v->member_count > 0 &&
           weft_actor_now(&c->head) - c->heard > c->options.limit / 2;
}

void weft_coordinator_note_heard(coordinator_state *c)
{
    double now = weft_actor_now(&c->head);
    if (weft_coordinator_is_cut_off(c)) excuse_all(c, now - c->heard);
    c->heard = now;
}

/* Failure detector: removes members that were silent for a failure timeout. A pause of the
 * coordinator itself, or a time in which it heard nobody, does not count as silence of the
 * members. */
weft_status weft_coordinator_drop_silent(coordinator_state *c, double now)
{
    double slept = now - c->ticked - 2 * (c->options.limit / 4);
    bool some = false;
    if (slept > 0) {
        excuse_all(c, now - c->ticked);
        c->heard = WEFT_MIN(now, c->heard + now - c->ticked);
    }
    c->ticked = now;
    if (weft_coordinator_is_cut_off(c)) return WEFT_OK;
    for (size_t i = c->view.member_count; i-- > 0;) {
        if (now - c->records[i].last_message <= c->options.limit) continue;
        WEFT_TRY(remove_member(c, c->view.members[i].id, WEFT_MEMBER_SILENT));
        some = true;
    }
    if (some) look_for_end(c); /* the last learner may be lost after another has finished */
    return some ? weft_coordinator_changed(c) : WEFT_OK;
}
