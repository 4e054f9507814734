/* The coordinator actor: sends views to all members, and ends the run that nobody is left for. */
#include "membership/coordinator.h"

#include <math.h>
#include <stdio.h>

#include "membership/coordinator_internal.h"
#include "membership/run_config.h"

enum { TICK = 0, SAY = 1 };

/* Least time between two views sent to all, as a part of the failure timeout. */
static const double OFTEN = 0.002;

/* --- views --- */

weft_status weft_coordinator_send_view(coordinator_state *c, weft_actor_id to,
                                       const weft_view *view)
{
    weft_buffer *blob;
    WEFT_TRY(weft_view_pack(view, NULL, weft_actor_now(&c->head), &blob));
    weft_status status = weft_actor_send(
        &c->head, to, &(weft_message){.type = WEFT_RPC_VIEW, .head = "", .payload = blob});
    weft_buffer_unref(&blob);
    return status;
}

static uint8_t member_flags(const weft_view_member *m)
{
    return (uint8_t)(1 | m->dismissed << 1 | m->lacks_state << 2);
}

/* Lists the members that the last view to all lacks, or has otherwise. *fresh: some of them were
 * not in it, so they have no view that could be changed. */
static weft_status find_changed(coordinator_state *c, size_t *count, bool *fresh)
{
    *count = 0;
    *fresh = false;
    while (c->changed_capacity < c->view.member_count)
        WEFT_TRY(WEFT_GROW(&c->changed, &c->changed_capacity, c->changed_capacity));
    for (size_t i = 0; i < c->view.member_count; i++) {
        if (c->records[i].said == member_flags(&c->view.members[i])) continue;
        c->changed[(*count)++] = i;
        *fresh = *fresh || !c->records[i].said;
    }
    return WEFT_OK;
}

/* Sends the view to all members: whole to new ones, and to the others what has changed since the
 * last view to all. A member that has missed that one sends a heartbeat and gets the whole view. */
static weft_status send_view(coordinator_state *c)
{
    weft_buffer *whole = NULL, *part = NULL;
    size_t count;
    bool fresh;
    c->said = weft_actor_now(&c->head);
    c->unsaid = false;
    WEFT_TRY(find_changed(c, &count, &fresh));
    weft_view_changes changes = {c->said_number, c->changed, count, c->removed, c->removed_count};
    weft_status status = WEFT_OK;
    if (fresh) status = weft_view_pack(&c->view, NULL, c->said, &whole);
    if (status == WEFT_OK && c->said_number > 0)
        status = weft_view_pack(&c->view, &changes, c->said, &part);
    for (size_t i = 0; i < c->view.member_count && status == WEFT_OK; i++) {
        weft_buffer *blob = c->records[i].said ? part : whole;
        c->records[i].said = member_flags(&c->view.members[i]);
        status =
            weft_actor_send(&c->head, c->view.members[i].id,
                            &(weft_message){.type = WEFT_RPC_VIEW, .head = "", .payload = blob});
    }
    c->said_number = c->view.number;
    c->removed_count = 0;
    weft_buffer_unref(&whole);
    weft_buffer_unref(&part);
    return status;
}

/* Sends the view at once, unless the last one was sent just before: then a timer sends all changes
 * since in one view. Without a failure timeout only changes of one instant share a view. */
weft_status weft_coordinator_changed(coordinator_state *c)
{
    bool fails = c->options.limit < WEFT_NO_FAILURE_TIMEOUT;
    double quiet = fails ? OFTEN * c->options.limit : 0, now = weft_actor_now(&c->head);
    c->view.number++;
    if (!c->view.running) return WEFT_OK;
    if (c->options.replicas && !c->view.over) weft_assignment_add_replicas(&c->view);
    if (c->unsaid) return WEFT_OK;
    if (now - c->said > quiet) return send_view(c);
    c->unsaid = true;
    return weft_actor_set_timer(&c->head, SAY, c->said + quiet - now);
}

const weft_view *weft_coordinator_view(const weft_actor *coordinator)
{
    return &((const coordinator_state *)coordinator)->view;
}

/* --- timers --- */

/* Failure timeouts without a learner, or without a message of any member, after which the run
 * fails. */
enum { IDLE_LIMITS = 30 };

/* Ends this coordinator, which has heard no member for too long. Members that live are not told,
 * since they go on without a coordinator. */
static weft_status give_up(coordinator_state *c, double seconds)
{
    weft_view *v = &c->view;
    WEFT_TRY(weft_format(&v->fault,
                         "no message of any member has come for %g s: they have died, or this "
                         "machine has no network; unless they went on, or ended with their last "
                         "step, without this coordinator, %s",
                         seconds, c->advice));
    v->number++;
    c->given_up = true;
    return WEFT_OK;
}

static weft_status look_for_work(coordinator_state *c, double now)
{
    weft_view *v = &c->view;
    double most = IDLE_LIMITS * c->options.limit;
    if (weft_coordinator_is_cut_off(c))
        return now - c->heard > most ? give_up(c, now - c->heard) : WEFT_OK;
    if (!v->running || v->over || v->fault || weft_coordinator_has_work(c)) {
        c->idle = -1;
        return WEFT_OK;
    }
    if (c->idle < 0) c->idle = now;
    if (now - c->idle <= most) return WEFT_OK;
    WEFT_TRY(weft_format(&v->fault,
                         "the run has had no learner for %g s, and none has joined; unless its "
                         "learners ended with their last step while no coordinator answered, %s",
                         most, c->advice));
    return weft_coordinator_changed(c);
}

