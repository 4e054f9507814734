/* Computes single nodes with bf16 values by a kernel of this device for f32: operands are converted
 * to f32 in scratch memory, and results are rounded from there. Such a kernel passes over memory
 * more often than a kernel for bf16, so it is taken where there is none. */
#include "device/cpu/in_f32.h"

enum { GRAIN = 16384 };

/* How a value of the group is brought to the inner kernel: as it is; rounded, in the layout of the
 * inner kernel, into a copy at `copy` in scratch memory; or if it is bf16 through an f32 copy there
 * and, if the inner kernel wants another layout than plain, a second one at `laid`, between which
 * `reorder` copies. */
typedef struct way {
    weft_widen_way way;
    int64_t count; /* numbers of the copy */
    size_t copy, laid;
    weft_kernel *reorder;
} way;

typedef struct wide_kernel {
    weft_kernel head;
    weft_group group, clone;
    weft_kernel *inner;
    way in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES];
    int threads;
} wide_kernel;

/* A step before or after the inner kernel. */
typedef struct conversion {
    void *own;
    float *wide;
    int64_t count;
    weft_bound *reorder; /* NULL: none */
} conversion;

typedef struct wide_bound {
    weft_bound head;
    weft_bound *inner;
    conversion in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES]; /* count 0: none */
} wide_bound;

static const wide_kernel *kernel_of(const weft_bound *bound)
{
    return (const wide_kernel *)bound->kernel;
}

static const weft_type *type_in(const wide_kernel *k, int i)
{
    return weft_value_type(k->group.graph, k->group.in[i]);
}

static const weft_type *type_out(const wide_kernel *k, int o)
{
    return weft_value_type(k->group.graph, k->group.out[o]);
}

/* --- runs --- */

/* Sets *inner to the address that the inner kernel gets for a value. */
static weft_status place_value(const way *w, weft_address at, weft_address scratch, bool out,
                               conversion *c, weft_address *inner)
{
    *inner = at;
    if (w->way == WEFT_WIDEN_NOT) return WEFT_OK;
    weft_address copy = weft_beyond(scratch, w->copy), laid = weft_beyond(scratch, w->laid);
    c->own = weft_host(at);
    c->wide = weft_host(copy);
    c->count = w->count;
    *inner = w->reorder ? laid : copy;
    if (!w->reorder) return WEFT_OK;
    return weft_bound_place(c->reorder, out ? &laid : &copy, out ? &copy : &laid, scratch);
}

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    wide_bound *b = (wide_bound *)bound;
    const wide_kernel *k = kernel_of(bound);
    weft_address wide_in[WEFT_GROUP_VALUES], wide_out[WEFT_GROUP_VALUES];
    for (int i = 0; i < k->group.in_count; i++)
        WEFT_TRY(place_value(&k->in[i], in[i], scratch, false, &b->in[i], &wide_in[i]));
    for (int o = 0; o < k->group.out_count; o++)
        WEFT_TRY(place_value(&k->out[o], out[o], scratch, true, &b->out[o], &wide_out[o]));
    return weft_bound_place(b->inner, wide_in, wide_out, scratch);
}

static void widen_part(void *user, int64_t begin, int64_t end)
{
    const conversion *c = user;
    weft_widen_from((const uint16_t *)c->own + begin, c->wide + begin, end - begin);
}

static void round_part(void *user, int64_t begin, int64_t end)
{
    const conversion *c = user;
    weft_widen_round((const float *)c->own + begin, c->wide + begin, end - begin);
}

