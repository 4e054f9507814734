/* From groups of nodes to instructions: a kernel for each, the layouts it wants, and the reorders
 * that follow from that. */
#include <stdio.h>

#include "program/program.h"

version *weft_program_version(const weft_program *p, weft_value value, const weft_layout *layout)
{
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next)
        if (!layout || weft_layout_same(p->versions[i].layout, layout)) return &p->versions[i];
    return NULL;
}

static weft_status add_version(weft_program *p, weft_value value, const weft_layout *layout,
                               int buffer_index)
{
    WEFT_TRY(WEFT_GROW(&p->versions, &p->version_capacity, p->version_count));
    int now = (int)p->version_count++, first = p->versions_of[value].first;
    p->versions[now] =
        (version){.value = value, .next = -1, .layout = layout, .buffer = buffer_index};
    *(first < 0 ? &p->versions_of[value].first : &p->versions[p->versions_of[value].last].next) =
        now;
    p->versions_of[value].last = now;
    return WEFT_OK;
}

/* Gives a leaf its first version. layout may be NULL for a leaf of the store that already lies
 * somewhere; for inputs it is not looked at. */
static weft_status place_leaf(weft_program *p, weft_value value, const weft_layout *layout)
{
    const weft_value_info *info = &p->graph->values[value];
    int index;
    if (info->kind == WEFT_VALUE_INPUT) {
        const weft_layout *plain;
        WEFT_TRY(p->schema->device->ops->plain(p->schema->device, &info->type, &plain));
        WEFT_TRY(weft_program_add_buffer(p, (buffer){.kind = BUFFER_INPUT, .bytes = plain->bytes},
                                         &index));
        return add_version(p, value, plain, index);
    }
    int entry;
    WEFT_TRY(weft_schema_bind(p->schema, p->graph, value, &entry));
    store_entry *e = &p->schema->entries[entry];
    if (!e->layout) e->layout = layout;
    if (!e->layout) return weft_fail(WEFT_ERR_INTERNAL, "nothing chose a layout for '%s'", e->name);
    WEFT_TRY(weft_program_add_buffer(
        p, (buffer){.kind = BUFFER_STORE, .bytes = e->layout->bytes, .entry = entry}, &index));
    return add_version(p, value, e->layout, index);
}

weft_status weft_program_layout_of(weft_program *p, weft_value value, const weft_layout **out)
{
    const weft_value_info *info = &p->graph->values[value];
    *out = NULL;
    if (!weft_program_version(p, value, NULL)) {
        int entry = info->kind == WEFT_VALUE_INPUT ? -1 : weft_schema_find(p->schema, info->name);
        if (info->kind != WEFT_VALUE_INPUT && (entry < 0 || !p->schema->entries[entry].layout))
            return WEFT_OK;
        WEFT_TRY(place_leaf(p, value, NULL));
    }
    *out = weft_program_version(p, value, NULL)->layout;
    return WEFT_OK;
}

static weft_status add_instruction(weft_program *p, instruction code)
{
    WEFT_TRY(WEFT_GROW(&p->code, &p->code_capacity, p->code_count));
    p->code[p->code_count++] = code;
    return WEFT_OK;
}

/* A reorder into a buffer, or (buffer < 0) into a new one. */
static weft_status add_reorder(weft_program *p, weft_value value, const weft_layout *from,
                               const weft_layout *to, weft_phase phase, int buffer_index)
{
    weft_device *device = p->schema->device;
    const weft_value_info *info = &p->graph->values[value];
    if (from->opaque || to->opaque)
        return weft_fail(WEFT_ERR_INTERNAL, "'%s' lies in a layout that only its own device reads",
                         info->name);
    instruction code = {.reorder = true, .phase = phase, .in_count = 1, .out_count = 1};
    code.in[0] = weft_program_version(p, value, from)->buffer;
    code.in_value[0] = code.out_value[0] = value;
    code.bytes = from->bytes + to->bytes;
    code.out[0] = buffer_index;
    if (buffer_index < 0)
        WEFT_TRY(weft_program_add_buffer(p, (buffer){.kind = BUFFER_ARENA, .bytes = to->bytes},
                                         &code.out[0]));
    WEFT_TRY(add_version(p, value, to, code.out[0]));
    p->versions[p->version_count - 1].reordered = true;
    p->versions[p->version_count - 1].phase = phase;
    WEFT_TRY(weft_format(&code.name, "reorder %s", info->name));
    weft_status status = device->ops->reorder(device, &info->type, from, to, &code.kernel);
    if (status == WEFT_OK) status = add_instruction(p, code);
    if (status != WEFT_OK) {
        if (code.kernel) code.kernel->ops->destroy(code.kernel);
        free(code.name);
    }
    return status;
}

/* A buffer of the store for another layout of a parameter that this program does not write: it is
 * made once and stays until the parameter changes. -1: the value is none. */
