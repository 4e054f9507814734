/* Tracks the versions of values (layouts in memory spaces): where leaves are placed, where results
 * are made, and which reorders and copies readers need. */
#include <math.h>

#include "program/kernel_memo.h"

version *weft_program_version(const weft_program *p, weft_value value, const weft_layout *layout)
{
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next)
        if (!layout || weft_layout_same(p->versions[i].layout, layout)) return &p->versions[i];
    return NULL;
}

static bool lies_in_blocks(const weft_program *p, weft_value value)
{
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next)
        if (!p->versions[i].layout->plain) return true;
    return false;
}

bool weft_program_cuts_blocks(const weft_program *p)
{
    bool cuts = p->schema->tuning != NULL;
    for (size_t n = 0; n < p->graph->node_count && !cuts; n++) {
        const weft_node *node = p->graph->nodes[n];
        cuts = node->op->view == WEFT_VIEW_SLICE && lies_in_blocks(p, node->in[0]);
    }
    return cuts;
}

weft_status weft_version_add(weft_program *p, weft_value value, const weft_layout *layout,
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

weft_status weft_version_plain(const weft_program *p, int space, weft_value value,
                               const weft_layout **out)
{
    weft_device *device = schema_device(p->schema, space);
    return weft_device_plain(device, weft_value_type(p->graph, value), out);
}

/* Whether the store keeps a value in the layout in which a kernel of this program reads or makes
 * it; else in the plain one. So lies a parameter that is rounded to bf16 at random, whose update
 * draws numbers in row-major order: there it would need a second copy in that order. */
static bool lies_as_made(const weft_program *p, weft_value value, const weft_layout *layout)
{
    const weft_value_info *info = &p->graph->values[value];
    bool rounded = info->assigned != WEFT_NO_VALUE &&
                   (info->type.dtype == WEFT_BF16 ||
                    (p->graph->wide_weights && info->kind == WEFT_VALUE_PARAM));
    return !p->schema->plain && !rounded && !layout->rounds &&
           layout_space(layout) == schema_home(p->schema);
}

weft_status weft_version_place(weft_program *p, weft_value value, const weft_layout *layout)
{
    const weft_value_info *info = &p->graph->values[value];
    int index, home = schema_home(p->schema);
    const weft_layout *plain;
    if (info->kind == WEFT_VALUE_INPUT) {
        WEFT_TRY(weft_version_plain(p, SPACE_HOST, value, &plain));
        WEFT_TRY(weft_program_add_buffer(p, (buffer){.kind = BUFFER_INPUT, .bytes = plain->bytes},
                                         &index));
        return weft_version_add(p, value, plain, index);
    }
    if (!is_stored(info)) {
        home = schema_own(p->schema);
        WEFT_TRY(weft_version_plain(p, home, value, &plain));
        WEFT_TRY(weft_program_add_buffer(
            p,
            (buffer){.kind = BUFFER_SEQUENCE,
                     .space = home,
                     .bytes = plain->bytes,
                     .rows = info->type.shape.rank > 0 ? info->type.shape.dim[0] : 1},
            &index));
        return weft_version_add(p, value, plain, index);
    }
    int entry;
    WEFT_TRY(weft_schema_bind(p->schema, p->graph, value, &entry));
    store_entry *e = &p->schema->entries[entry];
    if (!e->layout && layout && !lies_as_made(p, value, layout))
        WEFT_TRY(weft_version_plain(p, home, value, &layout));
    if (!e->layout) e->layout = layout;
    if (!e->layout) return weft_fail(WEFT_ERR_INTERNAL, "nothing chose a layout for '%s'", e->name);
    buffer b = {.kind = BUFFER_STORE, .space = home, .bytes = e->layout->bytes, .entry = entry};
    WEFT_TRY(weft_program_add_buffer(p, b, &index));
    return weft_version_add(p, value, e->layout, index);
}

weft_status weft_program_layout_of(weft_program *p, weft_value value, const weft_layout **out)
{
    const weft_value_info *info = &p->graph->values[value];
    *out = NULL;
    if (!weft_program_version(p, value, NULL)) {
        int entry = is_stored(info) ? weft_schema_find(p->schema, info->name) : -1;
        bool chosen = entry >= 0 && p->schema->entries[entry].layout;
        if (info->kind == WEFT_VALUE_RESULT || (is_stored(info) && !chosen)) return WEFT_OK;
        WEFT_TRY(weft_version_place(p, value, NULL));
    }
    *out = weft_program_version(p, value, NULL)->layout;
    return WEFT_OK;
}

static weft_status make_conversion(weft_program *p, instruction *code, weft_value value,
                                   const weft_layout *from, const weft_layout *to)
{
    weft_device *device = schema_device(p->schema, code->space);
    const weft_type *type = weft_value_type(p->graph, value);
    if (code->copy || weft_layout_same(from, to)) return weft_copy_kernel(from, to, &code->kernel);
    if (from->opaque || to->opaque)
        return weft_fail(WEFT_ERR_INTERNAL, "'%s' lies in a layout that only its own device reads",
                         p->graph->values[value].name);
    if (!p->memo) return weft_device_reorder(device, type, from, to, &code->kernel);
    weft_kernel *shared;
    WEFT_TRY(weft_kernel_memo_reorder(p->memo, device, type, from, to, &shared));
    WEFT_TRY(weft_kernel_memo_use(p->memo, shared, NULL, p->counts ? &p->saved_bytes : NULL,
                                  &code->shares));
    code->kernel = shared;
    return WEFT_OK;
}

/* The last version of a value in a layout. */
static const version *latest_version(const weft_program *p, weft_value value,
                                     const weft_layout *layout)
{
    const version *found = NULL;
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next)
        if (weft_layout_same(p->versions[i].layout, layout)) found = &p->versions[i];
    return found;
}