static void narrow_part(void *user, int64_t begin, int64_t end)
{
    const conversion *c = user;
    weft_widen_to(c->wide + begin, (uint16_t *)c->own + begin, end - begin);
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    wide_bound *b = (wide_bound *)bound;
    const wide_kernel *k = kernel_of(bound);
    for (int i = 0; i < k->group.in_count; i++) {
        if (b->in[i].count == 0) continue;
        weft_parallel(k->threads, b->in[i].count, GRAIN,
                      k->in[i].way == WEFT_WIDEN_ROUND ? round_part : widen_part, &b->in[i]);
        if (b->in[i].reorder) WEFT_TRY(weft_bound_run(b->in[i].reorder, queue));
    }
    WEFT_TRY(weft_bound_run(b->inner, queue));
    for (int o = 0; o < k->group.out_count; o++) {
        if (b->out[o].count == 0) continue;
        if (b->out[o].reorder) WEFT_TRY(weft_bound_run(b->out[o].reorder, queue));
        weft_parallel(k->threads, b->out[o].count, GRAIN, narrow_part, &b->out[o]);
    }
    return WEFT_OK;
}

static void unbind(weft_bound *bound)
{
    wide_bound *b = (wide_bound *)bound;
    if (b->inner) b->inner->ops->destroy(b->inner);
    for (int v = 0; v < WEFT_GROUP_VALUES; v++) {
        if (b->in[v].reorder) b->in[v].reorder->ops->destroy(b->in[v].reorder);
        if (b->out[v].reorder) b->out[v].reorder->ops->destroy(b->out[v].reorder);
    }
    free(b);
}

static const weft_bound_ops bound_ops = {.place = place, .run = run, .destroy = unbind};

static weft_status bind_all(const wide_kernel *k, wide_bound *b)
{
    WEFT_TRY(weft_kernel_bind(k->inner, &b->inner));
    for (int i = 0; i < k->group.in_count; i++)
        if (k->in[i].reorder) WEFT_TRY(weft_kernel_bind(k->in[i].reorder, &b->in[i].reorder));
    for (int o = 0; o < k->group.out_count; o++)
        if (k->out[o].reorder) WEFT_TRY(weft_kernel_bind(k->out[o].reorder, &b->out[o].reorder));
    return WEFT_OK;
}

static weft_status bind(const weft_kernel *kernel, weft_bound **out)
{
    weft_bound *bound;
    WEFT_TRY(weft_bound_new(kernel, &bound_ops, sizeof(wide_bound), &bound));
    weft_status status = bind_all((const wide_kernel *)kernel, (wide_bound *)bound);
    if (status == WEFT_OK)
        *out = bound;
    else
        unbind(bound);
    return status;
}

static void destroy(weft_kernel *kernel)
{
    wide_kernel *k = (wide_kernel *)kernel;
    if (k->inner) k->inner->ops->destroy(k->inner);
    for (int v = 0; v < WEFT_GROUP_VALUES; v++) {
        if (k->in[v].reorder) k->in[v].reorder->ops->destroy(k->in[v].reorder);
        if (k->out[v].reorder) k->out[v].reorder->ops->destroy(k->out[v].reorder);
    }
    weft_widen_free(&k->clone);
    free(k);
}

static const weft_kernel_ops kernel_ops = {.bind = bind, .destroy = destroy};

/* --- creation --- */

/* The first kernel for f32 that can be made. */
static weft_status make_inner(weft_device *device, const weft_layout *const *in, wide_kernel *k)
{
    const weft_layout *wanted[WEFT_GROUP_VALUES];
    weft_candidate list[WEFT_CANDIDATES];
    for (int i = 0; i < k->clone.in_count; i++) {
        wanted[i] = in[i];
        if (type_in(k, i)->dtype == WEFT_BF16)
            WEFT_TRY(weft_layout_plain(device, weft_value_type(k->clone.graph, k->clone.in[i]),
                                       &wanted[i]));
    }
    int count = cpu_candidates(device, &k->clone, wanted, list);
    weft_status status = weft_fail(WEFT_ERR_UNSUPPORTED, "there is no kernel for f32");
    for (int c = 0; c < count && status == WEFT_ERR_UNSUPPORTED; c++)
        status = cpu_kernel(device, &k->clone, &list[c], wanted, &k->inner);
    return status;
}

