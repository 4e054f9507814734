/* Implements stores, which hold the parameters and state of one model in the memory that its schema
 * describes: creation, cloning, allocation and initial values. */
#include <math.h>

#include "program/program.h"

weft_address weft_store_address(const weft_store *s, int i)
{
    const store_entry *entry = &s->schema->entries[i];
    bool filled = entry->slab >= 0 && entry->slab < s->slab_count;
    return filled ? (weft_address){s->slabs[entry->slab], entry->offset} : (weft_address){0};
}

void weft_store_touch(weft_store *s)
{
    s->written++;
}

void weft_store_leave_blank(weft_store *s)
{
    s->blank = true;
}

weft_status weft_store_synchronize(const weft_store *s)
{
    weft_device *device = schema_store_device(s->schema);
    if (!s->queue) return WEFT_OK;
    weft_status followed = weft_store_follow(s);
    /* Callers free what they have copied from or to, also after a failure. */
    WEFT_TRY(weft_event_record(device, s->queue, s->event));
    WEFT_TRY(weft_event_wait(device, s->event));
    return followed;
}

/* Creates a store; the store owns the caller's reference to the schema, also on failure. */
static weft_status make(schema *of, uint64_t seed, weft_store **out)
{
    weft_store *s;
    weft_status status = WEFT_NEW(&s, 1);
    if (status != WEFT_OK) {
        weft_schema_release(&of);
        return status;
    }
    *s = (weft_store){.schema = of, .seed = seed, .written = 1};
    pthread_mutex_init(&s->lock, NULL);
    status = weft_queue_open(schema_store_device(of), &s->queue);
    if (status == WEFT_OK) status = weft_event_open(schema_store_device(of), &s->event);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_store_destroy(&s);
    return status;
}

weft_status weft_store_create(weft_context *context, const char *device, uint64_t seed,
                              weft_store **out)
{
    WEFT_NEED(context, device, out);
    schema *of;
    WEFT_TRY(weft_schema_create(context, device, &of));
    return make(of, seed, out);
}

weft_status weft_store_keep_on_host(weft_store *s)
{
    WEFT_NEED_AS("store", s);
    if (s->schema->count > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the store has tensors already; choose where they are kept before the "
                         "first program is made on it");
    weft_queue_close(schema_store_device(s->schema), &s->queue);
    weft_event_close(schema_store_device(s->schema), &s->event);
    s->schema->on_host = true;
    return WEFT_OK;
}

/* Allocates the next slab of the schema. */
static weft_status add_slab(weft_store *s)
{
    weft_memory *slab;
    size_t bytes = s->schema->slabs[s->slab_count];
    weft_status made = weft_space_memory(s->schema, schema_home(s->schema), bytes, &slab);
    if (made == WEFT_ERR_MEMORY && schema_home(s->schema) == SPACE_DEVICE)
        return weft_fail(made,
                         "%s; these are parameters and state, which --home cpu keeps in host "
                         "memory",
                         weft_last_message());
    WEFT_TRY(made);
    /* Tensors that begin at zero are not written. */
    weft_status status =
        weft_memory_zero(schema_store_device(s->schema), s->queue, (weft_address){slab, 0}, bytes);
    size_t size = (size_t)(s->slab_count + 1) * sizeof(*s->slabs);
    weft_memory **slabs = status == WEFT_OK ? realloc((void *)s->slabs, size) : NULL;
    if (!slabs) {
        weft_memory_free(&slab);
        return status == WEFT_OK ? weft_fail_memory(size) : status;
    }
    s->slabs = slabs;
    s->slabs[s->slab_count++] = slab;
    return WEFT_OK;
}

weft_status weft_store_clone(const weft_store *from, weft_store **out)
{
    WEFT_NEED(from, out);
    weft_store *store;
    WEFT_TRY(weft_store_synchronize(from));
    WEFT_TRY(make(weft_schema_hold(from->schema), from->seed, &store));
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && store->slab_count < from->slab_count) {
        int slab = store->slab_count;
        status = add_slab(store);
        if (status == WEFT_OK)
            status = weft_copy(store->queue, (weft_address){store->slabs[slab], 0},
                               (weft_address){from->slabs[slab], 0}, from->schema->slabs[slab]);
    }
    if (status == WEFT_OK)
        status = weft_store_synchronize(store); /* the original may change then */
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
    weft_queue_close(schema_store_device(s->schema), &s->queue);
    weft_event_close(schema_store_device(s->schema), &s->event);
    for (int i = 0; i < s->slab_count; i++) weft_memory_free(&s->slabs[i]);
    free((void *)s->slabs);
    free(s->derived);
    weft_schema_release(&s->schema);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *store = NULL;
}

