/* Walks through a program as an instance would run it (execute.c), without running it: the order in
 * which instructions run, and transfers begin and end, depends on the schedule alone. */
#include <stdio.h>

#include "ops/ops.h"
#include "program/program.h"
#include "program/walk.h"

typedef struct walk {
    const weft_program *p;
    weft_walk_fn *fn;
    void *user;
    int slot;
    bool *derived; /* [code_count] layouts that were made in this step */
    struct {
        int slot, instruction;
    } * pending; /* transfers in progress, in the order of slots and instructions */
    int count;
} walk;

static weft_status tell(const walk *w, weft_walk_event event, int i, int slot)
{
    return w->fn(w->user, event, i, slot);
}

static weft_status finish(walk *w, int at)
{
    int i = w->pending[at].instruction, slot = w->pending[at].slot;
    w->count--;
    memmove(&w->pending[at], &w->pending[at + 1], (size_t)(w->count - at) * sizeof(*w->pending));
    return tell(w, WEFT_WALK_FINISH, i, slot);
}

/* Transfers that must end before a phase begins in this slot, before an instruction, or, if both
 * are negative, all. */
static weft_status finish_some(walk *w, int phase, int before)
{
    for (int at = 0; at < w->count;) {
        int slot = w->pending[at].slot;
        const instruction *code = &w->p->code[w->pending[at].instruction];
        bool now = true;
        if (phase >= 0) now = (int)code->phase == phase && slot == w->slot;
        if (before >= 0)
            now = code->finish == before && (code->phase == WEFT_PHASE_UPDATE || slot == w->slot ||
                                             w->p->code[before].phase == WEFT_PHASE_UPDATE);
        if (now)
            WEFT_TRY(finish(w, at));
        else
            at++;
    }
    return WEFT_OK;
}

/* Transfers that no instruction waits for, or whose results the caller reads. */
static weft_status finish_rest(walk *w, bool fetched)
{
    for (int at = 0; at < w->count;) {
        const instruction *code = &w->p->code[w->pending[at].instruction];
        if (fetched ? code->fetched : code->finish < 0)
            WEFT_TRY(finish(w, at));
        else
            at++;
    }
    return WEFT_OK;
}

static weft_status start(walk *w, int i, int slot)
{
    int at = w->count++;
    for (; at > 0 && (w->pending[at - 1].slot > slot ||
                      (w->pending[at - 1].slot == slot && w->pending[at - 1].instruction > i));
         at--)
        w->pending[at] = w->pending[at - 1];
    w->pending[at].slot = slot;
    w->pending[at].instruction = i;
    return tell(w, WEFT_WALK_START, i, slot);
}

static weft_status run_one(walk *w, int i)
{
    const instruction *code = &w->p->code[i];
    int slot = code->phase == WEFT_PHASE_UPDATE ? 0 : w->slot;
    WEFT_TRY(finish_some(w, -1, i));
    if (code->derives && w->derived[i]) return WEFT_OK;
    w->derived[i] = true;
    return code->transfer ? start(w, i, slot) : tell(w, WEFT_WALK_RUN, i, slot);
}

static weft_status run_phase(walk *w, weft_phase phase)
{
    WEFT_TRY(finish_some(w, (int)phase, -1));
    if (phase == WEFT_PHASE_UPDATE) WEFT_TRY(finish_rest(w, false));
    for (size_t i = 0; i < w->p->code_count; i++)
        if (w->p->code[i].phase == phase) WEFT_TRY(run_one(w, (int)i));
    if (phase == WEFT_PHASE_UPDATE) WEFT_TRY(finish_some(w, -1, -1));
    return finish_rest(w, true);
}

static weft_status run_step(walk *w, const weft_schedule *schedule)
{
    for (int i = 0; i < schedule->count; i++) {
        const weft_action *a = &schedule->actions[i];
        w->slot = a->micro % w->p->slots;
        if (a->phase == WEFT_PHASE_FORWARD) WEFT_TRY(tell(w, WEFT_WALK_FEED, -1, w->slot));
        WEFT_TRY(run_phase(w, a->phase));
    }
    WEFT_TRY(tell(w, WEFT_WALK_LOSS, -1, 0));
    return run_phase(w, WEFT_PHASE_UPDATE);
}

weft_status weft_program_walk(const weft_program *p, const weft_schedule *schedule,
                              weft_walk_fn *fn, void *user)
{
    walk w = {.p = p, .fn = fn, .user = user};
    weft_status status = WEFT_NEW(&w.derived, p->code_count + 1);
    if (status == WEFT_OK)
        status = WEFT_NEW(&w.pending, (p->code_count + 1) * (size_t)WEFT_MAX(p->slots, 1));
    if (status == WEFT_OK) status = run_step(&w, schedule);
    free(w.derived);
    free(w.pending);
    return status;
}

/* --- what an instruction is --- */