static weft_status derive(weft_program *p, weft_value value, const weft_layout *want, int *out)
{
    const weft_value_info *info = &p->graph->values[value];
    const buffer *from = &p->buffers[weft_program_version(p, value, NULL)->buffer];
    int index;
    if (info->kind != WEFT_VALUE_PARAM || info->assigned != WEFT_NO_VALUE ||
        from->kind != BUFFER_STORE || from->alias >= 0 || p->dry)
        return WEFT_OK;
    WEFT_TRY(weft_schema_derive(p->schema, from->entry, want, &index));
    return weft_program_add_buffer(
        p, (buffer){.kind = BUFFER_DERIVED, .bytes = want->bytes, .entry = index}, out);
}

/* The buffer of value in the layout a kernel wants, with a reorder before it if need be. */
static weft_status provide(weft_program *p, weft_value value, const weft_layout *want,
                           weft_phase phase, bool passing, int *out)
{
    if (!weft_program_version(p, value, NULL)) WEFT_TRY(place_leaf(p, value, want));
    version *have = weft_program_version(p, value, want);
    /* What is only passed on is turned again in backward, so that one form is kept, not two. */
    if (have && passing && have->reordered && have->phase < phase) have = NULL;
    if (!have) {
        int to = -1;
        if (!passing) WEFT_TRY(derive(p, value, want, &to));
        WEFT_TRY(
            add_reorder(p, value, weft_program_version(p, value, NULL)->layout, want, phase, to));
        p->code[p->code_count - 1].derives = to >= 0;
        have = &p->versions[p->version_count - 1];
    }
    *out = have->buffer;
    return WEFT_OK;
}

