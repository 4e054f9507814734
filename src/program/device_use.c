/* Measures how busy a device is with an instance, and how full its memory is: now and then a step
 * is timed, from the first to the last operation of each phase in the device's queue. */
#include "program/instance.h"
#include "program/device_use.h"

/* Seconds from one timed step to the next, and from one look at the memory to the next, since some
 * drivers take long to answer. */
static const double STEP_EVERY = 0.01, MEMORY_EVERY = 1;
/* Most phases of a step that is timed. */
enum { PHASES = 256 };

weft_status weft_device_use_open(weft_instance *x)
{
    weft_device *device = x->program->schema->devices[0];
    if (!x->queue) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&x->use, 1));
    return weft_device_has_clock(device) ? weft_timing_open(&x->use->phases, device, PHASES)
                                         : WEFT_OK;
}

void weft_device_use_close(weft_instance *x)
{
    if (x->use) weft_timing_close(&x->use->phases);
    free(x->use);
    x->use = NULL;
}

/* Adds up the phases of the timed step that have ended, and concludes it after the last one. */
static weft_status collect(device_use *u)
{
    bool taken = true;
    timed range;
    while (taken) {
        WEFT_TRY(weft_timing_take(&u->phases, false, &taken, &range));
        if (taken) u->busy += range.seconds;
    }
    if (u->phases.count > 0) return WEFT_OK;
    if (u->length > 0 && u->whole) u->now.busy = WEFT_MIN(u->busy / u->length, 1.0);
    u->stage = USE_WAITS;
    return WEFT_OK;
}

weft_status weft_device_use_step(weft_instance *x)
{
    device_use *u = x->use;
    double now = weft_seconds();
    if (!u) return WEFT_OK;
    if (now >= u->look) {
        u->look = now + MEMORY_EVERY;
        size_t free = 0;
        WEFT_TRY(weft_memory_usage(x->program->schema->devices[0], &u->now.total, &free));
        u->now.used = u->now.total - WEFT_MIN(free, u->now.total);
    }
    if (!u->phases.device) return WEFT_OK;
    if (u->stage == USE_TIMES) {
        u->length = now - u->began;
        u->stage = USE_ENDS;
    }
    if (u->stage == USE_ENDS) WEFT_TRY(collect(u));
    if (u->stage != USE_WAITS || now < u->began + STEP_EVERY) return WEFT_OK;
    u->stage = USE_TIMES;
    u->began = now;
    u->busy = 0;
    u->whole = true;
    return WEFT_OK;
}

weft_status weft_device_use_begin(weft_instance *x)
{
    device_use *u = x->use;
    if (!u || u->stage != USE_TIMES) return WEFT_OK;
    u->whole = u->whole && !weft_timing_full(&u->phases);
    return u->whole ? weft_timing_begin(&u->phases, x->queue) : WEFT_OK;
}

weft_status weft_device_use_end(weft_instance *x)
{
    device_use *u = x->use;
    if (!u || u->stage != USE_TIMES || !u->whole) return WEFT_OK;
    return weft_timing_end(&u->phases, x->queue, 0);
}

weft_device_use weft_instance_device_use(const weft_instance *x)
{
    const weft_device_use unknown = {.busy = 0};
    WEFT_NEED_ELSE_AS(unknown, "instance", x);
    return x->use ? x->use->now : unknown;
}
