/* Finds the instruction that makes the first non-finite number (NaN or infinity), by running the
 * passes of a step again with a check after each instruction. */
#include "program/instance.h"

/* Whether all numbers of a buffer are finite, in the memory of any device. The layout does not
 * matter, since the padding of blocked layouts is zero. */
static weft_status look_into(const weft_instance *x, int b, size_t bytes, weft_dtype dtype,
                             bool *finite)
{
    weft_address at = weft_instance_address(x, b);
    void *room = NULL;
    if (weft_device_shares(at.memory->device)) {
        *finite = weft_all_finite(dtype, weft_host(at), bytes);
        return WEFT_OK;
    }
    WEFT_TRY(weft_new_aligned(bytes, &room));
    weft_status status = weft_copy_out(x->queue, room, at, bytes);
    if (status == WEFT_OK) status = weft_instance_synchronize(x);
    *finite = status != WEFT_OK || weft_all_finite(dtype, room, bytes);
    free(room);
    return status;
}

/* Whether forward or backward passes write the leaf, possibly in this step. */
static bool made_in_passes(const weft_graph *g, const weft_value_info *leaf)
{
    if (leaf->role == WEFT_ROLE_SUM) return true;
    if (leaf->kind != WEFT_VALUE_STATE || leaf->assigned == WEFT_NO_VALUE) return false;
    int node = g->values[leaf->assigned].node;
    return node >= 0 && g->nodes[node]->phase != WEFT_PHASE_UPDATE;
}

static weft_status look_at_leaves(const weft_instance *x, char **where, weft_value *found)
{
    const weft_program *p = x->program;
    for (size_t i = 0; i < p->version_count; i++) {
        const version *v = &p->versions[i];
        const weft_value_info *info = &p->graph->values[v->value];
        buffer_kind kind = p->buffers[v->buffer].kind;
        bool finite;
        if (info->kind == WEFT_VALUE_RESULT || (kind != BUFFER_INPUT && kind != BUFFER_STORE) ||
            made_in_passes(p->graph, info))
            continue;
        WEFT_TRY(look_into(x, v->buffer, v->layout->bytes, info->type.dtype, &finite));
        if (finite) continue;
        *found = v->value;
        const char *what = info->kind == WEFT_VALUE_INPUT ? "input" : "parameter or state";
        const char *since = info->kind == WEFT_VALUE_INPUT
                                ? "the data holds a number that is not finite"
                                : "the update of an earlier step made it so";
        return weft_format(where, "%s '%s' was not finite before the first instruction (%s)", what,
                           info->name, since);
    }
    return WEFT_OK;
}

/* Checks the results of an instruction or a finished transfer. The next values of states, such as
 * running means, are not checked: a number that is not finite there may come from earlier
 * passes. */
static weft_status look_at(const weft_instance *x, size_t i, char **where, bool *made,
                           weft_value *found)
{
    const weft_program *p = x->program;
    const instruction *code = &p->code[i];
    for (int o = 0; o < code->out_count && !*where; o++) {
        weft_value value = code->group.out[o], leaf = p->graph->values[value].next_of;
        const weft_layout *layout = code->kernel->out[o];
        bool finite;
        if (layout->opaque ||
            (leaf != WEFT_NO_VALUE && p->graph->values[leaf].kind == WEFT_VALUE_STATE))
            continue;
        WEFT_TRY(
            look_into(x, code->out[o], layout->bytes, p->graph->values[value].type.dtype, &finite));
        if (finite) continue;
        *made = !code->transfer;
        *found = value;
        WEFT_TRY(weft_format(where,
                             code->transfer ? "instruction %zu, '%s', brought the first number "
                                              "that is not finite (in '%s')%s"
                                            : "instruction %zu, '%s', was the first to make a "
                                              "number that is not finite (in '%s')%s",
                             i, code->name, p->graph->values[value].name,
                             p->graph->nodes[p->graph->values[value].node]->op->least_values > 0
                                 ? ", which needs more than 1 value per channel that counts"
                                 : ""));
    }
    return WEFT_OK;
}

/* Checks the results of finished transfers: the transfers that had to end before instruction
 * `next`, or (next < 0) before no instruction of forward and backward. */
static weft_status look_at_transfers(const weft_instance *x, int next, char **where, bool *made,
                                     weft_value *found)
{
    const weft_program *p = x->program;
    for (size_t i = 0; i < p->code_count && !*where; i++) {
        const instruction *code = &p->code[i];
        if (!code->transfer || code->phase == WEFT_PHASE_UPDATE ||
            code->group.node[0]->op->transfer->message)
            continue;
        bool waited = code->finish >= 0 && p->code[code->finish].phase != WEFT_PHASE_UPDATE;
        if (next >= 0 ? code->finish == next : !waited) WEFT_TRY(look_at(x, i, where, made, found));
    }
    return WEFT_OK;
}

/* Runs forward and backward with checks. After a find it still runs all instructions, since other
 * ranks wait for this rank's sends. */
static weft_status look_at_all(weft_instance *x, char **where, bool *made, weft_value *found)
{
    const weft_program *p = x->program;
    WEFT_TRY(weft_instance_drain(x));
    WEFT_TRY(look_at_leaves(x, where, found));
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        if (code->phase == WEFT_PHASE_UPDATE) continue;
        WEFT_TRY(weft_instance_end_before(x, (int)i));
        WEFT_TRY(look_at_transfers(x, (int)i, where, made, found));
        WEFT_TRY(weft_instance_run_one(x, (int)i));
        WEFT_TRY(weft_instance_wait_copies(x));
        if (!code->transfer && !*where) WEFT_TRY(look_at(x, i, where, made, found));
    }
    WEFT_TRY(weft_instance_drain(x));
    WEFT_TRY(weft_instance_wait_copies(x));
    return look_at_transfers(x, -1, where, made, found);
}

weft_status weft_instance_diagnose(weft_instance *x, char **where, bool *made, weft_value *value)
{
    WEFT_NEED_AS("instance, where", x, where);
    weft_value found = WEFT_NO_VALUE;
    bool here = true;
    *where = NULL;
    weft_status status = look_at_all(x, where, &here, &found);
    if (status != WEFT_OK) { /* another rank may have aborted the job */
        free(*where);
        *where = NULL;
    }
    if (made) *made = here;
    if (value) *value = found;
    return status;
}
