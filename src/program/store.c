#include <math.h>

#include "program/program.h"

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

weft_status weft_store_create(weft_context *context, const char *device, uint64_t seed,
                              weft_store **out)
{
    weft_store *store;
    WEFT_TRY(WEFT_NEW(&store, 1));
    store->context = context;
    store->seed = seed;
    weft_status status = weft_device_open(context, device, &store->device);
    if (status == WEFT_OK) status = weft_device_open(context, "reference", &store->fallback);
    if (status != WEFT_OK) {
        weft_store_destroy(&store);
        return status;
    }
    *out = store;
    return WEFT_OK;
}

void weft_store_destroy(weft_store **store)
{
    if (!store || !*store) return;
    weft_store *s = *store;
    for (size_t i = 0; i < s->count; i++) {
        free(s->entries[i].name);
        free(s->entries[i].like);
    }
    for (size_t i = 0; i < s->slab_count; i++) free(s->slabs[i]);
    weft_names_free(&s->names);
    free(s->entries);
    free(s->slabs);
    weft_device_close(&s->fallback);
    weft_device_close(&s->device);
    free(s);
    *store = NULL;
}

int weft_store_count(const weft_store *s)
{
    return (int)s->count;
}
const char *weft_store_name(const weft_store *s, int i)
{
    return s->entries[i].name;
}
weft_type weft_store_type(const weft_store *s, int i)
{
    return s->entries[i].part;
}
weft_value_kind weft_store_kind(const weft_store *s, int i)
{
    return s->entries[i].kind;
}

void weft_store_part(const weft_store *s, int i, weft_shape *whole, int64_t *start)
{
    *whole = s->entries[i].whole;
    for (int d = 0; d < whole->rank; d++) start[d] = s->entries[i].start[d];
}

void weft_store_memory(const weft_store *s, int i, void **data, size_t *bytes)
{
    *data = s->entries[i].data;
    *bytes = s->entries[i].layout ? s->entries[i].layout->bytes : 0;
}

weft_status weft_store_parameters(const weft_store *s, weft_dtype *dtype, void **data,
                                  size_t *bytes)
{
    char *first = NULL, *end = NULL;
    size_t sum = 0;
    *dtype = WEFT_F32; /* a stage of a pipeline may have none */
    for (size_t i = 0; i < s->count; i++) {
        const store_entry *e = &s->entries[i];
        if (e->kind != WEFT_VALUE_PARAM || !e->data) continue;
        if (!first || e->data < first) first = e->data;
        if (!end || e->data + rounded(e->layout->bytes) > end)
            end = e->data + rounded(e->layout->bytes);
        sum += rounded(e->layout->bytes);
        *dtype = e->type.dtype;
    }
    if (first && (size_t)(end - first) != sum)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "the parameters of this store are no flat range");
    *data = first ? (void *)first : (void *)(uintptr_t)s; /* not NULL, for memcpy of nothing */
    *bytes = sum;
    return WEFT_OK;
}

weft_role weft_store_role(const weft_store *s, int i)
{
    return s->entries[i].role;
}

int weft_store_find(const weft_store *s, const char *name)
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

