/* Finds the times of instructions and steps in a trace. */
#include <stdlib.h>

#include "program/instance.h"
#include "program/walk.h"

/* The index of the event with which the step after so many others begins; the count of events:
 * there is none. */
static size_t find_step(const weft_instance *x, int steps)
{
    size_t i = 0;
    for (; i < x->trace_count; i++)
        if (x->trace[i].instruction == STEP_BEGINS && steps-- == 0) break;
    return i;
}

/* A whole step of a trace: its events are from `begin` to before `end`. */
typedef struct traced_step {
    size_t begin, end;
    double seconds;
} traced_step;

static int compare_steps(const void *first, const void *second)
{
    const traced_step *a = first, *b = second;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* The whole steps from event `first` on, those that take least first. */
static int find_steps(const weft_instance *x, size_t first, traced_step *out)
{
    int count = 0;
    for (size_t e = first + 1, begin = first; e < x->trace_count; e++) {
        if (x->trace[e].instruction != STEP_BEGINS) continue;
        out[count++] = (traced_step){begin, e, x->trace[e].start - x->trace[begin].start};
        begin = e;
    }
    qsort(out, (size_t)count, sizeof(*out), compare_steps);
    return count;
}

/* Adds the events of a step: seconds of each kernel, and how often it has run. */
static void add_step(const weft_instance *x, const traced_step *step, double *seconds, double *runs,
                     double *rest)
{
    double recorded = 0;
    for (size_t e = step->begin + 1; e < step->end; e++) {
        const trace_event *event = &x->trace[e];
        recorded += event->duration;
        if (event->instruction < 0 || event->kind != TRACE_RAN ||
            x->program->code[event->instruction].transfer)
            continue;
        seconds[event->instruction] += event->duration;
        runs[event->instruction]++;
    }
    *rest += WEFT_MAX(step->seconds - recorded, 0.0);
}

/* Means of the middle half of the steps: all times come from the same steps, so they add up to the
 * step, which medians of each would not. */
weft_status weft_instance_times(const weft_instance *x, int first_steps, double *seconds,
                                double *step, double *rest)
{
    size_t first = find_step(x, first_steps), code = x->program->code_count;
    traced_step *steps;
    double *runs = NULL;
    WEFT_TRY(WEFT_NEW(&steps, x->trace_count + 1));
    int count = first < x->trace_count ? find_steps(x, first, steps) : 0;
    weft_status status = WEFT_NEW(&runs, code + 1);
    if (status == WEFT_OK && count == 0)
        status = weft_fail(WEFT_ERR_ARGUMENT, "the trace has fewer than %d steps", first_steps + 2);
    int cut = count / 4, kept = count - 2 * cut;
    *step = *rest = 0;
    memset(seconds, 0, code * sizeof(*seconds));
    for (int i = cut; i < cut + kept && status == WEFT_OK; i++) {
        add_step(x, &steps[i], seconds, runs, rest);
        *step += steps[i].seconds / kept;
    }
    for (size_t i = 0; i < code && status == WEFT_OK; i++)
        if (runs[i] > 0) seconds[i] /= runs[i];
    *rest /= WEFT_MAX(kept, 1);
    free(steps);
    free(runs);
    return status;
}
