/* Lowers groups of nodes to instructions: selects a kernel for each group, and adds the reorders
 * and copies that its layouts need. */
#include <stdio.h>

#include "program/gradient_ready.h"
#include "program/kernel_memo.h"
#include "program/first_use.h"

weft_status weft_program_add_code(weft_program *p, instruction code)
{
    WEFT_TRY(WEFT_GROW(&p->code, &p->code_capacity, p->code_count));
    p->code[p->code_count++] = code;
    return WEFT_OK;
}

static weft_status name_of(const weft_group *group, char **out)
{
    weft_text text = {0};
    for (int i = 0; i < group->count; i++)
        weft_text_add(&text, "%s%s", i ? "+" : "", group->node[i]->op->name);
    weft_text_add(&text, " %s", group->node[0]->name);
    return weft_text_take(&text, out);
}

static void account(const weft_program *p, instruction *code)
{
    for (int i = 0; i < code->group.count; i++) {
        int node = p->graph->values[code->group.node[i]->out].node;
        code->flops += weft_graph_node_cost(p->graph, node).flops;
    }
    for (int i = 0; i < code->in_count; i++) code->bytes += p->buffers[code->in[i]].bytes;
    for (int i = 0; i < code->out_count; i++) code->bytes += p->buffers[code->out[i]].bytes;
}

/* A transfer whose result nothing reads (a send) may end after the run has returned, but the caller
 * may refill an input then. Such a transfer sends a copy of the input. */
static weft_status detach(weft_program *p, const weft_group *group, int i, weft_phase phase,
                          int *in)
{
    for (int o = 0; o < group->out_count; o++)
        if (weft_readers_count(&p->readers, group->out[o]) > 0) return WEFT_OK;
    if (p->buffers[buffer_root(p, *in)].kind != BUFFER_INPUT) return WEFT_OK;
    const weft_layout *layout;
    WEFT_TRY(weft_version_plain(p, SPACE_HOST, group->in[i], &layout));
    WEFT_TRY(weft_version_convert(p, group->in[i], layout, layout, phase, -1));
    *in = p->versions[p->version_count - 1].buffer;
    return WEFT_OK;
}

/* The group that makes the gradient of a parameter, before sums over micro-batches and ranks, and
 * the group's output that it is; NULL: there is none. */
static const weft_group *gradient_group(const weft_program *p, weft_value param, int *out)
{
    const weft_graph *g = p->graph;
    weft_value made = g->values[param].gradient;
    while (made != WEFT_NO_VALUE && g->values[made].node >= 0) {
        int n = g->values[made].node, of = p->groups->of_node[n];
        const weft_node *node = g->nodes[n];
        if (node->op->narrows) {
            *out = of < 0 ? -1 : weft_group_out(&p->groups->groups[of], made);
            return *out < 0 ? NULL : &p->groups->groups[of];
        }
        made = WEFT_NO_VALUE;
        for (int i = 0; i < node->in_count; i++)
            if (g->values[node->in[i]].node >= 0) made = node->in[i];
    }
    return NULL;
}

/* Places a parameter whose first reader rounds it to bf16 in the layout in which its gradient is
 * made, so that neither is converted for the update. */
static weft_status place_rounded(weft_program *p, weft_value value, const weft_layout *want)
{
    const weft_layout *have;
    choice chosen;
    int out;
    if (!want->rounds || p->schema->plain) return WEFT_OK;
    WEFT_TRY(weft_program_layout_of(p, value, &have));
    const weft_group *group = have ? NULL : gradient_group(p, value, &out);
    if (!group) return WEFT_OK;
    WEFT_TRY(weft_kernel_choose(p, group, &chosen));
    weft_status status = weft_version_place(p, value, chosen.kernel->out[out]);
    weft_kernel_drop(p, chosen.kernel);
    free(chosen.why);
    return status;
}

