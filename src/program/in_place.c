/* Chooses the buffers of results: a new buffer, the buffer of the parameter or state that the
 * result replaces, or a part of a larger buffer. */
#include "program/program.h"

weft_status weft_program_add_buffer(weft_program *p, buffer b, int *out)
{
    WEFT_TRY(WEFT_GROW(&p->buffers, &p->buffer_capacity, p->buffer_count));
    b.first = b.last = -1;
    b.alias = -1;
    p->buffers[p->buffer_count] = b;
    *out = (int)p->buffer_count++;
    return WEFT_OK;
}

static bool runs_in(const instruction *code, const weft_node *node)
{
    for (int m = 0; m < code->group.count; m++)
        if (code->group.node[m] == node) return true;
    return false;
}

/* Whether a node that runs after this instruction reads the value: one of a later group or, if this
 * group is lowered node by node, a later one of this group. */
static bool read_later(const weft_program *p, const instruction *code, weft_value value)
{
    const weft_graph *g = p->graph;
    const weft_readers *r = &p->readers;
    int here = g->values[code->group.node[0]->out].node, now = p->groups->of_node[here];
    for (int i = r->first[value]; i < r->first[value + 1]; i++) {
        const weft_node *node = g->nodes[r->node[i]];
        int group = p->groups->of_node[r->node[i]];
        bool after = group > now || (group == now && r->node[i] > here && !runs_in(code, node));
        if (after && node->phase >= code->phase) return true;
    }
    return false;
}

/* The device in whose layouts a view is: the chosen one, or if parameters are kept in host memory
 * and the value is there alone, the device that converts layouts there. */
static weft_device *device_of_view(const weft_program *p, const weft_node *node)
{
    bool away = p->schema->on_host;
    for (int i = p->versions_of[node->in[0]].first; i >= 0; i = p->versions[i].next)
        away = away && layout_space(p->versions[i].layout) == SPACE_HOST;
    return away ? schema_store_device(p->schema) : p->schema->devices[0];
}

/* The layout in whose order a flat or unflat node lists the elements. A layout with padding is
 * replaced by the plain layout. */
static weft_status order_of(weft_program *p, const weft_node *node, const weft_type *type,
                            const weft_layout **out)
{
    weft_device *device = device_of_view(p, node);
    weft_value like = (weft_value)weft_node_int(node, "like", 0, WEFT_NO_VALUE);
    *out = NULL;
    if (like != WEFT_NO_VALUE && p->graph->values[like].flat) {
        int entry = weft_schema_find(p->schema, p->graph->values[like].name);
        *out = entry < 0 ? NULL : p->schema->entries[entry].order;
    } else if (like != WEFT_NO_VALUE) {
        WEFT_TRY(weft_program_layout_of(p, like, out));
    }
    bool orders = *out && !(*out)->opaque && !(*out)->rounds;
    if (orders && (*out)->bytes == weft_type_bytes(type)) return WEFT_OK;
    return weft_device_plain(device, type, out);
}

weft_status weft_view_layouts(weft_program *p, const weft_node *node, const weft_layout **in,
                              const weft_layout **out)
{
    weft_device *device = device_of_view(p, node);
    const weft_type *x = weft_in(p->graph, node, 0), *y = weft_out(p->graph, node, 0);
    if (!node->op->as_it_lies) {
        WEFT_TRY(weft_device_plain(device, x, in));
        return weft_device_plain(device, y, out);
    }
    bool forth = !weft_node_attr(node, "shape"); /* flat, not unflat */
    WEFT_TRY(order_of(p, node, forth ? x : y, forth ? in : out));
    const weft_layout *order = forth ? *in : *out;
    device = schema_device(p->schema, layout_space(order));
    return weft_layout_flat(device, order, forth ? out : in);
}

/* The leaf into whose buffer a transfer can write its result directly, because the whole result is
 * assigned to the leaf in the same element order (all-gather of ZeRO); else WEFT_NO_VALUE. */
static weft_status becomes(weft_program *p, const instruction *code, int o, weft_value *out)
{
    const weft_graph *g = p->graph;
    const weft_readers *r = &p->readers;
    weft_value made = code->group.out[o];
    *out = WEFT_NO_VALUE;
    for (int n = r->first[made]; code->transfer && n < r->first[made + 1]; n++) {
        const weft_node *node = g->nodes[r->node[n]];
        if (!node->op->as_it_lies || node->in[0] != made) continue;
        weft_value leaf = g->values[node->out].next_of;
        const version *kept = leaf == WEFT_NO_VALUE ? NULL : weft_program_version(p, leaf, NULL);
        const weft_layout *in, *order;
        WEFT_TRY(weft_view_layouts(p, node, &in, &order));
        bool there = kept && layout_space(kept->layout) == layout_space(code->kernel->out[o]);
        if (there && weft_layout_same(kept->layout, order) && !read_later(p, code, leaf))
            *out = leaf;
    }
    return WEFT_OK;
}

/* Whether a leaf is assigned the value, or what transfers and views make of it. */
static bool leads_to(const weft_program *p, weft_value value, weft_value leaf)
{
    const weft_graph *g = p->graph;
    const weft_readers *r = &p->readers;
    if (g->values[leaf].assigned == value) return true;
    for (int i = r->first[value]; i < r->first[value + 1]; i++) {
        const weft_node *node = g->nodes[r->node[i]];
        if ((node->op->transfer || node->op->view != WEFT_VIEW_NEVER) &&
            leads_to(p, node->out, leaf))
            return true;
    }
    return false;
}

