/* Sums up the recorded events of an instance: the time of a step by kinds of operators and by
 * layers, with the share of all times and how near they come to the floor by the device's rates. */
#include <stdio.h>
#include <stdlib.h>

#include "program/trace.h"

enum { MOST_ROWS = 10, NAME = 40 };

typedef struct row {
    char name[NAME];
    double seconds, floor;
    int64_t events;
} row;

typedef struct table {
    row *rows;
    size_t count, capacity;
} table;

static weft_status add(table *t, const char *name, size_t size, double seconds, double floor)
{
    size_t i = 0;
    size = WEFT_MIN(size, (size_t)NAME - 1);
    while (i < t->count && (strncmp(t->rows[i].name, name, size) != 0 || t->rows[i].name[size]))
        i++;
    if (i == t->count) {
        WEFT_TRY(WEFT_GROW(&t->rows, &t->capacity, t->count));
        t->rows[i] = (row){.seconds = 0};
        (void)snprintf(t->rows[i].name, NAME, "%.*s", (int)size, name);
        t->count++;
    }
    t->rows[i].seconds += seconds;
    t->rows[i].floor += floor;
    t->rows[i].events++;
    return WEFT_OK;
}

static const char waits[] = "waits";

/* The operator of an instruction: the first of its group, with which the others are fused. */
static const char *kind_of(const trace_event *e, const instruction *code)
{
    return e->kind == TRACE_WAIT     ? waits
           : e->kind == TRACE_LANDED ? "copies of gradients"
           : code->copy              ? "copies"
           : code->group.count == 0  ? "reorders"
                                     : code->group.node[0]->op->name;
}

/* Whether an event is the time of an instruction: of one that a device runs, its run there, and
 * not the host's time to queue it. */
static bool counts(const weft_instance *x, const trace_event *e)
{
    if (e->instruction < 0) return weft_trace_operator(e) != NULL;
    return e->kind != TRACE_QUEUED &&
           !(x->traced && e->kind == TRACE_WAIT && !x->program->code[e->instruction].transfer);
}

static weft_status sum_up(const weft_instance *x, table *kinds, table *layers, double *all,
                          int64_t *steps)
{
    const weft_rates *rates = &x->program->schema->devices[0]->ops->rates;
    for (size_t i = 0; i < x->trace_count; i++) {
        const trace_event *e = &x->trace[i];
        *steps += e->instruction == STEP_BEGINS;
        if (!counts(x, e)) continue;
        if (e->instruction < 0) {
            const char *op = e->kind == TRACE_WAIT ? waits : weft_trace_operator(e);
            const char *layer = weft_trace_layer(e);
            WEFT_TRY(add(kinds, op, strlen(op), e->duration, 0));
            WEFT_TRY(add(layers, layer, strlen(layer), e->duration, 0));
            *all += e->duration;
            continue;
        }
        const instruction *code = &x->program->code[e->instruction];
        bool runs = e->kind == TRACE_RAN || e->kind == TRACE_DEVICE;
        double floor = runs && !code->transfer && !code->copy
                           ? weft_rates_seconds(rates, code->flops, (double)code->bytes)
                           : 0;
        const char *kind = kind_of(e, code);
        WEFT_TRY(add(kinds, kind, strlen(kind), e->duration, floor));
        const char *node = code->group.count > 0 ? code->group.node[0]->name : kind;
        WEFT_TRY(add(layers, node, strcspn(node, "/"), e->duration, floor));
        *all += e->duration;
    }
    return WEFT_OK;
}

static int by_seconds(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void add_rows(const char *title, table *t, double all, int64_t steps, weft_text *text)
{
    row rest = {.name = "others"};
    qsort(t->rows, t->count, sizeof(*t->rows), by_seconds);
    weft_text_add(text, "%-28s  %10s  %6s  %9s  %6s\n", title, "ms a step", "share", "runs",
                  "floor");
    for (size_t i = 0; i <= t->count; i++) {
        const row *r = i < t->count ? &t->rows[i] : &rest;
        if (i >= MOST_ROWS && i < t->count) {
            rest.seconds += r->seconds;
            rest.floor += r->floor;
            rest.events += r->events;
        } else if (r->events > 0) {
            weft_text_add(text, "%-28s  %10.4f  %5.1f%%  %9.1f", r->name,
                          r->seconds * 1e3 / (double)steps, 100 * r->seconds / all,
                          (double)r->events / (double)steps);
            if (r->floor > 0) weft_text_add(text, "  %5.0f%%", 100 * r->floor / r->seconds);
            weft_text_add(text, "\n");
        }
    }
}

weft_status weft_instance_trace_table(const weft_instance *x, char **out)
{
    WEFT_NEED_AS("instance, out", x, out);
    weft_text text = {0};
    table kinds = {0}, layers = {0};
    double all = 0;
    int64_t steps = 0;
    weft_status status = weft_trace_settle(x);
    if (status == WEFT_OK) status = sum_up(x, &kinds, &layers, &all, &steps);
    if (status == WEFT_OK && steps > 0 && all > 0) {
        add_rows("operators", &kinds, all, steps, &text);
        add_rows("layers", &layers, all, steps, &text);
    }
    free(kinds.rows);
    free(layers.rows);
    if (status == WEFT_OK) return weft_text_take(&text, out);
    free(text.data);
    return status;
}