/* Reorders have no group: the layouts say what they do. */
static weft_status describe_reorder(const weft_program *p, const instruction *code, char **out)
{
    char shape[128];
    const weft_type *type = weft_value_type(p->graph, code->group.in[0]);
    return weft_format(out, "%s%s %s to %s", weft_dtype_name(type->dtype),
                       weft_shape_text(&type->shape, shape, sizeof(shape)),
                       code->kernel->in[0]->text, code->kernel->out[0]->text);
}

static void add_kind(weft_text *text, const weft_program *p, const instruction *code)
{
    for (int i = 0; i < code->group.count; i++)
        weft_text_add(text, "%s%s", i ? "+" : "", code->group.node[i]->op->name);
    if (code->group.count == 0) weft_text_add(text, "reorder");
    if (code->in_count > 0)
        weft_text_add(text, " %s",
                      weft_dtype_name(weft_value_type(p->graph, code->group.in[0])->dtype));
    weft_text_add(text, " %s", code->kernel->text);
}

/* The hash of the shapes of an instruction's first operator without the dimension of the samples:
 * the first of its first operand, which others may have as theirs. */
static uint64_t hash_of_sample(const weft_program *p, const instruction *code)
{
    const weft_group *group = &code->group;
    if (group->count == 0 || group->node[0]->in_count == 0) return 0;
    const weft_node *node = group->node[0];
    const weft_shape *first = &weft_value_type(p->graph, node->in[0])->shape;
    uint64_t hash = weft_hash_text(node->op->name);
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        weft_value v = i < node->in_count ? node->in[i] : node->out + i - node->in_count;
        const weft_shape *shape = &weft_value_type(p->graph, v)->shape;
        bool samples = shape->rank > 0 && first->rank > 0 && shape->dim[0] == first->dim[0];
        hash = weft_mix(hash, (uint64_t)shape->rank);
        for (int d = samples; d < shape->rank; d++) hash = weft_mix(hash, (uint64_t)shape->dim[d]);
    }
    return hash;
}

weft_status weft_instruction_work(const weft_program *p, int i, weft_work *out)
{
    const instruction *code = &p->code[i];
    weft_text kind = {0};
    char *text = NULL, *group = NULL;
    add_kind(&kind, p, code);
    weft_status status = weft_text_take(&kind, &text);
    if (status == WEFT_OK)
        status = code->group.count > 0 ? tuning_group(&code->group, code->kernel->in, false, &group)
                                       : describe_reorder(p, code, &group);
    if (status == WEFT_OK) {
        weft_make_printable(text);
        (void)snprintf(out->kind, sizeof(out->kind), "%s", text);
        (void)snprintf(out->size, sizeof(out->size), "%016llx-%016llx",
                       (unsigned long long)hash_of_sample(p, code),
                       (unsigned long long)weft_hash_text(group));
        out->flops = code->flops;
        out->bytes = (double)code->bytes;
    }
    free(text);
    free(group);
    return status;
}

int weft_instruction_kernel(const weft_program *p, int i)
{
    return p->code[i].shares;
}

void weft_instruction_name(const weft_program *p, int i, char *out, size_t size)
{
    const weft_group *group = &p->code[i].group;
    const weft_node *node = group->count > 0 ? group->node[0] : NULL;
    if (node)
        (void)snprintf(out, size, "%.*s %s", (int)WEFT_MIN(strcspn(node->name, "/"), (size_t)60),
                       node->name, node->op->name);
    else
        (void)snprintf(out, size, "reorders");
}

bool weft_instruction_node(const weft_program *p, int i, int k, const char **op, double *flops)
{
    const weft_group *group = &p->code[i].group;
    if (k >= group->count) return false;
    *op = group->node[k]->op->name;
    *flops = weft_graph_node_cost(p->graph, p->graph->values[group->node[k]->out].node).flops;
    return true;
}

bool weft_instruction_updates(const weft_program *p, int i)
{
    return p->code[i].phase == WEFT_PHASE_UPDATE;
}

weft_phase weft_instruction_text(const weft_program *p, int i, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", p->code[i].name);
    return p->code[i].phase;
}

const weft_node *weft_instruction_transfer(const weft_program *p, int i)
{
    return p->code[i].transfer ? p->code[i].group.node[0] : NULL;
}

/* An all-reduce adds up its operands as they lie in memory. */
static double summed_bytes(const weft_node *node, const weft_kernel *kernel)
{
    int parts = (int)weft_node_int(node, "parts", 0, 1), n = node->in_count / parts;
    double ranks = (double)weft_node_int(node, "ranks", 0, 2), bytes = 0;
    for (int i = 0; i < n; i++) {
        size_t own = kernel->in[i * parts]->bytes, padded = (own + 63) / 64 * 64;
        bytes += (double)(n == 1 ? own : padded);
    }
    return 2 * bytes * (ranks - 1) / ranks;
}

double weft_instruction_sends(const weft_program *p, int i)
{
    const instruction *code = &p->code[i];
    const weft_node *node = code->group.node[0];
    if (weft_transfer_kind_of(node) == WEFT_ALL_REDUCE) return summed_bytes(node, code->kernel);
    return (double)weft_transfer_elements(p->graph, node) *
           (double)weft_dtype_size(weft_out(p->graph, node, 0)->dtype);
}
