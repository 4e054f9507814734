/* Creates and binds the two kinds of kernels of the cpu device: one oneDNN primitive, or one
 * loop. */
#include <math.h>
#include <stdio.h>

#include "device/cpu/cpu.h"

/* --- one primitive --- */

typedef struct primitive_bound {
    weft_bound head;
    onednn_run *run;
    const float *folded[4]; /* gamma, beta, mean, variance of the fold */
    float *scale, *shift;
    const void *x; /* for `after` */
    void *y;
} primitive_bound;

static const cpu_primitive *primitive_of(const weft_bound *bound)
{
    return (const cpu_primitive *)bound->kernel;
}

static weft_status primitive_place(weft_bound *bound, const weft_address *in,
                                   const weft_address *out, weft_address scratch)
{
    primitive_bound *b = (primitive_bound *)bound;
    const cpu_primitive *k = primitive_of(bound);
    const cpu_fold *fold = &k->fold;
    if (fold->channels > 0) {
        b->scale = weft_host(weft_beyond(scratch, fold->offset));
        b->shift = b->scale + fold->channels;
        for (int i = 0; i < 4; i++) b->folded[i] = weft_host(in[fold->operand[i]]);
    }
    for (int i = 0; i < k->count; i++) {
        void *data = weft_host(scratch);
        if (k->args[i].place == CPU_SCALE) data = b->scale;
        if (k->args[i].place == CPU_SHIFT) data = b->shift;
        if (k->args[i].place == CPU_IN) data = weft_host(in[k->args[i].index]);
        if (k->args[i].place == CPU_OUT) data = weft_host(out[k->args[i].index]);
        if (k->args[i].role == ONEDNN_X) b->x = data;
        if (k->args[i].role == ONEDNN_Y) b->y = data;
        WEFT_TRY(onednn_run_place(b->run, i, data));
    }
    return WEFT_OK;
}

static void refresh_fold(const cpu_fold *f, const primitive_bound *b)
{
    const float *gamma = b->folded[0], *beta = b->folded[1], *mean = b->folded[2];
    const float *variance = b->folded[3];
    for (int64_t c = 0; c < f->channels; c++) {
        double scale = (double)gamma[c] / sqrt((double)variance[c] + f->epsilon);
        b->scale[c] = (float)scale;
        b->shift[c] = (float)((double)beta[c] - (double)mean[c] * scale);
    }
}

static weft_status primitive_run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    primitive_bound *b = (primitive_bound *)bound;
    const cpu_primitive *k = primitive_of(bound);
    if (k->fold.channels > 0) refresh_fold(&k->fold, b);
    WEFT_TRY(weft_parallel_threads(k->threads));
    WEFT_TRY(onednn_run_go(b->run));
    if (k->after) k->after(k, b->x, b->y);
    return WEFT_OK;
}

static void primitive_unbind(weft_bound *bound)
{
    onednn_run_free(((primitive_bound *)bound)->run);
    free(bound);
}

static const weft_bound_ops primitive_bound_ops = {
    .place = primitive_place, .run = primitive_run, .destroy = primitive_unbind};

static weft_status make_run(primitive_bound *b)
{
    const cpu_primitive *k = primitive_of(&b->head);
    WEFT_TRY(onednn_run_new(k->primitive, k->count, &b->run));
    for (int i = 0; i < k->count; i++)
        WEFT_TRY(onednn_run_take(b->run, i, k->args[i].role, k->args[i].md));
    return WEFT_OK;
}

static weft_status primitive_bind(const weft_kernel *kernel, weft_bound **out)
{
    weft_bound *bound;
    WEFT_TRY(weft_bound_new(kernel, &primitive_bound_ops, sizeof(primitive_bound), &bound));
    weft_status status = weft_reserve_enter();
    if (status == WEFT_OK) {
        status = make_run((primitive_bound *)bound);
        weft_reserve_leave();
    }
    if (status == WEFT_OK)
        *out = bound;
    else
        primitive_unbind(bound);
    return status;
}

static void primitive_destroy(weft_kernel *kernel)
{
    cpu_primitive *k = (cpu_primitive *)kernel;
    onednn_drop(k->primitive);
    free(k);
}

static const weft_kernel_ops primitive_ops = {.bind = primitive_bind, .destroy = primitive_destroy};

weft_status cpu_primitive_add(cpu_primitive *k, onednn_role role, cpu_md md, cpu_place place,
                              int index)
{
    if (k->count == CPU_MAX_ARGS)
        return weft_fail(WEFT_ERR_INTERNAL, "a primitive has more than %d arguments", CPU_MAX_ARGS);
    k->args[k->count].role = role;
    k->args[k->count].md = md;
    k->args[k->count].place = place;
    k->args[k->count++].index = index;
    return WEFT_OK;
}

