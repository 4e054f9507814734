/* Finds the instruction that first reads each parameter, and calls the hook `needed` before it in a
 * run. So parameters may arrive while the program runs (overlap of pull and forward pass). */
#include "program/instance.h"
#include "program/first_use.h"

/* --- creation --- */

/* The store entry of an operand if it is a parameter, else -1. A copy of a parameter in another
 * layout need not be considered, since the instruction that makes it reads the parameter. */
static int entry_of(const weft_program *p, int b)
{
    const buffer *root = &p->buffers[buffer_root(p, b)];
    if (root->kind != BUFFER_STORE) return -1;
    return p->schema->entries[root->entry].kind == WEFT_VALUE_PARAM ? root->entry : -1;
}

/* before: operations of the instructions that run before this one. */
static weft_status add_first_use(weft_program *p, bool *seen, size_t *room, int i, double before)
{
    instruction *code = &p->code[i];
    code->read = (int)p->reading_count;
    for (int j = 0; j < code->in_count; j++) {
        int entry = entry_of(p, code->in[j]);
        if (entry < 0 || seen[entry]) continue;
        seen[entry] = true;
        WEFT_TRY(WEFT_GROW(&p->readings, room, p->reading_count));
        p->readings[p->reading_count++] = (reading){.entry = entry, .flops = before};
        code->read_count++;
    }
    return WEFT_OK;
}

weft_status weft_readings_find(weft_program *p)
{
    bool *seen;
    size_t room = 0;
    double before = 0;
    weft_status status = WEFT_NEW(&seen, p->schema->count + 1);
    for (int phase = WEFT_PHASE_FORWARD; phase <= WEFT_PHASE_UPDATE; phase++)
        for (size_t i = 0; i < p->code_count && status == WEFT_OK; i++) {
            if ((int)p->code[i].phase != phase) continue;
            status = add_first_use(p, seen, &room, (int)i, before);
            before += p->code[i].flops;
        }
    free(seen);
    return status;
}

/* --- queries --- */

bool weft_program_reading(const weft_program *p, int i, weft_reading *out)
{
    WEFT_NEED_ELSE_AS(false, "program, out", p, out);
    if (i < 0 || (size_t)i >= p->reading_count) return false;
    const reading *r = &p->readings[i];
    const store_entry *e = &p->schema->entries[r->entry];
    int64_t size = (int64_t)weft_dtype_size(e->type.dtype);
    *out = (weft_reading){.name = e->name,
                          .index = i,
                          .entry = r->entry,
                          .dtype = e->type.dtype,
                          .begin = (int64_t)e->offset / size,
                          .count = (int64_t)e->layout->bytes / size,
                          .flops = r->flops};
    return true;
}

/* --- execution --- */

weft_status weft_reading_report(const weft_instance *x, int i)
{
    const instruction *code = &x->program->code[i];
    weft_reading r;
    for (int k = 0; k < code->read_count; k++) {
        (void)weft_program_reading(x->program, code->read + k, &r);
        WEFT_TRY(x->listener.needed(x->listener.user, &r));
    }
    return WEFT_OK;
}

void weft_instance_enable_needed_hook(weft_instance *x, bool await)
{
    WEFT_NEED_VOID_AS("instance", x);
    x->awaits = await && x->listener.needed;
}
