/* Implements the member: joins the run, sends heartbeats, leaves, and handles messages of the
 * coordinator. */
#include "membership/member.h"

#include <stdio.h>
#include <unistd.h>

#include "membership.pb-c.h"
#include "membership/member_internal.h"
#include "membership/range_assignment.h"
#include "membership/run_config.h"
#include "actor/rpc.h"

/* Leave messages without an acknowledgement, after which the member leaves without one. */
enum { MOST_LEAVE_ATTEMPTS = 60 };
/* Heartbeats without a message from the coordinator or a member, after which the member fails. */
enum { MOST_UNANSWERED = 300 };

const weft_view *weft_member_view(const weft_member *m)
{
    return &m->view;
}

int weft_member_slot(const weft_member *m)
{
    return m->slot;
}

bool weft_member_dismissed(const weft_member *m)
{
    return m->dismissed;
}

const char *weft_member_must_stay(const weft_member *m)
{
    if (m->view.over || m->view.fault) return NULL;
    if (m->leave_refusal) return m->leave_refusal;
    return weft_assignment_has_range(&m->view, m->actor->id)
               ? "the coordinator does not answer, so no other server has taken its parameters over"
               : NULL;
}

bool weft_member_has_left(const weft_member *m)
{
    return m->left;
}

void weft_member_set_stats(weft_member *m, const weft_member_stats *figures)
{
    m->figures = *figures;
}

weft_coordinator_status weft_member_coordinator_status(const weft_member *m)
{
    weft_coordinator_status coordinator_status = m->coordinator_status;
    coordinator_status.silent =
        m->last_message < 0 ? -1 : weft_actor_now(m->actor) - m->last_message;
    return coordinator_status;
}

const char *weft_member_waits_for(const weft_member *m)
{
    return m->waits && *m->waits ? m->waits : NULL;
}

weft_status weft_member_timeout_error(const weft_member *m, double seconds)
{
    const char *waits = weft_member_waits_for(m);
    if (m->last_message < 0)
        return weft_fail(WEFT_ERR_PEER, "the coordinator has not answered for %g s", seconds);
    return weft_fail(WEFT_ERR_PEER, "the run has not begun for %g s: %s", seconds,
                     waits ? waits : "the coordinator has not sent a view");
}

int64_t weft_member_step(const weft_member *m)
{
    return weft_view_step(&m->view, m->figures.clock);
}

weft_status weft_member_stopped_error(const weft_member *m, const char *awaited)
{
    const char *waits = weft_member_waits_for(m);
    if (!m->view.running)
        return weft_fail(WEFT_ERR_INTERRUPTED, "stopped before the run began: %s",
                         waits ? waits : "the coordinator has not sent a view");
    return weft_fail(WEFT_ERR_INTERRUPTED,
                     "stopped after step %lld of this learner, while it waited for %s",
                     (long long)weft_member_step(m), awaited);
}

/* --- removal --- */

/* Seconds since this member sent its last heartbeat, if more than 1.5 intervals have passed; else
 * 0. */
static double silent_for(const weft_member *m)
{
    double seconds = weft_actor_now(m->actor) - m->ticked;
    return m->last_message >= 0 && seconds > 1.5 * m->options.heartbeat_interval ? seconds : 0;
}

void weft_member_note_removed(const weft_member *m)
{
    weft_removal *removal = m->options.removal;
    if (!removal) return;
    atomic_store(&removal->failure_timeout, WEFT_MAX(m->slept, silent_for(m)));
    atomic_store(&removal->run, m->view.number > 0 ? m->run : 0);
    atomic_store(&removal->removed, true);
}

/* --- sending --- */

