/* Runs instances: executes the instructions of a phase in order, while transfers between ranks are
 * in progress. */
#include "program/gradient_ready.h"
#include "program/first_use.h"
#include "program/trace.h"

weft_status weft_instance_wait(weft_instance *x, weft_queue_event *event)
{
    double start = weft_seconds();
    weft_status status = weft_event_wait(x->program->schema->devices[0], event);
    x->waited += weft_seconds() - start;
    if (x->traced) weft_trace_host(x, DEVICE_WAIT, start, TRACE_WAIT);
    return status;
}

static weft_bound *bound_of(const weft_instance *x, int i, int slot)
{
    return x->bound[(size_t)i * (size_t)x->program->slots + (size_t)slot];
}

/* The update runs once for all micro-batches, in slot 0. */
static int slot_of(const weft_instance *x, const instruction *code)
{
    return code->phase == WEFT_PHASE_UPDATE ? 0 : x->slot;
}

/* Calls the hook for the gradients that an instruction completes, once they are in host memory. */
static weft_status report(weft_instance *x, int i)
{
    const instruction *code = &x->program->code[i];
    if (code->exported_count == 0) return WEFT_OK;
    return x->queue && !(code->transfer && code->space == SPACE_HOST)
               ? weft_deferred_add(x, i, x->slot, true)
               : weft_exported_gradients_report(x, i);
}

/* Waits for the pending transfer at index `at`. */
static weft_status finish(weft_instance *x, int at)
{
    int i = x->pending[at].instruction;
    weft_bound *bound = bound_of(x, i, x->pending[at].slot);
    WEFT_TRY(weft_deferred_advance(x, true));
    double start = weft_seconds();
    WEFT_TRY(weft_bound_finish(bound));
    x->waited += weft_seconds() - start;
    weft_trace_host(x, i, start, TRACE_WAIT);
    x->pending_count--;
    memmove(&x->pending[at], &x->pending[at + 1],
            (size_t)(x->pending_count - at) * sizeof(*x->pending));
    return x->announces ? report(x, i) : WEFT_OK;
}

/* Waits for pending transfers: with `phase` those of that phase and the current slot, before the
 * phase runs again; with `before` those that must end before that instruction; if both are
 * negative, all. */
static weft_status finish_some(weft_instance *x, int phase, int before)
{
    for (int at = 0; at < x->pending_count;) {
        int slot = x->pending[at].slot;
        const instruction *code = &x->program->code[x->pending[at].instruction];
        bool now = true;
        if (phase >= 0) now = (int)code->phase == phase && slot == x->slot;
        if (before >= 0)
            now = code->finish == before && (code->phase == WEFT_PHASE_UPDATE || slot == x->slot ||
                                             x->program->code[before].phase == WEFT_PHASE_UPDATE);
        if (now)
            WEFT_TRY(finish(x, at));
        else
            at++;
    }
    return WEFT_OK;
}

/* Waits for transfers that no instruction waits for, which are sends: they may read a parameter
 * that the update is about to change. */
static weft_status finish_sends(weft_instance *x)
{
    for (int at = 0; at < x->pending_count;)
        if (x->program->code[x->pending[at].instruction].finish < 0)
            WEFT_TRY(finish(x, at));
        else
            at++;
    return WEFT_OK;
}

/* Waits for transfers whose results the caller reads after the run. */
static weft_status finish_fetched(weft_instance *x)
{
    for (int at = 0; at < x->pending_count;)
        if (x->program->code[x->pending[at].instruction].fetched)
            WEFT_TRY(finish(x, at));
        else
            at++;
    return WEFT_OK;
}

weft_status weft_instance_drain(weft_instance *x)
{
    WEFT_NEED_AS("instance", x);
    WEFT_TRY(finish_some(x, -1, -1));
    return weft_deferred_advance(x, true);
}

static weft_status poll(weft_instance *x, int at, bool *done)
{
    weft_bound *bound = bound_of(x, x->pending[at].instruction, x->pending[at].slot);
    *done = false;
    return x->pending[at].deferred ? WEFT_OK : weft_bound_poll(bound, done);
}

