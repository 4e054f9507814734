/* Implements ranges of queues that are timed by the device's clock. */
#include "program/timing.h"

/* The host learns late that a timer was reached; the least late one of this many counts. */
enum { ANCHORS = 8 };

weft_status weft_timing_open(timing *t, weft_device *device, size_t capacity)
{
    *t = (timing){.device = device, .capacity = capacity};
    return WEFT_NEW(&t->ring, capacity);
}

weft_status weft_timing_anchor(timing *t, weft_queue *queue)
{
    timed_range *spare = &t->ring[0];
    for (int i = 0; i < ANCHORS; i++) {
        double later = 0;
        if (!spare->end) WEFT_TRY(weft_timer_open(t->device, &spare->end));
        WEFT_TRY(weft_event_record(t->device, queue, spare->end));
        WEFT_TRY(weft_event_wait(t->device, spare->end));
        double now = weft_seconds();
        if (t->anchor) WEFT_TRY(weft_timer_elapsed(t->device, t->anchor, spare->end, &later));
        if (t->anchor && now - later >= t->anchor_at) continue;
        weft_queue_event *old = t->anchor;
        t->anchor = spare->end;
        t->anchor_at = now;
        spare->end = old;
    }
    return WEFT_OK;
}

void weft_timing_close(timing *t)
{
    for (size_t i = 0; t->ring && i < t->capacity; i++) {
        weft_event_close(t->device, &t->ring[i].begin);
        weft_event_close(t->device, &t->ring[i].end);
    }
    if (t->anchor) weft_event_close(t->device, &t->anchor);
    free(t->ring);
    *t = (timing){0};
}

static timed_range *next_of(const timing *t)
{
    return &t->ring[(t->begin + t->count) % t->capacity];
}

weft_status weft_timing_begin(timing *t, weft_queue *queue)
{
    timed_range *next = next_of(t);
    if (!next->begin) WEFT_TRY(weft_timer_open(t->device, &next->begin));
    return weft_event_record(t->device, queue, next->begin);
}

weft_status weft_timing_end(timing *t, weft_queue *queue, size_t what)
{
    timed_range *next = next_of(t);
    if (!next->end) WEFT_TRY(weft_timer_open(t->device, &next->end));
    WEFT_TRY(weft_event_record(t->device, queue, next->end));
    next->what = what;
    t->count++;
    return WEFT_OK;
}

/* Times since an anchor lose their precision with its age (CUDA has 32-bit numbers): after a second
 * the end of this range is the next anchor. */
static void renew_anchor(timing *t, timed_range *range, double end)
{
    weft_queue_event *old = t->anchor;
    if (end - t->anchor_at < 1) return;
    t->anchor = range->end;
    t->anchor_at = end;
    range->end = old;
}

weft_status weft_timing_take(timing *t, bool wait, bool *taken, timed *out)
{
    *taken = false;
    if (t->count == 0) return WEFT_OK;
    timed_range *range = &t->ring[t->begin];
    bool done = true;
    if (wait)
        WEFT_TRY(weft_event_wait(t->device, range->end));
    else
        WEFT_TRY(weft_event_test(t->device, range->end, &done));
    if (!done) return WEFT_OK;
    t->begin = (t->begin + 1) % t->capacity;
    t->count--;
    out->what = range->what;
    out->start = 0;
    if (t->anchor) {
        WEFT_TRY(weft_timer_elapsed(t->device, t->anchor, range->begin, &out->start));
        out->start += t->anchor_at;
    }
    WEFT_TRY(weft_timer_elapsed(t->device, range->begin, range->end, &out->seconds));
    if (t->anchor) renew_anchor(t, range, out->start + out->seconds);
    *taken = true;
    return WEFT_OK;
}
