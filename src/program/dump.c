/* Prints programs as text. */
#include <stdio.h>

#include "program/gradient_ready.h"

static void add_operand(const weft_program *p, weft_text *text, weft_value value,
                        const weft_layout *layout, int b)
{
    static const char *const kinds[] = {"arena",    "gradients", "slot",   "input",
                                        "sequence", "store",     "derived"};
    const buffer *own = &p->buffers[b], *root = &p->buffers[buffer_root(p, b)];
    bool elsewhere = root->space != schema_own(p->schema) && root->kind != BUFFER_INPUT;
    weft_text_add(text, "%s:%s@%s%s", p->graph->values[value].name, layout->text,
                  elsewhere ? "host " : "", kinds[root->kind]);
    if (root->offset != SIZE_MAX) weft_text_add(text, "+%zu", root->offset);
    weft_text_add(text, "(%zu)", own->bytes);
}

weft_status weft_program_text(const weft_program *p, char **out)
{
    WEFT_NEED_AS("program, out", p, out);
    weft_text text = {0};
    const weft_program_info *info = &p->info;
    weft_text_add(&text,
                  "# device %s%s%s%s, %d instructions (%d reorders, %d on the reference device)\n"
                  "# bytes: parameters %zu, state %zu, gradients %zu, arena %zu, slots %zu, "
                  "inputs %zu, sequences %zu, scratch %zu, transfers %zu\n"
                  "# %.1f MFLOP a run\n"
                  "# operands: value:layout@place+offset(bytes)\n",
                  p->schema->devices[0]->ops->name, info->device_about ? " (" : "",
                  info->device_about ? info->device_about : "", info->device_about ? ")" : "",
                  info->instructions, info->reorders, info->fallbacks, info->parameter_bytes,
                  info->state_bytes, info->gradient_bytes, info->arena_bytes, info->slot_bytes,
                  info->input_bytes, info->sequence_bytes, info->scratch_bytes,
                  info->transfer_bytes, info->flops / 1e6);
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        weft_text_add(&text, "%3zu %s %-40s [%s]%s%s\n", i, weft_phase_name(code->phase),
                      code->name, code->kernel->text, code->why ? " " : "",
                      code->why ? code->why : "");
        for (int o = 0; o < code->out_count; o++) {
            weft_text_add(&text, "      -> ");
            add_operand(p, &text, code->group.out[o], code->kernel->out[o], code->out[o]);
            weft_text_add(&text, "\n");
        }
        for (int h = 0; h < code->exported_count; h++) {
            const exported *made = &p->exported[code->exported + h];
            weft_text_add(&text, "      => gradient of %s+%zu(%zu)\n",
                          p->graph->values[made->leaf].name, made->begin, made->bytes);
        }
        for (int j = 0; j < code->in_count; j++) {
            weft_text_add(&text, "      <- ");
            add_operand(p, &text, code->group.in[j], code->kernel->in[j], code->in[j]);
            weft_text_add(&text, "\n");
        }
    }
    return weft_text_take(&text, out);
}