int weft_store_count(const weft_store *s)
{
    WEFT_NEED_ELSE_AS(0, "store", s);
    return (int)s->schema->count;
}
const char *weft_store_name(const weft_store *s, int i)
{
    WEFT_NEED_ELSE_AS(NULL, "store", s);
    WEFT_CHECK_INDEX_ELSE(NULL, i, s->schema->count);
    return s->schema->entries[i].name;
}
weft_type weft_store_type(const weft_store *s, int i)
{
    WEFT_NEED_ELSE_AS((weft_type){0}, "store", s);
    WEFT_CHECK_INDEX_ELSE((weft_type){0}, i, s->schema->count);
    return s->schema->entries[i].part;
}
weft_value_kind weft_store_kind(const weft_store *s, int i)
{
    WEFT_NEED_ELSE_AS(WEFT_VALUE_INPUT, "store", s);
    WEFT_CHECK_INDEX_ELSE(WEFT_VALUE_INPUT, i, s->schema->count);
    return s->schema->entries[i].kind;
}

void weft_store_part(const weft_store *s, int i, weft_shape *whole, int64_t *start)
{
    WEFT_NEED_VOID_AS("store, whole, start", s, whole, start);
    WEFT_CHECK_INDEX_ELSE(, i, s->schema->count);
    *whole = s->schema->entries[i].whole;
    for (int d = 0; d < whole->rank; d++) start[d] = s->schema->entries[i].start[d];
}

bool weft_store_is_spread(const weft_store *s, int i)
{
    WEFT_NEED_ELSE_AS(false, "store", s);
    WEFT_CHECK_INDEX_ELSE(false, i, s->schema->count);
    return s->schema->entries[i].flat;
}

weft_role weft_store_role(const weft_store *s, int i)
{
    WEFT_NEED_ELSE_AS(WEFT_ROLE_DATA, "store", s);
    WEFT_CHECK_INDEX_ELSE(WEFT_ROLE_DATA, i, s->schema->count);
    return s->schema->entries[i].role;
}

int weft_store_find(const weft_store *s, const char *name)
{
    WEFT_NEED_ELSE_AS(-1, "store, name", s, name);
    return weft_schema_find(s->schema, name);
}

/* The index, in the entry's part, of element i of the whole tensor; -1: the part does not have the
 * element. */
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

/* The random numbers that `draw` takes for an element. */
static uint64_t numbers_for(const weft_init *init)
{
    return init->kind == WEFT_INIT_UNIFORM ? 1 : init->kind == WEFT_INIT_NORMAL ? 2 : 0;
}

static double draw(const weft_init *init, weft_random *random)
{
    if (init->kind == WEFT_INIT_UNIFORM)
        return weft_random_between(random, -init->scale, init->scale);
    if (init->kind != WEFT_INIT_NORMAL) return init->scale;
    double radius = sqrt(-2 * log(1 - weft_random_unit(random))); /* Box and Muller */
    return init->scale * (radius * cos(6.28318530717958647692 * weft_random_unit(random)));
}

/* A tensor that is being filled in blocks of elements. GRAIN: the fewest blocks for a thread. */
enum { BLOCK = 256, GRAIN = 32 };
typedef struct filling {
    const store_entry *entry;
    uint64_t key;
    void *data;
} filling;

static void fill_blocks(void *user, int64_t begin, int64_t end)
{
    const filling *f = user;
    const store_entry *entry = f->entry;
    double block[BLOCK];
    int64_t count = weft_shape_elements(&entry->whole);
    bool part = !weft_shape_equal(&entry->whole, &entry->part.shape);
    weft_random random;
    weft_random_start(&random, f->key, 0);
    /* The generator counts, and a block of elements takes whole blocks of its numbers. */
    random.position = (uint64_t)(begin * BLOCK) * numbers_for(&entry->init);
    for (int64_t at = begin * BLOCK; at < WEFT_MIN(end * BLOCK, count); at += BLOCK) {
        int64_t n = WEFT_MIN((int64_t)BLOCK, count - at), i;
        for (int64_t k = 0; k < n; k++) block[k] = draw(&entry->init, &random);
        if (!part) weft_numbers_put(entry->type.dtype, f->data, at, block, n);
        for (int64_t k = 0; k < n && part; k++)
            if ((i = place_in_part(entry, at + k)) >= 0)
                weft_number_put(entry->type.dtype, f->data, i, block[k]);
    }
}

/* Fills a tensor with initial values, which depend on seed, name and element only: they are equal
 * for every number type, up to rounding, for every division into parts and number of threads. */
static void fill(const weft_store *s, const store_entry *entry, void *data)
{
    filling f = {entry, weft_mix(s->seed, weft_hash_text(entry->name)), data};
    int64_t blocks = (weft_shape_elements(&entry->whole) + BLOCK - 1) / BLOCK;
    weft_parallel(s->schema->devices[0]->threads, blocks, GRAIN, fill_blocks, &f);
}

void weft_store_draw(const weft_store *s, int i, void *data)
{
    fill(s, &s->schema->entries[i], data);
}

static weft_status start_entry(weft_store *s, int i)
{
    store_entry *entry = &s->schema->entries[i];
    void *plain;
    if (entry->init.kind == WEFT_INIT_CONSTANT ? entry->init.scale == 0 : s->blank) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&entry->part), &plain));
    fill(s, entry, plain);
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
            weft_memory_free(&s->slabs[--s->slab_count]);
            return status;
        }
    }
    return WEFT_OK;
}