weft_status weft_store_bind(weft_store *s, const weft_graph *g, weft_value value, int *out)
{
    const weft_value_info *leaf = &g->values[value];
    int found = weft_store_find(s, leaf->name);
    if (found >= 0) {
        const weft_type *have = &s->entries[found].type;
        char a[128], b[128];
        if (have->dtype != leaf->type.dtype || !weft_shape_equal(&have->shape, &leaf->type.shape))
            return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is %s%s in the store and %s%s in the graph",
                             leaf->name, weft_dtype_name(have->dtype),
                             weft_shape_text(&have->shape, a, sizeof(a)),
                             weft_dtype_name(leaf->type.dtype),
                             weft_shape_text(&leaf->type.shape, b, sizeof(b)));
        *out = found;
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_GROW(&s->entries, &s->capacity, s->count));
    store_entry entry = {.type = leaf->type,
                         .kind = leaf->kind,
                         .init = leaf->init,
                         .role = leaf->role,
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

weft_status weft_store_copy(weft_device *device, const weft_type *type, const weft_layout *from,
                            const weft_layout *to, const void *source, void *target)
{
    if (weft_layout_same(from, to)) {
        memcpy(target, source, from->bytes);
        return WEFT_OK;
    }
    weft_kernel *kernel;
    WEFT_TRY(device->ops->reorder(device, type, from, to, &kernel));
    void *scratch = NULL;
    weft_status status = weft_new_aligned(kernel->scratch, &scratch);
    void *in = (void *)(uintptr_t)source; /* only read */
    weft_bound *bound = NULL;
    if (status == WEFT_OK) status = kernel->ops->bind(kernel, &bound);
    if (status == WEFT_OK) status = bound->ops->place(bound, &in, &target, scratch);
    if (status == WEFT_OK) status = bound->ops->run(bound);
    if (bound) bound->ops->destroy(bound);
    kernel->ops->destroy(kernel);
    free(scratch);
    return status;
}

/* Where element i of the whole tensor stands in the part; -1: not there. */
static int64_t place_in_part(const store_entry *entry, int64_t i)
{
    int64_t place = 0, step = 1;
    for (int d = entry->whole.rank; d-- > 0; i /= entry->whole.dim[d]) {
        int64_t at = i % entry->whole.dim[d] - entry->start[d];
        if (at < 0 || at >= entry->part.shape.dim[d]) return -1;
        place += at * step;
        step *= entry->part.shape.dim[d];
    }
    return place;
}

/* Numbers of a stream are the same for every element type, up to rounding, and the same for an
 * element whether the rest of its tensor is here or not. */
static void fill(const store_entry *entry, uint64_t seed, void *data)
{
    int64_t count = weft_shape_elements(&entry->whole);
    bool part = !weft_shape_equal(&entry->whole, &entry->part.shape);
    weft_random random;
    weft_random_start(&random, weft_mix(seed, weft_hash_text(entry->name)), 0);
    for (int64_t at = 0; at < count; at++) {
        double value = entry->init.scale;
        if (entry->init.kind == WEFT_INIT_UNIFORM)
            value = weft_random_between(&random, -value, value);
        if (entry->init.kind == WEFT_INIT_NORMAL) { /* Box and Muller */
            double radius = sqrt(-2 * log(1 - weft_random_unit(&random)));
            value *= radius * cos(6.28318530717958647692 * weft_random_unit(&random));
        }
        int64_t i = part ? place_in_part(entry, at) : at;
        if (i < 0) continue;
        if (entry->type.dtype == WEFT_F32) ((float *)data)[i] = (float)value;
        if (entry->type.dtype == WEFT_F64) ((double *)data)[i] = value;
        if (entry->type.dtype == WEFT_I32) ((int32_t *)data)[i] = (int32_t)value;
    }
}

weft_status weft_store_order(const weft_store *s, int i, const weft_layout **out)
{
    const store_entry *entry = &s->entries[i];
    int like = entry->like ? weft_store_find(s, entry->like) : i;
    *out = NULL;
    if (like >= 0) *out = s->entries[like].flat ? s->entries[like].order : s->entries[like].layout;
    if (*out && (*out)->bytes == weft_type_bytes(&entry->part)) return WEFT_OK;
    return s->device->ops->plain(s->device, &entry->part, out);
}

static weft_status write_flat(weft_store *s, int i, const void *data)
{
    store_entry *entry = &s->entries[i];
    const weft_layout *plain, *order;
    char *room;
    WEFT_TRY(weft_store_order(s, i, &order));
    WEFT_TRY(s->device->ops->plain(s->device, &entry->part, &plain));
    WEFT_TRY(weft_new_aligned(order->bytes, &room));
    weft_status status = weft_store_copy(s->device, &entry->part, plain, order, data, room);
    size_t size = weft_dtype_size(entry->type.dtype);
    memcpy(entry->data, room + (size_t)entry->flat_begin * size, weft_type_bytes(&entry->type));
    free(room);
    return status;
}

weft_status weft_store_write(weft_store *s, int i, const void *data)
{
    store_entry *entry = &s->entries[i];
    const weft_layout *plain;
    if (entry->flat) return write_flat(s, i, data);
    WEFT_TRY(s->device->ops->plain(s->device, &entry->type, &plain));
    return weft_store_copy(s->device, &entry->type, plain, entry->layout, data, entry->data);
}

weft_status weft_store_read(const weft_store *s, int i, void *data)
{
    const store_entry *entry = &s->entries[i];
    const weft_layout *plain;
    if (entry->flat)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "'%s' is spread over ranks; weft_store_gather reads it", entry->name);
    WEFT_TRY(s->device->ops->plain(s->device, &entry->type, &plain));
    return weft_store_copy(s->device, &entry->type, entry->layout, plain, entry->data, data);
}

