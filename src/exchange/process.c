/* Main loops of coordinator and server processes, and queries to the coordinator. */
#include "exchange/process.h"

#include <math.h>
#include <stdio.h>

#include "membership/coordinator.h"
#include "membership/status.h"
#include "membership/client.h"
#include "exchange/ps/ps.h"

/* In seconds: NAP, the length of a poll, after which a process checks for a stop; NOTE, the time
 * between two notes in the log; LINGERS, the time after which a coordinator ends when the last
 * member has left. */
static const double NAP = 0.05, NOTE = 5, LINGERS = 2;

static bool is_stopped(const weft_waiting *w)
{
    return w->stop && w->stop->wanted;
}

static weft_status fail_stopped(const char *what)
{
    return weft_fail(WEFT_ERR_INTERRUPTED, "%s was stopped", what);
}

/* The state of a request to stop, to a server or coordinator. */
typedef struct sign_off {
    bool asked, noted;
    weft_wait_clock wait_clock;
} sign_off;

static const double WITHOUT_ANSWER = 3; /* seconds, some heartbeats */

/* --- queries --- */

void weft_invitation_free(weft_invitation *invitation)
{
    weft_cluster_status_free(&invitation->status);
    free(invitation->configuration);
    *invitation = (weft_invitation){0};
}

static weft_status wait_for_answer(const weft_waiting *w, weft_net *net, const char *address)
{
    weft_wait_clock wait_clock = {0};
    double noted = 0;
    while (!weft_net_actor(net)->done) {
        const char *why;
        bool listens;
        why = weft_net_never_connects(net, WEFT_COORDINATOR);
        if (why)
            return weft_fail(WEFT_ERR_PEER, "cannot connect to the coordinator at %s: %s", address,
                             why);
        WEFT_TRY(weft_net_poll(net, NAP));
        if (is_stopped(w)) return fail_stopped("waiting for the coordinator");
        double waited = weft_wait_clock_read(&wait_clock, 1);
        why = weft_net_connect_error(net, WEFT_COORDINATOR, &listens);
        if (!why) why = "it sends no answer";
        if (waited > w->timeout)
            return weft_fail(
                WEFT_ERR_PEER,
                listens ? "a process listens at %s, but within %g s no coordinator has answered: %s"
                        : "no coordinator answers at %s within %g s: %s",
                address, w->timeout, why);
        if (waited - noted < NOTE) continue;
        noted = waited;
        weft_log(w->context, WEFT_LOG_NOTE, "waiting for the coordinator at %s (%s%s), %.0f s left",
                 address, listens ? "a process listens there, but " : "", why,
                 ceil(w->timeout - waited));
    }
    return WEFT_OK;
}

static weft_status take_answer(const weft_actor *client, weft_invitation *out)
{
    const weft_buffer *blob = weft_membership_client_run_config(client);
    WEFT_TRY(weft_cluster_describe(weft_membership_client_view(client), weft_actor_now(client),
                                   &out->status));
    out->slot = weft_membership_client_slot(client);
    out->run = weft_membership_client_run(client);
    if (!blob) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&out->configuration, blob->bytes + 1));
    memcpy(out->configuration, blob->data, blob->bytes);
    out->bytes = blob->bytes;
    return WEFT_OK;
}

weft_status weft_cluster_ask(const weft_waiting *w, weft_net_context *world, const char *address,
                             weft_asking what, uint32_t other, int slot, uint64_t run,
                             weft_invitation *out)
{
    weft_actor *client;
    weft_net *net;
    weft_membership_client_options options = {.struct_size = sizeof(options),
                                              .invited = what != WEFT_ASK_WHO,
                                              .learner = what == WEFT_ASK_SLOT,
                                              .wished_slot = slot + 1,
                                              .other = other,
                                              .run = run,
                                              .resend_timeout = 0.5};
    *out = (weft_invitation){0};
    WEFT_TRY(weft_membership_client_create(&options, &client));
    WEFT_TRY(weft_net_open(world, client, weft_draw_id(), NULL, &net));
    weft_status status = weft_net_add_peer(net, WEFT_COORDINATOR, address);
    if (status == WEFT_OK) status = weft_net_begin(net);
    if (status == WEFT_OK) status = wait_for_answer(w, net, address);
    if (status == WEFT_OK) status = take_answer(client, out);
    if (status != WEFT_OK) {
        weft_invitation_free(out);
        weft_net_discard_pending(net);
    }
    weft_net_close(&net);
    return status;
}

/* --- the coordinator --- */

static weft_status report_view(const weft_coordinating *what, const char *address, double now,
                               const weft_view *view)
{
    weft_cluster_status status;
    if (!what->tell) return WEFT_OK;
    WEFT_TRY(weft_cluster_describe(view, now, &status));
    what->tell(what->user, address, &status);
    weft_cluster_status_free(&status);
    return WEFT_OK;
}

