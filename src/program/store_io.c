/* Reads and writes the values of a store as plain tensors, maps them for the host in their own
 * layout, and gathers values that are spread over ranks (ZeRO). */
#include "program/program.h"

/* --- reorders --- */

static weft_status reorder(const weft_store *s, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_address source, weft_address target)
{
    weft_device *device = schema_store_device(s->schema);
    weft_kernel *kernel;
    weft_memory *scratch = NULL;
    weft_bound *bound = NULL;
    WEFT_TRY(weft_device_reorder(device, type, from, to, &kernel));
    weft_status status = weft_memory_new(device, kernel->scratch, &scratch);
    if (status == WEFT_OK) status = weft_kernel_bind(kernel, &bound);
    if (status == WEFT_OK)
        status = weft_bound_place(bound, &source, &target, (weft_address){scratch, 0});
    if (status == WEFT_OK) status = weft_bound_run(bound, s->queue);
    weft_status ended = weft_store_synchronize(s);
    if (bound) bound->ops->destroy(bound);
    weft_memory_free(&scratch);
    kernel->ops->destroy(kernel);
    return status == WEFT_OK ? ended : status;
}

/* The device address of a side of a reorder: in the store, in host memory that the device shares,
 * or in a temporary buffer on the device (own). */
typedef struct staging {
    weft_memory shared, *own;
    weft_address at;
} staging;

static weft_status staging_for(const weft_store *s, const side *x, size_t bytes, staging *out)
{
    const void *host = x->given ? x->given : x->wanted;
    *out = (staging){.shared = {.device = schema_store_device(s->schema)}, .at = x->there};
    if (!host) return WEFT_OK;
    if (weft_device_shares(schema_store_device(s->schema))) {
        out->shared.base = (char *)(uintptr_t)host; /* `given` is only read */
        out->at = (weft_address){&out->shared, 0};
        return WEFT_OK;
    }
    WEFT_TRY(weft_memory_new(schema_store_device(s->schema), bytes, &out->own));
    out->at = (weft_address){out->own, 0};
    return WEFT_OK;
}

weft_status weft_store_convert(const weft_store *s, const weft_type *type, const weft_layout *from,
                               const weft_layout *to, side source, side target)
{
    staging a, b = {.own = NULL};
    WEFT_TRY(weft_store_follow(s));
    weft_status status = staging_for(s, &source, from->bytes, &a);
    if (status == WEFT_OK) status = staging_for(s, &target, to->bytes, &b);
    if (status == WEFT_OK && a.own)
        status = weft_copy_in(s->queue, a.at, source.given, from->bytes);
    if (status == WEFT_OK)
        status = weft_layout_same(from, to) ? weft_copy(s->queue, b.at, a.at, from->bytes)
                                            : reorder(s, type, from, to, a.at, b.at);
    if (status == WEFT_OK && b.own)
        status = weft_copy_out(s->queue, target.wanted, b.at, to->bytes);
    weft_status ended = weft_store_synchronize(s);
    weft_memory_free(&a.own);
    weft_memory_free(&b.own);
    return status == WEFT_OK ? ended : status;
}

/* --- plain values --- */

/* Fails if the store has not allocated entry i yet: a clone allocates entries that later programs
 * of its model have added only when an instance is made on it. */
static weft_status check_filled(const weft_store *s, int i)
{
    if (weft_store_address(s, i).memory) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "the tensor '%s' is not allocated in this store yet; create an instance on the store first",
        s->schema->entries[i].name);
}

static weft_status plain_part(const weft_store *s, const store_entry *entry,
                              const weft_layout **out)
{
    return weft_device_plain(schema_store_device(s->schema), &entry->part, out);
}

static weft_status write_flat(weft_store *s, int i, const void *data)
{
    store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain, *order;
    weft_memory *room;
    size_t begin = (size_t)entry->flat_begin * weft_dtype_size(entry->type.dtype);
    WEFT_TRY(weft_schema_order(s->schema, i, &order));
    WEFT_TRY(plain_part(s, entry, &plain));
    WEFT_TRY(weft_memory_new(schema_store_device(s->schema), order->bytes, &room));
    weft_status status = weft_store_convert(s, &entry->part, plain, order, (side){.given = data},
                                            (side){.there = {room, 0}});
    if (status == WEFT_OK)
        status = weft_copy(s->queue, weft_store_address(s, i), (weft_address){room, begin},
                           weft_type_bytes(&entry->type));
    if (status == WEFT_OK) status = weft_store_synchronize(s);
    weft_memory_free(&room);
    return status;
}

