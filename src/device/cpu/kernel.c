/* Kernels that are one primitive, and kernels that are one loop. */
#include <math.h>
#include <stdio.h>

#include "device/cpu/cpu.h"

static void primitive_destroy(weft_kernel *kernel)
{
    cpu_primitive *k = (cpu_primitive *)kernel;
    for (int i = 0; i < k->count; i++)
        if (k->args[i].memory) dnnl_memory_destroy(k->args[i].memory);
    if (k->primitive) dnnl_primitive_destroy(k->primitive);
    free(k);
}

static weft_status primitive_bind(weft_kernel *kernel, void *const *in, void *const *out,
                                  void *scratch)
{
    cpu_primitive *k = (cpu_primitive *)kernel;
    cpu_fold *fold = &k->fold;
    if (fold->channels > 0) {
        fold->scale = (float *)(void *)((char *)scratch + fold->offset);
        fold->shift = fold->scale + fold->channels;
        for (int i = 0; i < 4; i++) fold->in[i] = in[fold->operand[i]];
    }
    for (int i = 0; i < k->count; i++) {
        void *data = scratch;
        if (k->slot[i].place == CPU_SCALE) data = fold->scale;
        if (k->slot[i].place == CPU_SHIFT) data = fold->shift;
        if (k->slot[i].place == CPU_IN) data = in[k->slot[i].index];
        if (k->slot[i].place == CPU_OUT) data = out[k->slot[i].index];
        DNNL_TRY(dnnl_memory_set_data_handle(k->args[i].memory, data));
    }
    return WEFT_OK;
}

static void refresh_fold(const cpu_fold *f)
{
    const float *gamma = f->in[0], *beta = f->in[1], *mean = f->in[2], *variance = f->in[3];
    for (int64_t c = 0; c < f->channels; c++) {
        double scale = (double)gamma[c] / sqrt((double)variance[c] + f->epsilon);
        f->scale[c] = (float)scale;
        f->shift[c] = (float)((double)beta[c] - (double)mean[c] * scale);
    }
}

static weft_status primitive_run(weft_kernel *kernel)
{
    cpu_primitive *k = (cpu_primitive *)kernel;
    if (k->fold.channels > 0) refresh_fold(&k->fold);
    DNNL_TRY(dnnl_primitive_execute(k->primitive, k->device->stream, k->count, k->args));
    return WEFT_OK;
}

static const weft_kernel_ops primitive_ops = {
    .bind = primitive_bind, .run = primitive_run, .destroy = primitive_destroy};

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
    dnnl_exec_arg_t *a = &k->args[k->count];
    a->arg = arg;
    DNNL_TRY(dnnl_memory_create(&a->memory, md, k->device->engine, DNNL_MEMORY_NONE));
    k->slot[k->count].place = place;
    k->slot[k->count].index = index;
    k->count++;
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
        k->head.scratch = dnnl_memory_desc_get_size(scratch);
        WEFT_TRY(cpu_primitive_add(k, DNNL_ARG_SCRATCHPAD, scratch, CPU_SCRATCH, 0));
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

static weft_status loop_bind(weft_kernel *kernel, void *const *in, void *const *out, void *scratch)
{
    cpu_loop *k = (cpu_loop *)kernel;
    const weft_node *node = k->group.node[0];
    for (int i = 0; i < node->in_count; i++) k->in[i] = in[weft_group_in(&k->group, node->in[i])];
    weft_kernel_unread_bind(&k->group, kernel, out, scratch, k->out);
    k->scratch = scratch;
    return WEFT_OK;
}

static weft_status loop_run(weft_kernel *kernel)
{
    cpu_loop *k = (cpu_loop *)kernel;
    k->fn(k);
    return WEFT_OK;
}

static void loop_destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops loop_ops = {
    .bind = loop_bind, .run = loop_run, .destroy = loop_destroy};

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
