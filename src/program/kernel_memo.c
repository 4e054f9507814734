/* Remembers the kernels of a program that is only planned: groups that are alike in all that a
 * kernel may depend on share one, so that layers which repeat cost little. A program that runs has
 * a kernel for each instruction; the bytes by which the plan has fewer are counted. */
#include "program/kernel_memo.h"

enum { BUCKETS = 1024 };

typedef struct memo_entry {
    uint64_t *key;
    size_t size;
    weft_kernel *kernel;
    weft_device *device;
    weft_candidate candidate;
    const weft_layout *in[WEFT_GROUP_VALUES];
    weft_type type; /* reorder: of the value that goes from layout in[0] to `to` */
    const weft_layout *to;
    size_t bytes;   /* of another kernel like this one; SIZE_MAX: not measured yet */
    int next, like; /* entries of the same bucket by key and by kernel, or -1 */
    int number;     /* among the kernels that instructions have; -1: none has it */
} memo_entry;

struct kernel_memo {
    memo_entry *entries;
    size_t count, capacity;
    int first[BUCKETS], by_kernel[BUCKETS]; /* -1: none */
    int used;                               /* kernels that instructions have */
    uint64_t *key;                          /* of the group that is asked for */
    size_t size, key_capacity;
};

weft_status weft_kernel_memo_new(kernel_memo **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    for (int i = 0; i < BUCKETS; i++) (*out)->first[i] = (*out)->by_kernel[i] = -1;
    return WEFT_OK;
}

/* --- keys --- */

static weft_status put(kernel_memo *m, uint64_t word)
{
    WEFT_TRY(WEFT_GROW(&m->key, &m->key_capacity, m->size));
    m->key[m->size++] = word;
    return WEFT_OK;
}

/* The number of a value within its group: inputs, then results of nodes; -1: it is outside. */
static int number_of(const weft_group *group, weft_value v)
{
    int count = group->in_count, at = v == WEFT_NO_VALUE ? -1 : weft_group_in(group, v);
    for (int n = 0; n < group->count && at < 0 && v != WEFT_NO_VALUE; n++) {
        const weft_node *node = group->node[n];
        if (v >= node->out && v < node->out + node->out_count) at = count + (int)(v - node->out);
        count += node->out_count;
    }
    return at;
}

static weft_status put_value(kernel_memo *m, const weft_group *group, weft_value v)
{
    const weft_value_info *info = &group->graph->values[v];
    uint64_t about = (uint64_t)info->kind << 16 | (uint64_t)info->type.dtype << 8 |
                     (uint64_t)info->type.shape.rank;
    about = about << 2 | (uint64_t)info->weight << 1 | (info->assigned != WEFT_NO_VALUE);
    WEFT_TRY(put(m, about));
    WEFT_TRY(put(m, (uint64_t)number_of(group, info->assigned)));
    for (int d = 0; d < info->type.shape.rank; d++)
        WEFT_TRY(put(m, (uint64_t)info->type.shape.dim[d]));
    return WEFT_OK;
}

/* *known: the attributes of the node are numbers, which the key has. */
static weft_status put_attrs(kernel_memo *m, const weft_node *node, bool *known)
{
    WEFT_TRY(put(m, (uint64_t)node->attr_count));
    for (int a = 0; a < node->attr_count; a++) {
        const weft_attr *attr = &node->attrs[a];
        uint64_t real;
        memcpy(&real, &attr->real, sizeof(real));
        *known = *known && attr->count >= 0;
        WEFT_TRY(put(m, weft_hash_text(attr->name)));
        WEFT_TRY(put(m, (uint64_t)attr->count));
        WEFT_TRY(put(m, real));
        for (int i = 0; i < attr->count; i++) WEFT_TRY(put(m, (uint64_t)attr->ints[i]));
    }
    return WEFT_OK;
}

static weft_status put_node(kernel_memo *m, const weft_group *group, const weft_node *node,
                            bool *known)
{
    WEFT_TRY(put(m, (uint64_t)(uintptr_t)node->op));
    WEFT_TRY(put(m, (uint64_t)node->phase << 1 | node->recomputed));
    WEFT_TRY(put(m, (uint64_t)node->in_count << 32 | (uint64_t)node->out_count));
    WEFT_TRY(put_attrs(m, node, known));
    for (int i = 0; i < node->in_count; i++)
        WEFT_TRY(put(m, (uint64_t)number_of(group, node->in[i])));
    for (int o = 0; o < node->out_count; o++) WEFT_TRY(put_value(m, group, node->out + o));
    return WEFT_OK;
}

static weft_status put_group(kernel_memo *m, const weft_device *device, int option,
                             const weft_group *group, const weft_layout *const *in, bool *known)
{
    m->size = 0;
    WEFT_TRY(put(m, (uint64_t)(uintptr_t)device));
    WEFT_TRY(put(m, (uint64_t)option));
    WEFT_TRY(put(m, (uint64_t)group->count << 32 | (uint64_t)group->in_count << 16 |
                        (uint64_t)group->out_count));
    for (int i = 0; i < group->in_count; i++) {
        WEFT_TRY(put_value(m, group, group->in[i]));
        WEFT_TRY(put(m, (uint64_t)(uintptr_t)in[i]));
    }
    for (int n = 0; n < group->count; n++) WEFT_TRY(put_node(m, group, group->node[n], known));
    for (int o = 0; o < group->out_count; o++)
        WEFT_TRY(put(m, (uint64_t)number_of(group, group->out[o])));
    return WEFT_OK;
}