/* Reserves the copies of a value from *at on, and makes the reorder between them. */
static weft_status lay_value(weft_device *device, const weft_type *type, const weft_layout *inner,
                             bool out, size_t *at, way *w, const weft_layout **layout)
{
    const weft_type wide = {WEFT_F32, type->shape};
    const weft_layout *plain;
    *layout = inner;
    if (w->way == WEFT_WIDEN_NOT) return WEFT_OK;
    w->copy = *at;
    w->count = w->way == WEFT_WIDEN_ROUND ? (int64_t)(inner->bytes / sizeof(float))
                                          : weft_shape_elements(&type->shape);
    *at += ((size_t)w->count * sizeof(float) + 63) / 64 * 64;
    if (w->way == WEFT_WIDEN_ROUND) return WEFT_OK;
    WEFT_TRY(weft_layout_plain(device, type, layout));
    if (inner->plain) return WEFT_OK;
    if (inner->opaque)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "a layout for f32 cannot be converted");
    WEFT_TRY(weft_layout_plain(device, &wide, &plain));
    w->laid = *at;
    *at += (inner->bytes + 63) / 64 * 64;
    return cpu_reorder(device, &wide, out ? inner : plain, out ? plain : inner, &w->reorder);
}

/* Scratch memory: that of the inner kernel and of the reorders, which take turns, then the
 * copies. */
static weft_status lay_out(weft_device *device, wide_kernel *k)
{
    size_t at = 0, most = k->inner->scratch;
    for (int i = 0; i < k->group.in_count; i++) k->in[i].way = weft_widen_operand(&k->group, i);
    for (int o = 0; o < k->group.out_count; o++)
        if (type_out(k, o)->dtype == WEFT_BF16) k->out[o].way = WEFT_WIDEN_FROM;
    for (int i = 0; i < k->group.in_count; i++)
        WEFT_TRY(lay_value(device, type_in(k, i), k->inner->in[i], false, &at, &k->in[i],
                           &k->head.in[i]));
    for (int o = 0; o < k->group.out_count; o++)
        WEFT_TRY(lay_value(device, type_out(k, o), k->inner->out[o], true, &at, &k->out[o],
                           &k->head.out[o]));
    for (int v = 0; v < WEFT_GROUP_VALUES; v++) {
        if (k->in[v].reorder) most = WEFT_MAX(most, k->in[v].reorder->scratch);
        if (k->out[v].reorder) most = WEFT_MAX(most, k->out[v].reorder->scratch);
    }
    most = (most + 63) / 64 * 64;
    for (int v = 0; v < WEFT_GROUP_VALUES; v++) {
        k->in[v].copy += most;
        k->in[v].laid += most;
        k->out[v].copy += most;
        k->out[v].laid += most;
    }
    k->head.scratch = most + at;
    return WEFT_OK;
}

static weft_status make(weft_device *device, const weft_group *group, const weft_layout *const *in,
                        weft_kernel **out)
{
    wide_kernel *k;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &kernel_ops;
    k->group = *group;
    k->threads = device->threads;
    weft_status status = weft_widen_make(group, &k->clone);
    if (status == WEFT_OK) status = make_inner(device, in, k);
    if (status == WEFT_OK) status = lay_out(device, k);
    if (status != WEFT_OK) {
        destroy(&k->head);
        return status;
    }
    memcpy(k->head.text, "in f32", sizeof("in f32"));
    *out = &k->head;
    return WEFT_OK;
}

static bool supports(const weft_group *group)
{
    return weft_widen_needs(group);
}

const cpu_entry cpu_in_f32_entry = {NULL, "in f32", supports, make, NULL, CPU_ANY};

bool cpu_in_f32_has(weft_device *device, const weft_group *group)
{
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate list[WEFT_CANDIDATES];
    weft_group clone;
    if (!weft_widen_needs(group) || weft_widen_make(group, &clone) != WEFT_OK) return false;
    bool has = cpu_candidates(device, &clone, in, list) > 0;
    weft_widen_free(&clone);
    return has;
}