static weft_status connect(weft_program *p, instruction *code)
{
    const weft_group *group = &code->group;
    for (int i = 0; i < group->in_count; i++) {
        WEFT_TRY(place_rounded(p, group->in[i], code->kernel->in[i]));
        WEFT_TRY(weft_version_provide(p, group->in[i], code->kernel->in[i], code->phase,
                                      code->transfer, &code->in[i]));
        if (code->transfer) WEFT_TRY(detach(p, group, i, code->phase, &code->in[i]));
    }
    for (int o = 0; o < group->out_count; o++) {
        WEFT_TRY(weft_result_buffer(p, code, o, &code->out[o]));
        WEFT_TRY(weft_version_add(p, group->out[o], code->kernel->out[o], code->out[o]));
    }
    code->in_count = group->in_count;
    code->out_count = group->out_count;
    account(p, code);
    return name_of(group, &code->name);
}

static weft_status make_kernel(weft_program *p, instruction *code)
{
    const weft_group *group = &code->group;
    const weft_node *node = group->node[0];
    const weft_layout *layouts[WEFT_GROUP_VALUES] = {NULL};
    choice chosen;
    code->space = SPACE_HOST;
    if (code->transfer) {
        for (int i = 0; i < group->in_count; i++)
            WEFT_TRY(weft_program_layout_of(p, group->in[i], &layouts[i]));
        WEFT_TRY(weft_transfer_kernel(p, group, layouts, &code->kernel));
        code->space = weft_transfer_space(code->kernel);
        return WEFT_OK;
    }
    WEFT_TRY(weft_kernel_choose(p, group, &chosen));
    code->kernel = chosen.kernel;
    code->why = chosen.why;
    code->fallback =
        chosen.device != p->schema->devices[schema_update_device(p->schema, node->phase)];
    code->space = weft_device_shares(chosen.device) ? SPACE_HOST : SPACE_DEVICE;
    if (code->fallback)
        weft_log(p->schema->context, WEFT_LOG_INFO, "'%s' (%s) runs on the device %s", node->name,
                 node->op->name, chosen.device->ops->name);
    if (!p->memo) return WEFT_OK;
    weft_status status = weft_kernel_memo_use(p->memo, chosen.kernel, group,
                                              p->counts ? &p->saved_bytes : NULL, &code->shares);
    if (status != WEFT_OK) free(chosen.why);
    return status;
}

/* Copies a gradient to host memory at once if its parameter is updated there. */
static weft_status bring_home(weft_program *p, weft_value value, weft_phase phase)
{
    const weft_layout *plain;
    int index;
    bool made = p->graph->values[value].gradient_of != WEFT_NO_VALUE && p->schema->on_host &&
                layout_space(weft_program_version(p, value, NULL)->layout) == SPACE_DEVICE;
    if (!made) return WEFT_OK;
    WEFT_TRY(weft_version_plain(p, SPACE_HOST, value, &plain));
    return weft_version_provide(p, value, plain, phase, false, &index);
}

static weft_status lower_group(weft_program *p, const weft_group *group)
{
    instruction code = {.group = *group, .phase = group->node[0]->phase, .shares = -1};
    code.transfer = group->node[0]->op->transfer;
    WEFT_TRY(make_kernel(p, &code));
    weft_status status = connect(p, &code);
    if (status == WEFT_OK) status = weft_program_add_code(p, code);
    if (status != WEFT_OK) {
        if (code.shares < 0) code.kernel->ops->destroy(code.kernel);
        free(code.name);
        free(code.why);
        return status;
    }
    for (int o = 0; o < group->out_count; o++) {
        WEFT_TRY(weft_version_back(p, group->out[o], code.phase));
        WEFT_TRY(bring_home(p, group->out[o], code.phase));
        WEFT_TRY(weft_exported_gradients_made(p, group->out[o], code.phase));
    }
    return WEFT_OK;
}

/* A group of one node of a larger group. */
static weft_group only(const weft_program *p, const weft_group *whole, const weft_node *node)
{
    weft_group group = {.graph = whole->graph, .node = {node}, .count = 1};
    for (int i = 0; i < node->in_count; i++)
        if (weft_group_in(&group, node->in[i]) < 0) group.in[group.in_count++] = node->in[i];
    for (weft_value v = node->out; v < node->out + node->out_count; v++)
        if (v == node->out || weft_group_out(whole, v) >= 0 ||
            weft_readers_count(&p->readers, v) > 0)
            group.out[group.out_count++] = v;
    return group;
}

/* Lowers the nodes of a group one by one, in order, since no device has a kernel for the whole
 * group. */