static weft_status coordinator_timer(weft_actor *actor, int timer)
{
    coordinator_state *c = (coordinator_state *)actor;
    double now = weft_actor_now(actor);
    if (timer == SAY) return c->unsaid ? send_view(c) : WEFT_OK;
    if (c->recovering && now >= c->recovering_until) WEFT_TRY(weft_coordinator_adopt(c));
    if (!c->recovering) WEFT_TRY(weft_coordinator_drop_silent(c, now));
    if (!c->recovering) WEFT_TRY(look_for_work(c, now));
    bool empty = (c->view.over || c->view.fault) && c->view.member_count == 0;
    if (!empty)
        c->emptied = -1;
    else if (c->emptied < 0)
        c->emptied = now; /* stays on, since a member whose LeaveAck is lost sends Leave again */
    actor->done = c->given_up || (empty && now - c->emptied > c->options.limit);
    return weft_actor_set_timer(actor, TICK, c->options.limit / 4);
}

static weft_status coordinator_begin(weft_actor *actor)
{
    coordinator_state *c = (coordinator_state *)actor;
    c->ticked = c->heard = weft_actor_now(actor);
    c->said = -INFINITY;
    c->emptied = c->idle = -1;
    c->recovering = c->options.done > 0;
    c->recovering_until = c->ticked + c->options.limit;
    return weft_actor_set_timer(actor, TICK, c->options.limit / 4);
}

/* --- messages --- */

static weft_status coordinator_message(weft_actor *actor, const weft_message *message)
{
    static const weft_rpc_handler handlers[] = {
        {WEFT_RPC_JOIN, &weft__join__descriptor, weft_coordinator_join},
        {WEFT_RPC_HEARTBEAT, &weft__heartbeat__descriptor, weft_coordinator_take_heartbeat},
        {WEFT_RPC_LEAVE, &weft__leave__descriptor, weft_coordinator_leave},
        {WEFT_RPC_IN_SYNC, &weft__in_sync__descriptor, weft_coordinator_take_in_sync},
        {WEFT_RPC_QUERY, &weft__query__descriptor, weft_coordinator_answer_query},
        {WEFT_RPC_STATE_LOST, &weft__state_lost__descriptor, weft_coordinator_take_state_lost},
        {WEFT_RPC_REJECT, &weft__reject__descriptor, weft_coordinator_rejected},
        {WEFT_RPC_VIEW, NULL, weft_coordinator_take_view},
        {WEFT_RPC_JOIN_ACK, NULL, weft_coordinator_take_options},
        {0},
    };
    coordinator_state *c = (coordinator_state *)actor;
    weft_rpc_role sender = weft_view_role(&c->view, message->from);
    if (!weft_rpc_may_send(message->type, sender, WEFT_RPC_COORDINATOR)) return WEFT_OK;
    if (sender != WEFT_RPC_OTHER) weft_coordinator_note_heard(c);
    return weft_rpc_dispatch(handlers, actor, message);
}

/* --- creation --- */

static void coordinator_destroy(weft_actor *actor)
{
    coordinator_state *c = (coordinator_state *)actor;
    weft_view_free(&c->view);
    weft_view_free(&c->best);
    weft_buffer_unref(&c->configuration);
    weft_buffer_unref(&c->members_configuration);
    free(c->reports);
    for (int i = 0; i < 3; i++) free(c->texts[i]);
    free(c->advice);
    free(c->records);
    free(c->changed);
    free(c->removed);
    free(c);
}

static const weft_actor_ops coordinator_ops = {
    .name = "coordinator",
    .begin = coordinator_begin,
    .message = coordinator_message,
    .timer = coordinator_timer,
    .destroy = coordinator_destroy,
};

static void copy_text(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from ? from : "");
}

static void describe(coordinator_state *c, const weft_coordinator_options *o)
{
    weft_run_about *about = &c->view.about;
    copy_text(about->model, sizeof(about->model), o->fingerprint.model);
    copy_text(about->exchange, sizeof(about->exchange), o->exchange);
    copy_text(about->data, sizeof(about->data), o->fingerprint.data);
    about->steps = o->steps;
    memcpy(about->expected, o->expected, sizeof(about->expected));
}

static weft_status fill(coordinator_state *c, const weft_coordinator_options *options)
{
    c->options = *options;
    WEFT_TRY(weft_fingerprint_texts(&options->fingerprint, c->texts));
    c->options.fingerprint.version = c->texts[0];
    c->options.fingerprint.model = c->texts[1];
    c->options.fingerprint.data = c->texts[2];
    c->options.configuration = NULL;
    c->options.advice = NULL;
    c->options.exchange = NULL;
    WEFT_TRY(weft_strdup(options->advice ? options->advice
                                         : "begin the run again from a checkpoint (--checkpoint "
                                           "FOLDER --resume), where there is one",
                         &c->advice));
    describe(c, options);
    c->options.most =
        options->most > 0 ? WEFT_MIN(options->most, WEFT_MOST_MEMBERS) : WEFT_MOST_MEMBERS;
    c->view.run = options->run;
    c->view.failure_timeout = options->limit;
    if (!options->configuration) return WEFT_OK;
    WEFT_TRY(weft_buffer_new(options->configuration_bytes, &c->configuration));
    memcpy(c->configuration->data, options->configuration, options->configuration_bytes);
    c->view.about.begun = weft_run_config_first_step(c->configuration);
    return WEFT_OK;
}

weft_status weft_coordinator_create(const weft_coordinator_options *options, weft_actor **out)
{
    coordinator_state *c;
    if (options->ranges > WEFT_MOST_RANGES)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d ranges of parameters, there may be %d",
                         options->ranges, WEFT_MOST_RANGES);
    WEFT_TRY(WEFT_NEW(&c, 1));
    c->head.ops = &coordinator_ops;
    weft_status status = fill(c, options);
    if (status == WEFT_OK)
        *out = &c->head;
    else
        coordinator_destroy(&c->head);
    return status;
}
