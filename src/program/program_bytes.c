/* The memory that a planned program will take of the host, for estimates. */
#include "program/program.h"

weft_program_info weft_program_on_host(const weft_program *p)
{
    weft_program_info info = p->info;
    const int host = SPACE_HOST;
    if (schema_own(p->schema) == host) return info;
    info.arena_bytes = p->arena_bytes[host];
    info.gradient_bytes = p->gradient_bytes[host];
    info.scratch_bytes = p->scratch_bytes[host];
    info.slot_bytes = p->slot_bytes[host] * (size_t)p->slots;
    info.transfer_bytes = p->room_bytes[host];
    info.sequence_bytes = 0;
    if (schema_home(p->schema) != host)
        info.parameter_bytes = info.state_bytes = info.derived_bytes = 0;
    return info;
}

double weft_program_bytes(const weft_program_info *info)
{
    return (double)(info->parameter_bytes + info->state_bytes + info->gradient_bytes +
                    info->arena_bytes + info->slot_bytes + info->input_bytes + info->scratch_bytes +
                    info->transfer_bytes + info->sequence_bytes);
}

size_t weft_entry_bytes(const store_entry *entry)
{
    return entry->layout ? (entry->layout->bytes + 63) / 64 * 64 : 0;
}

void weft_store_planned(const weft_store *s, weft_dtype *dtype, int64_t *count)
{
    *dtype = WEFT_F32;
    *count = 0;
    for (size_t e = 0; e < s->schema->count; e++) {
        const store_entry *entry = &s->schema->entries[e];
        if (entry->kind != WEFT_VALUE_PARAM) continue;
        *dtype = entry->type.dtype;
        *count += (int64_t)(weft_entry_bytes(entry) / weft_dtype_size(*dtype));
    }
}

void weft_store_suppose_engine(weft_store *store, const char *engine)
{
    store->schema->engine = engine;
}

void weft_program_unbind(const weft_program *p, weft_bound ***list)
{
    size_t cells = p->code_count * (size_t)p->slots;
    for (size_t i = 0; *list && i < cells; i++)
        if ((*list)[i]) (*list)[i]->ops->destroy((*list)[i]);
    free((void *)*list);
    *list = NULL;
}

/* How often a kernel that instructions share was bound, and what that took the second time, since
 * libraries keep some with the first. */
typedef struct binding {
    size_t times, bytes;
} binding;

/* Adds to *saved the bytes of binding a kernel as another one of the same was, and does not. */
static weft_status bind_again(const weft_kernel *kernel, binding *b, weft_bound **out,
                              double *saved)
{
    if (b->times > 1) {
        *saved += (double)b->bytes;
        return WEFT_OK;
    }
    size_t before = b->times++ == 0 ? 0 : weft_allocated_memory();
    WEFT_TRY(weft_kernel_bind(kernel, out));
    if (b->times > 1) b->bytes = weft_allocated_memory() - before;
    return WEFT_OK;
}

static weft_status bind_all(const weft_program *p, binding *shared, weft_bound **list,
                            double *saved)
{
    size_t slots = (size_t)p->slots;
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        size_t times = code->phase == WEFT_PHASE_UPDATE ? 1 : slots;
        /* Binding on a device may take memory of it. */
        bool host = code->space == SPACE_HOST && schema_own(p->schema) == SPACE_HOST;
        binding own = {0}, *b = code->shares < 0 ? &own : &shared[code->shares];
        for (size_t s = 0; s < times && host && !code->transfer; s++)
            WEFT_TRY(bind_again(code->kernel, b, &list[i * slots + s], saved));
    }
    return WEFT_OK;
}

weft_status weft_program_bind(const weft_program *p, weft_bound ***out, double *saved)
{
    binding *shared;
    WEFT_TRY(weft_new_bytes((void *)out, p->code_count * (size_t)p->slots, sizeof(**out)));
    WEFT_TRY(WEFT_NEW(&shared, p->kernel_count));
    weft_status status = bind_all(p, shared, *out, saved);
    free(shared);
    return status;
}
