/* Records the start and duration of an instance's instructions, and writes them as Chrome trace
 * events. */
#include <math.h>
#include <stdio.h>

#include "program/program.h"

weft_status weft_instance_trace(weft_instance *x, size_t events)
{
    WEFT_NEED_AS("instance", x);
    free(x->trace);
    x->trace = NULL;
    x->trace_count = x->trace_capacity = 0;
    if (events == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&x->trace, events));
    x->trace_capacity = events;
    return WEFT_OK;
}

void weft_instance_trace_step(weft_instance *x, int64_t step)
{
    WEFT_NEED_VOID_AS("instance", x);
    if (x->trace_count < x->trace_capacity)
        x->trace[x->trace_count++] =
            (trace_event){weft_seconds(), x->host_seconds, STEP_BEGINS, (int)step, false};
}

/* --- Chrome trace events --- */

/* The threads of a rank in the trace. */
enum { STEPS, KERNELS, TRANSFERS, THREADS };

static int process_of(int rank)
{
    return rank + 1;
}

/* The number of a thread, which no other thread and no process has. */
static int thread_of(int rank, int thread)
{
    return 1000000 + THREADS * rank + thread;
}

/* Whether the event is one end of a message: the start of a send (*begins), or the wait for a
 * receive. *id identifies the message on both ranks. seen[2 i + wait]: number of such events of
 * instruction i so far. */
static bool message_of(const weft_instance *x, size_t event, int *seen, int rank, uint64_t *id,
                       bool *begins)
{
    char name[64];
    const trace_event *e = &x->trace[event];
    const instruction *code = &x->program->code[e->instruction];
    if (!code->transfer) return false;
    const weft_node *node = code->group.node[0];
    if (!node->op->transfer->message) return false;
    *begins = node->in_count > 0;
    if (*begins == e->wait) return false;
    int count = seen[2 * e->instruction + e->wait]++, peer = (int)weft_node_int(node, "peer", 0, 0);
    (void)snprintf(name, sizeof(name), "%d-%d-%lld-%d", *begins ? rank : peer,
                   *begins ? peer : rank, (long long)weft_node_int(node, "tag", 0, 0), count);
    *id = weft_hash_text(name) >> 12; /* JSON has 53 bits for whole numbers */
    return true;
}

/* Adds the times of a bar, in microseconds with three decimals. Both ends are rounded, so bars that
 * follow each other do not overlap. */
static void add_times(double from, double until, weft_text *text)
{
    long long start = llround(from * 1e9), end = llround(until * 1e9);
    weft_text_add(text, "\"ts\":%.3f,\"dur\":%.3f", (double)start / 1e3,
                  (double)(end - start) / 1e3);
}

/* An arrow begins with the send and ends within the wait for the receive: a viewer ties it to the
 * bar around its time. */
static void add_arrow(uint64_t id, bool begins, double start, double end, int rank, weft_text *text)
{
    long long first = llround(start * 1e9), last = llround(end * 1e9) - 1;
    weft_text_add(text,
                  ",\n{\"ph\":\"%s\",\"name\":\"message\",\"cat\":\"message\",\"id\":%llu,"
                  "\"ts\":%.3f,\"pid\":%d,\"tid\":%d%s}",
                  begins ? "s" : "f", (unsigned long long)id,
                  (double)(begins ? first : WEFT_MAX(first, last)) / 1e3, process_of(rank),
                  thread_of(rank, TRANSFERS), begins ? "" : ",\"bp\":\"e\"");
}