/* Finishes the transfers that have ended and whose results are exported gradients, so that the hook
 * `ready` is called early. */
static weft_status finish_gradients(weft_instance *x)
{
    for (int at = 0; at < x->pending_count;) {
        bool done = false;
        if (x->program->code[x->pending[at].instruction].exported_count > 0)
            WEFT_TRY(poll(x, at, &done));
        if (done)
            WEFT_TRY(finish(x, at));
        else
            at++;
    }
    return WEFT_OK;
}

/* Seconds from which a poll has worked on a transfer, and not only looked. */
static const double POLL_TRACED = 2e-6;

/* Makes progress on transfers, and polls the exchange. weft_operation_test advances all active
 * operations of this rank, so a test of one is enough. */
static weft_status progress(weft_instance *x)
{
    bool done;
    if (x->listener.poll) WEFT_TRY(x->listener.poll(x->listener.user));
    if (x->deferred.count > 0) WEFT_TRY(weft_deferred_advance(x, false));
    if (x->pending_count == 0) return WEFT_OK;
    double start = weft_trace_now(x);
    WEFT_TRY(poll(x, 0, &done));
    if (x->trace_capacity && weft_seconds() - start > POLL_TRACED)
        weft_trace_host(x, POLLS, start, TRACE_RAN);
    return x->announces ? finish_gradients(x) : WEFT_OK;
}

/* Adds a transfer to the pending ones, which are in the order of slots and instructions. Each
 * transfer is pending at most once, since it is waited for before it begins again. */
static void note_pending(weft_instance *x, int slot, int i, bool deferred)
{
    int at = x->pending_count++;
    for (; at > 0 && (x->pending[at - 1].slot > slot ||
                      (x->pending[at - 1].slot == slot && x->pending[at - 1].instruction > i));
         at--)
        x->pending[at] = x->pending[at - 1];
    x->pending[at].slot = slot;
    x->pending[at].instruction = i;
    x->pending[at].deferred = deferred;
}

weft_status weft_instance_start(weft_instance *x, int i, int slot)
{
    double start = weft_trace_now(x);
    WEFT_TRY(weft_bound_run(bound_of(x, i, slot), NULL));
    weft_trace_host(x, i, start, TRACE_RAN);
    return WEFT_OK;
}

/* Begins a transfer, or puts it off until its operands have been copied from the device. Operands
 * on the device are not waited for, but transfers begin in order. */
static weft_status start_transfer(weft_instance *x, int i, int slot)
{
    bool at_once = !x->queue || (x->program->code[i].space == SPACE_DEVICE && !x->deferred.count);
    note_pending(x, slot, i, !at_once);
    if (at_once) return weft_instance_start(x, i, slot);
    WEFT_TRY(weft_deferred_add(x, i, slot, false));
    return weft_trace_waits(x) ? weft_deferred_advance(x, true) : WEFT_OK;
}

weft_status weft_instance_end_before(weft_instance *x, int i)
{
    return x->pending_count > 0 ? finish_some(x, -1, i) : WEFT_OK;
}

weft_status weft_instance_wait_copies(weft_instance *x)
{
    if (!x->copying) return WEFT_OK;
    x->copying = false;
    return weft_instance_wait(x, x->copied);
}

weft_status weft_instance_run_one(weft_instance *x, int i)
{
    const instruction *code = &x->program->code[i];
    if (x->awaits && code->read_count > 0) WEFT_TRY(weft_reading_report(x, i));
    WEFT_TRY(weft_instance_end_before(x, i));
    weft_bound *bound = bound_of(x, i, slot_of(x, code));
    if (code->derives) {
        uint64_t *made = &x->store->derived[x->program->buffers[code->out[0]].entry];
        if (*made == x->store->written) return WEFT_OK;
        *made = x->store->written;
    }
    if (code->transfer) return start_transfer(x, i, slot_of(x, code));
    if (code->space == SPACE_HOST) WEFT_TRY(weft_instance_wait_copies(x));
    double start = weft_trace_now(x);
    bool timed = weft_trace_is_timed(x, code);
    if (timed) WEFT_TRY(weft_trace_begin(x, x->queue));
    WEFT_TRY(weft_bound_run(bound, x->queue));
    if (code->copy && !x->whole) {
        x->copying = true;
        WEFT_TRY(weft_event_record(x->program->schema->devices[0], x->queue, x->copied));
    }
    if (weft_trace_waits(x)) {
        double waits = weft_seconds();
        WEFT_TRY(weft_instance_synchronize(x));
        x->waited += weft_seconds() - waits;
    }
    weft_trace_host(x, i, start, timed ? TRACE_QUEUED : TRACE_RAN);
    if (timed) WEFT_TRY(weft_trace_end(x, x->queue, i, TRACE_DEVICE));
    if (x->announces) WEFT_TRY(report(x, i));
    return progress(x);
}