/* Transfers bring plain values; what they bring for the store goes on into its layout. */
static weft_status store_back(weft_program *p, weft_value value, weft_phase phase)
{
    weft_value leaf = p->graph->values[value].next_of;
    const version *now = weft_program_version(p, value, NULL);
    const version *kept = leaf == WEFT_NO_VALUE ? NULL : weft_program_version(p, leaf, NULL);
    if (!kept || buffer_root(p, kept->buffer) == buffer_root(p, now->buffer)) return WEFT_OK;
    return add_reorder(p, value, now->layout, kept->layout, phase, kept->buffer);
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

/* A transfer that nobody waits for ends when the other side likes, and an input may be filled anew
 * as soon as a run has returned: such a transfer sends a copy. */
static weft_status detach(weft_program *p, const weft_group *group, int i, weft_phase phase,
                          int *in)
{
    for (int o = 0; o < group->out_count; o++)
        if (weft_readers_count(&p->readers, group->out[o]) > 0) return WEFT_OK;
    if (p->buffers[buffer_root(p, *in)].kind != BUFFER_INPUT) return WEFT_OK;
    const weft_layout *layout = weft_program_version(p, group->in[i], NULL)->layout;
    WEFT_TRY(add_reorder(p, group->in[i], layout, layout, phase, -1));
    *in = p->versions[p->version_count - 1].buffer;
    return WEFT_OK;
}

static weft_status connect(weft_program *p, instruction *code)
{
    const weft_group *group = &code->group;
    for (int i = 0; i < group->in_count; i++) {
        WEFT_TRY(provide(p, group->in[i], code->kernel->in[i], code->phase, code->transfer,
                         &code->in[i]));
        if (code->transfer) WEFT_TRY(detach(p, group, i, code->phase, &code->in[i]));
        code->in_value[i] = group->in[i];
    }
    for (int o = 0; o < group->out_count; o++) {
        WEFT_TRY(weft_result_buffer(p, code, o, &code->out[o]));
        WEFT_TRY(add_version(p, group->out[o], code->kernel->out[o], code->out[o]));
        code->out_value[o] = group->out[o];
    }
    code->in_count = group->in_count;
    code->out_count = group->out_count;
    account(p, code);
    return name_of(group, &code->name);
}

static weft_status make_kernel(const weft_program *p, const instruction *code,
                               const weft_layout *const *layouts, weft_kernel **out)
{
    if (code->transfer) return weft_transfer_kernel(p, &code->group, layouts, out);
    weft_device *device = code->fallback ? p->schema->fallback : p->schema->device;
    return device->ops->kernel(device, &code->group, layouts, out);
}

static weft_status lower_group(weft_program *p, const weft_group *group)
{
    const weft_layout *layouts[WEFT_GROUP_VALUES] = {NULL};
    instruction code = {.group = *group, .phase = group->node[0]->phase};
    for (int i = 0; i < group->in_count; i++)
        WEFT_TRY(weft_program_layout_of(p, group->in[i], &layouts[i]));
    weft_device *device = p->schema->device;
    code.transfer = group->node[0]->op->transfer;
    if (!code.transfer && !device->ops->supports(device, group)) {
        code.fallback = true;
        weft_log(p->schema->context, WEFT_LOG_INFO, "'%s' (%s) runs on the reference device",
                 group->node[0]->name, group->node[0]->op->name);
    }
    WEFT_TRY(make_kernel(p, &code, layouts, &code.kernel));
    weft_status status = connect(p, &code);
    if (status == WEFT_OK) status = add_instruction(p, code);
    if (status != WEFT_OK) {
        code.kernel->ops->destroy(code.kernel);
        free(code.name);
        return status;
    }
    for (int o = 0; o < group->out_count; o++) WEFT_TRY(store_back(p, group->out[o], code.phase));
    return WEFT_OK;
}

/* A part of a plain value that is one piece of its memory. */
static bool is_piece(const weft_program *p, const weft_group *group)
{
    const weft_node *node = group->node[0];
    if (group->count != 1 || !node->op->range) return false;
    int64_t outer = 1;
    for (int d = 0; d < weft_node_int(node, "axis", 0, 0); d++)
        outer *= weft_in(p->graph, node, 0)->shape.dim[d];
    return outer == 1;
}

/* The first kernel that reads all of a parameter of which ranks keep ranges chooses in which order
 * these lie, unless they are in use already. */
static weft_status choose_order(weft_program *p, const grouping *groups, const weft_node *view)
{
    weft_value like = (weft_value)weft_node_int(view, "like", 0, WEFT_NO_VALUE);
    weft_device *device = p->schema->device;
    const weft_group *reader = NULL;
    weft_kernel *kernel;
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
    if (!reader || reader->node[0]->op->view || !device->ops->supports(device, reader))
        return WEFT_OK;
    const weft_layout *layouts[WEFT_GROUP_VALUES] = {NULL};
    for (int i = 0; i < reader->in_count; i++)
        WEFT_TRY(weft_program_layout_of(p, reader->in[i], &layouts[i]));
    WEFT_TRY(device->ops->kernel(device, reader, layouts, &kernel));
    const weft_layout *want = kernel->in[weft_group_in(reader, view->out)];
    kernel->ops->destroy(kernel);
    if (!want->opaque) p->schema->entries[entry].order = want;
    return WEFT_OK;
}

/* A view shares its input's memory; only plain memory means the same under another shape. */
static weft_status lower_view(weft_program *p, const grouping *groups, const weft_node *node)
{
    const weft_layout *in, *out;
    int from, index;
    WEFT_TRY(choose_order(p, groups, node));
    WEFT_TRY(weft_view_layouts(p, node, &in, &out));
    WEFT_TRY(provide(p, node->in[0], in, node->phase, false, &from));
    buffer b = {
        .kind = p->buffers[from].kind, .bytes = out->bytes, .entry = p->buffers[from].entry};
    WEFT_TRY(weft_program_add_buffer(p, b, &index));
    p->buffers[index].alias = from;
    if (!node->op->view) /* a piece */
        p->buffers[index].within =
            in->bytes /
            (size_t)weft_in(p->graph, node, 0)->shape.dim[weft_node_int(node, "axis", 0, 0)] *
            (size_t)weft_node_int(node, "start", 0, 0);
    int root = buffer_root(p, index);
    if (p->graph->values[node->out].gradient_of != WEFT_NO_VALUE &&
        p->buffers[root].kind == BUFFER_ARENA)
        p->buffers[root].kind = BUFFER_GRADIENT;
    WEFT_TRY(add_version(p, node->out, out, index));
    return store_back(p, node->out, node->phase);
}

/* Values to be read after a run get a plain version of their own in the phase that makes them. */
static weft_status lower_fetches(weft_program *p, weft_phase phase)
{
    for (int i = 0; i < p->fetch_count; i++) {
        const weft_layout *plain;
        int index, node = p->graph->values[p->fetch[i]].node;
        weft_phase made = node < 0 ? WEFT_PHASE_FORWARD : p->graph->nodes[node]->phase;
        if (made != phase) continue;
        WEFT_TRY(p->schema->device->ops->plain(p->schema->device,
                                               weft_value_type(p->graph, p->fetch[i]), &plain));
        WEFT_TRY(provide(p, p->fetch[i], plain, phase, false, &index));
        p->buffers[index].keep = true;
    }
    return WEFT_OK;
}

/* What the model has but nobody reads is part of it: a checkpoint holds it too. */
static weft_status place_unread(weft_program *p)
{
    for (size_t v = 0; v < p->graph->value_count; v++) {
        const weft_value_info *info = &p->graph->values[v];
        const weft_layout *plain;
        bool kept = info->kind == WEFT_VALUE_PARAM ||
                    (info->kind == WEFT_VALUE_STATE && info->role != WEFT_ROLE_SUM);
        if (!kept || weft_program_version(p, (weft_value)v, NULL)) continue;
        WEFT_TRY(p->schema->device->ops->plain(p->schema->device, &info->type, &plain));
        WEFT_TRY(place_leaf(p, (weft_value)v, plain));
    }
    return WEFT_OK;
}

weft_status weft_program_lower(weft_program *p, const grouping *groups)
{
    weft_phase phase = WEFT_PHASE_FORWARD;
    for (int i = 0; i < groups->count; i++) {
        const weft_group *group = &groups->groups[i];
        /* A fetched value of the first phase must not wait until the second has begun. */
        for (; phase < group->node[0]->phase; phase++) WEFT_TRY(lower_fetches(p, phase));
        bool view = group->node[0]->op->view || is_piece(p, group);
        WEFT_TRY(view ? lower_view(p, groups, group->node[0]) : lower_group(p, group));
    }
    for (; phase <= WEFT_PHASE_UPDATE; phase++) WEFT_TRY(lower_fetches(p, phase));
    return place_unread(p);
}