weft_status weft_store_write(weft_store *s, int i, const void *data)
{
    WEFT_NEED_AS("store, data", s, data);
    WEFT_CHECK_INDEX(i, s->schema->count);
    WEFT_TRY(check_filled(s, i));
    weft_store_touch(s);
    store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain;
    if (entry->flat) return write_flat(s, i, data);
    WEFT_TRY(plain_part(s, entry, &plain));
    return weft_store_convert(s, &entry->type, plain, entry->layout, (side){.given = data},
                              (side){.there = weft_store_address(s, i)});
}

weft_status weft_store_read(const weft_store *s, int i, void *data)
{
    WEFT_NEED_AS("store, data", s, data);
    WEFT_CHECK_INDEX(i, s->schema->count);
    WEFT_TRY(check_filled(s, i));
    const store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain;
    if (entry->flat)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "'%s' is spread over ranks; weft_store_gather reads it", entry->name);
    WEFT_TRY(plain_part(s, entry, &plain));
    return weft_store_convert(s, &entry->type, entry->layout, plain,
                              (side){.there = weft_store_address(s, i)}, (side){.wanted = data});
}

/* --- values in their layout --- */

/* Finds the flat range of all parameters; begin->memory is NULL if there are none. UNSUPPORTED: the
 * parameters are in several slabs or of several types. */
static weft_status all_parameters(const weft_store *s, weft_dtype *dtype, weft_address *begin,
                                  size_t *bytes)
{
    size_t end = 0, sum = 0;
    bool one = true;
    *begin = (weft_address){0};
    *dtype = WEFT_F32;
    for (size_t i = 0; i < s->schema->count; i++) {
        const store_entry *e = &s->schema->entries[i];
        weft_address at = weft_store_address(s, (int)i);
        if (e->kind != WEFT_VALUE_PARAM || !at.memory) continue;
        size_t taken = (e->layout->bytes + 63) / 64 * 64;
        if (!begin->memory) *begin = at;
        one = one && begin->memory == at.memory;
        begin->offset = WEFT_MIN(begin->offset, at.offset);
        end = WEFT_MAX(end, at.offset + taken);
        one = one && (sum == 0 || *dtype == e->type.dtype);
        sum += taken;
        *dtype = e->type.dtype;
    }
    if (begin->memory && (!one || end - begin->offset != sum))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "the parameters of this store are no flat range");
    *bytes = sum;
    return WEFT_OK;
}

static weft_status range_of(const weft_store *s, int i, weft_dtype *dtype, weft_address *begin,
                            size_t *bytes)
{
    if (i == WEFT_ALL_PARAMETERS) return all_parameters(s, dtype, begin, bytes);
    WEFT_TRY(weft_check_index("weft_store_map", "i", i, (long long)s->schema->count));
    const store_entry *e = &s->schema->entries[i];
    *dtype = e->type.dtype;
    *begin = weft_store_address(s, i);
    *bytes = begin->memory ? e->layout->bytes : 0;
    return WEFT_OK;
}

weft_status weft_store_range(const weft_store *s, int i, int64_t *begin, int64_t *count)
{
    WEFT_NEED_AS("store, begin, count", s, begin, count);
    WEFT_CHECK_INDEX(i, s->schema->count);
    const store_entry *e = &s->schema->entries[i];
    size_t size = weft_dtype_size(e->type.dtype), bytes;
    weft_address first, at = weft_store_address(s, i);
    weft_dtype dtype;
    WEFT_TRY(all_parameters(s, &dtype, &first, &bytes));
    *begin = at.memory ? (int64_t)((at.offset - first.offset) / size) : 0;
    *count = at.memory ? (int64_t)(e->layout->bytes / size) : 0;
    return WEFT_OK;
}