static weft_status put_reorder(kernel_memo *m, const weft_device *device, const weft_type *type,
                               const weft_layout *from, const weft_layout *to)
{
    m->size = 0;
    WEFT_TRY(put(m, (uint64_t)(uintptr_t)device));
    WEFT_TRY(put(m, UINT64_MAX)); /* no option */
    WEFT_TRY(put(m, (uint64_t)(uintptr_t)from));
    WEFT_TRY(put(m, (uint64_t)(uintptr_t)to));
    WEFT_TRY(put(m, (uint64_t)type->dtype));
    for (int d = 0; d < type->shape.rank; d++) WEFT_TRY(put(m, (uint64_t)type->shape.dim[d]));
    return WEFT_OK;
}

static int *bucket_of(kernel_memo *m)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < m->size; i++) hash = weft_mix(hash, m->key[i]);
    return &m->first[hash % BUCKETS];
}

static int *bucket_of_kernel(kernel_memo *m, const weft_kernel *kernel)
{
    return &m->by_kernel[weft_mix(0, (uint64_t)(uintptr_t)kernel) % BUCKETS];
}

/* --- entries --- */

/* The kernel of the key, or NULL. */
static weft_kernel *find(const kernel_memo *m, int first)
{
    for (int i = first; i >= 0; i = m->entries[i].next) {
        const memo_entry *e = &m->entries[i];
        if (e->size == m->size && memcmp(e->key, m->key, m->size * sizeof(*m->key)) == 0)
            return e->kernel;
    }
    return NULL;
}

/* Makes the kernel of an entry once more. */
static weft_status make(const memo_entry *e, const weft_group *group, weft_kernel **out)
{
    return e->to ? weft_device_reorder(e->device, &e->type, e->in[0], e->to, out)
                 : weft_device_kernel(e->device, group, &e->candidate, e->in, out);
}

/* Makes the kernel of the key, and adds the entry. */
static weft_status add(kernel_memo *m, int *bucket, memo_entry *e, const weft_group *group)
{
    WEFT_TRY(WEFT_GROW(&m->entries, &m->capacity, m->count));
    WEFT_TRY(make(e, group, &e->kernel));
    weft_status status = WEFT_NEW(&e->key, m->size);
    if (status != WEFT_OK) {
        e->kernel->ops->destroy(e->kernel);
        return status;
    }
    int *like = bucket_of_kernel(m, e->kernel);
    memcpy(e->key, m->key, m->size * sizeof(*m->key));
    e->size = m->size;
    e->bytes = SIZE_MAX;
    e->number = -1;
    e->next = *bucket;
    e->like = *like;
    m->entries[m->count] = *e;
    *bucket = *like = (int)m->count++;
    return WEFT_OK;
}

weft_status weft_kernel_memo_get(kernel_memo *m, weft_device *device, int option,
                                 const weft_group *group, const weft_candidate *candidate,
                                 const weft_layout *const *in, weft_kernel **out)
{
    bool known = true;
    WEFT_TRY(put_group(m, device, option, group, in, &known));
    int *bucket = bucket_of(m);
    *out = known ? find(m, *bucket) : NULL;
    if (*out) return WEFT_OK;
    memo_entry e = {.device = device, .candidate = *candidate};
    memcpy((void *)e.in, (const void *)in, (size_t)group->in_count * sizeof(*in));
    WEFT_TRY(add(m, bucket, &e, group));
    *out = e.kernel;
    return WEFT_OK;
}

weft_status weft_kernel_memo_reorder(kernel_memo *m, weft_device *device, const weft_type *type,
                                     const weft_layout *from, const weft_layout *to,
                                     weft_kernel **out)
{
    WEFT_TRY(put_reorder(m, device, type, from, to));
    int *bucket = bucket_of(m);
    *out = find(m, *bucket);
    if (*out) return WEFT_OK;
    memo_entry e = {.device = device, .in = {from}, .to = to, .type = *type};
    WEFT_TRY(add(m, bucket, &e, NULL));
    *out = e.kernel;
    return WEFT_OK;
}

/* The bytes of a kernel are those of a second one, since libraries keep some with the first. */
static weft_status measure(memo_entry *e, const weft_group *group)
{
    weft_kernel *second;
    size_t before = weft_allocated_memory();
    WEFT_TRY(make(e, group, &second));
    e->bytes = weft_allocated_memory() - before;
    second->ops->destroy(second);
    return WEFT_OK;
}

weft_status weft_kernel_memo_use(kernel_memo *m, const weft_kernel *kernel, const weft_group *group,
                                 size_t *saved, int *number)
{
    int i = *bucket_of_kernel(m, kernel);
    while (m->entries[i].kernel != kernel) i = m->entries[i].like;
    memo_entry *e = &m->entries[i];
    if (e->number < 0) {
        e->number = m->used++;
    } else if (saved) {
        if (e->bytes == SIZE_MAX) WEFT_TRY(measure(e, group));
        *saved += e->bytes;
    }
    *number = e->number;
    return WEFT_OK;
}

weft_status weft_kernel_memo_close(kernel_memo **memo, weft_kernel ***kernels, size_t *count)
{
    kernel_memo *m = *memo;
    *memo = NULL;
    weft_status status = WEFT_NEW(kernels, m->used + 1);
    *count = status == WEFT_OK ? (size_t)m->used : 0;
    for (size_t i = 0; i < m->count; i++) {
        memo_entry *e = &m->entries[i];
        if (e->number >= 0 && *kernels)
            (*kernels)[e->number] = e->kernel;
        else
            e->kernel->ops->destroy(e->kernel);
        free(e->key);
    }
    free(m->entries);
    free(m->key);
    free(m);
    return status;
}
