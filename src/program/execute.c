#include <math.h>

#include "program/program.h"

static weft_status build(weft_program *p)
{
    grouping groups = {NULL, 0};
    WEFT_TRY(weft_group_nodes(p, &groups));
    weft_status status = weft_program_lower(p, &groups);
    free(groups.groups);
    return status == WEFT_OK ? weft_program_plan(p) : status;
}

weft_status weft_program_create(weft_store *store, const weft_graph *graph, const weft_value *fetch,
                                int fetch_count, weft_program **out)
{
    WEFT_TRY(weft_graph_status(graph));
    weft_program *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    *p = (weft_program){.store = store, .graph = graph, .fetch_count = fetch_count};
    weft_status status = WEFT_NEW(&p->fetch, fetch_count);
    for (int i = 0; i < fetch_count && status == WEFT_OK; i++) {
        p->fetch[i] = fetch[i];
        if (fetch[i] < 0 || (size_t)fetch[i] >= graph->value_count)
            status =
                weft_fail(WEFT_ERR_ARGUMENT, "fetched value %d is not in the graph", (int)fetch[i]);
    }
    if (status == WEFT_OK) status = build(p);
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
        if (p->code[i].kernel) p->code[i].kernel->ops->destroy(p->code[i].kernel);
        free(p->code[i].name);
    }
    free(p->code);
    free(p->buffers);
    free(p->versions);
    free(p->fetch);
    free(p->arena);
    free(p->gradients);
    free(p->inputs);
    free(p->scratch);
    free(p->trace);
    free(p);
    *program = NULL;
}

void *weft_program_input(const weft_program *p, weft_value input)
{
    const version *v = weft_program_version(p, input, NULL);
    return v && p->buffers[v->buffer].kind == BUFFER_INPUT ? p->buffers[v->buffer].data : NULL;
}

const void *weft_program_output(const weft_program *p, weft_value value)
{
    for (size_t i = 0; i < p->version_count; i++) {
        const version *v = &p->versions[i];
        if (v->value == value && v->layout->plain && p->buffers[v->buffer].keep)
            return p->buffers[v->buffer].data;
    }
    return NULL;
}

weft_status weft_program_run(weft_program *p, weft_phase phase)
{
    weft_parallel_threads(p->store->device->threads);
    for (size_t i = 0; i < p->code_count; i++) {
        instruction *code = &p->code[i];
        if (code->phase != phase) continue;
        if (p->trace_count < p->trace_capacity) {
            double start = weft_seconds();
            WEFT_TRY(code->kernel->ops->run(code->kernel));
            p->trace[p->trace_count++] = (trace_event){start, weft_seconds() - start, (int)i};
        } else {
            WEFT_TRY(code->kernel->ops->run(code->kernel));
        }
    }
    return WEFT_OK;
}

/* Looks at raw memory: the padding of blocked layouts is zero, so layouts do not matter. */
static bool all_finite(const void *data, size_t bytes, weft_dtype dtype)
{
    if (dtype == WEFT_F32) {
        const float *x = data;
        for (size_t i = 0; i < bytes / sizeof(*x); i++)
            if (!isfinite(x[i])) return false;
    } else if (dtype == WEFT_F64) {
        const double *x = data;
        for (size_t i = 0; i < bytes / sizeof(*x); i++)
            if (!isfinite(x[i])) return false;
    }
    return true;
}

static weft_status diagnose_leaves(const weft_program *p, char **where)
{
    for (size_t i = 0; i < p->version_count; i++) {
        const version *v = &p->versions[i];
        const weft_value_info *info = &p->graph->values[v->value];
        if (info->kind == WEFT_VALUE_RESULT || p->buffers[v->buffer].kind == BUFFER_ARENA) continue;
        if (all_finite(p->buffers[v->buffer].data, v->layout->bytes, info->type.dtype)) continue;
        const char *what = info->kind == WEFT_VALUE_INPUT ? "input" : "parameter or state";
        const char *since = info->kind == WEFT_VALUE_INPUT
                                ? "the data holds a number that is not finite"
                                : "the update of an earlier step made it so";
        return weft_format(where, "%s '%s' was not finite before the first instruction (%s)", what,
                           info->name, since);
    }
    return WEFT_OK;
}

weft_status weft_program_diagnose(weft_program *p, char **where)
{
    *where = NULL;
    WEFT_TRY(diagnose_leaves(p, where));
    for (size_t i = 0; i < p->code_count && !*where; i++) {
        instruction *code = &p->code[i];
        if (code->phase != WEFT_PHASE_MICRO) continue;
        WEFT_TRY(code->kernel->ops->run(code->kernel));
        for (int o = 0; o < code->out_count && !*where; o++) {
            weft_value value = code->out_value[o];
            const weft_layout *layout = code->kernel->out[o];
            if (layout->opaque || all_finite(p->buffers[code->out[o]].data, layout->bytes,
                                             p->graph->values[value].type.dtype))
                continue;
            WEFT_TRY(weft_format(where,
                                 "instruction %zu, '%s', was the first to make a number that "
                                 "is not finite (in '%s')",
                                 i, code->name, p->graph->values[value].name));
        }
    }
    return WEFT_OK;
}

weft_program_info weft_program_describe(const weft_program *p)
{
    return p->info;
}