uint64_t weft_store_form_of(const weft_store *s, int i)
{
    WEFT_NEED_ELSE_AS(0, "store", s);
    WEFT_CHECK_INDEX_ELSE(0, i, s->schema->count);
    const store_entry *e = &s->schema->entries[i];
    const weft_layout *layout = e->order ? e->order : e->layout;
    return layout ? weft_mix(weft_hash_text(layout->text), (uint64_t)layout->bytes) : 0;
}

uint64_t weft_store_form(const weft_store *s)
{
    WEFT_NEED_ELSE_AS(0, "store", s);
    uint64_t form = 0;
    weft_address begin = {0};
    weft_dtype dtype;
    size_t bytes;
    if (all_parameters(s, &dtype, &begin, &bytes) != WEFT_OK) begin.memory = NULL;
    for (size_t i = 0; i < s->schema->count; i++) {
        const store_entry *e = &s->schema->entries[i];
        form = weft_mix(form, weft_store_form_of(s, (int)i));
        /* The offsets of parameters count as well, since devices may place them in another
         * order. */
        weft_address at = weft_store_address(s, (int)i);
        bool flat = e->kind == WEFT_VALUE_PARAM && at.memory && begin.memory;
        form = weft_mix(form, flat ? at.offset - begin.offset : 0);
    }
    return form;
}

weft_status weft_store_map(const weft_store *s, int i, weft_dtype *dtype, void **data,
                           size_t *bytes)
{
    WEFT_NEED_AS("store, dtype, data, bytes", s, dtype, data, bytes);
    weft_address begin;
    WEFT_TRY(range_of(s, i, dtype, &begin, bytes));
    *data = (void *)(uintptr_t)s; /* not NULL, which memcpy forbids even for no bytes */
    if (weft_device_shares(schema_store_device(s->schema))) {
        if (*bytes > 0) *data = weft_host(begin);
        return WEFT_OK;
    }
    WEFT_TRY(weft_new_aligned(*bytes, data));
    weft_status status = weft_store_follow(s);
    if (*bytes > 0 && status == WEFT_OK) status = weft_copy_out(s->queue, *data, begin, *bytes);
    if (status == WEFT_OK) status = weft_store_synchronize(s);
    if (status != WEFT_OK) free(*data);
    return status;
}

void weft_store_unmap_read(const weft_store *s, void *data)
{
    WEFT_NEED_VOID_AS("store", s);
    if (!weft_device_shares(schema_store_device(s->schema))) free(data);
}

weft_status weft_store_unmap(weft_store *s, int i, void *data)
{
    WEFT_NEED_AS("store, data", s, data);
    weft_address begin;
    size_t bytes = 0;
    weft_dtype dtype;
    WEFT_TRY(range_of(s, i, &dtype, &begin, &bytes));
    weft_store_touch(s);
    if (weft_device_shares(schema_store_device(s->schema))) return WEFT_OK;
    weft_status status = weft_store_follow(s);
    if (bytes > 0 && status == WEFT_OK) status = weft_copy_in(s->queue, begin, data, bytes);
    weft_status ended = weft_store_synchronize(s);
    free(data);
    return status == WEFT_OK ? ended : status;
}

/* --- gathering parts --- */

/* Maps this rank's part of entry i in its layout: in `image` (a copy of all parameters) if given,
 * else in the store or, if the host cannot access that, in *copy, which the caller frees. */
static weft_status map_own(const weft_store *s, int i, const void *image, const void **out,
                           void **copy)
{
    weft_dtype dtype;
    weft_address begin, at = weft_store_address(s, i);
    size_t bytes;
    *copy = NULL;
    *out = weft_device_shares(schema_store_device(s->schema)) ? weft_host(at) : NULL;
    if (image) {
        WEFT_TRY(all_parameters(s, &dtype, &begin, &bytes));
        *out = (const char *)image + (at.offset - begin.offset);
    }
    if (*out) return WEFT_OK;
    WEFT_TRY(range_of(s, i, &dtype, &begin, &bytes));
    WEFT_TRY(weft_new_aligned(bytes, copy));
    weft_status status = weft_store_follow(s);
    if (status == WEFT_OK) status = weft_copy_out(s->queue, *copy, begin, bytes);
    weft_status ended = weft_store_synchronize(s);
    *out = *copy;
    return status == WEFT_OK ? ended : status;
}

