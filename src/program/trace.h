/* Declares how a trace is recorded while instructions run. An event on a device with a clock is
 * timed by that clock and does not change how the instance runs; without a clock the host waits for
 * each instruction. */
#ifndef WEFT_PROGRAM_TRACE_H
#define WEFT_PROGRAM_TRACE_H

#include "program/instance.h"

static inline double weft_trace_now(const weft_instance *x)
{
    return x->trace_capacity ? weft_seconds() : 0;
}
/* Whether the host must wait for each instruction, whose time is unknown otherwise. */
static inline bool weft_trace_waits(const weft_instance *x)
{
    return x->trace_capacity && x->queue && !x->traced;
}
static inline bool weft_trace_is_timed(const weft_instance *x, const instruction *code)
{
    return x->traced && code->space == SPACE_DEVICE;
}
/* Adds an event of the host that has begun at `start` and ends now, if instructions are recorded.
 */
void weft_trace_host(weft_instance *x, int instruction, double start, trace_kind kind);
/* Begin and end an event of the device, between operations of this queue. */
weft_status weft_trace_begin(weft_instance *x, weft_queue *queue) WEFT_NODISCARD;
weft_status weft_trace_end(weft_instance *x, weft_queue *queue, int instruction,
                           trace_kind kind) WEFT_NODISCARD;
/* Waits for the device's events and fills in their times. */
weft_status weft_trace_settle(const weft_instance *x) WEFT_NODISCARD;
void weft_trace_close(weft_instance *x);

/* The operator and the layer of an event of no instruction in traces and their tables; NULL: tables
 * do not count it. */
static inline const char *weft_trace_operator(const trace_event *e)
{
    return e->instruction == LOSS_SUM ? "all_reduce" : e->instruction == POLLS ? "poll" : NULL;
}
static inline const char *weft_trace_layer(const trace_event *e)
{
    return e->instruction == LOSS_SUM ? "loss" : "transfers";
}

#endif