/* A coordinator that is to stop. All processes of the run may have got the same signal, so that
 * members leave now: it stays until they have, since learners save with the servers' help, and
 * servers leave after them. The coordinator ends when nobody has left for some seconds, or if it is
 * to stop twice. */
static bool ends_now(const weft_waiting *w, weft_actor *actor, sign_off *s)
{
    int server;
    if (!is_stopped(w)) return false;
    if (!s->asked) weft_coordinator_stop(actor);
    s->asked = true;
    if (w->stop->wanted > 1 || !weft_coordinator_awaits_leave(actor, WITHOUT_ANSWER, &server))
        return true;
    if (server < 0 || s->noted || weft_wait_clock_read(&s->wait_clock, 1) < NOTE) return false;
    weft_log(w->context, WEFT_LOG_WARNING,
             "this coordinator is to stop, but goes on: server %d is to stop as well, and has "
             "parameters that learners need; it ends when the learners have left; stop it once "
             "more to end it now",
             server);
    s->noted = true;
    return false;
}

/* Polls the coordinator until the run is over or has a fault and all its members have left. The
 * coordinator of a job ends at the fault. */
static weft_status coordinate(const weft_waiting *w, weft_net *net, const weft_coordinating *what,
                              const char *address)
{
    weft_actor *actor = weft_net_actor(net);
    sign_off leave = {.asked = false};
    int64_t number = -1;
    size_t members = 0;
    double emptied = 0;
    while (!actor->done && !ends_now(w, actor, &leave)) {
        WEFT_TRY(weft_net_poll(net, NAP));
        const weft_view *view = weft_coordinator_view(actor);
        if (view->number != number || view->member_count != members)
            WEFT_TRY(report_view(what, address, weft_actor_now(actor), view));
        number = view->number;
        members = view->member_count;
        bool empty = (view->over || view->fault) && members == 0;
        if (!empty) emptied = weft_seconds();
        if (empty && weft_seconds() - emptied > LINGERS) break;
        if (what->job && view->fault) break;
    }
    const weft_view *view = weft_coordinator_view(actor);
    if (view->fault) return weft_fail(WEFT_ERR_PEER, "%s", view->fault);
    return is_stopped(w) && !view->over ? fail_stopped("the coordinator") : WEFT_OK;
}

static int64_t count_starts(void *user, weft_member_role role, int slot)
{
    const weft_coordinating *what = user;
    return what->starts(what->line, role == WEFT_MEMBER_SERVER, slot);
}

weft_status weft_coordinator_process(const weft_waiting *w, weft_net_context *world,
                                     const weft_coordinating *what)
{
    weft_actor *actor;
    weft_net *net;
    char address[WEFT_ADDRESS];
    int ranges = what->servers
                     ? weft_segments_ranges(what->segments, what->count, what->dtype, what->servers)
                     : 0;
    weft_coordinator_options options = {.struct_size = sizeof(options),
                                        .run = weft_draw(),
                                        .expected = {what->learners, what->servers},
                                        .ranges = ranges,
                                        .replicas = what->replicas,
                                        .first = what->job,
                                        .starts = what->starts ? count_starts : NULL,
                                        .user = (void *)(uintptr_t)what,
                                        .limit = what->failure_timeout,
                                        .steps = what->steps,
                                        .done = what->done,
                                        .exchange = what->exchange,
                                        .advice = what->advice,
                                        .fingerprint = {.version = WEFT_VERSION,
                                                        .model = what->model,
                                                        .data = what->data,
                                                        .parameters = what->parameters,
                                                        .checkpoint = what->checkpoint,
                                                        .step = what->step},
                                        .configuration = what->configuration,
                                        .configuration_bytes = what->bytes};
    WEFT_TRY(weft_coordinator_create(&options, &actor));
    WEFT_TRY(weft_net_open(world, actor, WEFT_COORDINATOR, NULL, &net));
    weft_status status = weft_net_bind(net, what->listen, address, sizeof(address));
    if (status == WEFT_OK) status = weft_net_begin(net);
    if (status == WEFT_OK) status = coordinate(w, net, what, address);
    weft_net_close(&net);
    return status;
}

/* --- a server --- */

const char *weft_member_listens_at(weft_net_context *world, const char *coordinator,
                                   char out[WEFT_ADDRESS])
{
    const char *slash = strrchr(coordinator, '/');
    bool beside = strncmp(coordinator, "ipc://", strlen("ipc://")) == 0;
    if (beside)
        (void)snprintf(out, WEFT_ADDRESS, "%.*s/member-%08x", (int)(slash - coordinator),
                       coordinator, weft_draw_id());
    else
        (void)snprintf(out, WEFT_ADDRESS, "%s",
                       weft_net_context_is_reached(world) ? "tcp://*:*" : "tcp://127.0.0.1:*");
    return out;
}

/* A server that is to stop requests its removal, and ends when it is removed, or without an answer
 * if it has no parameters. Any server ends at once if it is to stop twice. */