weft_status weft_store_gather(const weft_store *s, int i, weft_comm *comm, void *data)
{
    const store_entry *entry = &s->entries[i];
    const weft_layout *plain, *order;
    int64_t counts[WEFT_MAX_RANKS], all = weft_shape_elements(&entry->part.shape);
    void *room;
    if (!entry->flat) return weft_store_read(s, i, data);
    if (!comm) return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is spread over ranks", entry->name);
    int n = weft_comm_size(comm);
    for (int r = 0; r < n; r++)
        counts[r] = weft_part_start(all, r + 1, n) - weft_part_start(all, r, n);
    WEFT_TRY(weft_store_order(s, i, &order));
    WEFT_TRY(s->device->ops->plain(s->device, &entry->part, &plain));
    WEFT_TRY(weft_new_aligned(order->bytes, &room));
    weft_status status = weft_comm_run(comm, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                              .dtype = entry->type.dtype,
                                                              .what = entry->name,
                                                              .send = entry->data,
                                                              .receive = room,
                                                              .counts = counts});
    if (status == WEFT_OK)
        status = weft_store_copy(s->device, &entry->part, order, plain, room, data);
    free(room);
    return status;
}

static weft_status start_entry(weft_store *s, int i)
{
    store_entry *entry = &s->entries[i];
    void *plain;
    if (entry->init.kind == WEFT_INIT_CONSTANT && entry->init.scale == 0) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&entry->part), &plain));
    fill(entry, s->seed, plain);
    weft_status status = weft_store_write(s, i, plain);
    free(plain);
    return status;
}

/* One flat range for the entries of a kind. After a failure they have no place, as before. */
static weft_status place_kind(weft_store *s, const int *order, int count, weft_value_kind kind,
                              size_t *total)
{
    size_t bytes = 0, at = 0;
    for (int i = 0; i < count; i++)
        if (s->entries[order[i]].kind == kind && !s->entries[order[i]].data)
            bytes += rounded(s->entries[order[i]].layout->bytes);
    if (bytes == 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&s->slabs, &s->slab_capacity, s->slab_count));
    char *slab;
    WEFT_TRY(weft_new_aligned(bytes, &slab));
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        store_entry *entry = &s->entries[order[i]];
        if (entry->kind != kind || entry->data) continue;
        entry->data = slab + at;
        at += rounded(entry->layout->bytes);
        status = start_entry(s, order[i]);
    }
    if (status != WEFT_OK) {
        for (int i = 0; i < count; i++) {
            char *data = s->entries[order[i]].data;
            if (data && data >= slab && data < slab + bytes) s->entries[order[i]].data = NULL;
        }
        free(slab);
        return status;
    }
    s->slabs[s->slab_count++] = slab;
    *total += bytes;
    return WEFT_OK;
}

weft_status weft_store_place(weft_store *s, const int *order, int count)
{
    WEFT_TRY(place_kind(s, order, count, WEFT_VALUE_PARAM, &s->parameter_bytes));
    return place_kind(s, order, count, WEFT_VALUE_STATE, &s->state_bytes);
}
