/* Says which programs allow that the host queues a whole step and does not wait in between, and
 * which of their kernels must stop if a loss is not finite. */
#include "program/run_ahead.h"

static bool is_in_turns(const weft_program *p, int b)
{
    const buffer *root = &p->buffers[buffer_root(p, b)];
    return root->space != SPACE_HOST || root->kind == BUFFER_INPUT || root->kind == BUFFER_ARENA ||
           root->kind == BUFFER_SLOT;
}

/* Whether a buffer is of the store, and has numbers that outlive a step. */
static bool is_kept(const weft_program *p, int b)
{
    const buffer *root = &p->buffers[buffer_root(p, b)];
    if (root->kind != BUFFER_STORE) return root->kind == BUFFER_SEQUENCE;
    return p->schema->entries[root->entry].role != WEFT_ROLE_SUM;
}

static bool writes_store(const weft_program *p, const instruction *code)
{
    bool writes = false;
    for (int o = 0; o < code->out_count; o++) writes = writes || is_kept(p, code->out[o]);
    return writes;
}

bool weft_step_guards(const weft_program *p, const instruction *code)
{
    return !code->transfer && writes_store(p, code);
}

/* A transfer is not guarded. One that passes on values of the store leaves them as they were. */
static bool passes_on(const weft_program *p, const instruction *code)
{
    bool from_store = code->in_count > 0 && !code->group.node[0]->op->transfer->sums;
    for (int i = 0; i < code->in_count; i++) from_store = from_store && is_kept(p, code->in[i]);
    return from_store || !writes_store(p, code);
}

bool weft_step_is_whole(const weft_program *p)
{
    if (schema_own(p->schema) == SPACE_HOST) return false;
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        if (code->derives || code->space == SPACE_HOST) return false;
        if (code->transfer && !passes_on(p, code)) return false;
        if (code->copy && !(is_in_turns(p, code->in[0]) && is_in_turns(p, code->out[0])))
            return false;
    }
    return true;
}

bool weft_step_has_transfers(const weft_program *p)
{
    bool any = false;
    for (size_t i = 0; i < p->code_count; i++) any = any || p->code[i].transfer;
    return any;
}

int weft_step_copy_of(const weft_program *p, weft_value value)
{
    for (size_t i = 0; i < p->code_count; i++)
        if (p->code[i].copy && p->code[i].group.in[0] == value &&
            layout_space(p->code[i].kernel->out[0]) == SPACE_HOST)
            return (int)i;
    return -1;
}
