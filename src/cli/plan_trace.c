/* Traces of steps: a predicted step in the form of weft train --trace, and a measured one read from
 * such a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json_scan.h"
#include "plan_timeline.h"

/* --- writing --- */

/* The threads of a rank or of a link in the trace. */
enum { STEPS, KERNELS, TRANSFERS, WAITS, THREADS };

static int thread_of(const step_bar *bar)
{
    return bar->kind == WEFT_SPAN_TRANSFER || bar->kind == WEFT_SPAN_RECEIVE ? TRANSFERS
           : bar->kind == WEFT_SPAN_WAIT                                     ? WAITS
                                                                             : KERNELS;
}

static bool is_link(const step_bar *bar)
{
    return bar->kind == WEFT_SPAN_SEND || bar->kind == WEFT_SPAN_RECEIVE;
}

/* Adds what follows the first failure of an output, which keeps it, as nothing. */
#define PUT(...)                                                                                   \
    do {                                                                                           \
        if (status == WEFT_OK) status = weft_output_print(to, __VA_ARGS__);                        \
    } while (0)

static weft_status put_names(const char *what, int pid, const char *const *threads, weft_output *to)
{
    weft_status status = WEFT_OK;
    PUT("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"%s\"}},\n", pid,
        what);
    for (int t = 0; t < THREADS; t++)
        if (threads[t])
            PUT("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":"
                "\"%s\"}},\n",
                pid, pid * 10 + t, threads[t]);
    return status;
}

static weft_status put_bar(const step_bar *bar, int pid, weft_output *to)
{
    static const char *const kinds[] = {
        [WEFT_SPAN_KERNEL] = "kernel", [WEFT_SPAN_REST] = "rest", [WEFT_SPAN_TRANSFER] = "transfer",
        [WEFT_SPAN_WAIT] = "wait",     [WEFT_SPAN_SEND] = "send", [WEFT_SPAN_RECEIVE] = "receive"};
    char *name;
    weft_status status = weft_json_string(*bar->name ? bar->name : kinds[bar->kind], &name);
    if (status != WEFT_OK) return status;
    PUT(",\n{\"ph\":\"X\",\"name\":%s,\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"phase\":"
        "\"%s\"},\"ts\":%.3f,\"dur\":%.3f}",
        name, kinds[bar->kind], pid, pid * 10 + thread_of(bar),
        bar->phase == WEFT_PHASE_UPDATE     ? "update"
        : bar->phase == WEFT_PHASE_BACKWARD ? "backward"
                                            : "forward",
        1e6 * bar->start, 1e6 * (bar->end - bar->start));
    weft_free(name);
    return status;
}

weft_status step_bars_trace(const step_bars *bars, weft_output *to)
{
    static const char *const of_rank[THREADS] = {"steps", "kernels", "transfers", "waits"};
    static const char *const of_link[THREADS] = {[KERNELS] = "out", [TRANSFERS] = "in"};
    char what[48];
    weft_status status = WEFT_OK;
    PUT("{\"traceEvents\":[\n");
    for (int r = 0; r < bars->ranks && status == WEFT_OK; r++) {
        (void)snprintf(what, sizeof(what), "rank %d, predicted", r);
        status = put_names(what, r + 1, of_rank, to);
    }
    for (int m = 0; m < bars->machines && status == WEFT_OK; m++) {
        (void)snprintf(what, sizeof(what), "link of machine %d, predicted", m);
        status = put_names(what, bars->ranks + m + 1, of_link, to);
    }
    for (int r = 0; r < bars->ranks; r++)
        PUT("%s{\"ph\":\"X\",\"name\":\"step "
            "1\",\"cat\":\"step\",\"pid\":%d,\"tid\":%d,\"args\":{},"
            "\"ts\":0,\"dur\":%.3f}",
            r ? ",\n" : "", r + 1, 10 * (r + 1) + STEPS, 1e6 * bars->seconds);
    for (size_t i = 0; i < bars->count && status == WEFT_OK; i++) {
        const step_bar *bar = &bars->at[i];
        status = put_bar(bar, (is_link(bar) ? bars->ranks : 0) + bar->where + 1, to);
    }
    PUT("\n],\"displayTimeUnit\":\"ms\"}\n");
    return status;
}

/* --- reading --- */

/* The categories of events that are told apart; all others are kernels. */
enum { OF_STEP, OF_TRANSFER, OF_WAIT, OF_KERNEL };
static const char *const categories[OF_KERNEL] = {
    [OF_STEP] = "step", [OF_TRANSFER] = "transfer", [OF_WAIT] = "wait"};

/* An event of a trace: a bar, or the step of a rank. */
typedef struct event {
    int category;
    char name[BAR_NAME], phase[16];
    double ts, dur; /* microseconds */
    int rank;
} event;

typedef struct events {
    event *at;
    size_t count, capacity;
} events;

static void take_args(json_scan *s, event *e)
{
    char key[32];
    json_enter(s, '{');
    while (json_member(s, key, sizeof(key))) {
        if (strcmp(key, "phase") == 0)
            json_take_text(s, e->phase, sizeof(e->phase));
        else
            json_skip(s);
    }
}

static void take_category(json_scan *s, event *e)
{
    char name[16];
    json_take_text(s, name, sizeof(name));
    e->category = 0;
    while (e->category < OF_KERNEL && strcmp(name, categories[e->category]) != 0) e->category++;
}

