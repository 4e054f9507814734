/* Kernels that are one primitive, and kernels that are one loop. */
#include <math.h>
#include <stdio.h>

#include "device/cpu/cpu.h"

/* --- one primitive --- */

typedef struct primitive_bound {
    weft_bound head;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[CPU_MAX_ARGS];
    const float *folded[4]; /* operands of the kernel's fold */
    float *scale, *shift;
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
        DNNL_TRY(dnnl_memory_set_data_handle(b->args[i].memory, data));
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
    DNNL_TRY(dnnl_primitive_execute(k->primitive, b->stream, k->count, b->args));
    return WEFT_OK;
}

static void primitive_unbind(weft_bound *bound)
{
    primitive_bound *b = (primitive_bound *)bound;
    for (int i = 0; i < primitive_of(bound)->count; i++)
        if (b->args[i].memory) dnnl_memory_destroy(b->args[i].memory);
    if (b->stream) dnnl_stream_destroy(b->stream);
    free(b);
}

static const weft_bound_ops primitive_bound_ops = {
    .place = primitive_place, .run = primitive_run, .destroy = primitive_unbind};

static weft_status make_memories(primitive_bound *b)
{
    const cpu_primitive *k = primitive_of(&b->head);
    DNNL_TRY(dnnl_stream_create(&b->stream, k->device->engine, dnnl_stream_default_flags));
    for (int i = 0; i < k->count; i++) {
        b->args[i].arg = k->args[i].arg;
        DNNL_TRY(dnnl_memory_create(&b->args[i].memory, k->args[i].md, k->device->engine,
                                    DNNL_MEMORY_NONE));
    }
    return WEFT_OK;
}

static weft_status primitive_bind(const weft_kernel *kernel, weft_bound **out)
{
    weft_bound *bound;
    WEFT_TRY(weft_bound_new(kernel, &primitive_bound_ops, sizeof(primitive_bound), &bound));
    weft_status status = weft_reserve_enter();
    if (status == WEFT_OK) {
        status = make_memories((primitive_bound *)bound);
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
    if (k->primitive) dnnl_primitive_destroy(k->primitive);
    free(k);
}

static const weft_kernel_ops primitive_ops = {.bind = primitive_bind, .destroy = primitive_destroy};

weft_status cpu_attr_make(const_dnnl_post_ops_t ops, dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr;
    DNNL_TRY(dnnl_primitive_attr_create(&attr));
    weft_status status =
        DNNL_CALL(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (status == WEFT_OK && ops) status = DNNL_CALL(dnnl_primitive_attr_set_post_ops(attr, ops));
    if (status == WEFT_OK)
        *out = attr;
    else
        dnnl_primitive_attr_destroy(attr);
    return status;
}

weft_status cpu_primitive_add(cpu_primitive *k, int arg, cpu_md md, cpu_place place, int index)
{
    if (k->count == CPU_MAX_ARGS)
        return weft_fail(WEFT_ERR_INTERNAL, "a primitive has more than %d arguments", CPU_MAX_ARGS);
    k->args[k->count].arg = arg;
    k->args[k->count].md = md;
    k->args[k->count].place = place;
    k->args[k->count++].index = index;
    return WEFT_OK;
}

static weft_status fill(cpu_primitive *k, dnnl_primitive_desc_t pd, const cpu_arg *args, int count)
{
    weft_device *device = &k->device->head;
    for (int i = 0; i < count; i++) {
        const cpu_arg *a = &args[i];
        const_dnnl_memory_desc_t its = dnnl_primitive_desc_query_md(pd, a->what, a->index);
        cpu_md md;
        if (!its || cpu_blocks_of(its).ndims == 0)
            return weft_fail(WEFT_ERR_INTERNAL, "a primitive lacks argument %d", a->arg);
        WEFT_TRY(cpu_md_keep(device, its, &md));
        const weft_layout **layout =
            a->place == CPU_IN ? &k->head.in[a->operand] : &k->head.out[a->operand];
        WEFT_TRY(cpu_layout_of(device, md, a->plain, a->opaque, layout));
        WEFT_TRY(cpu_primitive_add(k, a->arg, md, a->place, a->operand));
    }
    const_dnnl_memory_desc_t scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    if (scratch && dnnl_memory_desc_get_size(scratch) > 0) {
        cpu_md kept;
        k->head.scratch = dnnl_memory_desc_get_size(scratch);
        WEFT_TRY(cpu_md_keep(device, scratch, &kept));
        WEFT_TRY(cpu_primitive_add(k, DNNL_ARG_SCRATCHPAD, kept, CPU_SCRATCH, 0));
    }
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success)
        (void)snprintf(k->head.text, sizeof(k->head.text), "%s", name);
    DNNL_TRY(dnnl_primitive_create(&k->primitive, pd));
    return WEFT_OK;
}

weft_status cpu_primitive_make(weft_device *device, dnnl_primitive_desc_t pd, const cpu_arg *args,
                               int count, weft_kernel **out)
{
    cpu_primitive *k;
    weft_status status = WEFT_NEW(&k, 1);
    if (status == WEFT_OK) {
        k->head.ops = &primitive_ops;
        k->device = (cpu_device *)device;
        status = fill(k, pd, args, count);
        if (status == WEFT_OK)
            *out = &k->head;
        else
            primitive_destroy(&k->head);
    }
    dnnl_primitive_desc_destroy(pd);
    return status;
}

/* --- one loop --- */

/* What runs is the kernel's own struct once more, which knows its memory. */
typedef struct loop_bound {
    weft_bound head;
    cpu_loop loop;
} loop_bound;

static weft_status loop_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                              weft_address scratch)
{
    cpu_loop *k = &((loop_bound *)bound)->loop;
    const weft_node *node = k->group.node[0];
    for (int i = 0; i < node->in_count; i++)
        k->in[i] = weft_host(in[weft_group_in(&k->group, node->in[i])]);
    weft_kernel_unread_bind(&k->group, bound->kernel, out, scratch, k->out);
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
    memcpy(k->head.text, "loop", sizeof("loop"));
    weft_kernel_in_place(group, &k->head);
    *out = k;
    return WEFT_OK;
}
