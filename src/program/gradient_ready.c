/* Finds the instruction or transfer that completes each exported gradient, in the layout that the
 * exchange reads, and calls the hook `ready` after it in a run. */
#include "program/instance.h"
#include "program/gradient_ready.h"
#include "program/first_use.h"

static weft_status another_order(const weft_program *p, weft_value leaf)
{
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "the gradient of '%s' is kept in ranges over the data axis, in another order "
                     "than the parameter, so it cannot be exported; give --zero 0",
                     p->graph->values[leaf].name);
}

/* The layout in which a gradient is exported: that of its parameter, but in the memory space where
 * the gradient is made if the parameter's layout is plain. */
static weft_status wanted_layout(weft_program *p, weft_value leaf, const weft_layout **out)
{
    const weft_value_info *info = &p->graph->values[leaf];
    const version *made = weft_program_version(p, info->exported, NULL);
    const weft_layout *kept;
    WEFT_TRY(weft_program_layout_of(p, leaf, &kept));
    if (!kept) return weft_fail(WEFT_ERR_INTERNAL, "nothing chose a layout for '%s'", info->name);
    *out = kept;
    if (info->exported_range) {
        bool whole = kept->bytes == weft_type_bytes(&info->type) && !kept->opaque;
        if (!whole || (info->exported_plain && !kept->plain)) return another_order(p, leaf);
        *out = made->layout;
    } else if (!p->schema->on_host && kept->plain &&
               layout_space(kept) != layout_space(made->layout)) {
        return weft_version_plain(p, layout_space(made->layout), info->exported, out);
    }
    return WEFT_OK;
}

/* Exports a gradient in the wanted layout, with a conversion if needed. Without `now`, a conversion
 * is put off to the update phase if several micro-batches may be in progress. */
static weft_status export_gradient(weft_program *p, weft_value leaf, weft_phase phase, bool now)
{
    const weft_value_info *info = &p->graph->values[leaf];
    const weft_layout *want;
    int b;
    if (p->exporting[leaf].done) return WEFT_OK;
    WEFT_TRY(wanted_layout(p, leaf, &want));
    bool there = weft_program_version(p, info->exported, want);
    if (!there && !now && p->slots > 1 && phase != WEFT_PHASE_UPDATE) return WEFT_OK;
    WEFT_TRY(weft_version_provide(p, info->exported, want, phase, false, &b));
    p->buffers[b].keep = true; /* so nothing is written over it in the run */
    p->exporting[leaf].done = true;
    p->exported[p->exported_count++] =
        (exported){.leaf = leaf,
                   .buffer = b,
                   .begin = (size_t)info->exported_begin * weft_dtype_size(info->type.dtype),
                   .bytes = p->buffers[b].bytes};
    return WEFT_OK;
}

weft_status weft_exported_gradients_begin(weft_program *p)
{
    size_t count = 0, values = p->graph->value_count;
    for (size_t v = 0; v < values; v++) count += p->graph->values[v].exported != WEFT_NO_VALUE;
    if (count == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&p->exporting, values));
    WEFT_TRY(WEFT_NEW(&p->exported, count));
    for (size_t v = 0; v < values; v++)
        p->exporting[v] = (exporting){.first = WEFT_NO_VALUE, .next = WEFT_NO_VALUE};
    for (size_t v = values; v-- > 0;) {
        weft_value made = p->graph->values[v].exported;
        if (made == WEFT_NO_VALUE) continue;
        p->exporting[v].next = p->exporting[made].first;
        p->exporting[made].first = (weft_value)v;
    }
    return WEFT_OK;
}

weft_status weft_exported_gradients_made(weft_program *p, weft_value value, weft_phase phase)
{
    weft_value leaf = p->exporting ? p->exporting[value].first : WEFT_NO_VALUE;
    for (; leaf != WEFT_NO_VALUE; leaf = p->exporting[leaf].next)
        WEFT_TRY(export_gradient(p, leaf, phase, false));
    return WEFT_OK;
}

/* The last instruction that writes buffer b, or the buffer of which b is a view. */
static int writer_of(const weft_program *p, const int *writer, int b)
{
    while (writer[b] < 0 && p->buffers[b].alias >= 0) b = p->buffers[b].alias;
    return writer[b];
}

static int by_time(const void *a, const void *b)
{
    const exported *x = a, *y = b;
    if (x->by != y->by) return x->by < y->by ? -1 : 1;
    return (x->leaf > y->leaf) - (x->leaf < y->leaf);
}

/* Sets the operations up to each exported gradient, which are in the order of their instructions:
 * those of earlier phases, and of its phase up to its instruction. */
