/* The bars of a step by ranks and links: predicted, or measured (a trace of weft train). */
#ifndef WEFT_CLI_PLAN_TIMELINE_H
#define WEFT_CLI_PLAN_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/estimate.h"
#include "weft/output.h"

enum { BAR_NAME = 96 };

/* An act of a rank or a link. */
typedef struct step_bar {
    weft_span_kind kind;
    int where; /* the rank, or the machine of SEND and RECEIVE */
    weft_phase phase;
    char op[BAR_NAME], name[BAR_NAME]; /* "conv", "conv+bias conv1"; "": none */
    double start, end;                 /* seconds since the step began */
} step_bar;

typedef struct step_bars {
    step_bar *at;
    size_t count, capacity;
    int ranks, machines;
    double seconds; /* the end of the last bar */
    bool failed;    /* there was no memory for a bar */
    char title[240];
    char model[240], processor[80]; /* of a measured step; "": the trace does not say */
} step_bars;

void step_bars_free(step_bars *bars);
/* Adds a bar; `text` is the name of an instruction, "conv+bias conv1" (NULL: none). */
void step_bars_add(step_bars *bars, step_bar bar, const char *text);
/* Takes a span of weft_estimate_timeline; user is a step_bars. */
void step_bars_take(void *user, const weft_span *span);

/* How the step of a run is shown. */
typedef struct plan_timeline_options {
    bool timeline;        /* as lines of characters */
    const char *plot;     /* SVG file; NULL: none */
    const char *trace;    /* file for a trace; NULL: none */
    const char *measured; /* trace of weft train, whose step is shown, too; NULL: none */
} plan_timeline_options;
typedef struct plan_steps {
    step_bars predicted, measured;
    int count; /* 2: there is a measured one */
} plan_steps;

/* Estimates the step of a run, and writes its files; *step gets the estimate. Returns the exit
 * code. plan_steps_free frees *out, also after a failure. */
int plan_steps_make(weft_context *context, const weft_train_options *options, const char *cluster,
                    const plan_timeline_options *show, weft_step_estimate *step, plan_steps *out);
void plan_steps_free(plan_steps *steps);

/* plan_trace.c: reads the step of median length from a trace of weft train. Returns the exit code:
 * 0, or an error was printed. */
int step_bars_read(const char *path, step_bars *out);
/* Writes the bars in the form of such a trace. */
weft_status step_bars_trace(const step_bars *bars, weft_output *to);

/* Prints a line of characters for each rank and link. */
void step_bars_print(const step_bars *bars);
/* plan_gantt.c: says which ranks and links of a step a picture has, if it has not all; false: it
 * has.
 */
bool step_bars_part(const step_bars *bars, char *out, size_t size);
/* Draws the bars of `count` steps, one above the other, as SVG. */
weft_status step_bars_plot(const step_bars *const *bars, int count, const char *subject,
                           weft_output *to);

#endif