static weft_status lower_apart(weft_program *p, const weft_group *group)
{
    int last = -1;
    weft_log(p->schema->context, WEFT_LOG_INFO, "'%s' (%s) does not run with its neighbours: %s",
             group->node[0]->name, group->node[0]->op->name, weft_last_message());
    for (int done = 0; done < group->count; done++) {
        int next = -1;
        for (int m = 0; m < group->count; m++) {
            int node = p->graph->values[group->node[m]->out].node;
            if (node > last && (next < 0 || node < next)) next = node;
        }
        weft_group part = only(p, group, p->graph->nodes[next]);
        WEFT_TRY(lower_group(p, &part));
        last = next;
    }
    return WEFT_OK;
}

/* Whether the group is a view: of the whole input, or a slice that is contiguous in memory if the
 * value is plain. */
static bool is_view(const weft_program *p, const weft_group *group)
{
    const weft_node *node = group->node[0];
    if (group->count != 1 || node->op->view != WEFT_VIEW_SLICE)
        return node->op->view == WEFT_VIEW_WHOLE;
    int64_t outer = 1;
    for (int d = 0; d < weft_node_int(node, "axis", 0, 0); d++)
        outer *= weft_in(p->graph, node, 0)->shape.dim[d];
    return outer == 1;
}

/* Sets relisted[values] of the leaves whose elements views list in another type than the leaf's
 * own, as what is gathered in bf16: a layout orders the elements of one type. */
static void find_relisted(const weft_graph *g, bool *relisted)
{
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        weft_value like = WEFT_NO_VALUE;
        if (node->op->as_it_lies) like = (weft_value)weft_node_int(node, "like", 0, WEFT_NO_VALUE);
        if (like != WEFT_NO_VALUE && weft_out(g, node, 0)->dtype != weft_value_type(g, like)->dtype)
            relisted[like] = true;
    }
}

/* Chooses the element order of a parameter that ranks keep as ranges (ZeRO 3), unless the order is
 * chosen or the range is placed: the layout in which the first reader wants the whole parameter if
 * it is a kernel for its type, else row-major. The order is chosen before the range is first read,
 * and kept. */
static weft_status choose_order(weft_program *p, const grouping *groups, const bool *relisted,
                                const weft_node *view)
{
    weft_value like = (weft_value)weft_node_int(view, "like", 0, WEFT_NO_VALUE);
    const weft_group *reader = NULL;
    choice chosen;
    int entry;
    if (!view->op->as_it_lies || like == WEFT_NO_VALUE || !p->graph->values[like].flat)
        return WEFT_OK;
    WEFT_TRY(weft_schema_bind(p->schema, p->graph, like, &entry));
    if (p->schema->entries[entry].order || p->schema->entries[entry].slab >= 0) return WEFT_OK;
    for (int i = p->readers.first[view->out]; i < p->readers.first[view->out + 1]; i++) {
        int of = groups->of_node[p->readers.node[i]];
        const weft_group *group = of < 0 ? NULL : &groups->groups[of];
        if (group && (!reader || group < reader)) reader = group;
    }
    WEFT_TRY(weft_schema_order(p->schema, entry, &p->schema->entries[entry].order));
    if (!reader || reader->node[0]->op->view == WEFT_VIEW_WHOLE || reader->node[0]->op->transfer ||
        relisted[like])
        return WEFT_OK;
    WEFT_TRY(weft_kernel_choose(p, reader, &chosen));
    const weft_layout *want = chosen.kernel->in[weft_group_in(reader, view->out)];
    weft_kernel_drop(p, chosen.kernel);
    free(chosen.why);
    if (chosen.device == p->schema->devices[0] && !want->opaque && !want->rounds &&
        !p->schema->plain && layout_space(want) == schema_home(p->schema))
        p->schema->entries[entry].order = want;
    return WEFT_OK;
}

/* Lowers a view, which shares the memory of its input. The input must be plain, or be in the order
 * that a flat or unflat node names, since other layouts mean nothing for another shape. */