static weft_status send_join(weft_member *m)
{
    Weft__Join join;
    Weft__Fingerprint print;
    weft__join__init(&join);
    weft__fingerprint__init(&print);
    print.version = m->texts[0];
    print.model = m->texts[1];
    print.data = m->texts[2];
    print.parameters = m->options.fingerprint.parameters;
    print.checkpoint = m->options.fingerprint.checkpoint;
    print.step = m->options.fingerprint.step;
    print.run = m->options.fingerprint.run;
    join.key = m->options.key;
    join.role = (uint32_t)m->options.role;
    join.address = (char *)(uintptr_t)weft_actor_address(m->actor);
    join.fingerprint = &print;
    join.requested_slot = m->options.requested_slot;
    join.host = m->host;
    join.run = m->options.run;
    return weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_JOIN, &join, NULL);
}

static Weft__Stats figures_of(const weft_member *m)
{
    Weft__Stats figures = WEFT__STATS__INIT;
    figures.clock = m->figures.clock;
    figures.loss = m->figures.loss;
    figures.rate = m->figures.rate;
    figures.staleness = m->figures.staleness;
    figures.device_busy = m->figures.device_busy;
    figures.device_used = m->figures.device_used;
    figures.device_total = m->figures.device_total;
    return figures;
}

weft_status weft_member_heartbeat(weft_member *m)
{
    Weft__Heartbeat heartbeat = WEFT__HEARTBEAT__INIT;
    Weft__Stats figures = figures_of(m);
    heartbeat.run = m->run;
    heartbeat.view = m->view.number;
    heartbeat.members = m->from_coordinator ? 0 : weft_view_sum(&m->view);
    heartbeat.figures = &figures;
    return weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_HEARTBEAT, &heartbeat, NULL);
}

static weft_status send_leave(weft_member *m)
{
    Weft__Leave leave = WEFT__LEAVE__INIT;
    Weft__Stats figures = figures_of(m);
    leave.done = m->done;
    leave.run = m->view.number > 0 ? m->run : 0;
    leave.figures = &figures;
    leave.if_safe = !m->leaving;
    return weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_LEAVE, &leave, NULL);
}

/* Called when the timer runs out. If this process was paused, the pause does not count as silence
 * of the coordinator. */
static void note_time(weft_member *m)
{
    double now = weft_actor_now(m->actor), slept = now - m->ticked, silent = silent_for(m);
    if (silent > 0) m->slept = silent;
    if (m->last_message >= 0 && slept > 2 * m->options.heartbeat_interval)
        m->last_message = WEFT_MIN(now, m->last_message + slept);
    m->ticked = now;
}

weft_status weft_member_timer(weft_member *m)
{
    note_time(m);
    m->left = m->left || m->leave_attempts > MOST_LEAVE_ATTEMPTS;
    if (m->left) return WEFT_OK;
    m->leave_attempts += m->leaving;
    if (m->unanswered++ > MOST_UNANSWERED && m->view.member_count != 1) /* 1: no one can answer */
        return weft_fail(WEFT_ERR_PEER,
                         "no message from the coordinator or another member for %g s; the run is "
                         "over, or they cannot be reached",
                         MOST_UNANSWERED * m->options.heartbeat_interval);
    WEFT_TRY(m->leaving           ? send_leave(m)
             : m->view.number > 0 ? weft_member_heartbeat(m)
                                  : send_join(m));
    if (m->asks_leave && !m->leaving) WEFT_TRY(send_leave(m));
    return weft_actor_set_timer(m->actor, WEFT_MEMBER_TIMER, m->options.heartbeat_interval);
}

weft_status weft_member_begin(weft_member *m, weft_actor *actor)
{
    m->actor = actor;
    return weft_member_timer(m);
}

weft_status weft_member_leave(weft_member *m, bool done)
{
    m->leaving = true;
    m->done = m->done || done;
    return weft_member_timer(m);
}

weft_status weft_member_leave_if_safe(weft_member *m)
{
    m->asks_leave = true;
    return weft_member_timer(m);
}

