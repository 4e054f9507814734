/* The coordinator's answers to its members: to heartbeats, with which they report their statistics,
 * to reports that a replica is in sync or that the state of the run is lost, and to queries for the
 * view.
 */
#include <inttypes.h>
#include <stdio.h>

#include "membership/coordinator_internal.h"

/* Gives a run of peers a fault if it has no peer left: a peer that was removed must not bring its
 * state back, which may be old. */
static weft_status lose_state(coordinator_state *c)
{
    weft_view *v = &c->view;
    bool lost = c->options.ranges == 0 && c->stepped && !weft_coordinator_has_work(c);
    if (!lost || !v->running || v->over || v->fault) return WEFT_OK;
    WEFT_TRY(
        weft_format(&v->fault, "no learner is left that has the state of the run; %s", c->advice));
    return weft_coordinator_changed(c);
}

static weft_status refuse_unknown(coordinator_state *c, weft_actor_id who, uint64_t run)
{
    Weft__Reject no;
    char reason[300];
    weft__reject__init(&no);
    if (run == c->view.run) WEFT_TRY(lose_state(c));
    no.failed = run == c->view.run && c->view.fault;
    if (no.failed)
        (void)snprintf(reason, sizeof(reason), "%.280s", c->view.fault);
    else if (weft_coordinator_has_removed(c, who))
        (void)snprintf(reason, sizeof(reason),
                       "it sent no heartbeat for more than %g s (the failure timeout) and was "
                       "removed from the run; start it again",
                       c->options.limit);
    else
        (void)snprintf(reason, sizeof(reason),
                       "it is not a member of this coordinator's run: it belongs to another run, "
                       "or was removed from this one; start it again");
    no.other_run = run != c->view.run;
    no.reason = reason;
    return weft_rpc_send(&c->head, who, WEFT_RPC_REJECT, &no, NULL);
}

static weft_status answer_heartbeat(coordinator_state *c, weft_actor_id to)
{
    Weft__HeartbeatAck m = WEFT__HEARTBEAT_ACK__INIT;
    double now = weft_actor_now(&c->head);
    for (size_t i = 0; i < c->view.member_count; i++) {
        const weft_view_member *o = &c->view.members[i];
        if (o->role != WEFT_MEMBER_LEARNER || (m.slowest && o->figures.clock >= m.slowest_clock))
            continue;
        m.slowest = o->id;
        m.slowest_clock = o->figures.clock;
        m.slowest_silent = now - c->records[i].last_message;
    }
    return weft_rpc_send(&c->head, to, WEFT_RPC_HEARTBEAT_ACK, &m, NULL);
}

weft_member_stats weft_coordinator_stats_of(const Weft__Stats *f)
{
    return (weft_member_stats){.clock = f->clock,
                               .loss = f->loss,
                               .rate = f->rate,
                               .staleness = f->staleness,
                               .device_busy = f->device_busy,
                               .device_used = f->device_used,
                               .device_total = f->device_total};
}

void weft_coordinator_take_stats(coordinator_state *c, weft_view_member *member,
                                 weft_member_stats stats)
{
    member->figures = stats;
    if (member->role == WEFT_MEMBER_LEARNER)
        c->view.about.reached = WEFT_MAX(c->view.about.reached, stats.clock);
}

weft_status weft_coordinator_take_heartbeat(void *self, const weft_message *message,
                                            const void *content)
{
    coordinator_state *c = self;
    const Weft__Heartbeat *m = content;
    weft_view_member *member = weft_view_find(&c->view, message->from);
    if (m->view <= 0) return WEFT_OK;
    if (!c->view.running && m->run && m->run == c->refused_run)
        return refuse_unknown(c, message->from, m->run);
    if (!c->view.running) return weft_coordinator_request_view(c, message->from, m->figures);
    /* A removed member, which was unreachable for a while, may have taken steps, too. */
    if (m->run == c->view.run && m->figures && m->figures->clock > 0) c->stepped = true;
    if (!member || m->run != c->view.run) return refuse_unknown(c, message->from, m->run);
    member_record *record = &c->records[member - c->view.members];
    record->last_message = record->heard = weft_actor_now(&c->head);
    if (m->figures) weft_coordinator_take_stats(c, member, weft_coordinator_stats_of(m->figures));
    if (m->view < c->view.number) return weft_coordinator_send_view(c, message->from, &c->view);
    bool others = m->members != 0 && m->members != weft_view_sum(&c->view);
    if (m->view > c->view.number || others) return weft_coordinator_overrule(c, m->view);
    return answer_heartbeat(c, message->from);
}

