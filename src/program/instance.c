/* Creates instances, which are programs with memory of their own that are bound to a store. */
#include "program/device_use.h"
#include "program/trace.h"
#include "program/transfer.h"

/* Placeholder memory for planning. Each kind of buffer begins at an offset of its own, 2^FAR bytes
 * from the next. */
static weft_memory nowhere;
enum { FAR = 44 };

bases weft_bases_nowhere(void)
{
    return (bases){.inputs = &nowhere,
                   .sequences = &nowhere,
                   .arena = {&nowhere, &nowhere},
                   .gradients = {&nowhere, &nowhere},
                   .slots = {&nowhere, &nowhere}};
}

static weft_address entry_address(const weft_program *p, const weft_store *store, int i)
{
    if (store) return weft_store_address(store, i);
    const store_entry *entry = &p->schema->entries[i];
    size_t far = ((size_t)BUFFER_STORE + 1) << FAR;
    return (weft_address){&nowhere, entry->slab < 0
                                        ? far + ((size_t)i << 36)
                                        : far * 2 + ((size_t)entry->slab << FAR) + entry->offset};
}

weft_address weft_buffer_address(const weft_program *p, const bases *at, int b, int slot)
{
    const buffer *root = &p->buffers[buffer_root(p, b)];
    size_t within = buffer_within(p, b) + (root->offset == SIZE_MAX ? 0 : root->offset);
    size_t far = at->store ? 0 : ((size_t)root->kind + 1) << FAR;
    switch (root->kind) {
    case BUFFER_ARENA: return (weft_address){at->arena[root->space], far + within};
    case BUFFER_GRADIENT: return (weft_address){at->gradients[root->space], far + within};
    case BUFFER_SLOT:
        return (weft_address){at->slots[root->space],
                              far + p->slot_bytes[root->space] * (size_t)slot + within};
    case BUFFER_INPUT:
        if (at->lent && buffer_root(p, b) == at->borrower)
            return (weft_address){at->lent, buffer_within(p, b)};
        return (weft_address){at->inputs, far + p->input_bytes * (size_t)slot + within};
    case BUFFER_SEQUENCE: return (weft_address){at->sequences, far + within};
    case BUFFER_STORE:
        return weft_beyond(entry_address(p, at->store, root->entry), buffer_within(p, b));
    case BUFFER_DERIVED: break;
    }
    if (!at->store) return (weft_address){0};
    return (weft_address){at->store->slabs[p->schema->derived[root->entry].slab], 0};
}

weft_status weft_instruction_place(const weft_program *p, const instruction *code, const bases *at,
                                   int slot, weft_memory *const *scratch, weft_bound *bound)
{
    weft_address in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES];
    for (int j = 0; j < code->in_count; j++) in[j] = weft_buffer_address(p, at, code->in[j], slot);
    for (int j = 0; j < code->out_count; j++)
        out[j] = weft_buffer_address(p, at, code->out[j], slot);
    return weft_bound_place(bound, in, out,
                            (weft_address){scratch ? scratch[code->space] : NULL, 0});
}

static weft_status bind(weft_instance *x, const instruction *code, int slot, weft_bound **out)
{
    WEFT_TRY(code->transfer ? weft_transfer_bind(code->kernel, x, out)
                            : weft_kernel_bind(code->kernel, out));
    return weft_instruction_place(x->program, code, &x->at, slot, x->scratch, *out);
}

static weft_status bind_all(weft_instance *x)
{
    const weft_program *p = x->program;
    for (size_t i = 0; i < p->code_count; i++) {
        int slots = p->code[i].phase == WEFT_PHASE_UPDATE ? 1 : p->slots;
        for (int s = 0; s < slots; s++)
            WEFT_TRY(bind(x, &p->code[i], s, &x->bound[i * (size_t)p->slots + (size_t)s]));
    }
    return WEFT_OK;
}

size_t weft_program_own_bytes(const weft_program *p)
{
    size_t bytes = p->info.device_bytes;
    if (schema_home(p->schema) == SPACE_DEVICE)
        bytes -= p->info.parameter_bytes + p->info.state_bytes;
    return bytes;
}

weft_status weft_program_fits(const weft_program *p, size_t total, size_t free)
{
    size_t need = weft_program_own_bytes(p);
    if (total == 0 || need <= free) return WEFT_OK;
    return weft_fail(WEFT_ERR_MEMORY,
                     "the program needs %zu bytes of the memory of device %s, of whose %zu bytes "
                     "%zu are free; a smaller batch, more micro-batches, --recompute or --home cpu "
                     "take less",
                     need, p->schema->devices[0]->ops->name, total, free);
}

/* A device may promise memory that it does not have, and fail in the middle of a run. */
static weft_status check_device_memory(const weft_program *p)
{
    size_t total, free;
    WEFT_TRY(weft_memory_usage(p->schema->devices[0], &total, &free));
    return weft_program_fits(p, total, free);
}