/* Takes one event; false: it is no bar. */
static bool take_event(json_scan *s, event *e)
{
    char key[32], ph[4] = "";
    *e = (event){.rank = -1, .category = OF_KERNEL};
    json_enter(s, '{');
    while (json_member(s, key, sizeof(key))) {
        if (strcmp(key, "ph") == 0)
            json_take_text(s, ph, sizeof(ph));
        else if (strcmp(key, "cat") == 0)
            take_category(s, e);
        else if (strcmp(key, "name") == 0)
            json_take_text(s, e->name, sizeof(e->name));
        else if (strcmp(key, "ts") == 0)
            e->ts = json_take_number(s);
        else if (strcmp(key, "dur") == 0)
            e->dur = json_take_number(s);
        else if (strcmp(key, "pid") == 0)
            e->rank = (int)json_take_number(s) - 1;
        else if (strcmp(key, "args") == 0)
            take_args(s, e);
        else
            json_skip(s);
    }
    return strcmp(ph, "X") == 0 && e->rank >= 0 && e->rank < 1 << 20 && isfinite(e->ts) &&
           isfinite(e->dur);
}

static bool add_event(events *all, const event *e)
{
    if (all->count == all->capacity) {
        size_t more = all->capacity ? 2 * all->capacity : 1024;
        event *larger = realloc(all->at, more * sizeof(*larger));
        if (!larger) return false;
        all->at = larger;
        all->capacity = more;
    }
    all->at[all->count++] = *e;
    return true;
}

static void take_origin(json_scan *s, step_bars *out)
{
    char key[32];
    json_enter(s, '{');
    while (json_member(s, key, sizeof(key))) {
        if (strcmp(key, "network") == 0)
            json_take_text(s, out->model, sizeof(out->model));
        else if (strcmp(key, "processor") == 0)
            json_take_text(s, out->processor, sizeof(out->processor));
        else
            json_skip(s);
    }
}

static bool read_events(const char *text, size_t size, events *all, step_bars *out)
{
    json_scan s = {.at = text, .end = text + size};
    char key[32];
    event e;
    json_enter(&s, '{');
    while (json_member(&s, key, sizeof(key))) {
        bool origin = strcmp(key, "otherData") == 0;
        if (origin) take_origin(&s, out);
        if (!origin && strcmp(key, "traceEvents") != 0) json_skip(&s);
        if (strcmp(key, "traceEvents") != 0) continue;
        json_enter(&s, '[');
        while (json_element(&s))
            if (take_event(&s, &e) && !add_event(all, &e)) return false;
    }
    return json_ended(&s);
}

/* The name of the step of rank 0 of median length, without the first one; NULL: there is none. */
static const char *median_step(const events *all)
{
    double *lengths = malloc((all->count + 1) * sizeof(*lengths));
    const char *name = NULL, *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < all->count && lengths; i++) {
        const event *e = &all->at[i];
        if (e->rank != 0 || e->category != OF_STEP) continue;
        if (first) lengths[count++] = e->dur;
        if (!first) first = e->name;
    }
    if (count > 0) sort_numbers(lengths, count);
    for (size_t i = 0; i < all->count && count > 0 && !name; i++) {
        const event *e = &all->at[i];
        if (e->rank == 0 && e->category == OF_STEP && e->name != first &&
            e->dur == lengths[count / 2])
            name = e->name;
    }
    free(lengths);
    return name ? name : first;
}

static weft_span_kind kind_of(const event *e)
{
    return e->category == OF_TRANSFER ? WEFT_SPAN_TRANSFER
           : e->category == OF_WAIT   ? WEFT_SPAN_WAIT
                                      : WEFT_SPAN_KERNEL;
}

static weft_phase phase_of(const event *e)
{
    return strcmp(e->phase, "update") == 0     ? WEFT_PHASE_UPDATE
           : strcmp(e->phase, "backward") == 0 ? WEFT_PHASE_BACKWARD
                                               : WEFT_PHASE_FORWARD;
}

/* Takes the events within the step of this name of each rank, from the earliest begin of all. */
static void take_step(const events *all, const char *step, step_bars *out)
{
    double begin = INFINITY;
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].category == OF_STEP && strcmp(all->at[i].name, step) == 0)
            begin = fmin(begin, all->at[i].ts);
    for (size_t k = 0; k < all->count; k++) {
        const event *s = &all->at[k];
        if (s->category != OF_STEP || strcmp(s->name, step) != 0) continue;
        for (size_t i = 0; i < all->count; i++) {
            const event *e = &all->at[i];
            bool in = e->rank == s->rank && e->ts >= s->ts && e->ts < s->ts + s->dur;
            if (!in || e->category == OF_STEP) continue;
            step_bars_add(out,
                          (step_bar){.kind = kind_of(e),
                                     .where = e->rank,
                                     .phase = phase_of(e),
                                     .start = (e->ts - begin) / 1e6,
                                     .end = (e->ts + e->dur - begin) / 1e6},
                          e->name);
        }
    }
}

int step_bars_read(const char *path, step_bars *out)
{
    char *text;
    size_t size;
    events all = {.count = 0};
    if (!json_read_file(path, &text, &size)) return 1;
    bool right = read_events(text, size, &all, out);
    const char *step = right ? median_step(&all) : NULL;
    free(text);
    if (step) {
        take_step(&all, step, out);
        (void)snprintf(out->title, sizeof(out->title), "measured, %s of %.100s%s%s", step, path,
                       *out->processor ? ", on " : "", out->processor);
    } else {
        fprintf(stderr,
                "weft: %s: has no step; give a file that weft train --trace FILE has written\n",
                path);
    }
    free(all.at);
    return step && !out->failed ? 0 : 1;
}
