/* The values of one model: what its schema says, in memory. */
#include <math.h>

#include "program/program.h"

static char *data_of(const weft_store *s, int i)
{
    const store_entry *entry = &s->schema->entries[i];
    return entry->slab >= 0 && entry->slab < s->slab_count ? s->slabs[entry->slab] + entry->offset
                                                           : NULL;
}

void weft_store_touch(weft_store *s)
{
    s->written++;
}

char *weft_store_data(const weft_store *s, int i)
{
    return data_of(s, i);
}

weft_status weft_store_create(weft_context *context, const char *device, uint64_t seed,
                              weft_store **out)
{
    weft_store *store;
    WEFT_TRY(WEFT_NEW(&store, 1));
    store->seed = seed;
    store->written = 1;
    weft_status status = weft_schema_create(context, device, &store->schema);
    if (status == WEFT_OK)
        *out = store;
    else
        free(store);
    return status;
}

/* Memory for what the schema has placed since. */
static weft_status add_slab(weft_store *s)
{
    char *slab;
    WEFT_TRY(weft_new_aligned(s->schema->slabs[s->slab_count], &slab));
    char **slabs = realloc(s->slabs, (size_t)(s->slab_count + 1) * sizeof(*slabs));
    if (!slabs) {
        free(slab);
        return weft_fail_memory((size_t)(s->slab_count + 1) * sizeof(*slabs));
    }
    s->slabs = slabs;
    s->slabs[s->slab_count++] = slab;
    return WEFT_OK;
}

weft_status weft_store_clone(const weft_store *from, weft_store **out)
{
    weft_store *store;
    WEFT_TRY(WEFT_NEW(&store, 1));
    store->seed = from->seed;
    store->written = 1;
    store->schema = weft_schema_hold(from->schema);
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && store->slab_count < from->slab_count) {
        int slab = store->slab_count;
        status = add_slab(store);
        if (status == WEFT_OK)
            memcpy(store->slabs[slab], from->slabs[slab], from->schema->slabs[slab]);
    }
    if (status == WEFT_OK)
        *out = store;
    else
        weft_store_destroy(&store);
    return status;
}

void weft_store_destroy(weft_store **store)
{
    if (!store || !*store) return;
    weft_store *s = *store;
    for (int i = 0; i < s->slab_count; i++) free(s->slabs[i]);
    free(s->slabs);
    free(s->derived);
    weft_schema_release(&s->schema);
    free(s);
    *store = NULL;
}

int weft_store_count(const weft_store *s)
{
    return (int)s->schema->count;
}
const char *weft_store_name(const weft_store *s, int i)
{
    return s->schema->entries[i].name;
}
weft_type weft_store_type(const weft_store *s, int i)
{
    return s->schema->entries[i].part;
}
weft_value_kind weft_store_kind(const weft_store *s, int i)
{
    return s->schema->entries[i].kind;
}

void weft_store_part(const weft_store *s, int i, weft_shape *whole, int64_t *start)
{
    *whole = s->schema->entries[i].whole;
    for (int d = 0; d < whole->rank; d++) start[d] = s->schema->entries[i].start[d];
}

void weft_store_memory(const weft_store *s, int i, void **data, size_t *bytes)
{
    *data = data_of(s, i);
    *bytes = s->schema->entries[i].layout ? s->schema->entries[i].layout->bytes : 0;
}

