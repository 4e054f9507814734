/* Implements the schema that all stores of a model share: their entries (parameters, state),
 * layouts and places in memory. */
#include "program/program.h"
#include "program/tuning.h"

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

weft_status weft_schema_create(weft_context *context, const char *device, schema **out)
{
    schema *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->context = context;
    atomic_init(&s->users, 1);
    weft_status status = weft_device_open_list(context, device, s->devices, &s->device_count);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_schema_release(&s);
    return status;
}

schema *weft_schema_hold(schema *s)
{
    atomic_fetch_add(&s->users, 1);
    return s;
}

void weft_schema_release(schema **given)
{
    schema *s = *given;
    *given = NULL;
    if (!s || atomic_fetch_sub(&s->users, 1) > 1) return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->entries[i].name);
        free(s->entries[i].like);
    }
    weft_names_free(&s->names);
    weft_reach_free(&s->reach);
    free(s->entries);
    free(s->derived);
    free(s->slabs);
    tuning_free(&s->tuning);
    for (int d = s->device_count; d-- > 0;) weft_device_close(&s->devices[d]);
    free(s);
}

weft_status weft_space_memory(const schema *s, int space, size_t bytes, weft_memory **out)
{
    weft_device *device = schema_device(s, space);
    return space == SPACE_HOST ? weft_memory_new_host(device, s->devices[0], bytes, out)
                               : weft_memory_new(device, bytes, out);
}

int weft_schema_find(const schema *s, const char *name)
{
    return weft_names_find(&s->names, name);
}

static weft_status copy_flat(store_entry *entry, const weft_graph *g, const weft_value_info *leaf)
{
    entry->part = entry->type;
    entry->flat = leaf->flat;
    if (!leaf->flat) return WEFT_OK;
    entry->part.shape = leaf->flat_shape;
    entry->flat_begin = leaf->flat_begin;
    return leaf->like == WEFT_NO_VALUE ? WEFT_OK
                                       : weft_strdup(g->values[leaf->like].name, &entry->like);
}

weft_status weft_schema_bind(schema *s, const weft_graph *g, weft_value value, int *out)
{
    const weft_value_info *leaf = &g->values[value];
    int found = weft_schema_find(s, leaf->name);
    bool idle =
        g->differentiated && leaf->gradient == WEFT_NO_VALUE && leaf->exported == WEFT_NO_VALUE;
    if (found >= 0) {
        const weft_type *have = &s->entries[found].type;
        char a[128], b[128];
        if (have->dtype != leaf->type.dtype || !weft_shape_equal(&have->shape, &leaf->type.shape))
            return weft_fail(
                WEFT_ERR_ARGUMENT, "parameter '%s' is %s%s in the store but %s%s in the graph",
                leaf->name, weft_dtype_name(have->dtype),
                weft_shape_text(&have->shape, a, sizeof(a)), weft_dtype_name(leaf->type.dtype),
                weft_shape_text(&leaf->type.shape, b, sizeof(b)));
        s->entries[found].idle = s->entries[found].idle && (idle || !g->differentiated);
        *out = found;
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_GROW(&s->entries, &s->capacity, s->count));
    store_entry entry = {.type = leaf->type,
                         .kind = leaf->kind,
                         .init = leaf->init,
                         .role = leaf->role,
                         .idle = idle,
                         .slab = -1,
                         .whole = leaf->whole};
    memcpy(entry.start, leaf->start, sizeof(entry.start));
    WEFT_TRY(copy_flat(&entry, g, leaf));
    weft_status status = weft_strdup(leaf->name, &entry.name);
    if (status == WEFT_OK) status = weft_names_add(&s->names, entry.name, (int)s->count);
    if (status != WEFT_OK) {
        free(entry.name);
        free(entry.like);
        return status;
    }
    s->entries[s->count] = entry;
    *out = (int)s->count++;
    return WEFT_OK;
}

weft_status weft_schema_order(const schema *s, int i, const weft_layout **out)
{
    const store_entry *entry = &s->entries[i];
    int like = entry->like ? weft_schema_find(s, entry->like) : i;
    *out = NULL;
    if (like >= 0) *out = s->entries[like].flat ? s->entries[like].order : s->entries[like].layout;
    if (*out && (*out)->bytes == weft_type_bytes(&entry->part)) return WEFT_OK;
    return weft_device_plain(schema_store_device(s), &entry->part, out);
}

/* Places entries of a kind (parameters or state) one after another in a new slab. */
static weft_status place_kind(schema *s, const int *order, int count, weft_value_kind kind,
                              size_t *total)
{
    size_t bytes = 0;
    WEFT_TRY(WEFT_GROW(&s->slabs, &s->slab_capacity, s->slab_count));
    for (int i = 0; i < count; i++) {
        store_entry *entry = &s->entries[order[i]];
        if (entry->kind != kind || entry->slab >= 0) continue;
        entry->slab = (int)s->slab_count;
        entry->offset = bytes;
        bytes += rounded(entry->layout->bytes);
    }
    if (bytes > 0) s->slabs[s->slab_count++] = bytes;
    *total += bytes;
    return WEFT_OK;
}

weft_status weft_schema_derive(schema *s, int i, const weft_layout *layout, int *out)
{
    for (size_t d = 0; d < s->derived_count; d++)
        if (s->derived[d].entry == i && weft_layout_same(s->derived[d].layout, layout)) {
            *out = (int)d;
            return WEFT_OK;
        }
    WEFT_TRY(WEFT_GROW(&s->slabs, &s->slab_capacity, s->slab_count));
    WEFT_TRY(WEFT_GROW(&s->derived, &s->derived_capacity, s->derived_count));
    s->derived[s->derived_count] = (derived_layout){i, (int)s->slab_count, layout};
    s->slabs[s->slab_count++] = rounded(layout->bytes);
    *out = (int)s->derived_count++;
    return WEFT_OK;
}

weft_status weft_schema_place(schema *s, const int *order, int count)
{
    WEFT_TRY(place_kind(s, order, count, WEFT_VALUE_PARAM, &s->parameter_bytes));
    return place_kind(s, order, count, WEFT_VALUE_STATE, &s->state_bytes);
}
