/* Running programs: instructions in order, transfers that are under way meanwhile. */
#include "program/program.h"

static weft_status build(weft_program *p)
{
    grouping groups;
    WEFT_TRY(weft_readers_find(p->graph, &p->readers));
    WEFT_TRY(
        weft_new_bytes((void *)&p->versions_of, p->graph->value_count, sizeof(*p->versions_of)));
    for (size_t v = 0; v < p->graph->value_count; v++)
        p->versions_of[v].first = p->versions_of[v].last = -1;
    WEFT_TRY(weft_group_nodes(p, &groups));
    weft_status status = weft_program_lower(p, &groups);
    weft_grouping_free(&groups);
    return status == WEFT_OK ? weft_program_plan(p) : status;
}

void weft_program_options_init(weft_program_options *options)
{
    *options = (weft_program_options){.struct_size = sizeof(*options), .slots = 1};
}

weft_status weft_program_create(weft_store *store, const weft_graph *graph, const weft_value *fetch,
                                int fetch_count, weft_program **out)
{
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = fetch_count;
    return weft_program_create_with(store, graph, &o, out);
}

weft_status weft_program_create_with(weft_store *store, const weft_graph *graph,
                                     const weft_program_options *o, weft_program **out)
{
    WEFT_TRY(weft_graph_status(graph));
    if (o->struct_size != sizeof(*o) || o->slots < 1)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "weft_program_options of %zu bytes (this library's have %zu) with %d slots",
            o->struct_size, sizeof(*o), o->slots);
    weft_program *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    *p = (weft_program){.store = store,
                        .graph = graph,
                        .fetch_count = o->fetch_count,
                        .comms = o->comms,
                        .slots = o->slots,
                        .dry = o->dry};
    weft_status status = WEFT_NEW(&p->fetch, o->fetch_count);
    if (status == WEFT_OK) status = WEFT_NEW(&p->differs, 1);
    for (int i = 0; i < o->fetch_count && status == WEFT_OK; i++) {
        p->fetch[i] = o->fetch[i];
        if (p->fetch[i] < 0 || (size_t)p->fetch[i] >= graph->value_count)
            status = weft_fail(WEFT_ERR_ARGUMENT, "fetched value %d is not in the graph",
                               (int)p->fetch[i]);
    }
    if (status == WEFT_OK) status = build(p);
    /* Told only now, so that all ranks come to the end of building alike. */
    if (status == WEFT_OK && *p->differs)
        status = weft_fail(WEFT_ERR_UNSUPPORTED,
                           "ranks lay values in memory in different ways; plan with plain_sums");
    if (status != WEFT_OK) {
        weft_program_destroy(&p);
        return status;
    }
    *out = p;
    return WEFT_OK;
}

void weft_program_destroy(weft_program **program)
{
    if (!program || !*program) return;
    weft_program *p = *program;
    for (size_t i = 0; i < p->code_count; i++) {
        for (int s = 0; p->code[i].bound && s < p->code[i].bound_count; s++)
            if (p->code[i].bound[s]) p->code[i].bound[s]->ops->destroy(p->code[i].bound[s]);
        free((void *)p->code[i].bound);
        if (p->code[i].kernel) p->code[i].kernel->ops->destroy(p->code[i].kernel);
        free(p->code[i].name);
    }
    free(p->code);
    free(p->buffers);
    free(p->versions);
    free(p->versions_of);
    weft_readers_free(&p->readers);
    free(p->fetch);
    free(p->arena);
    free(p->gradients);
    free(p->inputs);
    free(p->scratch);
    free(p->slot_memory);
    free(p->pending);
    free(p->differs);
    free(p->trace);
    free(p);
    *program = NULL;
}

void *weft_program_input(const weft_program *p, weft_value input)
{
    const version *v = weft_program_version(p, input, NULL);
    bool fed = v && p->buffers[v->buffer].kind == BUFFER_INPUT;
    return fed ? weft_program_address(p, v->buffer, p->slot) : NULL;
}

const void *weft_program_output(const weft_program *p, weft_value value)
{
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next) {
        const version *v = &p->versions[i];
        if (v->layout->plain && p->buffers[v->buffer].keep)
            return weft_program_address(p, v->buffer, p->slot);
    }
    return NULL;
}

void weft_program_set_slot(weft_program *p, int slot)
{
    p->slot = slot;
}

static void record(weft_program *p, int i, double start, bool wait)
{
    if (p->trace_count < p->trace_capacity)
        p->trace[p->trace_count++] = (trace_event){start, weft_seconds() - start, i, p->slot, wait};
}