/* Gathers the ranges of entry i of all ranks into `room` of rank `to`, in the element order of the
 * entry. */
static weft_status bring_together(const weft_store *s, int i, const void *image, weft_comm *comm,
                                  int to, void *room)
{
    const store_entry *entry = &s->schema->entries[i];
    int64_t *counts, all = weft_shape_elements(&entry->part.shape);
    int n = weft_comm_size(comm);
    const void *mine;
    void *copy = NULL;
    WEFT_TRY(WEFT_NEW(&counts, n));
    for (int r = 0; r < n; r++)
        counts[r] = weft_part_start(all, r + 1, n) - weft_part_start(all, r, n);
    weft_status status = map_own(s, i, image, &mine, &copy);
    if (status == WEFT_OK)
        status = weft_comm_run(comm, WEFT_TRANSFER(.kind = WEFT_GATHER, .dtype = entry->type.dtype,
                                                   .what = entry->name, .send = mine,
                                                   .receive = room, .counts = counts, .peer = to));
    free(copy);
    free(counts);
    return status;
}

/* Whether the ranges of an entry come together in another order than that of its elements. */
static weft_status is_turned(const weft_store *s, int i, const weft_layout **order,
                             const weft_layout **plain, bool *out)
{
    WEFT_TRY(weft_schema_order(s->schema, i, order));
    WEFT_TRY(plain_part(s, &s->schema->entries[i], plain));
    *out = !weft_layout_same(*order, *plain);
    return WEFT_OK;
}

size_t weft_store_gather_room(const weft_store *s, int i)
{
    const weft_layout *plain, *order;
    bool turned = false;
    if (!s->schema->entries[i].flat) return 0;
    return is_turned(s, i, &order, &plain, &turned) == WEFT_OK && turned ? order->bytes : 0;
}

static weft_status gather_ranges(const weft_store *s, int i, const void *image, weft_comm *comm,
                                 int to, void *data)
{
    const store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain, *order;
    void *room = data;
    bool turned;
    WEFT_TRY(is_turned(s, i, &order, &plain, &turned));
    if (weft_comm_rank(comm) != to) return bring_together(s, i, image, comm, to, NULL);
    if (turned) WEFT_TRY(weft_new_aligned(order->bytes, &room));
    weft_status status = bring_together(s, i, image, comm, to, room);
    if (status == WEFT_OK && turned)
        status = weft_store_convert(s, &entry->part, order, plain, (side){.given = room},
                                    (side){.wanted = data});
    if (turned) free(room);
    return status;
}

weft_status weft_store_gather(const weft_store *s, int i, const void *image, weft_comm *comm,
                              int to, void *data)
{
    WEFT_NEED_AS("store", s);
    WEFT_CHECK_INDEX(i, s->schema->count);
    const store_entry *entry = &s->schema->entries[i];
    const weft_layout *plain;
    const void *mine;
    void *copy;
    WEFT_TRY(check_filled(s, i));
    WEFT_TRY(weft_check_index(__func__, "to", to, comm ? weft_comm_size(comm) : 1));
    if (!data && (!comm || weft_comm_rank(comm) == to))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "weft_store_gather: 'data' is NULL on rank %d, which "
                         "gets the tensor",
                         to);
    if (entry->flat && !comm)
        return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is spread over ranks", entry->name);
    if (image && entry->kind != WEFT_VALUE_PARAM)
        return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is no parameter", entry->name);
    if (entry->flat) return gather_ranges(s, i, image, comm, to, data);
    if (comm && weft_comm_rank(comm) != to) return WEFT_OK;
    if (!image) return weft_store_read(s, i, data);
    WEFT_TRY(plain_part(s, entry, &plain));
    WEFT_TRY(map_own(s, i, image, &mine, &copy)); /* in the image, so there is no copy */
    return weft_store_convert(s, &entry->type, entry->layout, plain, (side){.given = mine},
                              (side){.wanted = data});
}