weft_status weft_version_convert(weft_program *p, weft_value value, const weft_layout *from,
                                 const weft_layout *to, weft_phase phase, int buffer_index)
{
    const weft_value_info *info = &p->graph->values[value];
    instruction code = {.phase = phase, .in_count = 1, .out_count = 1, .shares = -1};
    code.copy = layout_space(from) != layout_space(to);
    code.reorder = !code.copy;
    code.space = code.copy ? SPACE_DEVICE : layout_space(to);
    code.in[0] = latest_version(p, value, from)->buffer;
    code.group.in[0] = code.group.out[0] = value;
    code.bytes = from->bytes + to->bytes;
    code.out[0] = buffer_index;
    buffer b = {.kind = BUFFER_ARENA, .space = layout_space(to), .bytes = to->bytes};
    if (info->gradient_of != WEFT_NO_VALUE && p->schema->on_host && b.space == SPACE_HOST)
        b.kind = BUFFER_GRADIENT;
    if (buffer_index < 0) WEFT_TRY(weft_program_add_buffer(p, b, &code.out[0]));
    WEFT_TRY(weft_version_add(p, value, to, code.out[0]));
    p->versions[p->version_count - 1].reordered = true;
    p->versions[p->version_count - 1].phase = phase;
    WEFT_TRY(weft_format(&code.name, "%s %s", code.copy ? "copy" : "reorder", info->name));
    weft_status status = make_conversion(p, &code, value, from, to);
    if (status == WEFT_OK) status = weft_program_add_code(p, code);
    if (status != WEFT_OK) {
        if (code.kernel && code.shares < 0) code.kernel->ops->destroy(code.kernel);
        free(code.name);
    }
    return status;
}

/* Whether the value is a parameter or state that is kept in host memory and is wanted on a device.
 * A pass copies it again, so that it takes memory of the device only while the pass reads it. */