static void count_flops(weft_program *p)
{
    double all[WEFT_PHASE_UPDATE + 1] = {0}, done[WEFT_PHASE_UPDATE + 1] = {0};
    size_t h = 0;
    for (size_t i = 0; i < p->code_count; i++) all[p->code[i].phase] += p->code[i].flops;
    while (h < p->exported_count && p->exported[h].by < 0) h++;
    for (size_t i = 0; i < p->code_count; i++) {
        const int phase = (int)p->code[i].phase;
        done[phase] += p->code[i].flops;
        for (; h < p->exported_count && p->exported[h].by == (int)i; h++) {
            p->exported[h].flops = done[phase];
            for (int before = 0; before < phase; before++) p->exported[h].flops += all[before];
        }
    }
}

weft_status weft_exported_gradients_close(weft_program *p)
{
    int *writer;
    if (!p->exporting) return WEFT_OK;
    for (size_t v = 0; v < p->graph->value_count; v++)
        if (p->graph->values[v].exported != WEFT_NO_VALUE)
            WEFT_TRY(export_gradient(p, (weft_value)v, WEFT_PHASE_UPDATE, true));
    WEFT_TRY(WEFT_NEW(&writer, p->buffer_count));
    for (size_t b = 0; b < p->buffer_count; b++) writer[b] = -1;
    for (size_t i = 0; i < p->code_count; i++)
        for (int o = 0; o < p->code[i].out_count; o++) writer[p->code[i].out[o]] = (int)i;
    for (size_t h = 0; h < p->exported_count; h++)
        p->exported[h].by = writer_of(p, writer, p->exported[h].buffer);
    free(writer);
    qsort(p->exported, p->exported_count, sizeof(*p->exported), by_time);
    count_flops(p);
    for (size_t h = p->exported_count; h-- > 0;) {
        if (p->exported[h].by < 0)
            return weft_fail(WEFT_ERR_INTERNAL, "nothing makes the gradient of '%s'",
                             p->graph->values[p->exported[h].leaf].name);
        p->code[p->exported[h].by].exported = (int)h;
        p->code[p->exported[h].by].exported_count++;
    }
    free(p->exporting);
    p->exporting = NULL;
    return WEFT_OK;
}

bool weft_program_gradient(const weft_program *p, int i, weft_gradient *out)
{
    WEFT_NEED_ELSE_AS(false, "program, out", p, out);
    if (i < 0 || (size_t)i >= p->exported_count) return false;
    const exported *h = &p->exported[i];
    const weft_value_info *leaf = &p->graph->values[h->leaf];
    const store_entry *e = &p->schema->entries[weft_schema_find(p->schema, leaf->name)];
    int64_t size = (int64_t)weft_dtype_size(e->type.dtype);
    *out = (weft_gradient){.name = leaf->name,
                           .index = i,
                           .dtype = e->type.dtype,
                           .begin = (int64_t)(e->offset + h->begin) / size,
                           .count = (int64_t)h->bytes / size,
                           .flops = h->flops};
    return true;
}

/* --- execution --- */

weft_status weft_exported_gradients_report(const weft_instance *x, int i)
{
    const weft_program *p = x->program;
    weft_gradient g;
    for (int k = 0; k < p->code[i].exported_count; k++) {
        (void)weft_program_gradient(p, p->code[i].exported + k, &g);
        WEFT_TRY(x->listener.ready(x->listener.user, &g));
    }
    return WEFT_OK;
}

void weft_instance_listen(weft_instance *x, const weft_listener *listener)
{
    WEFT_NEED_VOID_AS("instance", x);
    x->listener = listener ? *listener : (weft_listener){.user = NULL};
}

void weft_instance_enable_ready_hook(weft_instance *x, bool announce)
{
    WEFT_NEED_VOID_AS("instance", x);
    x->announces = announce && x->listener.ready;
}

/* The gradient in host memory, where it was made or copied; NULL: it is on the device alone, at
 * *at. */
static const void *near_data(const weft_instance *x, int i, weft_address *at)
{
    *at = weft_instance_address(x, x->program->exported[i].buffer);
    return weft_device_shares(at->memory->device) ? weft_host(*at) : weft_deferred_landed(x, i);
}

weft_status weft_gradient_map(weft_instance *x, int i, const void **data)
{
    WEFT_NEED_AS("instance, data", x, data);
    WEFT_TRY(weft_check_index(__func__, "gradient", i, (long long)x->program->exported_count));
    weft_address at;
    size_t bytes = x->program->exported[i].bytes;
    void *copy;
    *data = near_data(x, i, &at);
    if (*data) return weft_instance_wait_copies(x);
    WEFT_TRY(weft_new_aligned(bytes, &copy));
    weft_status status = weft_copy_out(x->queue, copy, at, bytes);
    if (status == WEFT_OK) status = weft_instance_synchronize(x);
    if (status != WEFT_OK) free(copy);
    *data = copy;
    return status;
}

void weft_gradient_unmap(const weft_instance *x, int i, const void *data)
{
    WEFT_NEED_VOID_AS("instance", x);
    if (i < 0 || i >= (int)x->program->exported_count) return;
    weft_address at;
    if (data != near_data(x, i, &at)) free((void *)(uintptr_t)data);
}