weft_status weft_instance_begin_phase(weft_instance *x, weft_phase phase)
{
    if (x->pending_count > 0) WEFT_TRY(finish_some(x, (int)phase, -1));
    return phase == WEFT_PHASE_UPDATE ? finish_sends(x) : WEFT_OK;
}

/* Queues or runs the instructions of a phase. */
static weft_status run_phase(weft_instance *x, weft_phase phase)
{
    const weft_program *p = x->program;
    WEFT_TRY(weft_instance_begin_phase(x, phase));
    WEFT_TRY(weft_instance_begin_run(x, p->changes[phase]));
    if (phase == WEFT_PHASE_BACKWARD) weft_deferred_begin(x);
    for (size_t i = 0; i < p->code_count; i++) {
        if (p->code[i].phase != phase) continue;
        if (p->schema->stop && *p->schema->stop)
            return weft_fail(WEFT_ERR_INTERRUPTED, "stopped within a step");
        WEFT_TRY(weft_instance_run_one(x, (int)i));
    }
    if (phase == WEFT_PHASE_UPDATE) WEFT_TRY(weft_instance_drain(x));
    WEFT_TRY(weft_instance_forget(x, phase, SPACE_DEVICE));
    if (p->writes[phase]) weft_store_touch(x->store);
    return weft_instance_end_run(x, p->changes[phase]);
}

/* A device has its backward pass in its queue before the host waits for the loss. */
weft_status weft_instance_run(weft_instance *x, weft_phase phase)
{
    WEFT_NEED_AS("instance", x);
    WEFT_CHECK_INDEX(phase, WEFT_PHASE_MICRO + 1);
    bool both = phase == WEFT_PHASE_MICRO;
    double began = weft_seconds() - x->waited;
    WEFT_TRY(weft_parallel_threads(x->program->schema->devices[0]->threads));
    WEFT_TRY(run_phase(x, both ? WEFT_PHASE_FORWARD : phase));
    if (both) WEFT_TRY(run_phase(x, WEFT_PHASE_BACKWARD));
    WEFT_TRY(finish_fetched(x));
    WEFT_TRY(weft_deferred_advance(x, true));
    WEFT_TRY(weft_instance_wait_copies(x));
    WEFT_TRY(weft_instance_forget(x, both ? WEFT_PHASE_BACKWARD : phase, SPACE_HOST));
    x->host_seconds += weft_seconds() - x->waited - began;
    return WEFT_OK;
}

void weft_instance_host_worked(weft_instance *x, double seconds)
{
    x->host_seconds += seconds;
}

double weft_instance_host_seconds(const weft_instance *x)
{
    WEFT_NEED_ELSE_AS(0, "instance", x);
    return x->host_seconds;
}

weft_status weft_instance_prepare(weft_instance *x)
{
    WEFT_NEED_AS("instance", x);
    WEFT_TRY(weft_parallel_threads(x->program->schema->devices[0]->threads));
    WEFT_TRY(weft_instance_begin_run(x, true));
    for (size_t i = 0; i < x->program->code_count; i++)
        if (x->program->code[i].derives) WEFT_TRY(weft_instance_run_one(x, (int)i));
    WEFT_TRY(weft_instance_wait_copies(x));
    return weft_instance_synchronize(x);
}