static void add_event(const weft_instance *x, size_t i, int *seen, int rank, double origin,
                      weft_text *text)
{
    const trace_event *event = &x->trace[i];
    const instruction *code = &x->program->code[event->instruction];
    uint64_t message = 0;
    bool begins = false;
    double start = event->start - origin, end = start + event->duration;
    weft_text_add(text, ",\n{\"ph\":\"X\",\"name\":");
    weft_text_add_json(text, code->name);
    weft_text_add(text,
                  ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"instruction\":%d,"
                  "\"phase\":\"%s\",\"slot\":%d,\"flops\":%.0f,\"bytes\":%zu,"
                  "\"kernel\":",
                  event->wait      ? "wait"
                  : code->transfer ? "transfer"
                  : code->reorder  ? "reorder"
                  : code->fallback ? "fallback"
                                   : "kernel",
                  process_of(rank), thread_of(rank, code->transfer ? TRANSFERS : KERNELS),
                  event->instruction, weft_phase_name(code->phase), event->slot, code->flops,
                  code->bytes);
    weft_text_add_json(text, code->kernel->text);
    weft_text_add(text, "},");
    add_times(start, end, text);
    weft_text_add(text, "}");
    if (message_of(x, i, seen, rank, &message, &begins))
        add_arrow(message, begins, start, end, rank, text);
}

/* Adds the bar of a step, up to the end of its last instruction or the begin of the next step. */
static void add_step(const weft_instance *x, size_t i, int rank, double origin, weft_text *text)
{
    const trace_event *step = &x->trace[i];
    double end = step->start;
    size_t j = i + 1;
    for (; j < x->trace_count && x->trace[j].instruction != STEP_BEGINS; j++)
        end = WEFT_MAX(end, x->trace[j].start + x->trace[j].duration);
    double worked = j < x->trace_count ? x->trace[j].duration : x->host_seconds;
    weft_text_add(text,
                  ",\n{\"ph\":\"X\",\"name\":\"step %d\",\"cat\":\"step\",\"pid\":%d,\"tid\":%d,"
                  "\"args\":{\"host_seconds\":%.9f},",
                  step->slot, process_of(rank), thread_of(rank, STEPS), worked - step->duration);
    add_times(step->start - origin, end - origin, text);
    weft_text_add(text, "}");
}

static void add_names(int rank, weft_text *text)
{
    static const char *const names[THREADS] = {"steps", "kernels", "transfers"};
    weft_text_add(text,
                  "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank "
                  "%d\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,"
                  "\"args\":{\"sort_index\":%d}}",
                  process_of(rank), rank, process_of(rank), rank);
    for (int t = 0; t < THREADS; t++)
        weft_text_add(text,
                      ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
                      "\"args\":{\"name\":\"%s\"}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\","
                      "\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                      process_of(rank), thread_of(rank, t), names[t], process_of(rank),
                      thread_of(rank, t), t);
}

weft_status weft_instance_trace_events(const weft_instance *x, int rank, double origin, char **out)
{
    WEFT_NEED_AS("instance, out", x, out);
    if (rank < 0) return weft_fail(WEFT_ERR_ARGUMENT, "the rank %d, must be from 0", rank);
    weft_text text = {0};
    if (origin < 0) origin = x->trace_count ? x->trace[0].start : 0;
    add_names(rank, &text);
    int *seen = NULL;
    weft_status status = WEFT_NEW(&seen, 2 * x->program->code_count + 1);
    for (size_t i = 0; i < x->trace_count && status == WEFT_OK; i++)
        if (x->trace[i].instruction == STEP_BEGINS)
            add_step(x, i, rank, origin, &text);
        else
            add_event(x, i, seen, rank, origin, &text);
    free(seen);
    if (status == WEFT_OK) return weft_text_take(&text, out);
    free(text.data);
    return status;
}

weft_status weft_instance_trace_write(const weft_instance *x, const char *path)
{
    WEFT_NEED_AS("instance, path", x, path);
    char *events, *json;
    WEFT_TRY(weft_instance_trace_events(x, 0, -1, &events));
    weft_status status =
        weft_format(&json, "{\"traceEvents\":[\n%s\n],\"displayTimeUnit\":\"ms\"}\n", events);
    free(events);
    WEFT_TRY(status);
    status = weft_file_replace(path, WEFT_OUTPUT_REPLACE, json, strlen(json));
    free(json);
    return status;
}