weft_status weft_store_parameters(const weft_store *s, weft_dtype *dtype, void **data,
                                  size_t *bytes)
{
    char *first = NULL, *end = NULL;
    size_t sum = 0;
    *dtype = WEFT_F32; /* a stage of a pipeline may have none */
    for (size_t i = 0; i < s->schema->count; i++) {
        const store_entry *e = &s->schema->entries[i];
        char *begin = data_of(s, (int)i);
        if (e->kind != WEFT_VALUE_PARAM || !begin) continue;
        size_t taken = (e->layout->bytes + 63) / 64 * 64;
        if (!first || begin < first) first = begin;
        if (!end || begin + taken > end) end = begin + taken;
        sum += taken;
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
    return s->schema->entries[i].role;
}

int weft_store_find(const weft_store *s, const char *name)
{
    return weft_schema_find(s->schema, name);
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

/* A clone has what its model's programs brought later only once it is used. */
static weft_status check_filled(const weft_store *s, int i)
{
    if (data_of(s, i)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "'%s' has no value in this store yet: make an instance on it first",
                     s->schema->entries[i].name);
}

static weft_status write_flat(weft_store *s, int i, const void *data)
{
    store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain, *order;
    char *room;
    WEFT_TRY(weft_schema_order(s->schema, i, &order));
    WEFT_TRY(s->schema->device->ops->plain(s->schema->device, &entry->part, &plain));
    WEFT_TRY(weft_new_aligned(order->bytes, &room));
    weft_status status = weft_store_copy(s->schema->device, &entry->part, plain, order, data, room);
    size_t size = weft_dtype_size(entry->type.dtype);
    memcpy(data_of(s, i), room + (size_t)entry->flat_begin * size, weft_type_bytes(&entry->type));
    free(room);
    return status;
}

weft_status weft_store_write(weft_store *s, int i, const void *data)
{
    WEFT_TRY(check_filled(s, i));
    weft_store_touch(s);
    store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain;
    if (entry->flat) return write_flat(s, i, data);
    WEFT_TRY(s->schema->device->ops->plain(s->schema->device, &entry->type, &plain));
    return weft_store_copy(s->schema->device, &entry->type, plain, entry->layout, data,
                           data_of(s, i));
}

weft_status weft_store_read(const weft_store *s, int i, void *data)
{
    WEFT_TRY(check_filled(s, i));
    const store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain;
    if (entry->flat)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "'%s' is spread over ranks; weft_store_gather reads it", entry->name);
    WEFT_TRY(s->schema->device->ops->plain(s->schema->device, &entry->type, &plain));
    return weft_store_copy(s->schema->device, &entry->type, entry->layout, plain, data_of(s, i),
                           data);
}

weft_status weft_store_gather(const weft_store *s, int i, weft_comm *comm, void *data)
{
    const store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain, *order;
    int64_t counts[WEFT_MAX_RANKS], all = weft_shape_elements(&entry->part.shape);
    void *room;
    WEFT_TRY(check_filled(s, i));
    if (!entry->flat) return weft_store_read(s, i, data);
    if (!comm) return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is spread over ranks", entry->name);
    int n = weft_comm_size(comm);
    for (int r = 0; r < n; r++)
        counts[r] = weft_part_start(all, r + 1, n) - weft_part_start(all, r, n);
    WEFT_TRY(weft_schema_order(s->schema, i, &order));
    WEFT_TRY(s->schema->device->ops->plain(s->schema->device, &entry->part, &plain));
    WEFT_TRY(weft_new_aligned(order->bytes, &room));
    weft_status status = weft_comm_run(comm, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                              .dtype = entry->type.dtype,
                                                              .what = entry->name,
                                                              .send = data_of(s, i),
                                                              .receive = room,
                                                              .counts = counts});
    if (status == WEFT_OK)
        status = weft_store_copy(s->schema->device, &entry->part, order, plain, room, data);
    free(room);
    return status;
}

static weft_status start_entry(weft_store *s, int i)
{
    store_entry *entry = &s->schema->entries[i];
    void *plain;
    if (entry->init.kind == WEFT_INIT_CONSTANT && entry->init.scale == 0) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&entry->part), &plain));
    fill(entry, s->seed, plain);
    weft_status status = weft_store_write(s, i, plain);
    free(plain);
    return status;
}

static weft_status fill_derived(weft_store *s)
{
    size_t wanted = s->schema->derived_count;
    if (s->derived_count == wanted) return WEFT_OK;
    uint64_t *all = realloc(s->derived, wanted * sizeof(*all));
    if (!all) return weft_fail_memory(wanted * sizeof(*all));
    for (size_t d = s->derived_count; d < wanted; d++) all[d] = 0;
    s->derived = all;
    s->derived_count = wanted;
    return WEFT_OK;
}

weft_status weft_store_fill(weft_store *s)
{
    const schema *all = s->schema;
    WEFT_TRY(fill_derived(s));
    while ((size_t)s->slab_count < all->slab_count) {
        int slab = s->slab_count;
        WEFT_TRY(add_slab(s));
        weft_status status = WEFT_OK;
        for (size_t i = 0; i < all->count && status == WEFT_OK; i++)
            if (all->entries[i].slab == slab) status = start_entry(s, (int)i);
        if (status != WEFT_OK) {
            free(s->slabs[--s->slab_count]);
            return status;
        }
    }
    return WEFT_OK;
}