weft_status weft_coordinator_take_in_sync(void *self, const weft_message *message,
                                          const void *content)
{
    coordinator_state *c = self;
    const Weft__InSync *m = content;
    if (m->range >= (uint32_t)c->view.range_count) return WEFT_OK;
    weft_range_owner *r = &c->view.ranges[m->range];
    if (r->primary != message->from || r->replica != m->replica || r->in_sync) return WEFT_OK;
    r->in_sync = true;
    return weft_coordinator_changed(c);
}

/* Whether this coordinator knows better than a member that says that the state of the run is lost:
 * of peers, a learner reports steps; of servers, which never were initialized, a learner has the
 * checkpoint. A member of another role cannot know. */
static bool is_contradicted(const coordinator_state *c, weft_actor_id from)
{
    const weft_view *v = &c->view;
    bool peers = c->options.ranges == 0;
    if (weft_view_role(v, from) != (peers ? WEFT_RPC_LEARNER : WEFT_RPC_SERVER)) return true;
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        if (m->role != WEFT_MEMBER_LEARNER) continue;
        if (peers ? m->figures.clock > 0 : !m->lacks_state) return true;
    }
    return false;
}

/* Handles StateLost: peers have lost the state of the run, or servers were never initialized. */
weft_status weft_coordinator_take_state_lost(void *self, const weft_message *message,
                                             const void *content)
{
    coordinator_state *c = self;
    const Weft__StateLost *m = content;
    weft_view *v = &c->view;
    if (m->view != v->number || v->over || v->fault) return WEFT_OK;
    if (is_contradicted(c, message->from)) {
        weft_coordinator_refuse(c, message->from,
                                "it says that the state of the run is lost, which a learner has");
        return WEFT_OK;
    }
    bool stepped = c->stepped || m->stepped, resumes = c->options.fingerprint.checkpoint != 0;
    if (c->options.ranges == 0 && (c->some_done || (!stepped && !resumes))) {
        /* No state is lost: all steps have been taken, so the run is over, or none of a run that
         * begins with fresh weights, so any peer may begin. A peer may know of steps before a
         * heartbeat has reported them to the coordinator. */
        v->over = c->some_done;
        for (size_t i = 0; i < v->member_count; i++) v->members[i].lacks_state = false;
        return weft_coordinator_changed(c);
    }
    if (c->options.ranges > 0 || !stepped)
        WEFT_TRY(weft_format(
            &v->fault,
            "all learners with the checkpoint of step %" PRId64
            " have left or are lost, before %s had its parameters; begin the run again, with a "
            "learner that has it (--checkpoint FOLDER --resume)",
            c->options.fingerprint.step, c->options.ranges > 0 ? "the servers" : "another peer"));
    else
        WEFT_TRY(weft_format(&v->fault, "no learner is left that has the state of the run; %s",
                             c->advice));
    return weft_coordinator_changed(c);
}

/* Answers a client's Query with the view, and with a JoinAck if the client asks for it. */
weft_status weft_coordinator_answer_query(void *self, const weft_message *message,
                                          const void *content)
{
    coordinator_state *c = self;
    const Weft__Query *m = content;
    weft_coordinator_seek(c, m->run);
    if (c->recovering) return WEFT_OK; /* the members are not known yet */
    int requested_slot =
        m->place > 0 && m->place <= (uint32_t)c->options.most ? (int)m->place - 1 : -1;
    weft_member_role role = m->learner ? WEFT_MEMBER_LEARNER : WEFT_MEMBER_SERVER;
    if (requested_slot >= 0 && weft_view_find(&c->view, message->from)) {
        weft_coordinator_refuse(c, message->from, "a member cannot take the place of another one");
        return WEFT_OK;
    }
    bool waits = false;
    if (requested_slot >= 0) WEFT_TRY(weft_coordinator_replace(c, role, requested_slot, &waits));
    if (waits) return WEFT_OK; /* the client asks again */
    if (m->invited) WEFT_TRY(weft_coordinator_invite(c, message->from, m->learner, requested_slot));
    double now = weft_actor_now(&c->head);
    for (size_t i = 0; i < c->view.member_count; i++)
        c->view.members[i].silent = now - c->records[i].last_message;
    return weft_coordinator_send_view(c, message->from, &c->view);
}