static weft_bound *bound_of(const instruction *code, int slot)
{
    return code->bound[code->bound_count > 1 ? slot : 0];
}

/* Ends the transfer that stands at `at` among those under way. */
static weft_status finish(weft_program *p, int at)
{
    int i = p->pending[at].instruction;
    weft_bound *bound = bound_of(&p->code[i], p->pending[at].slot);
    double start = p->trace_capacity ? weft_seconds() : 0;
    WEFT_TRY(bound->ops->finish(bound));
    if (p->trace_capacity) record(p, i, start, true);
    p->pending_count--;
    memmove(&p->pending[at], &p->pending[at + 1],
            (size_t)(p->pending_count - at) * sizeof(*p->pending));
    return WEFT_OK;
}

/* Ends transfers: those of one phase and slot before it is run again, those that instruction
 * `before` needs, or (both negative) all. */
static weft_status finish_some(weft_program *p, int phase, int before)
{
    for (int at = 0; at < p->pending_count;) {
        int slot = p->pending[at].slot;
        const instruction *code = &p->code[p->pending[at].instruction];
        bool now = true;
        if (phase >= 0) now = (int)code->phase == phase && slot == p->slot;
        if (before >= 0)
            now = code->finish == before && (code->phase == WEFT_PHASE_UPDATE || slot == p->slot ||
                                             p->code[before].phase == WEFT_PHASE_UPDATE);
        if (now)
            WEFT_TRY(finish(p, at));
        else
            at++;
    }
    return WEFT_OK;
}

/* What was sent may be a parameter, which the update is about to change. */
static weft_status finish_sends(weft_program *p)
{
    for (int at = 0; at < p->pending_count;)
        if (p->code[p->pending[at].instruction].finish < 0)
            WEFT_TRY(finish(p, at));
        else
            at++;
    return WEFT_OK;
}

weft_status weft_program_drain(weft_program *p)
{
    return finish_some(p, -1, -1);
}

/* All operations of a rank go on together, so it is enough to ask one of them. */
static weft_status poll_one(weft_program *p)
{
    if (p->pending_count == 0) return WEFT_OK;
    weft_bound *bound = bound_of(&p->code[p->pending[0].instruction], p->pending[0].slot);
    return bound->ops->poll(bound);
}

/* They stand in the order of slots and instructions. A transfer that is under way still begins no
 * second time. */
static void note_pending(weft_program *p, int slot, int i)
{
    int at = p->pending_count++;
    for (; at > 0 && (p->pending[at - 1].slot > slot ||
                      (p->pending[at - 1].slot == slot && p->pending[at - 1].instruction > i));
         at--)
        p->pending[at] = p->pending[at - 1];
    p->pending[at].slot = slot;
    p->pending[at].instruction = i;
}

weft_status weft_program_end_before(weft_program *p, int i)
{
    return p->pending_count > 0 ? finish_some(p, -1, i) : WEFT_OK;
}

weft_status weft_program_run_one(weft_program *p, int i)
{
    const instruction *code = &p->code[i];
    WEFT_TRY(weft_program_end_before(p, i));
    weft_bound *bound = bound_of(code, p->slot);
    double start = p->trace_capacity ? weft_seconds() : 0;
    WEFT_TRY(bound->ops->run(bound));
    if (p->trace_capacity) record(p, i, start, false);
    if (code->transfer)
        note_pending(p, code->bound_count > 1 ? p->slot : 0, i);
    else
        WEFT_TRY(poll_one(p));
    return WEFT_OK;
}

weft_status weft_program_run(weft_program *p, weft_phase phase)
{
    if (phase == WEFT_PHASE_MICRO) {
        WEFT_TRY(weft_program_run(p, WEFT_PHASE_FORWARD));
        return weft_program_run(p, WEFT_PHASE_BACKWARD);
    }
    if (p->dry) return weft_fail(WEFT_ERR_ARGUMENT, "this program is only a plan");
    weft_parallel_threads(p->store->device->threads);
    if (p->pending_count > 0) WEFT_TRY(finish_some(p, (int)phase, -1));
    if (phase == WEFT_PHASE_UPDATE) WEFT_TRY(finish_sends(p));
    for (size_t i = 0; i < p->code_count; i++)
        if (p->code[i].phase == phase) WEFT_TRY(weft_program_run_one(p, (int)i));
    return phase == WEFT_PHASE_UPDATE ? weft_program_drain(p) : WEFT_OK;
}

weft_program_info weft_program_describe(const weft_program *p)
{
    return p->info;
}
