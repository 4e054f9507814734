/* Chooses kernels for groups from the tables, and opens devices. */
#include <stdio.h>

#include "device/gpu/gpu.h"

const weft_services *weft_gpu_services;

weft_status gpu_device_open(const gpu_driver *driver, const char *arguments, weft_device **out)
{
    gpu_device *d;
    WEFT_TRY(weft->allocate(sizeof(*d), &d));
    d->head.threads = 1;
    weft_status status = gpu_options_open(driver, arguments, d);
    if (status == WEFT_OK) {
        (void)snprintf(d->hardware, sizeof(d->hardware), "%s: %s; %s", driver->name,
                       d->card->version, d->about);
        d->head.hardware = d->hardware;
        *out = &d->head;
    } else {
        free(d);
    }
    return status;
}

const char *gpu_device_about(const weft_device *device)
{
    return ((const gpu_device *)device)->about;
}

void gpu_device_close(weft_device *device)
{
    gpu_card_give(((gpu_device *)device)->card);
    free(device);
}

void gpu_hardware(const weft_device *device, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", ((const gpu_device *)device)->hardware);
}

static const gpu_entry *const tables[] = {
#define TABLE(file) gpu_##file##_entries,
    GPU_FILES(TABLE)
#undef TABLE
};

static bool is_real(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_BF16;
}

/* Counts elements in 32 bits, as the kernels do, and finds the one real type of all values; false:
 * there are several, one is too large, or this card does not have the type. */
static bool fits(const gpu_device *d, const weft_group *group, weft_value v, bool mixed,
                 weft_dtype *real)
{
    const weft_type *t = weft->value_type(group->graph, v);
    if (weft->elements(&t->shape) >= INT32_MAX) return false;
    if (!is_real(t->dtype)) return true;
    if (t->dtype == WEFT_F64 && !d->card->doubles) return false;
    if (*real == WEFT_DTYPE_COUNT) *real = t->dtype;
    return mixed || (t->dtype == *real && *real != WEFT_BF16);
}

static bool all_fit(const gpu_device *d, const weft_group *group, bool mixed)
{
    weft_dtype real = WEFT_DTYPE_COUNT;
    for (int n = 0; n < group->count; n++) {
        const weft_value *in;
        weft_value out;
        int ins = weft->node_inputs(group->node[n], &in);
        int outs = weft->node_outputs(group->node[n], &out);
        for (int i = 0; i < ins; i++)
            if (!fits(d, group, in[i], mixed, &real)) return false;
        for (int i = 0; i < outs; i++)
            if (!fits(d, group, out + i, mixed, &real)) return false;
    }
    return true;
}

int gpu_candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                   weft_candidate out[WEFT_CANDIDATES])
{
    (void)in;
    const char *op = weft->node_op(group->node[0]);
    int count = 0;
    for (size_t t = 0; t < WEFT_COUNT(tables); t++)
        for (const gpu_entry *e = tables[t]; e->name && count < WEFT_CANDIDATES; e++) {
            if (e->op && strcmp(e->op, op) != 0) continue;
            if (e->supports ? !e->supports(group) : group->count != 1) continue;
            if (!all_fit((gpu_device *)device, group, e->mixed)) continue;
            if (!e->op && count > 0) continue;
            count += gpu_library_candidates((gpu_device *)device, tables[t], e, group, out + count,
                                            WEFT_CANDIDATES - 1 - count);
            out[count++] =
                (weft_candidate){.name = e->name,
                                 .seconds = weft->group_seconds(&device->ops->rates, group),
                                 .how = e};
            if (device->tuned)
                count += gpu_product_ways(tables[t], out + count, WEFT_CANDIDATES - count);
        }
    return count;
}

const char *gpu_type_name(weft_dtype dtype)
{
    static const char *const names[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = "float", [WEFT_F64] = "double", [WEFT_I32] = "int", [WEFT_U8] = "u8",
        [WEFT_BF16] = "u16",  [WEFT_I64] = "i64",    [WEFT_BOOL] = "u8"};
    return names[dtype];
}

/* The type of the group's first real value; f32 if it has none. */
static weft_dtype real_of(const weft_group *group)
{
    for (int n = 0; n < group->count; n++) {
        const weft_value *in;
        weft_value out;
        int ins = weft->node_inputs(group->node[n], &in);
        int outs = weft->node_outputs(group->node[n], &out);
        for (int i = 0; i < ins + outs; i++) {
            weft_value v = i < ins ? in[i] : out + i - ins;
            weft_dtype dtype = weft->value_type(group->graph, v)->dtype;
            if (dtype == WEFT_F32 || dtype == WEFT_F64) return dtype;
        }
    }
    return WEFT_F32;
}

/* Results that nothing reads get scratch memory. */
static void place_unread(gpu_plan *p)
{
    for (int i = 0; p->group->count == 1 && i < p->out_count; i++)
        if (weft->group_out(p->group, p->out + i) < 0)
            p->unread[i] =
                gpu_reserve(p, weft->type_bytes(weft->value_type(p->group->graph, p->out + i)));
}