weft_status weft_member_report_in_sync(weft_member *m, int range, weft_actor_id replica)
{
    Weft__InSync in_sync = WEFT__IN_SYNC__INIT;
    in_sync.range = (uint32_t)range;
    in_sync.replica = replica;
    return weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_IN_SYNC, &in_sync, NULL);
}

weft_status weft_member_report_state_lost(const weft_member *m, bool stepped)
{
    Weft__StateLost lost = WEFT__STATE_LOST__INIT;
    lost.view = m->view.number;
    lost.stepped = stepped;
    return weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_STATE_LOST, &lost, NULL);
}

/* --- messages --- */

static weft_status take_welcome(void *self, const weft_message *message, const void *content)
{
    weft_member *m = self;
    const Weft__JoinAck *welcome = content;
    bool news = m->slot != (int)welcome->slot;
    if (m->view.number > 0 || welcome->slot > INT32_MAX) return WEFT_OK;
    m->run = welcome->run;
    m->slot = (int)welcome->slot;
    weft_member_name(m->options.role, m->slot, m->actor->name);
    free(m->waits);
    m->waits = NULL;
    WEFT_TRY(weft_strdup(welcome->waits, &m->waits));
    weft_buffer_unref(&m->configuration);
    if (message->payload) WEFT_TRY(weft_buffer_compact(message->payload, &m->configuration));
    if (!news || !m->options.welcome) return WEFT_OK;
    return m->options.welcome(m->options.user, m->slot,
                              message->payload ? message->payload->data : NULL,
                              message->payload ? message->payload->bytes : 0);
}

/* Installs a newer view of this run from the coordinator. */
static weft_status take_view(weft_member *m, const weft_message *message, weft_member_news *news)
{
    weft_view view;
    bool missed = false;
    WEFT_TRY(weft_member_read(m, message, &view));
    WEFT_TRY(view.base > 0 ? weft_member_change(m, &view, news, &missed)
                           : weft_member_adopt(m, &view, news));
    if (missed) return weft_member_heartbeat(m); /* which is answered by the whole view */
    m->from_coordinator = m->from_coordinator || *news == WEFT_NEWS_VIEW;
    return WEFT_OK;
}

static weft_status take_alive(void *self, const weft_message *message, const void *content)
{
    weft_member *m = self;
    const Weft__HeartbeatAck *alive = content;
    (void)message;
    m->coordinator_status.slowest = alive->slowest;
    m->coordinator_status.slowest_clock = alive->slowest_clock;
    m->coordinator_status.slowest_silent = alive->slowest_silent;
    return WEFT_OK;
}

static weft_status take_leave_ack(void *self, const weft_message *message, const void *content)
{
    weft_member *m = self;
    (void)message;
    (void)content;
    m->left = m->leaving || m->asks_leave;
    return WEFT_OK;
}

/* Answers a coordinator that recovers the view: with this member's view and run configuration, or
 * with Reject if that coordinator has another configuration, since members that join later would
 * then train something else. */
static weft_status answer_view_request(void *self, const weft_message *message, const void *content)
{
    const weft_member *m = self;
    const Weft__ViewRequest *request = content;
    Weft__Reject no;
    char reason[250];
    weft__reject__init(&no);
    no.coordinator = request->coordinator;
    weft_run_config_compare(m->configuration, message->payload, reason, sizeof(reason));
    if (!*reason) {
        Weft__JoinAck own;
        weft__join_ack__init(&own);
        own.run = m->run;
        if (m->configuration)
            WEFT_TRY(weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_JOIN_ACK, &own,
                                   m->configuration));
        return weft_member_send_view(m, WEFT_COORDINATOR);
    }
    no.reason = reason;
    return weft_rpc_send(m->actor, WEFT_COORDINATOR, WEFT_RPC_REJECT, &no, NULL);
}

/* The name of this member in error messages: by its slot if it is admitted, else by its role. */
static const char *own_name(const weft_member *m, char out[WEFT_MEMBER_NAME])
{
    if (m->slot >= 0) return weft_member_name(m->options.role, m->slot, out);
    (void)snprintf(out, WEFT_MEMBER_NAME, "this %s", weft_member_role_name(m->options.role));
    return out;
}

