/* A program in memory of its own, on a store. */
#include "program/program.h"

bases weft_bases_nowhere(void)
{
    const uintptr_t step = (uintptr_t)1 << 44;
    return (bases){(char *)step, (char *)(2 * step), (char *)(3 * step), (char *)(4 * step), NULL};
}

static char *entry_address(const weft_program *p, const weft_store *store, int i)
{
    if (store) return weft_store_data(store, i);
    const store_entry *entry = &p->schema->entries[i];
    uintptr_t far = (uintptr_t)5 << 44;
    return (char *)(entry->slab < 0 ? far + ((uintptr_t)i << 36)
                                    : far * 2 + ((uintptr_t)entry->slab << 44) + entry->offset);
}

char *weft_buffer_address(const weft_program *p, const bases *at, int b, int slot)
{
    const buffer *root = &p->buffers[buffer_root(p, b)];
    size_t within = buffer_within(p, b) + (root->offset == SIZE_MAX ? 0 : root->offset);
    switch (root->kind) {
    case BUFFER_ARENA: return at->arena + within;
    case BUFFER_GRADIENT: return at->gradients + within;
    case BUFFER_SLOT: return at->slots + p->slot_bytes * (size_t)slot + within;
    case BUFFER_INPUT: return at->inputs + p->input_bytes * (size_t)slot + within;
    case BUFFER_STORE: return entry_address(p, at->store, root->entry) + buffer_within(p, b);
    case BUFFER_DERIVED: break;
    }
    return at->store ? at->store->slabs[p->schema->derived[root->entry].slab] : NULL;
}

weft_status weft_instruction_place(const weft_program *p, const instruction *code, const bases *at,
                                   int slot, void *scratch, weft_bound *bound)
{
    void *in[WEFT_GROUP_VALUES], *out[WEFT_GROUP_VALUES];
    for (int j = 0; j < code->in_count; j++) in[j] = weft_buffer_address(p, at, code->in[j], slot);
    for (int j = 0; j < code->out_count; j++)
        out[j] = weft_buffer_address(p, at, code->out[j], slot);
    return bound->ops->place(bound, in, out, scratch);
}

static weft_status bind(weft_instance *x, const instruction *code, int slot, weft_bound **out)
{
    WEFT_TRY(code->transfer ? weft_transfer_bind(code->kernel, x, out)
                            : code->kernel->ops->bind(code->kernel, out));
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

static weft_status allocate(weft_instance *x)
{
    const weft_program *p = x->program;
    const weft_program_info *info = &p->info;
    size_t cells = p->code_count * (size_t)p->slots;
    WEFT_TRY(weft_new_aligned(info->arena_bytes, &x->at.arena));
    WEFT_TRY(weft_new_aligned(info->gradient_bytes, &x->at.gradients));
    WEFT_TRY(weft_new_aligned(info->scratch_bytes, &x->scratch));
    WEFT_TRY(weft_new_aligned(p->input_bytes * (size_t)p->slots, &x->at.inputs));
    WEFT_TRY(weft_new_aligned(info->slot_bytes, &x->at.slots));
    WEFT_TRY(weft_new_bytes((void *)&x->bound, cells, sizeof(weft_bound *)));
    return weft_new_bytes((void *)&x->pending, cells, sizeof(*x->pending));
}

weft_status weft_instance_create(weft_program *program, weft_store *store, const weft_comms *comms,
                                 weft_instance **out)
{
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
    weft_status status = allocate(x);
    if (status == WEFT_OK) status = bind_all(x);
    /* Told only now, so that all ranks come to the end alike. */
    if (status == WEFT_OK && x->differs)
        status = weft_fail(WEFT_ERR_UNSUPPORTED,
                           "ranks lay values in memory in different ways; plan with plain_sums");
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
    weft_program *program;
    WEFT_TRY(weft_program_create_with(store, graph, options, &program));
    weft_status status = weft_instance_create(program, store, comms, out);
    weft_program_destroy(&program);
    return status;
}

weft_status weft_instance_build(weft_store *store, const weft_graph *graph, const weft_value *fetch,
                                int fetch_count, weft_instance **out)
{
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = fetch_count;
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
    const weft_program *p = x->program;
    if (store->schema != p->schema)
        return weft_fail(WEFT_ERR_ARGUMENT, "the store is of another model than the program's: it "
                                            "must be that one, or a clone of it");
    WEFT_TRY(weft_store_fill(store));
    WEFT_TRY(weft_instance_drain(x));
    x->store = store;
    x->at.store = store;
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
    for (size_t i = 0; x->bound && i < cells; i++)
        if (x->bound[i]) x->bound[i]->ops->destroy(x->bound[i]);
    free((void *)x->bound);
    free(x->pending);
    free(x->at.arena);
    free(x->at.gradients);
    free(x->at.inputs);
    free(x->at.slots);
    free(x->scratch);
    free(x->trace);
    weft_program_destroy(&x->program);
    free(x);
    *instance = NULL;
}

const weft_program *weft_instance_program(const weft_instance *x)
{
    return x->program;
}

void *weft_instance_input(const weft_instance *x, weft_value input)
{
    const weft_program *p = x->program;
    const version *v = weft_program_version(p, input, NULL);
    bool fed = v && p->buffers[v->buffer].kind == BUFFER_INPUT;
    return fed ? weft_instance_address(x, v->buffer) : NULL;
}

const void *weft_instance_output(const weft_instance *x, weft_value value)
{
    const weft_program *p = x->program;
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next) {
        const version *v = &p->versions[i];
        if (v->layout->plain && p->buffers[v->buffer].keep)
            return weft_instance_address(x, v->buffer);
    }
    return NULL;
}

void weft_instance_set_slot(weft_instance *x, int slot)
{
    x->slot = slot;
}
