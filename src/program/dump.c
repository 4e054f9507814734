/* Programs as text, and traces as Chrome trace events. */
#include "program/program.h"

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
    static const char *const phases[] = {"forward", "backward", "update"};
    weft_text text = {0};
    const weft_program_info *info = &p->info;
    weft_text_add(&text,
                  "# device %s, %d instructions (%d reorders, %d on the reference device)\n"
                  "# bytes: parameters %zu, state %zu, gradients %zu, arena %zu, scratch %zu\n"
                  "# %.1f MFLOP a run\n"
                  "# operands: value:layout@place+offset(bytes)\n",
                  p->store->device->ops->name, info->instructions, info->reorders, info->fallbacks,
                  info->parameter_bytes, info->state_bytes, info->gradient_bytes, info->arena_bytes,
                  info->scratch_bytes, info->flops / 1e6);
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        weft_text_add(&text, "%3zu %s %-40s [%s]\n", i,
                      phases[code->phase], code->name,
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

weft_status weft_program_trace_write(const weft_program *p, const char *path)
{
    weft_text text = {0};
    double origin = p->trace_count ? p->trace[0].start : 0;
    weft_text_add(&text, "{\"traceEvents\":[\n"
                         "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"tid\":0,"
                         "\"args\":{\"name\":\"rank 0\"}},\n"
                         "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,"
                         "\"args\":{\"name\":\"queue 0\"}}");
    for (size_t i = 0; i < p->trace_count; i++) {
        const trace_event *event = &p->trace[i];
        const instruction *code = &p->code[event->instruction];
        weft_text_add(&text, ",\n{\"ph\":\"X\",\"name\":");
        weft_text_add_json(&text, code->name);
        weft_text_add(&text,
                      ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":0,\"tid\":0,\"args\":{"
                      "\"instruction\":%d,\"flops\":%.0f,\"bytes\":%zu,\"kernel\":",
                      code->reorder    ? "reorder"
                      : code->fallback ? "fallback"
                                       : "kernel",
                      (event->start - origin) * 1e6, event->duration * 1e6, event->instruction,
                      code->flops, code->bytes);
        weft_text_add_json(&text, code->kernel->text);
        weft_text_add(&text, "}}");
    }
    weft_text_add(&text, "\n],\"displayTimeUnit\":\"ms\"}\n");
    char *json;
    WEFT_TRY(weft_text_take(&text, &json));
    weft_status status = weft_file_replace(path, json, strlen(json));
    free(json);
    return status;
}
