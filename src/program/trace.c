/* Writes the recorded events of an instance as Chrome trace events. */
#include <math.h>
#include <stdio.h>

#include "program/gradient_ready.h"
#include "program/trace.h"

/* The threads of a rank in the trace; the last two if the device has a clock. */
enum { STEPS, KERNELS, TRANSFERS, DEVICE, COPIES, THREADS };

static bool is_of_device(const trace_event *e)
{
    return e->kind == TRACE_DEVICE || e->kind == TRACE_LANDED;
}

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
    bool wait = e->kind == TRACE_WAIT;
    *begins = node->in_count > 0;
    if (*begins == wait) return false;
    int count = seen[2 * e->instruction + wait]++, peer = (int)weft_node_int(node, "peer", 0, 0);
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

static const char *category(const trace_event *e, const instruction *code)
{
    return e->kind == TRACE_WAIT     ? "wait"
           : e->kind == TRACE_QUEUED ? "queue"
           : e->kind == TRACE_LANDED ? "copy"
           : code->transfer          ? "transfer"
           : code->copy              ? "copy"
           : code->reorder           ? "reorder"
           : code->fallback          ? "fallback"
                                     : "kernel";
}

/* Bytes that the event moved: a copy reads as many as it writes, which counts once. */
static size_t bytes_of(const weft_program *p, const trace_event *e)
{
    const instruction *code = &p->code[e->instruction];
    size_t bytes = 0;
    if (e->kind != TRACE_LANDED) return code->copy ? code->kernel->out[0]->bytes : code->bytes;
    for (int k = code->exported; k < code->exported + code->exported_count; k++)
        if (p->buffers[buffer_root(p, p->exported[k].buffer)].space == SPACE_DEVICE)
            bytes += p->exported[k].bytes;
    return bytes;
}

static void add_event(const weft_instance *x, size_t i, int *seen, int rank, double origin,
                      weft_text *text)
{
    const trace_event *event = &x->trace[i];
    const instruction *code = &x->program->code[event->instruction];
    bool landed = event->kind == TRACE_LANDED, begins = false;
    uint64_t message = 0;
    double start = event->start - origin, end = start + event->duration;
    int thread = landed                        ? COPIES
                 : event->kind == TRACE_DEVICE ? DEVICE
                 : code->transfer              ? TRANSFERS
                                               : KERNELS;
    weft_text_add(text, ",\n{\"ph\":\"X\",\"name\":");
    weft_text_add_json(text, code->name);
    weft_text_add(text,
                  ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"instruction\":%d,"
                  "\"phase\":\"%s\",\"slot\":%d,\"flops\":%.0f,\"bytes\":%zu,"
                  "\"kernel\":",
                  category(event, code), process_of(rank), thread_of(rank, thread),
                  event->instruction, weft_phase_name(code->phase), event->slot,
                  landed ? 0 : code->flops, bytes_of(x->program, event));
    weft_text_add_json(text, landed ? "to the host" : code->kernel->text);
    weft_text_add(text, "},");
    add_times(start, end, text);
    weft_text_add(text, "}");
    if (message_of(x, i, seen, rank, &message, &begins))
        add_arrow(message, begins, start, end, rank, text);
}

/* `details`: the members of its "args". */
static void add_bar(const char *name, const char *kind, const char *details, int rank, int thread,
                    double from, double until, weft_text *text)
{
    weft_text_add(text,
                  ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"args\":{%s},\"pid\":%d,"
                  "\"tid\":%d,",
                  name, kind, details, process_of(rank), thread_of(rank, thread));
    add_times(from, until, text);
    weft_text_add(text, "}");
}

/* Adds the bar of an event that belongs to no instruction. */
static void add_other(const trace_event *e, int rank, double origin, weft_text *text)
{
    char name[64] = "wait for the device";
    const char *op = weft_trace_operator(e);
    if (op) (void)snprintf(name, sizeof(name), "%s %s", op, weft_trace_layer(e));
    add_bar(name, e->kind == TRACE_WAIT ? "wait" : "transfer", "", rank, op ? TRANSFERS : KERNELS,
            e->start - origin, e->start + e->duration - origin, text);
}

/* Adds the bars of a step: on the host up to the end of its last instruction there, and on the
 * device, which may be behind, from its first event there to its last one. */
static void add_step(const weft_instance *x, size_t i, int rank, double origin, weft_text *text)
{
    const trace_event *step = &x->trace[i];
    double end = step->start, begins = INFINITY, ends = 0;
    char name[32], worked[64];
    size_t j = i + 1;
    (void)snprintf(name, sizeof(name), "step %d", step->slot);
    for (; j < x->trace_count && x->trace[j].instruction != STEP_BEGINS; j++) {
        const trace_event *e = &x->trace[j];
        if (is_of_device(e)) {
            begins = WEFT_MIN(begins, e->start);
            ends = WEFT_MAX(ends, e->start + e->duration);
        } else
            end = WEFT_MAX(end, e->start + e->duration);
    }
    /* The begin of a step holds the host's work until then. */
    double until = j < x->trace_count ? x->trace[j].duration : x->host_seconds;
    (void)snprintf(worked, sizeof(worked), "\"host_seconds\":%.9f", until - step->duration);
    add_bar(name, "step", worked, rank, STEPS, step->start - origin, end - origin, text);
    if (ends > 0) add_bar(name, "step", "", rank, DEVICE, begins - origin, ends - origin, text);
}

static void add_names(int rank, bool device, weft_text *text)
{
    static const char *const names[THREADS] = {"steps", "kernels", "transfers", "device",
                                               "gradients to the host"};
    weft_text_add(text,
                  "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank "
                  "%d\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,"
                  "\"args\":{\"sort_index\":%d}}",
                  process_of(rank), rank, process_of(rank), rank);
    for (int t = 0; t < (device ? THREADS : DEVICE); t++)
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
    add_names(rank, x->traced, &text);
    int *seen = NULL;
    weft_status status = weft_trace_settle(x);
    if (status == WEFT_OK) status = WEFT_NEW(&seen, 2 * x->program->code_count + 1);
    for (size_t i = 0; i < x->trace_count && status == WEFT_OK; i++)
        if (x->trace[i].instruction == STEP_BEGINS)
            add_step(x, i, rank, origin, &text);
        else if (x->trace[i].instruction < 0)
            add_other(&x->trace[i], rank, origin, &text);
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
