/* Finds the times of instructions and steps in a trace. */
#include <math.h>

#include "base/sort.h"
#include "program/instance.h"
#include "program/walk.h"

static double median(double *numbers, int count)
{
    if (count == 0) return 0;
    weft_sort_doubles(numbers, (size_t)count);
    return numbers[count / 2];
}

/* The index of the event with which the step after so many others begins; the count of events:
 * there is none. */
static size_t find_step(const weft_instance *x, int steps)
{
    size_t i = 0;
    for (; i < x->trace_count; i++)
        if (x->trace[i].instruction == STEP_BEGINS && steps-- == 0) break;
    return i;
}

/* The median time of instruction i, of all its runs since event `first`. */
static double time_of(const weft_instance *x, size_t first, size_t end, int i, double *room)
{
    int count = 0;
    for (size_t e = first; e < end; e++)
        if (x->trace[e].instruction == i && x->trace[e].kind == TRACE_RAN)
            room[count++] = x->trace[e].duration;
    return median(room, count);
}

/* The time of each whole step between two events, and what is left of it without the recorded
 * events. */
static int time_steps(const weft_instance *x, size_t first, size_t end, double *steps,
                      double *rests)
{
    int count = 0;
    double begin = x->trace[first].start, recorded = 0;
    for (size_t e = first + 1; e <= end && e < x->trace_count; e++) {
        const trace_event *event = &x->trace[e];
        if (event->instruction != STEP_BEGINS) {
            recorded += event->duration;
            continue;
        }
        steps[count] = event->start - begin;
        rests[count++] = WEFT_MAX(event->start - begin - recorded, 0.0);
        begin = event->start;
        recorded = 0;
    }
    return count;
}

weft_status weft_instance_times(const weft_instance *x, int first_steps, double *seconds,
                                double *step, double *rest)
{
    size_t first = find_step(x, first_steps), end = first, room_size = x->trace_count + 1;
    double *room;
    for (size_t e = first; e < x->trace_count; e++)
        if (x->trace[e].instruction == STEP_BEGINS) end = e;
    if (end == first)
        return weft_fail(WEFT_ERR_ARGUMENT, "the trace has fewer than %d steps", first_steps + 2);
    WEFT_TRY(WEFT_NEW(&room, 2 * room_size));
    for (size_t i = 0; i < x->program->code_count; i++)
        seconds[i] = x->program->code[i].transfer ? 0 : time_of(x, first, end, (int)i, room);
    int count = time_steps(x, first, end, room, room + room_size);
    *step = median(room, count);
    *rest = median(room + room_size, count);
    free(room);
    return WEFT_OK;
}