static bool visits(const weft_program *p, weft_value value, const weft_layout *want)
{
    return p->schema->on_host && is_stored(&p->graph->values[value]) && layout_space(want);
}

/* Whether a version is another one in each slot, where the update wants that of the last
 * micro-batch: of a result that a leaf keeps, such as a sum over micro-batches. The update reads it
 * where the leaf is. */
static bool one_of_many(const weft_program *p, const version *v, weft_phase phase)
{
    const weft_value_info *info = &p->graph->values[v->value];
    return p->slots > 1 && phase == WEFT_PHASE_UPDATE && info->next_of != WEFT_NO_VALUE &&
           p->graph->nodes[info->node]->phase != phase &&
           p->buffers[buffer_root(p, v->buffer)].kind == BUFFER_ARENA;
}

/* The version of a value in a layout, or NULL. passing: a version that a reorder of an earlier
 * phase has made does not count. */
static version *version_for(const weft_program *p, weft_value value, const weft_layout *want,
                            weft_phase phase, bool passing)
{
    passing = passing || visits(p, value, want);
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next) {
        version *v = &p->versions[i];
        bool stale = (passing && v->reordered && v->phase < phase) || one_of_many(p, v, phase);
        if (!stale && weft_layout_same(v->layout, want)) return v;
    }
    return NULL;
}

/* The layout from which a value is converted to `want`: one in the same space, if there is one that
 * will be there. */
static const weft_layout *source_of(const weft_program *p, weft_value value,
                                    const weft_layout *want, weft_phase phase)
{
    const weft_layout *first = NULL;
    for (int i = p->versions_of[value].first; i >= 0; i = p->versions[i].next) {
        const version *v = &p->versions[i];
        if (one_of_many(p, v, phase) || v->layout->rounds) continue;
        if (!first) first = v->layout;
        if (!visits(p, value, want) && layout_space(v->layout) == layout_space(want))
            return v->layout;
    }
    return first;
}

/* Converts a value to a layout, into a buffer or (buffer_index < 0) a new one. Between spaces a
 * value is copied in plain layout, so up to three conversions are added. */
static weft_status make_version(weft_program *p, weft_value value, const weft_layout *want,
                                weft_phase phase, bool passing, int buffer_index)
{
    const weft_layout *from = source_of(p, value, want, phase), *plain;
    for (int far = 0; far < 2 && layout_space(from) != layout_space(want); far++) {
        WEFT_TRY(weft_version_plain(p, layout_space(far ? want : from), value, &plain));
        if (weft_layout_same(plain, want)) break;
        if (!version_for(p, value, plain, phase, passing && far))
            WEFT_TRY(weft_version_convert(p, value, from, plain, phase, -1));
        from = plain;
    }
    return weft_version_convert(p, value, from, want, phase, buffer_index);
}

/* Whether the store can keep the value in the wanted layout as a derived layout until it changes:
 * the value is a parameter that this program does not write, in the same space. */
static bool derives(const weft_program *p, weft_value value, const weft_layout *want)
{
    const weft_value_info *info = &p->graph->values[value];
    const buffer *from = &p->buffers[weft_program_version(p, value, NULL)->buffer];
    return info->kind == WEFT_VALUE_PARAM && info->assigned == WEFT_NO_VALUE &&
           from->kind == BUFFER_STORE && from->alias < 0 && from->space == layout_space(want);
}

/* Gets the buffer of a derived layout in the store; *out stays as it is if the value cannot have
 * one. */
static weft_status derive(weft_program *p, weft_value value, const weft_layout *want, int *out)
{
    const buffer *from = &p->buffers[weft_program_version(p, value, NULL)->buffer];
    int index = -1;
    if (!derives(p, value, want)) return WEFT_OK;
    if (p->dry)
        p->info.derived_bytes += want->bytes;
    else
        WEFT_TRY(weft_schema_derive(p->schema, from->entry, want, &index));
    return weft_program_add_buffer(
        p,
        (buffer){
            .kind = BUFFER_DERIVED, .space = from->space, .bytes = want->bytes, .entry = index},
        out);
}

