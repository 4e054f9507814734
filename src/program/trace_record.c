/* Records the start and duration of an instance's instructions. */
#include <limits.h>

#include "program/device_use.h"
#include "program/trace.h"

/* Events of the device that may be in its queues; older ones are waited for. */
enum { RANGES = 1024 };

void weft_trace_close(weft_instance *x)
{
    if (x->traced) weft_timing_close(x->traced);
    free(x->traced);
    free(x->trace);
    x->traced = NULL;
    x->trace = NULL;
    x->trace_count = x->trace_capacity = 0;
}

static weft_status open_clock(weft_instance *x)
{
    weft_device *device = x->program->schema->devices[0];
    if (!x->queue || !weft_device_has_clock(device)) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&x->traced, 1));
    WEFT_TRY(weft_timing_open(x->traced, device, RANGES));
    return weft_timing_anchor(x->traced, x->queue);
}

weft_status weft_instance_trace(weft_instance *x, size_t events)
{
    WEFT_NEED_AS("instance", x);
    if (x->traced) WEFT_TRY(weft_trace_settle(x));
    weft_trace_close(x);
    if (events == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&x->trace, events));
    weft_status status = open_clock(x);
    if (status == WEFT_OK)
        x->trace_capacity = events;
    else
        weft_trace_close(x);
    return status;
}

static void add(weft_instance *x, trace_event event)
{
    if (x->trace_count < x->trace_capacity) x->trace[x->trace_count++] = event;
}

weft_status weft_instance_trace_step(weft_instance *x, int64_t step)
{
    WEFT_NEED_AS("instance", x);
    if (step < 0 || step > INT_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT, "the step %lld, must be from 0 to %d", (long long)step,
                         INT_MAX);
    WEFT_TRY(weft_device_use_step(x));
    add(x, (trace_event){.start = weft_trace_now(x),
                         .duration = x->host_seconds,
                         .instruction = STEP_BEGINS,
                         .slot = (int)step});
    return WEFT_OK;
}

void weft_trace_host(weft_instance *x, int i, double start, trace_kind kind)
{
    if (!x->trace_capacity) return;
    add(x, (trace_event){.start = start,
                         .duration = weft_seconds() - start,
                         .instruction = i,
                         .slot = x->slot,
                         .kind = kind});
}

void weft_instance_trace_loss(weft_instance *x, double start)
{
    weft_trace_host(x, LOSS_SUM, start, TRACE_WAIT);
}

/* Takes the oldest event of the device. */
static weft_status settle_one(const weft_instance *x, bool *taken)
{
    timed range;
    WEFT_TRY(weft_timing_take(x->traced, true, taken, &range));
    if (!*taken || range.what >= x->trace_count) return WEFT_OK;
    x->trace[range.what].start = range.start;
    x->trace[range.what].duration = range.seconds;
    return WEFT_OK;
}

weft_status weft_trace_begin(weft_instance *x, weft_queue *queue)
{
    bool taken;
    if (weft_timing_full(x->traced)) WEFT_TRY(settle_one(x, &taken));
    return weft_timing_begin(x->traced, queue);
}

weft_status weft_trace_end(weft_instance *x, weft_queue *queue, int i, trace_kind kind)
{
    if (x->trace_count == x->trace_capacity) return WEFT_OK;
    WEFT_TRY(weft_timing_end(x->traced, queue, x->trace_count));
    add(x, (trace_event){.instruction = i, .slot = x->slot, .kind = kind});
    return WEFT_OK;
}

weft_status weft_trace_settle(const weft_instance *x)
{
    for (bool more = x->traced; more;) WEFT_TRY(settle_one(x, &more));
    return WEFT_OK;
}