static weft_status fill(cpu_primitive *k, const cpu_arg *args, int count)
{
    cpu_md md;
    for (int i = 0; i < count; i++) {
        const cpu_arg *a = &args[i];
        WEFT_TRY(onednn_wants(k->primitive, a->role, &md));
        if (!md) return weft_fail(WEFT_ERR_INTERNAL, "a primitive lacks operand %d", (int)a->role);
        const weft_layout **layout =
            a->place == CPU_IN ? &k->head.in[a->operand] : &k->head.out[a->operand];
        WEFT_TRY(cpu_layout_of(k->device, md, a->plain, a->opaque, layout));
        WEFT_TRY(cpu_primitive_add(k, a->role, md, a->place, a->operand));
    }
    WEFT_TRY(onednn_wants(k->primitive, ONEDNN_SCRATCH, &md));
    if (md && onednn_md_bytes(md) > 0) {
        k->head.scratch = onednn_md_bytes(md);
        WEFT_TRY(cpu_primitive_add(k, ONEDNN_SCRATCH, md, CPU_SCRATCH, 0));
    }
    const char *name = onednn_name(k->primitive);
    if (name) (void)snprintf(k->head.text, sizeof(k->head.text), "%s", name);
    return onednn_build(k->primitive);
}

weft_status cpu_primitive_make(weft_device *device, onednn_primitive *described,
                               const cpu_arg *args, int count, weft_kernel **out)
{
    cpu_primitive *k;
    weft_status status = WEFT_NEW(&k, 1);
    if (status != WEFT_OK) {
        onednn_drop(described);
        return status;
    }
    k->head.ops = &primitive_ops;
    k->device = device;
    k->primitive = described;
    k->threads = weft_parallel_current();
    status = fill(k, args, count);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        primitive_destroy(&k->head);
    return status;
}

weft_status cpu_spec_make(weft_device *device, const onednn_spec *spec, const cpu_arg *args,
                          int count, weft_kernel **out)
{
    onednn_primitive *described;
    WEFT_TRY(onednn_describe(cpu_onednn(device), spec, &described));
    return cpu_primitive_make(device, described, args, count, out);
}

/* --- one loop --- */

/* A copy of the kernel's struct with the addresses of its operands. */
typedef struct loop_bound {
    weft_bound head;
    cpu_loop loop;
} loop_bound;

static weft_status loop_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                              weft_address scratch)
{
    cpu_loop *k = &((loop_bound *)bound)->loop;
    const weft_node *node = k->group.node[0];
    k->in[0] = weft_host(in[0]);
    k->result = weft_host(out[0]);
    if (!node) return WEFT_OK; /* a reorder */
    for (int i = 0; i < node->in_count; i++)
        k->in[i] = weft_host(in[weft_group_in(&k->group, node->in[i])]);
    weft_kernel_unread_bind(&k->group, bound->kernel, out, scratch, k->out);
    int sum = k->group.count == 2 ? weft_group_out(&k->group, k->group.node[1]->out) : -1;
    k->bias = k->bias_at > 0 ? weft_host(in[k->bias_at - 1]) : NULL;
    k->sum = sum < 0 ? NULL : weft_host(out[sum]);
    k->scratch = weft_host(scratch);
    return WEFT_OK;
}

static weft_status loop_run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    const cpu_loop *k = &((loop_bound *)bound)->loop;
    k->fn(k);
    return WEFT_OK;
}

static void loop_unbind(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops loop_bound_ops = {
    .place = loop_place, .run = loop_run, .destroy = loop_unbind};

static weft_status loop_bind(const weft_kernel *kernel, weft_bound **out)
{
    WEFT_TRY(weft_bound_new(kernel, &loop_bound_ops, sizeof(loop_bound), out));
    ((loop_bound *)*out)->loop = *(const cpu_loop *)kernel;
    return WEFT_OK;
}

static void loop_destroy(weft_kernel *kernel)
{
    free(((cpu_loop *)kernel)->table);
    free(kernel);
}

static const weft_kernel_ops loop_ops = {.bind = loop_bind, .destroy = loop_destroy};

weft_status cpu_loop_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          cpu_loop **out)
{
    cpu_loop *k;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &loop_ops;
    k->fn = fn;
    k->group = *group;
    k->threads = device->threads;
    k->pairs = ((const cpu_device *)device)->narrow ? TILE_PAIRS_DOT : TILE_PAIRS;
    memcpy(k->head.text, "loop", sizeof("loop"));
    weft_kernel_in_place(group, &k->head);
    *out = k;
    return WEFT_OK;
}

weft_status cpu_plain_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                           size_t scratch, cpu_loop **out)
{
    const weft_graph *g = group->graph;
    cpu_loop *k;
    WEFT_TRY(cpu_loop_make(device, group, fn, &k));
    weft_status status = WEFT_OK;
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++)
        status = weft_layout_plain(device, weft_value_type(g, group->in[i]), &k->head.in[i]);
    for (int i = 0; i < group->out_count && status == WEFT_OK; i++)
        status = weft_layout_plain(device, weft_value_type(g, group->out[i]), &k->head.out[i]);
    if (status != WEFT_OK) {
        loop_destroy(&k->head);
        return status;
    }
    k->head.scratch = scratch;
    weft_kernel_unread_size(group, &k->head);
    *out = k;
    return WEFT_OK;
}