static weft_status advance_sign_off(const weft_waiting *w, weft_actor *actor, sign_off *s)
{
    if (!is_stopped(w)) return WEFT_OK;
    if (w->stop->wanted > 1) return fail_stopped("the server");
    if (!s->asked) WEFT_TRY(weft_server_sign_off(actor));
    s->asked = true;
    if (weft_wait_clock_read(&s->wait_clock, 1) < WITHOUT_ANSWER) return WEFT_OK;
    const char *why = weft_member_must_stay(weft_server_member(actor));
    if (!why) return fail_stopped("the server");
    if (!s->noted)
        weft_log(
            w->context, WEFT_LOG_WARNING,
            "this server is to stop, but goes on: %s; it ends as soon as another server has "
            "them (weft server joins one, in a run with --replicas 1) or the run is over; stop "
            "it once more to end it now, and the run with it",
            why);
    s->noted = true;
    return WEFT_OK;
}

/* A supervisor reports the servers of its job itself. */
static weft_status end_of_server(const weft_waiting *w, const weft_actor *actor, bool job,
                                 bool stopped)
{
    const weft_member *member = weft_server_member(actor);
    const weft_view *view = weft_member_view(member);
    if (stopped && !view->over) return fail_stopped("the server");
    if (!job && view->fault) return weft_fail(WEFT_ERR_PEER, "the run has failed: %s", view->fault);
    if (!job)
        weft_log(w->context, WEFT_LOG_NOTE, "%s",
                 view->over ? "the run is over; this server ends"
                            : "this server has left, as requested; the run continues");
    return WEFT_OK;
}

static weft_status serve(const weft_waiting *w, weft_net *net, const char *address, bool job)
{
    weft_wait_clock wait_clock = {0};
    sign_off leave = {.asked = false};
    weft_actor *actor = weft_net_actor(net);
    while (!actor->done) {
        WEFT_TRY(advance_sign_off(w, actor, &leave));
        uint64_t received = weft_net_stats(net).received;
        WEFT_TRY(weft_net_poll(net, NAP));
        if (weft_net_stats(net).received != received) wait_clock = (weft_wait_clock){0};
        if (weft_wait_clock_read(&wait_clock, 1) > w->timeout)
            return weft_fail(WEFT_ERR_PEER,
                             "this server has received no message from the run at %s for %g s",
                             address, w->timeout);
    }
    return end_of_server(w, actor, job, leave.asked);
}

/* Signs off a server that ends with an error, so that no member waits until its failure timeout has
 * run out. The server ends in any case: if it is not removed soon, as when it has the only copy of
 * a range, that time runs out. Returns the error. */
static weft_status give_up(const weft_waiting *w, weft_net *net, weft_status failure)
{
    weft_error error = {0};
    weft_wait_clock wait_clock = {0};
    weft_actor *actor = weft_net_actor(net);
    weft_error_catch(&error, failure);
    weft_status status = weft_server_give_up(actor);
    while (status == WEFT_OK && !actor->done && !is_stopped(w) &&
           weft_wait_clock_read(&wait_clock, 1) < WITHOUT_ANSWER)
        status = weft_net_poll(net, NAP);
    return weft_error_raise(&error);
}

/* Whether a server that has failed is a member, and none that a supervisor replaces. */
static bool must_sign_off(const weft_net *net, const weft_serving *serving, weft_status failure)
{
    bool removed = serving->removal && atomic_load(&serving->removal->removed);
    return failure != WEFT_OK && failure != WEFT_ERR_INTERRUPTED && net && !removed &&
           serving->wished_slot == 0 &&
           weft_member_slot(weft_server_member(weft_net_actor(net))) >= 0;
}

weft_status weft_server_process(const weft_waiting *w, weft_net_context *world,
                                const char *exchange, const char *coordinator, const char *listen,
                                weft_serving *serving)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    weft_actor *actor;
    weft_net *net = NULL;
    WEFT_TRY(weft_exchange_find(w->context, exchange, &ops, &arguments));
    if (!WEFT_EXCHANGE_HAS(ops, serve))
        return weft_fail(WEFT_ERR_ARGUMENT, "exchange %s has no servers", ops->name);
    weft_net_context_set_max_message(world,
                                     weft_server_message_bytes(serving->count, serving->dtype));
    weft_net_context_set_queue(
        world, weft_server_messages(weft_segments_ranges(serving->segments, serving->count,
                                                         serving->dtype, serving->servers)));
    serving->id = weft_draw_id();
    WEFT_TRY(ops->actors->serve(arguments, serving, &actor));
    weft_status status = weft_net_open(world, actor, serving->id, listen, &net);
    if (status == WEFT_OK) status = weft_net_add_peer(net, WEFT_COORDINATOR, coordinator);
    if (status == WEFT_OK) status = weft_net_begin(net);
    if (status == WEFT_OK) status = serve(w, net, coordinator, serving->wished_slot > 0);
    if (must_sign_off(net, serving, status)) status = give_up(w, net, status);
    weft_net_close(&net);
    free(serving->own);
    serving->own = NULL;
    return status;
}
