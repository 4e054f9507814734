/* Records the start and duration of an instance's instructions, and writes them as Chrome trace
 * events. */
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

/* Whether the event is one end of a message: the start of a send (*begins), or the wait for a
 * receive. `name` identifies the message on both ranks. seen[2 i + wait]: number of such events of
 * instruction i so far. */
static bool message_of(const weft_instance *x, size_t event, int *seen, int rank, char *name,
                       size_t size, bool *begins)
{
    const trace_event *e = &x->trace[event];
    const instruction *code = &x->program->code[e->instruction];
    if (!code->transfer) return false;
    const weft_node *node = code->group.node[0];
    if (!node->op->effect) return false;
    *begins = node->in_count > 0;
    if (*begins == e->wait) return false;
    int count = seen[2 * e->instruction + e->wait]++, peer = (int)weft_node_int(node, "peer", 0, 0);
    (void)snprintf(name, size, "%d-%d-%lld-%d", *begins ? rank : peer, *begins ? peer : rank,
                   (long long)weft_node_int(node, "tag", 0, 0), count);
    return true;
}

static void add_event(const weft_instance *x, size_t i, int *seen, int rank, double origin,
                      weft_text *text)
{
    const trace_event *event = &x->trace[i];
    const instruction *code = &x->program->code[event->instruction];
    char message[64];
    bool begins = false;
    double start = (event->start - origin) * 1e6, end = start + event->duration * 1e6;
    weft_text_add(text, ",\n{\"ph\":\"X\",\"name\":");
    weft_text_add_json(text, code->name);
    weft_text_add(text,
                  ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{"
                  "\"instruction\":%d,\"phase\":\"%s\",\"slot\":%d,\"flops\":%.0f,\"bytes\":%zu,"
                  "\"kernel\":",
                  event->wait      ? "wait"
                  : code->transfer ? "transfer"
                  : code->reorder  ? "reorder"
                  : code->fallback ? "fallback"
                                   : "kernel",
                  start, end - start, rank, code->transfer, event->instruction,
                  weft_phase_name(code->phase), event->slot, code->flops, code->bytes);
    weft_text_add_json(text, code->kernel->text);
    weft_text_add(text, "}}");
    if (message_of(x, i, seen, rank, message, sizeof(message), &begins))
        weft_text_add(text,
                      ",\n{\"ph\":\"%s\",\"name\":\"message\",\"cat\":\"message\",\"id\":\"%s\","
                      "\"ts\":%.3f,\"pid\":%d,\"tid\":1%s}",
                      begins ? "s" : "f", message, begins ? start : end, rank,
                      begins ? "" : ",\"bp\":\"e\"");
}

weft_status weft_instance_trace_events(const weft_instance *x, int rank, double origin, char **out)
{
    WEFT_NEED_AS("instance, out", x, out);
    if (rank < 0) return weft_fail(WEFT_ERR_ARGUMENT, "the rank %d, must be from 0", rank);
    weft_text text = {0};
    if (origin < 0) origin = x->trace_count ? x->trace[0].start : 0;
    weft_text_add(&text,
                  "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
                  "\"args\":{\"name\":\"rank %d\"}}",
                  rank, rank);
    for (int queue = 0; queue < 2; queue++)
        weft_text_add(&text,
                      ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
                      "\"args\":{\"name\":\"%s\"}}",
                      rank, queue, queue ? "transfers" : "queue 0");
    int *seen = NULL;
    weft_status status = WEFT_NEW(&seen, 2 * x->program->code_count + 1);
    for (size_t i = 0; i < x->trace_count && status == WEFT_OK; i++)
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
