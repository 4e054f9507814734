/* Tells a device of tests, after each phase, which memory of an instance no value has any more, so
 * that an instruction which reads a value of a phase that is over finds no numbers. */
#include "program/instance.h"

/* The last instruction of the phases until this one. */
static int end_of(const weft_program *p, weft_phase phase)
{
    int end = (int)p->code_count - 1;
    while (end >= 0 && p->code[end].phase > phase) end--;
    return end;
}

/* Whether the value of a buffer is needed after an instruction. */
static bool lives(const buffer *b, int end)
{
    return b->keep || b->hold || (b->first >= 0 && b->first <= end && b->last > end);
}

static bool is_root(const buffer *b, buffer_kind kind, int space)
{
    return b->kind == kind && b->space == space && b->alias < 0;
}

/* The end of the live buffers that cover byte `at` of the arena, or `at`; *next: the begin of the
 * next live one. */
static size_t covered(const weft_program *p, int space, int end, size_t at, size_t *next)
{
    size_t until = at;
    *next = p->arena_bytes[space];
    for (size_t b = 0; b < p->buffer_count; b++) {
        const buffer *x = &p->buffers[b];
        if (!is_root(x, BUFFER_ARENA, space) || x->offset == SIZE_MAX || !lives(x, end)) continue;
        if (x->offset <= at && x->offset + x->bytes > until) until = x->offset + x->bytes;
        if (x->offset > at && x->offset < *next) *next = x->offset;
    }
    return until;
}

static weft_status forget_arena(const weft_instance *x, weft_queue *queue, int space, int end)
{
    const weft_program *p = x->program;
    size_t next;
    for (size_t at = 0; at < p->arena_bytes[space];) {
        size_t until = covered(p, space, end, at, &next);
        if (until == at) {
            const weft_address gap = {x->at.arena[space], at};
            WEFT_TRY(weft_memory_forget(queue, gap, next - at));
            until = next;
        }
        at = until;
    }
    return WEFT_OK;
}

static weft_status forget_slot(const weft_instance *x, weft_queue *queue, int space, int end)
{
    const weft_program *p = x->program;
    for (size_t b = 0; b < p->buffer_count; b++)
        if (is_root(&p->buffers[b], BUFFER_SLOT, space) && !lives(&p->buffers[b], end))
            WEFT_TRY(
                weft_memory_forget(queue, weft_instance_address(x, (int)b), p->buffers[b].bytes));
    return WEFT_OK;
}

weft_status weft_instance_forget(const weft_instance *x, weft_phase phase, int space)
{
    const weft_program *p = x->program;
    weft_queue *queue = space == SPACE_DEVICE ? x->queue : NULL;
    int end = end_of(p, phase);
    if (!weft_device_forgets(p->schema->devices[0])) return WEFT_OK;
    WEFT_TRY(forget_arena(x, queue, space, end));
    if (phase != WEFT_PHASE_UPDATE) WEFT_TRY(forget_slot(x, queue, space, end));
    const weft_address scratch = {x->scratch[space], 0};
    return weft_memory_forget(queue, scratch, p->scratch_bytes[space]);
}
