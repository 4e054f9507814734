/* Makes small stores that stand for large ones, to play exchanges without their numbers. */
#include "program/program.h"

/* The parameters in the order of their memory. */
static int by_place(const void *a, const void *b)
{
    const store_entry *x = *(const store_entry *const *)a, *y = *(const store_entry *const *)b;
    if (x->slab != y->slab) return x->slab - y->slab;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Adds the short vector of a parameter. The vector of a part of a tensor is a part, too. */
static weft_status add(schema *s, const store_entry *of, double scale)
{
    double elements = (double)of->layout->bytes / (double)weft_dtype_size(of->type.dtype) / scale;
    int64_t count = WEFT_MAX((int64_t)(elements + 0.5), (int64_t)1);
    bool part = !weft_shape_equal(&of->whole, &of->part.shape);
    WEFT_TRY(WEFT_GROW(&s->entries, &s->capacity, s->count));
    store_entry e = {.type = {of->type.dtype, weft_shape_of(1, &count)},
                     .kind = WEFT_VALUE_PARAM,
                     .init = {WEFT_INIT_CONSTANT, 0},
                     .role = of->role,
                     .idle = of->idle,
                     .whole = weft_shape_of(1, (int64_t[]){part ? 2 * count : count}),
                     .slab = -1};
    e.part = e.type;
    WEFT_TRY(weft_device_plain(schema_store_device(s), &e.type, &e.layout));
    WEFT_TRY(weft_strdup(of->name, &e.name));
    weft_status status = weft_names_add(&s->names, e.name, (int)s->count);
    if (status == WEFT_OK)
        s->entries[s->count++] = e;
    else
        free(e.name);
    return status;
}

static weft_status fill(weft_store *store, const store_entry **from, int count, double scale)
{
    int *order;
    WEFT_TRY(WEFT_NEW(&order, count + 1));
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        order[i] = i;
        status = add(store->schema, from[i], scale);
    }
    if (status == WEFT_OK) status = weft_schema_place(store->schema, order, count);
    free(order);
    return status == WEFT_OK ? weft_store_fill(store) : status;
}

weft_status weft_store_shrink(const weft_program *program, double scale, weft_store **out)
{
    const schema *s = program->schema;
    const store_entry **from;
    int count = 0;
    WEFT_TRY(weft_new_bytes((void *)&from, s->count + 1, sizeof(*from)));
    for (size_t i = 0; i < s->count; i++)
        if (s->entries[i].kind == WEFT_VALUE_PARAM && s->entries[i].slab >= 0)
            from[count++] = &s->entries[i];
    qsort((void *)from, (size_t)count, sizeof(*from), by_place);
    weft_status status = weft_store_create(s->context, s->devices[0]->ops->name, 0, out);
    if (status == WEFT_OK) status = fill(*out, from, count, scale);
    if (status != WEFT_OK) weft_store_destroy(out);
    free((void *)from);
    return status;
}

int64_t weft_program_elements(const weft_program *program, bool plain)
{
    const schema *s = program->schema;
    int64_t elements = 0;
    size_t size = 1;
    for (size_t i = 0; i < s->count; i++) {
        const store_entry *e = &s->entries[i];
        if (e->kind != WEFT_VALUE_PARAM || e->slab < 0) continue;
        size = weft_dtype_size(e->type.dtype);
        elements += weft_shape_elements(&e->type.shape);
    }
    return plain ? elements : (int64_t)(s->parameter_bytes / size);
}