static weft_status set_layouts(weft_device *device, const weft_group *group, weft_kernel *k)
{
    for (int i = 0; i < group->in_count; i++)
        WEFT_TRY(
            weft->plain_layout(device, weft->value_type(group->graph, group->in[i]), &k->in[i]));
    for (int i = 0; i < group->out_count; i++)
        WEFT_TRY(
            weft->plain_layout(device, weft->value_type(group->graph, group->out[i]), &k->out[i]));
    return WEFT_OK;
}

extern const weft_kernel_ops gpu_kernel_ops;

weft_status gpu_kernel_make(weft_device *device, const weft_group *group,
                            const weft_candidate *candidate, const weft_layout *const *in,
                            weft_kernel **out)
{
    (void)in;
    const gpu_entry *e = candidate->how;
    gpu_kernel *k;
    WEFT_TRY(weft->allocate(sizeof(*k), &k));
    gpu_plan plan = {.kernel = k, .group = group, .node = group->node[0], .way = candidate->name};
    k->head.ops = &gpu_kernel_ops;
    k->device = (gpu_device *)device;
    k->in_count = group->in_count;
    k->out_count = group->out_count;
    (void)snprintf(k->head.text, sizeof(k->head.text), "%s", candidate->name);
    (void)snprintf(k->what, sizeof(k->what), "%s (%s)", weft->node_op(plan.node),
                   weft->node_name(plan.node));
    plan.in_count = weft->node_inputs(plan.node, &plan.in);
    plan.out_count = weft->node_outputs(plan.node, &plan.out);
    plan.real = real_of(group);
    plan.library = gpu_library_of(k->device, candidate);
    place_unread(&plan);
    if (group->count == 1) weft->allow_in_place(group, &k->head);
    if (plan.status == WEFT_OK) e->make(&plan);
    if (plan.status == WEFT_OK) plan.status = set_layouts(device, group, &k->head);
    if (plan.status == WEFT_OK)
        *out = &k->head;
    else
        gpu_kernel_ops.destroy(&k->head);
    return plan.status;
}

/* A kernel of one launch from one value to another, which belongs to no group. */
static weft_status begin_plain(weft_device *device, const char *name, const gpu_text *text,
                               const char *function, gpu_grid grid, gpu_plan *plan)
{
    gpu_kernel *k;
    WEFT_TRY(weft->allocate(sizeof(*k), &k));
    plan->kernel = k;
    k->head.ops = &gpu_kernel_ops;
    k->device = (gpu_device *)device;
    k->in_count = k->out_count = 1;
    (void)snprintf(k->head.text, sizeof(k->head.text), "%s", name);
    (void)snprintf(k->what, sizeof(k->what), "%s", name);
    gpu_launch_add(plan, text, function, grid, "%s", "");
    gpu_group_in(plan, 0);
    gpu_group_out(plan, 0);
    return WEFT_OK;
}

static weft_status end_plain(gpu_plan *plan, const weft_layout *from, const weft_layout *to,
                             weft_kernel **out)
{
    plan->kernel->head.in[0] = from;
    plan->kernel->head.out[0] = to;
    if (plan->status == WEFT_OK)
        *out = &plan->kernel->head;
    else
        gpu_kernel_ops.destroy(&plan->kernel->head);
    return plan->status;
}

weft_status gpu_plain(weft_device *device, const weft_type *type, const weft_layout **out)
{
    return weft->plain_layout(device, type, out);
}

/* All layouts are plain, so a copy is one of bytes. */
weft_status gpu_reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                        const weft_layout *to, weft_kernel **out)
{
    gpu_plan plan = {.real = WEFT_F32};
    int64_t bytes = (int64_t)weft->type_bytes(type);
    WEFT_TRY(
        begin_plain(device, "copy", &gpu_text_shape, "copy_bytes", gpu_line(bytes, 4096), &plan));
    gpu_int(&plan, bytes);
    gpu_guard(&plan);
    return end_plain(&plan, from, to, out);
}

weft_status gpu_watch(weft_device *device, const weft_type *type, weft_kernel **out)
{
    const weft_layout *from, *to;
    const weft_type flag = {.dtype = WEFT_I32};
    gpu_plan plan = {.real = type->dtype};
    if (type->dtype != WEFT_F32 && type->dtype != WEFT_F64)
        return weft->fail(WEFT_ERR_UNSUPPORTED, "only f32 and f64 are watched");
    size_t count = weft->type_bytes(type) / (type->dtype == WEFT_F64 ? 8 : 4);
    WEFT_TRY(weft->plain_layout(device, type, &from));
    WEFT_TRY(weft->plain_layout(device, &flag, &to));
    WEFT_TRY(
        begin_plain(device, "watch", &gpu_text_update, "watch", gpu_rows((int64_t)count), &plan));
    return end_plain(&plan, from, to, out);
}
