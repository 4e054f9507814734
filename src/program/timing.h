/* Declares how long operations of a device's queues take: ranges between two timers, whose times
 * are asked after they have ended, so the host does not wait for what it measures. */
#ifndef WEFT_PROGRAM_TIMING_H
#define WEFT_PROGRAM_TIMING_H

#include "device/device.h"

/* A range of a queue, from the record of one timer to that of the other. */
typedef struct timed_range {
    weft_queue_event *begin, *end; /* opened when the entry is first used */
    size_t what;                   /* the caller's number */
} timed_range;

/* The ranges that have not been asked yet, oldest first, in a ring. */
typedef struct timing {
    weft_device *device; /* NULL: not open */
    timed_range *ring;
    size_t begin, count, capacity;
    /* A timer, and the host's time at which it was reached; NULL: ranges have no place in it. */
    weft_queue_event *anchor;
    double anchor_at;
} timing;

/* A range that has ended: its begin in the host's time, and its length. */
typedef struct timed {
    size_t what;
    double start, seconds;
} timed;

weft_status weft_timing_open(timing *t, weft_device *device, size_t capacity) WEFT_NODISCARD;
/* Waits for the queue, and ties the clocks of device and host together; before the first range. */
weft_status weft_timing_anchor(timing *t, weft_queue *queue) WEFT_NODISCARD;
void weft_timing_close(timing *t);
static inline bool weft_timing_full(const timing *t)
{
    return t->count == t->capacity;
}
/* Begin a range, and end it. A begin without an end is forgotten. The ring must not be full. */
weft_status weft_timing_begin(timing *t, weft_queue *queue) WEFT_NODISCARD;
weft_status weft_timing_end(timing *t, weft_queue *queue, size_t what) WEFT_NODISCARD;
/* Takes the oldest range if it has ended (wait: after it has ended); *taken: there was one. */
weft_status weft_timing_take(timing *t, bool wait, bool *taken, timed *out) WEFT_NODISCARD;

#endif
