/* View recovery: a restarted coordinator collects the view and reports from the members. A
 * coordinator that was cut off overrides views that members have made without it. */
#include <inttypes.h>

#include "membership/coordinator_internal.h"
#include "membership/run_config.h"

/* Added to the number of the recovered view: the former coordinator may have made up to so many
 * newer views that reached no live member. */
enum { LEAP = 16 };

static recovery_report *report_of(const coordinator_state *c, weft_actor_id who)
{
    for (size_t i = 0; i < c->report_count; i++)
        if (c->reports[i].id == who) return &c->reports[i];
    return NULL;
}

static weft_status report_for(coordinator_state *c, weft_actor_id who, recovery_report **out)
{
    *out = report_of(c, who);
    if (*out || c->report_count >= (size_t)c->options.most) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&c->reports, &c->report_capacity, c->report_count));
    *out = &c->reports[c->report_count++];
    **out = (recovery_report){.id = who};
    return WEFT_OK;
}

/* Keeps the statistics of a member's heartbeat or Leave, since those in the recovered view are old.
 */
static weft_status note_figures(coordinator_state *c, weft_actor_id who, const Weft__Stats *figures)
{
    recovery_report *e;
    if (!figures) return WEFT_OK;
    WEFT_TRY(report_for(c, who, &e));
    if (e) e->figures = weft_coordinator_stats_of(figures);
    return WEFT_OK;
}

void weft_coordinator_seek(coordinator_state *c, uint64_t run)
{
    bool known = !run || run == c->view.run || run == c->refused_run;
    if (known || c->view.running || c->view.fault || c->recovering || c->sought) return;
    c->recovering = c->sought = true;
    c->recovering_until = weft_actor_now(&c->head) + c->options.limit;
}

weft_status weft_coordinator_note_left(coordinator_state *c, weft_actor_id who,
                                       const Weft__Leave *m)
{
    recovery_report *e;
    WEFT_TRY(note_figures(c, who, m->figures));
    WEFT_TRY(report_for(c, who, &e));
    if (!e) return WEFT_OK;
    e->left = true;
    e->done = e->done || m->done;
    return WEFT_OK;
}

/* Requests the view of a member that has sent a heartbeat or Leave. The payload is this
 * coordinator's run configuration, which the member compares with its own. */
weft_status weft_coordinator_request_view(coordinator_state *c, weft_actor_id who,
                                          const Weft__Stats *figures)
{
    Weft__ViewRequest request_view = WEFT__VIEW_REQUEST__INIT;
    if (!c->called) c->recovering_until = weft_actor_now(&c->head) + c->options.limit;
    c->recovering = c->called = true;
    WEFT_TRY(note_figures(c, who, figures));
    request_view.coordinator = c->options.run;
    return weft_rpc_send(&c->head, who, WEFT_RPC_VIEW_REQUEST, &request_view, c->configuration);
}

/* Handles the Reject of a member with another run configuration: this coordinator fails. A late
 * Reject for a former coordinator at this address is ignored. */
weft_status weft_coordinator_rejected(void *self, const weft_message *message, const void *content)
{
    const coordinator_state *c = self;
    const Weft__Reject *m = content;
    (void)message;
    if (!c->recovering || (m->coordinator && m->coordinator != c->options.run)) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "a run with other options is under way at this address: %.250s; give the same "
                     "options, or another address",
                     m->reason);
}

weft_status weft_coordinator_take_view(void *self, const weft_message *message, const void *content)
{
    coordinator_state *c = self;
    (void)content;
    weft_view view = {.number = 0};
    if (!c->recovering) return WEFT_OK;
    weft_status status = weft_view_unpack(message->payload, weft_actor_now(&c->head), &view);
    if (status == WEFT_ERR_FORMAT) return WEFT_OK;
    WEFT_TRY(status);
    if (view.base != 0 || !view.running || !weft_view_find(&view, message->from) ||
        view.number <= c->best.number) {
        weft_view_free(&view);
        return WEFT_OK;
    }
    weft_view_free(&c->best);
    c->best = view;
    return WEFT_OK;
}

/* Takes the run configuration of a member, for members that join later: it says from which step the
 * run began, and this coordinator's own does not. */
weft_status weft_coordinator_take_options(void *self, const weft_message *message,
                                          const void *content)
{
    coordinator_state *c = self;
    (void)content;
    if (!c->recovering || !message->payload) return WEFT_OK;
    weft_buffer_unref(&c->members_configuration);
    return weft_buffer_compact(message->payload, &c->members_configuration);
}