/* Allocates memory in each space that the program uses. */
static weft_status allocate(weft_instance *x)
{
    const weft_program *p = x->program;
    WEFT_TRY(check_device_memory(p));
    size_t cells = p->code_count * (size_t)p->slots;
    for (int s = 0; s <= schema_own(p->schema); s++) {
        WEFT_TRY(weft_space_memory(p->schema, s, p->arena_bytes[s], &x->at.arena[s]));
        WEFT_TRY(weft_space_memory(p->schema, s, p->gradient_bytes[s], &x->at.gradients[s]));
        WEFT_TRY(weft_space_memory(p->schema, s, p->scratch_bytes[s], &x->scratch[s]));
        WEFT_TRY(
            weft_space_memory(p->schema, s, p->slot_bytes[s] * (size_t)p->slots, &x->at.slots[s]));
    }
    WEFT_TRY(
        weft_space_memory(p->schema, SPACE_HOST, p->input_bytes * (size_t)p->slots, &x->at.inputs));
    WEFT_TRY(
        weft_space_memory(p->schema, schema_own(p->schema), p->sequence_bytes, &x->at.sequences));
    WEFT_TRY(weft_instance_open_queue(x));
    WEFT_TRY(weft_device_use_open(x));
    WEFT_TRY(weft_new_bytes((void *)&x->bound, cells, sizeof(weft_bound *)));
    return weft_new_bytes((void *)&x->pending, cells, sizeof(*x->pending));
}

weft_status weft_instance_create(weft_program *program, weft_store *store, const weft_comms *comms,
                                 weft_instance **out)
{
    WEFT_NEED(program, store, out);
    weft_instance *x;
    if (program->dry) return weft_fail(WEFT_ERR_ARGUMENT, "this program is only a plan");
    if (store->schema != program->schema)
        return weft_fail(WEFT_ERR_ARGUMENT, "the store is of another model than the program's: it "
                                            "must be that one, or a clone of it");
    WEFT_TRY(weft_store_fill(store));
    WEFT_TRY(WEFT_NEW(&x, 1));
    atomic_fetch_add(&program->users, 1);
    x->program = program;
    x->store = store;
    x->comms = comms;
    x->at.store = store;
    weft_instance_attach(x);
    weft_status status = weft_program_agree(program, comms);
    if (status == WEFT_OK) status = allocate(x);
    if (status == WEFT_OK) status = weft_sequences_begin(x);
    if (status == WEFT_OK) status = bind_all(x);
    /* Different layouts are reported only now, so that all ranks have finished the collectives of
     * binding. */
    if (status == WEFT_OK && x->differs) {
        store->schema->differs = true;
        status = weft_fail(
            WEFT_ERR_UNSUPPORTED,
            "the ranks chose different memory layouts for the operands of a sum; plan with "
            "plain_sums (weft_plan_options)");
    }
    if (status == WEFT_OK)
        *out = x;
    else
        weft_instance_destroy(&x);
    return status;
}

weft_status weft_instance_build_with(weft_store *store, const weft_graph *graph,
                                     const weft_program_options *options, const weft_comms *comms,
                                     weft_instance **out)
{
    WEFT_NEED(store, graph, options, out);
    weft_program *program;
    WEFT_TRY(weft_program_create_with(store, graph, options, &program));
    weft_status status = weft_instance_create(program, store, comms, out);
    weft_program_destroy(&program);
    return status;
}

weft_status weft_instance_build(weft_store *store, const weft_graph *graph, const weft_value *fetch,
                                int fetch_count, weft_instance **out)
{
    WEFT_NEED(store, graph, out);
    weft_program_options o = options_to_fetch(fetch, fetch_count);
    return weft_instance_build_with(store, graph, &o, NULL, out);
}

static bool touches_store(const weft_program *p, const instruction *code)
{
    bool any = false;
    for (int j = 0; j < code->in_count; j++)
        any = any || p->buffers[buffer_root(p, code->in[j])].kind >= BUFFER_STORE;
    for (int j = 0; j < code->out_count; j++)
        any = any || p->buffers[buffer_root(p, code->out[j])].kind >= BUFFER_STORE;
    return any;
}

weft_status weft_instance_use(weft_instance *x, weft_store *store)
{
    WEFT_NEED_AS("instance, store", x, store);
    const weft_program *p = x->program;
    if (store->schema != p->schema)
        return weft_fail(WEFT_ERR_ARGUMENT, "the store is of another model than the program's: it "
                                            "must be that one, or a clone of it");
    WEFT_TRY(weft_store_fill(store));
    WEFT_TRY(weft_instance_drain(x));
    WEFT_TRY(weft_instance_synchronize(x));
    WEFT_TRY(weft_run_ahead_forget(x));
    weft_instance_detach(x);
    x->copying = false;
    x->store = store;
    x->at.store = store;
    weft_instance_attach(x);
    for (size_t i = 0; i < p->code_count; i++) {
        int slots = p->code[i].phase == WEFT_PHASE_UPDATE ? 1 : p->slots;
        for (int s = 0; s < slots && touches_store(p, &p->code[i]); s++)
            WEFT_TRY(weft_instruction_place(p, &p->code[i], &x->at, s, x->scratch,
                                            x->bound[i * (size_t)p->slots + (size_t)s]));
    }
    return WEFT_OK;
}