static weft_status lower_view(weft_program *p, const grouping *groups, const bool *relisted,
                              const weft_node *node)
{
    const weft_layout *in, *out;
    int from, index;
    WEFT_TRY(choose_order(p, groups, relisted, node));
    WEFT_TRY(weft_view_layouts(p, node, &in, &out));
    WEFT_TRY(weft_version_provide(p, node->in[0], in, node->phase, false, &from));
    buffer b = {.kind = p->buffers[from].kind,
                .space = p->buffers[from].space,
                .bytes = out->bytes,
                .entry = p->buffers[from].entry};
    WEFT_TRY(weft_program_add_buffer(p, b, &index));
    p->buffers[index].alias = from;
    if (node->op->view == WEFT_VIEW_SLICE)
        p->buffers[index].within =
            in->bytes /
            (size_t)weft_in(p->graph, node, 0)->shape.dim[weft_node_int(node, "axis", 0, 0)] *
            (size_t)weft_node_int(node, "start", 0, 0);
    int root = buffer_root(p, index);
    if (p->graph->values[node->out].gradient_of != WEFT_NO_VALUE &&
        p->buffers[root].kind == BUFFER_ARENA)
        p->buffers[root].kind = BUFFER_GRADIENT;
    WEFT_TRY(weft_version_add(p, node->out, out, index));
    WEFT_TRY(weft_version_back(p, node->out, node->phase));
    return weft_exported_gradients_made(p, node->out, node->phase);
}

/* Converts each fetched value to a plain version on the host, at the end of the phase that makes
 * it. */
static weft_status lower_fetches(weft_program *p, weft_phase phase)
{
    for (int i = 0; i < p->fetch_count; i++) {
        const weft_layout *plain;
        int index, node = p->graph->values[p->fetch[i]].node;
        weft_phase made = node < 0 ? WEFT_PHASE_FORWARD : p->graph->nodes[node]->phase;
        if (made != phase) continue;
        WEFT_TRY(weft_version_plain(p, SPACE_HOST, p->fetch[i], &plain));
        WEFT_TRY(weft_version_provide(p, p->fetch[i], plain, phase, false, &index));
        p->buffers[index].keep = p->buffers[index].fetched = true;
    }
    return WEFT_OK;
}

/* Places parameters and state that no node reads in the store as well, since checkpoints contain
 * them. */
static weft_status place_unread(weft_program *p)
{
    for (size_t v = 0; v < p->graph->value_count; v++) {
        const weft_value_info *info = &p->graph->values[v];
        const weft_layout *plain;
        bool kept = is_stored(info) && info->role != WEFT_ROLE_SUM;
        if (!kept || weft_program_version(p, (weft_value)v, NULL)) continue;
        WEFT_TRY(weft_version_plain(p, schema_home(p->schema), (weft_value)v, &plain));
        WEFT_TRY(weft_version_place(p, (weft_value)v, plain));
    }
    return WEFT_OK;
}

static weft_status lower_all(weft_program *p, const grouping *groups, bool *relisted)
{
    weft_phase phase = WEFT_PHASE_FORWARD;
    p->groups = groups;
    find_relisted(p->graph, relisted);
    WEFT_TRY(weft_exported_gradients_begin(p));
    for (int i = 0; i < groups->count; i++) {
        const weft_group *group = &groups->groups[i];
        /* A value fetched from one phase must be ready before the next phase begins. */
        for (; phase < group->node[0]->phase; phase++) WEFT_TRY(lower_fetches(p, phase));
        weft_status status = is_view(p, group) ? lower_view(p, groups, relisted, group->node[0])
                                               : lower_group(p, group);
        if (status == WEFT_ERR_UNSUPPORTED && group->count > 1) status = lower_apart(p, group);
        WEFT_TRY(status);
    }
    for (; phase <= WEFT_PHASE_UPDATE; phase++) WEFT_TRY(lower_fetches(p, phase));
    WEFT_TRY(weft_exported_gradients_close(p));
    WEFT_TRY(weft_readings_find(p));
    return place_unread(p);
}

weft_status weft_program_lower(weft_program *p, const grouping *groups)
{
    bool *relisted;
    WEFT_TRY(WEFT_NEW(&relisted, p->graph->value_count));
    weft_status status = p->dry ? weft_kernel_memo_new(&p->memo) : WEFT_OK;
    if (status == WEFT_OK) status = lower_all(p, groups, relisted);
    free(relisted);
    if (!p->memo) return status;
    weft_status closed = weft_kernel_memo_close(&p->memo, &p->kernels, &p->kernel_count);
    return status == WEFT_OK ? closed : status;
}
