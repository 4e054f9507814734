/* Programs as text, and traces as Chrome trace events. */
#include <stdio.h>

#include "program/program.h"

static const char *const phases[] = {"forward", "backward", "update"};

static void add_operand(const weft_program *p, weft_text *text, weft_value value,
                        const weft_layout *layout, int b)
{
    static const char *const kinds[] = {"arena", "gradients", "slot", "input", "store"};
    const buffer *own = &p->buffers[b], *root = &p->buffers[buffer_root(p, b)];
    weft_text_add(text, "%s:%s@%s", p->graph->values[value].name, layout->text, kinds[root->kind]);
    if (root->kind != BUFFER_STORE) weft_text_add(text, "+%zu", root->offset);
    weft_text_add(text, "(%zu)", own->bytes);
}

weft_status weft_program_text(const weft_program *p, char **out)
{
    weft_text text = {0};
    const weft_program_info *info = &p->info;
    weft_text_add(&text,
                  "# device %s, %d instructions (%d reorders, %d on the reference device)\n"
                  "# bytes: parameters %zu, state %zu, gradients %zu, arena %zu, scratch %zu, "
                  "transfers %zu\n"
                  "# %.1f MFLOP a run\n"
                  "# operands: value:layout@place+offset(bytes)\n",
                  p->store->device->ops->name, info->instructions, info->reorders, info->fallbacks,
                  info->parameter_bytes, info->state_bytes, info->gradient_bytes, info->arena_bytes,
                  info->scratch_bytes, info->transfer_bytes, info->flops / 1e6);
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        weft_text_add(&text, "%3zu %s %-40s [%s]\n", i, phases[code->phase], code->name,
                      code->kernel->text);
        for (int o = 0; o < code->out_count; o++) {
            weft_text_add(&text, "      -> ");
            add_operand(p, &text, code->out_value[o], code->kernel->out[o], code->out[o]);
            weft_text_add(&text, "\n");
        }
        for (int j = 0; j < code->in_count; j++) {
            weft_text_add(&text, "      <- ");
            add_operand(p, &text, code->in_value[j], code->kernel->in[j], code->in[j]);
            weft_text_add(&text, "\n");
        }
    }
    return weft_text_take(&text, out);
}

weft_status weft_program_trace(weft_program *p, size_t events)
{
    free(p->trace);
    p->trace = NULL;
    p->trace_count = p->trace_capacity = 0;
    if (events == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&p->trace, events));
    p->trace_capacity = events;
    return WEFT_OK;
}

/* Whether the event is one end of a message, and which: its name is the same at the other end.
 * seen[2 i + wait]: such events of instruction i so far. */
static bool message_of(const weft_program *p, size_t event, int *seen, int rank, char *name,
                       size_t size, bool *begins)
{
    const trace_event *e = &p->trace[event];
    const instruction *code = &p->code[e->instruction];
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

static void add_event(const weft_program *p, size_t i, int *seen, int rank, double origin,
                      weft_text *text)
{
    const trace_event *event = &p->trace[i];
    const instruction *code = &p->code[event->instruction];
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
                  start, end - start, rank, code->transfer, event->instruction, phases[code->phase],
                  event->slot, code->flops, code->bytes);
    weft_text_add_json(text, code->kernel->text);
    weft_text_add(text, "}}");
    if (message_of(p, i, seen, rank, message, sizeof(message), &begins))
        weft_text_add(text,
                      ",\n{\"ph\":\"%s\",\"name\":\"message\",\"cat\":\"message\",\"id\":\"%s\","
                      "\"ts\":%.3f,\"pid\":%d,\"tid\":1%s}",
                      begins ? "s" : "f", message, begins ? start : end, rank,
                      begins ? "" : ",\"bp\":\"e\"");
}

weft_status weft_program_trace_events(const weft_program *p, int rank, double origin, char **out)
{
    weft_text text = {0};
    if (origin < 0) origin = p->trace_count ? p->trace[0].start : 0;
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
    weft_status status = WEFT_NEW(&seen, 2 * p->code_count + 1);
    for (size_t i = 0; i < p->trace_count && status == WEFT_OK; i++)
        add_event(p, i, seen, rank, origin, &text);
    free(seen);
    if (status == WEFT_OK) return weft_text_take(&text, out);
    free(text.data);
    return status;
}

weft_status weft_program_trace_write(const weft_program *p, const char *path)
{
    char *events, *json;
    WEFT_TRY(weft_program_trace_events(p, 0, -1, &events));
    weft_status status =
        weft_format(&json, "{\"traceEvents\":[\n%s\n],\"displayTimeUnit\":\"ms\"}\n", events);
    free(events);
    WEFT_TRY(status);
    status = weft_file_replace(path, json, strlen(json));
    free(json);
    return status;
}