/* The buffer of an operand that is a part of a parameter, over which result o may be written: the
 * result is the new value of that part, and neither the parameter's old value nor the operand,
 * which may be the new value of the part, is read again. -1: none. */
static int replaced_piece(const weft_program *p, const instruction *code, int o)
{
    for (int i = 0; i < code->group.in_count; i++) {
        int b = code->in[i];
        const buffer *root = &p->buffers[buffer_root(p, b)];
        if (!(code->kernel->in_place[o] & 1u << i) || p->buffers[b].alias < 0 ||
            root->kind != BUFFER_STORE)
            continue;
        weft_value leaf = weft_graph_find(p->graph, p->schema->entries[root->entry].name);
        if (leaf == WEFT_NO_VALUE || p->graph->values[leaf].assigned == WEFT_NO_VALUE ||
            !leads_to(p, code->group.out[o], leaf))
            continue;
        if (!read_later(p, code, leaf) && !read_later(p, code, code->group.in[i])) return b;
    }
    return -1;
}

/* Whether a transfer of a vector may write its result over the rank's part of its input: the
 * input is in the flat range of gradients, and nothing else reads it. */
static bool keeps_part(const weft_program *p, const instruction *code)
{
    const weft_node *node = code->group.node[0];
    const weft_graph *g = p->graph;
    if (!node->op->transfer || !node->op->in_place[0] || weft_in(g, node, 0)->shape.rank != 1 ||
        weft_shape_equal(&weft_in(g, node, 0)->shape, &weft_out(g, node, 0)->shape))
        return false;
    int ranks = (int)weft_node_int(node, "ranks", 0, 1);
    if (p->buffers[buffer_root(p, code->in[0])].kind != BUFFER_GRADIENT) return false;
    if (weft_node_int(node, "leaves", 0, ranks) != ranks) return false;
    for (weft_value v = node->in[0]; v != WEFT_NO_VALUE;) {
        int from = g->values[v].node;
        if (weft_readers_count(&p->readers, v) != 1 || from < 0) return false; /* a leaf is kept */
        v = g->nodes[from]->op->view == WEFT_VIEW_WHOLE ? g->nodes[from]->in[0] : WEFT_NO_VALUE;
    }
    return true;
}

static weft_status part_of_input(weft_program *p, const instruction *code, int *out)
{
    const weft_node *node = code->group.node[0];
    int n = (int)weft_node_int(node, "ranks", 0, 1), me = (int)weft_node_int(node, "index", 0, 0);
    int64_t all = weft_in(p->graph, node, 0)->shape.dim[0];
    const buffer *in = &p->buffers[code->in[0]];
    buffer b = {.kind = in->kind,
                .space = in->space,
                .bytes = code->kernel->out[0]->bytes,
                .entry = in->entry};
    WEFT_TRY(weft_program_add_buffer(p, b, out));
    p->buffers[*out].alias = code->in[0];
    p->buffers[*out].within =
        (size_t)weft_part_start(all, me, n) * weft_dtype_size(weft_out(p->graph, node, 0)->dtype);
    return WEFT_OK;
}

weft_status weft_result_buffer(weft_program *p, const instruction *code, int o, int *out)
{
    weft_value value = code->group.out[o], leaf = p->graph->values[value].next_of, whole;
    const weft_layout *layout = code->kernel->out[o];
    WEFT_TRY(becomes(p, code, o, &whole));
    if (whole != WEFT_NO_VALUE) {
        *out = weft_program_version(p, whole, NULL)->buffer;
        return WEFT_OK;
    }
    int piece = replaced_piece(p, code, o);
    if (piece < 0 && keeps_part(p, code)) WEFT_TRY(part_of_input(p, code, &piece));
    if (piece >= 0) {
        *out = piece;
        return WEFT_OK;
    }
    buffer own = {.kind = BUFFER_ARENA, .space = layout_space(layout), .bytes = layout->bytes};
    if (leaf == WEFT_NO_VALUE) {
        /* The range of gradients is where the parameters are updated. */
        bool here = layout_space(layout) == schema_home(p->schema) || !p->schema->on_host;
        if (p->graph->values[value].gradient_of != WEFT_NO_VALUE && here)
            own.kind = BUFFER_GRADIENT;
        return weft_program_add_buffer(p, own, out);
    }
    const version *old = weft_program_version(p, leaf, NULL);
    int from = weft_group_in(&code->group, leaf);
    /* The kernel reads a copy of the leaf in another space, so it does not read the leaf itself. */
    if (from >= 0 && old && layout_space(old->layout) != layout_space(layout)) from = -1;
    /* No later instruction may read the old value. The result is written over it if this one does
     * not read it either, or its kernel works in place. Otherwise it gets memory of its own, and
     * weft_version_back copies it over the old value. */
    bool unread = !read_later(p, code, leaf);
    bool over = unread && (from < 0 || code->kernel->in_place[o] & 1u << from);
    bool same = old && weft_layout_same(old->layout, layout);
    if (unread && old && !(over && same)) return weft_program_add_buffer(p, own, out);
    if (!over || !same || p->buffers[old->buffer].kind < BUFFER_SEQUENCE)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "'%s' is assigned the result of '%s', which cannot be written in its place",
            p->graph->values[leaf].name, p->graph->values[value].name);
    *out = old->buffer;
    return WEFT_OK;
}
