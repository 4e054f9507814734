/* Descriptors of oneDNN, and the layouts that stand for them. */
#include <stdio.h>

#include "device/cpu/cpu.h"

cpu_md cpu_md_strided(int rank, const int64_t *dim, const int64_t *stride)
{
    cpu_md md;
    dnnl_dims_t dims, strides;
    for (int i = 0; i < rank; i++) {
        dims[i] = dim[i];
        strides[i] = stride[i];
    }
    memset(&md, 0, sizeof(md));
    /* Fails only for shapes that the graph does not let through. */
    (void)dnnl_memory_desc_init_by_strides(&md, rank, dims, dnnl_f32, strides);
    return md;
}

cpu_md cpu_md_plain(int rank, const int64_t *dim)
{
    int64_t stride[DNNL_MAX_NDIMS], step = 1;
    for (int i = rank; i-- > 0; step *= dim[i]) stride[i] = step;
    return cpu_md_strided(rank, dim, stride);
}

cpu_md cpu_md_any(const cpu_md *md)
{
    cpu_md any;
    (void)dnnl_memory_desc_init_by_tag(&any, md->ndims, md->dims, md->data_type,
                                       dnnl_format_tag_any);
    return any;
}

cpu_md cpu_md_of_type(const weft_type *type)
{
    int64_t one = 1;
    return type->shape.rank == 0 ? cpu_md_plain(1, &one)
                                 : cpu_md_plain(type->shape.rank, type->shape.dim);
}

static bool same_dims(const cpu_md *a, const cpu_md *b)
{
    if (a->ndims != b->ndims) return false;
    for (int i = 0; i < a->ndims; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

const cpu_md *cpu_md_of(const weft_layout *layout, const cpu_md *plain)
{
    if (!layout || layout->plain) return plain;
    const cpu_layout *own = (const cpu_layout *)layout;
    return same_dims(&own->md, plain) && dnnl_memory_desc_equal(&own->plain, plain) ? &own->md
                                                                                    : plain;
}

/* oneDNN's own notation: "aBcd16b" has dimension b cut into blocks of 16 that lie innermost. */
static void describe(const cpu_md *md, char *text, size_t size)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    size_t used = 0;
    bool done[DNNL_MAX_NDIMS] = {false};
    if (md->format_kind != dnnl_blocked) {
        (void)snprintf(text, size, "private");
        return;
    }
    for (int n = 0; n < md->ndims && used < size; n++) {
        int next = -1;
        for (int i = 0; i < md->ndims; i++)
            if (!done[i] && (next < 0 || b->strides[i] > b->strides[next])) next = i;
        bool blocked = false;
        for (int i = 0; i < b->inner_nblks; i++) blocked = blocked || b->inner_idxs[i] == next;
        used += (size_t)snprintf(text + used, size - used, "%c", (blocked ? 'A' : 'a') + next);
        done[next] = true;
    }
    for (int i = 0; i < b->inner_nblks && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%d%c", (int)b->inner_blks[i],
                                 'a' + (int)b->inner_idxs[i]);
}

/* Alike in memory: strides of dimensions of size one do not matter. */
static bool is_plain(const cpu_md *md, const cpu_md *plain)
{
    if (!same_dims(md, plain) || md->format_kind != dnnl_blocked ||
        md->format_desc.blocking.inner_nblks != 0 || md->offset0 != 0)
        return false;
    for (int i = 0; i < md->ndims; i++)
        if (md->dims[i] > 1 &&
            md->format_desc.blocking.strides[i] != plain->format_desc.blocking.strides[i])
            return false;
    return true;
}

weft_status cpu_layout_of(weft_device *device, const cpu_md *md, const cpu_md *plain, bool opaque,
                          const weft_layout **out)
{
    weft_type bytes = {WEFT_U8, {1, {(int64_t)dnnl_memory_desc_get_size(md)}}};
    if (!opaque && is_plain(md, plain)) return weft_layout_plain(device, &bytes, out);
    for (weft_layout *l = device->layouts; l; l = l->next) {
        const cpu_layout *own = (const cpu_layout *)l;
        if (!l->plain && l->opaque == opaque && dnnl_memory_desc_equal(&own->md, md) &&
            dnnl_memory_desc_equal(&own->plain, plain)) {
            *out = l;
            return WEFT_OK;
        }
    }
    cpu_layout *layout;
    WEFT_TRY(WEFT_NEW(&layout, 1));
    layout->head.bytes = dnnl_memory_desc_get_size(md);
    layout->head.opaque = opaque;
    layout->md = *md;
    layout->plain = *plain;
    describe(md, layout->head.text, sizeof(layout->head.text));
    layout->head.next = device->layouts;
    device->layouts = &layout->head;
    *out = &layout->head;
    return WEFT_OK;
}

bool cpu_planes_of(const weft_type *type, const weft_layout *layout, cpu_planes *p)
{
    const weft_shape *s = &type->shape;
    if (s->rank < 2) return false;
    *p = (cpu_planes){.batch_count = s->dim[0], .channel_count = s->dim[1], .block = 1};
    p->inner = weft_shape_elements(s) / (s->dim[0] * s->dim[1]);
    if (!layout || layout->plain) {
        p->batch = s->dim[1] * p->inner;
        p->channel = p->inner;
        p->step = 1;
        return true;
    }
    const cpu_md *md = &((const cpu_layout *)layout)->md;
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    if (md->format_kind != dnnl_blocked || md->ndims != s->rank || b->inner_nblks > 1 ||
        (b->inner_nblks == 1 && b->inner_idxs[0] != 1) || layout->opaque)
        return false;
    p->block = b->inner_nblks ? b->inner_blks[0] : 1;
    p->batch = b->strides[0];
    p->channel = b->strides[1];
    p->step = s->rank > 2 ? b->strides[s->rank - 1] : 1;
    for (int i = 2; i + 1 < s->rank; i++) /* positions must lie one step apart */
        if (b->strides[i] != b->strides[i + 1] * s->dim[i + 1]) return false;
    return true;
}
