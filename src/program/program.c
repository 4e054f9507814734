/* Creates programs: fuses nodes, lowers them to instructions, and plans memory. */
#include "program/program.h"

static weft_status build(weft_program *p)
{
    grouping groups;
    p->values = (int)p->graph->value_count;
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

void weft_program_options_init_size(weft_program_options *options, size_t size)
{
    const weft_program_options ours = {.struct_size = sizeof(weft_program_options), .slots = 1};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

/* Most micro-batches in progress, as of a schedule. */
enum { MOST_SLOTS = 1 << 20 };

weft_status weft_program_create(weft_store *store, const weft_graph *graph, const weft_value *fetch,
                                int fetch_count, weft_program **out)
{
    WEFT_NEED(store, graph, out);
    weft_program_options o = options_to_fetch(fetch, fetch_count);
    return weft_program_create_with(store, graph, &o, out);
}

weft_status weft_program_create_with(weft_store *store, const weft_graph *graph,
                                     const weft_program_options *options, weft_program **out)
{
    WEFT_NEED(store, graph, options, out);
    weft_program_options own, *o = &own;
    weft_program_options_init(&own);
    WEFT_TAKE(weft_program_options, options, fetch_count, &own);
    WEFT_TRY(weft_graph_status(graph));
    if (o->slots < 1 || o->slots > MOST_SLOTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "a program of %d slots, must be from 1 to %d", o->slots,
                         MOST_SLOTS);
    weft_program *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    *p = (weft_program){.schema = weft_schema_hold(store->schema),
                        .graph = graph,
                        .fetch_count = o->fetch_count,
                        .slots = o->slots,
                        .dry = o->dry,
                        .counts = store->counts};
    atomic_init(&p->users, 1);
    bool wrong = o->fetch_count < 0 || (size_t)o->fetch_count > graph->value_count ||
                 (o->fetch_count > 0 && !o->fetch);
    weft_status status =
        wrong ? weft_fail(WEFT_ERR_ARGUMENT,
                          "%d values are fetched and their list is %s; a count from 0 to the %zu "
                          "values of the graph, and a list of as many, is right",
                          o->fetch_count, o->fetch ? "given" : "NULL", graph->value_count)
              : WEFT_NEW(&p->fetch, o->fetch_count);
    for (int i = 0; i < o->fetch_count && status == WEFT_OK; i++) {
        p->fetch[i] = o->fetch[i];
        if (p->fetch[i] < 0 || (size_t)p->fetch[i] >= graph->value_count)
            status = weft_fail(WEFT_ERR_ARGUMENT, "fetched value %d is not in the graph",
                               (int)p->fetch[i]);
    }
    if (status == WEFT_OK) status = build(p);
    if (status == WEFT_OK && !o->dry) status = weft_store_fill(store);
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
    *program = NULL;
    if (atomic_fetch_sub(&p->users, 1) > 1) return;
    for (size_t i = 0; i < p->code_count; i++) {
        if (p->code[i].kernel && p->code[i].shares < 0)
            p->code[i].kernel->ops->destroy(p->code[i].kernel);
        free(p->code[i].name);
        free(p->code[i].why);
    }
    for (size_t i = 0; i < p->kernel_count; i++) p->kernels[i]->ops->destroy(p->kernels[i]);
    free((void *)p->kernels);
    free(p->code);
    free(p->buffers);
    free(p->versions);
    free(p->versions_of);
    weft_readers_free(&p->readers);
    free(p->exported);
    free(p->exporting);
    free(p->readings);
    free(p->fetch);
    weft_schema_release(&p->schema);
    free(p);
}

size_t weft_program_kernels(const weft_program *p, size_t *saved)
{
    *saved = p->saved_bytes;
    return p->kernel_count;
}

weft_program_info weft_program_describe(const weft_program *p)
{
    WEFT_NEED_ELSE_AS((weft_program_info){0}, "program", p);
    return p->info;
}