weft_status weft_version_provide(weft_program *p, weft_value value, const weft_layout *want,
                                 weft_phase phase, bool passing, int *out)
{
    if (!weft_program_version(p, value, NULL)) WEFT_TRY(weft_version_place(p, value, want));
    /* A value that is only passed on is reordered again in backward, so that no second version is
     * kept from forward to backward. */
    version *have = version_for(p, value, want, phase, passing);
    if (!have) {
        int to = -1;
        if (!passing) WEFT_TRY(derive(p, value, want, &to));
        WEFT_TRY(make_version(p, value, want, phase, passing, to));
        p->code[p->code_count - 1].derives = to >= 0;
        have = &p->versions[p->version_count - 1];
    }
    *out = have->buffer;
    return WEFT_OK;
}

weft_status weft_version_back(weft_program *p, weft_value value, weft_phase phase)
{
    weft_value leaf = p->graph->values[value].next_of;
    const version *now = weft_program_version(p, value, NULL);
    const version *kept = leaf == WEFT_NO_VALUE ? NULL : weft_program_version(p, leaf, NULL);
    if (!kept || buffer_root(p, kept->buffer) == buffer_root(p, now->buffer)) return WEFT_OK;
    return make_version(p, value, kept->layout, phase, false, kept->buffer);
}

static double conversion_seconds(const weft_device *device, const weft_layout *from,
                                 const weft_layout *to)
{
    if (weft_layout_same(from, to)) return 0;
    if (from->opaque || to->opaque) return INFINITY;
    return weft_rates_seconds(&device->ops->rates, 0, (double)(from->bytes + to->bytes));
}

/* Estimated seconds of converting a value between two layouts, also between spaces. */
static weft_status move_seconds(const weft_program *p, weft_value value, const weft_layout *from,
                                const weft_layout *to, double *out)
{
    const weft_layout *near = from, *far = to;
    *out = 0;
    if (layout_space(from) != layout_space(to)) {
        WEFT_TRY(weft_version_plain(p, layout_space(from), value, &near));
        WEFT_TRY(weft_version_plain(p, layout_space(to), value, &far));
        *out = conversion_seconds(schema_device(p->schema, layout_space(from)), from, near) +
               weft_rates_copy(&p->schema->devices[0]->ops->rates, (double)near->bytes);
        from = far;
    }
    *out += conversion_seconds(schema_device(p->schema, layout_space(to)), from, to);
    return WEFT_OK;
}

weft_status weft_version_seconds(weft_program *p, weft_value value, const weft_layout *want,
                                 double *out)
{
    const weft_layout *from;
    *out = 0;
    if (!weft_program_version(p, value, NULL)) { /* will be placed in the wanted layout */
        if (lies_as_made(p, value, want)) return WEFT_OK;
        WEFT_TRY(weft_version_plain(p, schema_home(p->schema), value, &from));
        return move_seconds(p, value, from, want, out);
    }
    if (weft_program_version(p, value, want) || derives(p, value, want)) return WEFT_OK;
    return move_seconds(p, value, source_of(p, value, want, WEFT_PHASE_FORWARD), want, out);
}

weft_status weft_version_back_seconds(const weft_program *p, weft_value value,
                                      const weft_layout *layout, double *out)
{
    weft_value leaf = p->graph->values[value].next_of;
    const version *kept = leaf == WEFT_NO_VALUE ? NULL : weft_program_version(p, leaf, NULL);
    int home = schema_home(p->schema);
    const weft_layout *to = kept ? kept->layout : layout;
    *out = 0;
    if (!kept && layout_space(layout) != home) WEFT_TRY(weft_version_plain(p, home, value, &to));
    return to == layout ? WEFT_OK : move_seconds(p, value, layout, to, out);
}