/* Handles Reject. A coordinator of another run may have taken over the address: then this member
 * goes on as if there were no coordinator. Otherwise, or if this process was paused for longer than
 * the failure timeout and so removed, the member fails. A member that has been admitted and is
 * rejected was removed, perhaps while the run waited for other members. ARGUMENT: another attempt
 * would be rejected, too. */
static weft_status take_refused(void *self, const weft_message *message, const void *content)
{
    weft_member *m = self;
    const Weft__Reject *no = content;
    (void)message;
    char name[WEFT_MEMBER_NAME];
    if (no->stays) {
        free(m->leave_refusal);
        m->leave_refusal = NULL;
        return weft_format(&m->leave_refusal, "%.300s", no->reason);
    }
    /* A Leave of a process that is no member counts as acknowledged. */
    m->left = m->leaving || (m->asks_leave && !no->other_run);
    if (m->left) return WEFT_OK;
    if (no->other_run && m->view.number > 0 && m->slept <= m->view.failure_timeout) {
        m->last_message = m->previous_message;
        return WEFT_OK;
    }
    if (!no->ask_again && !no->failed && (m->view.number > 0 || m->slot >= 0))
        weft_member_note_removed(m);
    if (no->ask_again && m->options.removal) atomic_store(&m->options.removal->ask_again, true);
    return weft_fail(no->final ? WEFT_ERR_ARGUMENT : WEFT_ERR_PEER,
                     "the coordinator refuses %s: %.300s", own_name(m, name), no->reason);
}

weft_status weft_member_message(weft_member *m, const weft_message *message, weft_member_news *news)
{
    static const weft_rpc_handler handlers[] = {
        {WEFT_RPC_JOIN_ACK, &weft__join_ack__descriptor, take_welcome},
        {WEFT_RPC_REJECT, &weft__reject__descriptor, take_refused},
        {WEFT_RPC_HEARTBEAT_ACK, &weft__heartbeat_ack__descriptor, take_alive},
        {WEFT_RPC_VIEW_REQUEST, &weft__view_request__descriptor, answer_view_request},
        {WEFT_RPC_LEAVE_ACK, &weft__leave_ack__descriptor, take_leave_ack},
        {0},
    };
    *news = WEFT_NEWS_HANDLED;
    if (!weft_rpc_may_send(message->type, weft_view_role(&m->view, message->from),
                           weft_member_rpc_role(m->options.role)))
        return WEFT_OK;
    *news = WEFT_NEWS_NONE;
    m->unanswered = 0;
    if (message->from != WEFT_COORDINATOR) return WEFT_OK;
    *news = WEFT_NEWS_HANDLED;
    m->previous_message = m->last_message;
    m->last_message = weft_actor_now(m->actor);
    return message->type == WEFT_RPC_VIEW ? take_view(m, message, news)
                                          : weft_rpc_dispatch(handlers, m, message);
}

/* --- creation --- */

weft_status weft_member_create(const weft_member_options *options, weft_member **out)
{
    weft_member *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->options = *options;
    m->slot = -1;
    m->last_message = -1;
    (void)gethostname(m->host, sizeof(m->host) - 1);
    weft_status status = weft_fingerprint_texts(&options->fingerprint, m->texts);
    if (status == WEFT_OK)
        *out = m;
    else
        weft_member_destroy(&m);
    return status;
}

void weft_member_destroy(weft_member **member)
{
    if (!member || !*member) return;
    weft_member *m = *member;
    weft_view_free(&m->view);
    for (int i = 0; i < 3; i++) free(m->texts[i]);
    weft_buffer_unref(&m->configuration);
    free(m->waits);
    free(m->leave_refusal);
    free(m->tombstones);
    weft_id_index_free(&m->tombstone_places);
    free(m);
    *member = NULL;
}