/* Removes the members that have sent Leave during the recovery. */
static weft_status remove_left(coordinator_state *c)
{
    for (size_t i = 0; i < c->report_count; i++) {
        const recovery_report *e = &c->reports[i];
        if (e->left && weft_view_find(&c->view, e->id))
            WEFT_TRY(weft_coordinator_take_out(c, e->id, e->done));
    }
    return WEFT_OK;
}

/* Gives the view a fault, since no member has sent its view within a failure timeout. */
static weft_status lose_run(coordinator_state *c)
{
    WEFT_TRY(weft_format(&c->view.fault,
                         "all processes that had the parameters of step %" PRId64 " are lost; %s",
                         c->options.done, c->advice));
    return weft_coordinator_changed(c);
}

/* Whether the members are left over from a run that had not reached the checkpoint from which this
 * coordinator's run resumes. Their state must not take the place of the checkpoint. Servers do not
 * know the steps of learners, so if all learners have left, the servers' state counts as newer. */
static bool is_behind(const coordinator_state *c)
{
    int64_t clock = 0;
    if (!c->options.fingerprint.checkpoint || weft_view_count(&c->best, WEFT_MEMBER_LEARNER) == 0)
        return false;
    for (size_t i = 0; i < c->best.member_count; i++) {
        const weft_view_member *m = &c->best.members[i];
        const recovery_report *e = report_of(c, m->id);
        if (m->role != WEFT_MEMBER_LEARNER) continue;
        clock =
            WEFT_MAX(clock, e ? WEFT_MAX(e->figures.clock, m->figures.clock) : m->figures.clock);
    }
    return weft_run_config_first_step(c->members_configuration) + clock <
           c->options.fingerprint.step;
}

/* Ends the recovery and installs the newest view of the members. A process that this coordinator
 * had admitted before is not in that view, and joins again. */
weft_status weft_coordinator_adopt(coordinator_state *c)
{
    double now = weft_actor_now(&c->head);
    c->recovering = c->called = false;
    if (c->best.number > 0 && is_behind(c)) {
        c->refused_run = c->best.run;
        weft_view_free(&c->best);
        c->best = (weft_view){.number = 0};
        weft_buffer_unref(&c->members_configuration);
    }
    if (c->best.number == 0) return c->options.done > 0 ? lose_run(c) : WEFT_OK;
    while (c->record_capacity < c->best.member_count)
        WEFT_TRY(WEFT_GROW(&c->records, &c->record_capacity, c->record_capacity));
    weft_view_free(&c->view);
    c->view = c->best;
    c->best = (weft_view){.number = 0};
    c->view.number += LEAP;
    c->view.failure_timeout = c->options.limit;
    for (size_t i = 0; i < c->view.member_count; i++) {
        const recovery_report *e = report_of(c, c->view.members[i].id);
        const weft_view_member *m = &c->view.members[i];
        c->records[i] = (member_record){.last_message = now,
                                        .starts = weft_coordinator_starts(c, m->role, m->slot)};
        (void)weft_actor_bind(&c->head, c->view.members[i].id, c->view.members[i].address);
        if (e) weft_coordinator_take_stats(c, &c->view.members[i], e->figures);
    }
    c->ticked = c->heard = now;
    c->said_number = 0; /* the members have other views than this coordinator has sent */
    c->removed_count = 0;
    c->stepped = true;
    if (c->members_configuration) {
        weft_buffer_unref(&c->configuration);
        c->configuration = c->members_configuration;
        c->members_configuration = NULL;
    }
    WEFT_TRY(remove_left(c));
    return weft_coordinator_changed(c);
}

/* Called when the coordinator was paused or partitioned, and members have made views of their own,
 * perhaps under the same number. The coordinator's view wins under a higher number: members that
 * were wrongly removed are back, and dead members time out here, too. */
weft_status weft_coordinator_overrule(coordinator_state *c, int64_t number)
{
    if (number > INT64_MAX / 2) return WEFT_OK; /* no run has so many views */
    c->view.number = number;
    /* Their views are not those that this coordinator has sent, so they get a whole one. */
    for (size_t i = 0; i < c->view.member_count; i++) c->records[i].said = 0;
    c->said_number = 0;
    c->removed_count = 0;
    return weft_coordinator_changed(c);
}
