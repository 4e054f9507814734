/* Puts off host work until the device has copied its operands to the host, while the host goes on
 * queuing instructions. */
#include "program/gradient_ready.h"
#include "program/trace.h"

static weft_device *device_of(const weft_instance *x)
{
    return x->program->schema->devices[0];
}

static size_t landing_bytes(const weft_program *p, size_t until)
{
    size_t bytes = 0;
    for (size_t k = 0; k < until; k++) bytes += (p->exported[k].bytes + 63) / 64 * 64;
    return bytes;
}

static weft_status make_ring(weft_instance *x)
{
    deferrals *d = &x->deferred;
    size_t cells = 2 * x->program->code_count * (size_t)x->program->slots;
    if (d->ring) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&d->ring, cells));
    d->capacity = cells;
    return WEFT_OK;
}

static weft_status make_landing(weft_instance *x)
{
    const weft_program *p = x->program;
    deferrals *d = &x->deferred;
    if (d->landing) return WEFT_OK;
    if (!d->copies) WEFT_TRY(weft_queue_open(device_of(x), &d->copies));
    if (!d->landed) WEFT_TRY(WEFT_NEW(&d->landed, p->exported_count));
    return weft_space_memory(p->schema, SPACE_HOST, landing_bytes(p, p->exported_count),
                             &d->landing);
}

/* Queues the copies of the gradients that instruction i completes, in a queue of their own, so that
 * later kernels do not wait for them. */
static weft_status copy_gradients(weft_instance *x, int i, weft_queue_event *event)
{
    const instruction *code = &x->program->code[i];
    deferrals *d = &x->deferred;
    WEFT_TRY(make_landing(x));
    WEFT_TRY(weft_queue_wait(device_of(x), d->copies, event));
    if (x->traced) WEFT_TRY(weft_trace_begin(x, d->copies));
    for (int k = code->exported; k < code->exported + code->exported_count; k++) {
        const exported *e = &x->program->exported[k];
        weft_address at = weft_instance_address(x, e->buffer);
        char *to = d->landing->base + landing_bytes(x->program, (size_t)k);
        if (weft_device_shares(at.memory->device)) continue;
        WEFT_TRY(weft_copy_out(d->copies, to, at, e->bytes));
        d->landed[k] = true;
    }
    if (x->traced) WEFT_TRY(weft_trace_end(x, d->copies, i, TRACE_LANDED));
    return weft_event_record(device_of(x), d->copies, event);
}

weft_status weft_deferred_add(weft_instance *x, int i, int slot, bool reports)
{
    deferrals *d = &x->deferred;
    WEFT_TRY(make_ring(x));
    if (d->count == d->capacity) WEFT_TRY(weft_deferred_advance(x, true));
    deferral *e = &d->ring[(d->begin + d->count) % d->capacity];
    if (!e->event) WEFT_TRY(weft_event_open(device_of(x), &e->event));
    e->slot = slot;
    e->instruction = i;
    e->reports = reports;
    WEFT_TRY(weft_event_record(device_of(x), x->queue, e->event));
    if (reports) WEFT_TRY(copy_gradients(x, i, e->event));
    d->count++;
    return WEFT_OK;
}

static weft_status begin(weft_instance *x, const deferral *e)
{
    if (e->reports) return weft_exported_gradients_report(x, e->instruction);
    for (int at = 0; at < x->pending_count; at++)
        if (x->pending[at].instruction == e->instruction && x->pending[at].slot == e->slot)
            x->pending[at].deferred = false;
    return weft_instance_start(x, e->instruction, e->slot);
}

weft_status weft_deferred_advance(weft_instance *x, bool wait)
{
    deferrals *d = &x->deferred;
    while (d->count > 0) {
        const deferral *e = &d->ring[d->begin];
        bool done = true;
        if (wait)
            WEFT_TRY(weft_instance_wait(x, e->event));
        else
            WEFT_TRY(weft_event_test(device_of(x), e->event, &done));
        if (!done) return WEFT_OK;
        d->begin = (d->begin + 1) % d->capacity;
        d->count--;
        WEFT_TRY(begin(x, e));
    }
    return WEFT_OK;
}

const void *weft_deferred_landed(const weft_instance *x, int k)
{
    const deferrals *d = &x->deferred;
    bool there = d->landed && d->landed[k];
    return there ? d->landing->base + landing_bytes(x->program, (size_t)k) : NULL;
}

void weft_deferred_begin(weft_instance *x)
{
    for (size_t k = 0; x->deferred.landed && k < x->program->exported_count; k++)
        x->deferred.landed[k] = false;
}

void weft_deferred_close(weft_instance *x)
{
    deferrals *d = &x->deferred;
    for (size_t i = 0; i < d->capacity; i++) weft_event_close(device_of(x), &d->ring[i].event);
    weft_queue_close(device_of(x), &d->copies);
    weft_memory_free(&d->landing);
    free(d->ring);
    free(d->landed);
}
