/* Converts between Weft's layouts and oneDNN's memory descriptors, and interns the layouts. */
#include <stdio.h>

#include "device/cpu/cpu.h"

weft_status cpu_md_plain(weft_device *device, weft_dtype dtype, int rank, const int64_t *dim,
                         cpu_md *out)
{
    int64_t stride[ONEDNN_MOST_DIMS], step = 1;
    for (int i = rank; i-- > 0; step *= dim[i]) stride[i] = step;
    return onednn_md_strided(cpu_onednn(device), dtype, rank, dim, stride, out);
}

weft_status cpu_md_of_type(weft_device *device, const weft_type *type, cpu_md *out)
{
    int64_t one = 1;
    int rank = type->shape.rank;
    return cpu_md_plain(device, type->dtype, rank ? rank : 1, rank ? type->shape.dim : &one, out);
}

weft_dtype cpu_read_type(const weft_graph *g, const weft_node *node, int i)
{
    return weft_node_rounds(g, node, i) ? WEFT_BF16 : weft_in(g, node, i)->dtype;
}

int64_t cpu_axis_offset(const cpu_blocks *b, int axis, int64_t at)
{
    int64_t offset = 0, inner = 1;
    for (int j = b->count; j-- > 0; inner *= b->size[j])
        if (b->axis[j] == axis) {
            offset += at % b->size[j] * inner;
            at /= b->size[j];
        }
    return offset + at * b->strides[axis];
}

void cpu_axis_offsets(const cpu_blocks *b, int axis, int64_t *to)
{
    for (int64_t i = 0; i < b->dims[axis]; i++) to[i] = cpu_axis_offset(b, axis, i);
}

bool cpu_axis_split(const cpu_blocks *b, int axis)
{
    for (int j = 0; j < b->count; j++)
        if (b->axis[j] == axis) return true;
    return false;
}

bool cpu_axis_follows(const cpu_blocks *b, int axis, int64_t count)
{
    for (int64_t i = 0; i < b->dims[axis]; i++)
        if (cpu_axis_offset(b, axis, i) != cpu_axis_offset(b, axis, i / count * count) + i % count)
            return false;
    return true;
}

bool cpu_in_channel_blocks(cpu_md md)
{
    cpu_blocks b = cpu_blocks_of(md);
    return b.blocked && b.count == 1 && b.axis[0] == 1 && b.size[0] == 16;
}

static bool same_dims(const cpu_blocks *a, const cpu_blocks *b)
{
    if (a->ndims != b->ndims) return false;
    for (int i = 0; i < a->ndims; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

cpu_md cpu_md_of(const weft_layout *layout, cpu_md plain)
{
    if (!layout || layout->plain) return plain;
    const cpu_layout *own = (const cpu_layout *)layout;
    cpu_blocks there = cpu_blocks_of(own->md), here = cpu_blocks_of(plain);
    return same_dims(&there, &here) && own->plain == plain ? own->md : plain;
}

/* Writes a descriptor in oneDNN's notation: "aBcd16b" has dimension b in blocks of 16,
 * innermost. */
static void describe(cpu_md md, char *text, size_t size)
{
    cpu_blocks b = cpu_blocks_of(md);
    size_t used = 0;
    bool done[ONEDNN_MOST_DIMS] = {false};
    if (!b.blocked) {
        (void)snprintf(text, size, "private");
        return;
    }
    for (int n = 0; n < b.ndims && used < size; n++) {
        int next = -1;
        for (int i = 0; i < b.ndims; i++)
            if (!done[i] && (next < 0 || b.strides[i] > b.strides[next])) next = i;
        bool blocked = false;
        for (int i = 0; i < b.count; i++) blocked = blocked || b.axis[i] == next;
        used += (size_t)snprintf(text + used, size - used, "%c", (blocked ? 'A' : 'a') + next);
        done[next] = true;
    }
    for (int i = 0; i < b.count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%d%c", (int)b.size[i],
                                 'a' + (int)b.axis[i]);
}

/* Whether md describes the same memory as the plain descriptor; strides of dimensions of size one
 * do not matter. */
static bool is_plain(cpu_md md, cpu_md plain)
{
    cpu_blocks m = cpu_blocks_of(md), p = cpu_blocks_of(plain);
    if (onednn_md_dtype(md) != onednn_md_dtype(plain)) return false;
    if (!same_dims(&m, &p) || !m.blocked || m.count != 0 || m.offset != 0) return false;
    for (int i = 0; i < m.ndims; i++)
        if (m.dims[i] > 1 && m.strides[i] != p.strides[i]) return false;
    return true;
}

static weft_status intern_layout(weft_device *device, cpu_md md, cpu_md plain, bool opaque,
                                 const weft_layout **out)
{
    for (weft_layout *l = device->layouts; l; l = l->next) {
        const cpu_layout *own = (const cpu_layout *)l;
        if (!l->plain && l->opaque == opaque && own->md == md && own->plain == plain) {
            *out = l;
            return WEFT_OK;
        }
    }
    cpu_layout *layout;
    WEFT_TRY(WEFT_NEW(&layout, 1));
    layout->head.bytes = onednn_md_bytes(md);
    layout->head.opaque = opaque;
    layout->head.rounds = !opaque && onednn_md_dtype(md) != onednn_md_dtype(plain);
    layout->md = md;
    layout->plain = plain;
    describe(md, layout->head.text, sizeof(layout->head.text));
    layout->head.next = device->layouts;
    device->layouts = &layout->head;
    *out = &layout->head;
    return WEFT_OK;
}

weft_status cpu_layout_of(weft_device *device, cpu_md md, cpu_md plain, bool opaque,
                          const weft_layout **out)
{
    weft_type bytes = {WEFT_U8, {1, {(int64_t)onednn_md_bytes(md)}}};
    if (!opaque && is_plain(md, plain)) return weft_layout_plain(device, &bytes, out);
    pthread_mutex_lock(&device->lock);
    weft_status status = intern_layout(device, md, plain, opaque, out);
    pthread_mutex_unlock(&device->lock);
    return status;
}

bool cpu_planes_of(const weft_type *type, const weft_layout *layout, cpu_planes *p)
{
    const weft_shape *s = &type->shape;
    if (s->rank < 2) return false;
    *p = (cpu_planes){.batch_count = s->dim[0],
                      .channel_count = s->dim[1],
                      .block = 1,
                      .narrow = type->dtype == WEFT_BF16};
    p->inner = weft_shape_elements(s) / (s->dim[0] * s->dim[1]);
    if (!layout || layout->plain) {
        p->batch = s->dim[1] * p->inner;
        p->channel = p->inner;
        p->step = 1;
        return true;
    }
    cpu_blocks b = cpu_blocks_of(((const cpu_layout *)layout)->md);
    if (!b.blocked || b.ndims != s->rank || b.count > 1 || (b.count == 1 && b.axis[0] != 1) ||
        layout->opaque)
        return false;
    p->block = b.count ? b.size[0] : 1;
    p->batch = b.strides[0];
    p->channel = b.strides[1];
    p->step = s->rank > 2 ? b.strides[s->rank - 1] : 1;
    for (int i = 2; i + 1 < s->rank; i++) /* positions must be contiguous */
        if (b.strides[i] != b.strides[i + 1] * s->dim[i + 1]) return false;
    return true;
}