void weft_instance_destroy(weft_instance **instance)
{
    if (!instance || !*instance) return;
    weft_instance *x = *instance;
    size_t cells = x->program->code_count * (size_t)x->program->slots;
    /* A failure does not matter any more, and leaves the message of what failed before. */
    weft_error message = {.status = WEFT_OK};
    weft_error_catch(&message, WEFT_ERR_INTERNAL);
    weft_status status = weft_instance_synchronize(x);
    bool synchronized = status == WEFT_OK;
    if (!synchronized) status = weft_error_raise(&message);
    (void)status;
    weft_instance_detach(x);
    if (!synchronized) weft_instance_end_commands(x); /* they use memory that is freed here */
    weft_run_ahead_close(x);
    for (size_t i = 0; x->bound && i < cells; i++)
        if (x->bound[i]) x->bound[i]->ops->destroy(x->bound[i]);
    free((void *)x->bound);
    free(x->pending);
    weft_deferred_close(x);
    weft_instance_close_queue(x); /* waits, also if the above could not */
    for (int s = 0; s < SPACES; s++) {
        weft_memory_free(&x->at.arena[s]);
        weft_memory_free(&x->at.gradients[s]);
        weft_memory_free(&x->at.slots[s]);
        weft_memory_free(&x->scratch[s]);
    }
    weft_memory_free(&x->at.inputs);
    weft_memory_free(&x->at.sequences);
    weft_device_use_close(x);
    weft_trace_close(x);
    weft_program_destroy(&x->program);
    free(x);
    *instance = NULL;
}

const weft_program *weft_instance_program(const weft_instance *x)
{
    WEFT_NEED_ELSE_AS(NULL, "instance", x);
    return x->program;
}

void *weft_instance_input(const weft_instance *x, weft_value input)
{
    WEFT_NEED_ELSE_AS(NULL, "instance", x);
    WEFT_CHECK_INDEX_ELSE(NULL, input, x->program->values);
    const weft_program *p = x->program;
    const version *v = weft_program_version(p, input, NULL);
    bool fed = v && p->buffers[v->buffer].kind == BUFFER_INPUT;
    return fed ? weft_host(weft_instance_address(x, v->buffer)) : NULL;
}

static bool touches(const weft_program *p, const instruction *code, int root)
{
    bool any = false;
    for (int j = 0; j < code->in_count; j++) any = any || buffer_root(p, code->in[j]) == root;
    for (int j = 0; j < code->out_count; j++) any = any || buffer_root(p, code->out[j]) == root;
    return any;
}

weft_status weft_instance_lend(weft_instance *x, weft_value input, const void *data)
{
    const weft_program *p = x->program;
    const version *v = weft_program_version(p, input, NULL);
    if (!v || p->buffers[v->buffer].kind != BUFFER_INPUT)
        return weft_fail(WEFT_ERR_ARGUMENT, "only an input can be read elsewhere");
    WEFT_TRY(weft_run_ahead_forget(x));
    x->lent = (weft_memory){x->at.inputs->device, (char *)(uintptr_t)data};
    x->at.lent = data ? &x->lent : NULL;
    x->at.borrower = v->buffer;
    for (size_t i = 0; i < p->code_count; i++) {
        int slots = p->code[i].phase == WEFT_PHASE_UPDATE ? 1 : p->slots;
        for (int s = 0; s < slots && touches(p, &p->code[i], v->buffer); s++)
            WEFT_TRY(weft_instruction_place(p, &p->code[i], &x->at, s, x->scratch,
                                            x->bound[i * (size_t)p->slots + (size_t)s]));
    }
    return WEFT_OK;
}

const void *weft_instance_output(const weft_instance *x, weft_value value)
{
    WEFT_NEED_ELSE_AS(NULL, "instance", x);
    WEFT_CHECK_INDEX_ELSE(NULL, value, x->program->values);
    const weft_program *p = x->program;
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next) {
        const version *v = &p->versions[i];
        if (v->layout->plain && !v->layout->memory && p->buffers[v->buffer].keep)
            return weft_host(weft_instance_address(x, v->buffer));
    }
    return NULL;
}

weft_status weft_instance_set_slot(weft_instance *x, int slot)
{
    WEFT_NEED_AS("instance", x);
    WEFT_CHECK_INDEX(slot, x->program->slots);
    x->slot = slot;
    return WEFT_OK;
}
