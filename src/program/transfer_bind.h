/* Declares the parts of binding transfers that kinds of transfers share. */
#ifndef WEFT_PROGRAM_TRANSFER_BIND_H
#define WEFT_PROGRAM_TRANSFER_BIND_H

#include "program/transfer.h"

static inline int64_t attr(const transfer *t, const char *name)
{
    return weft_node_int(t->of->node, name, 0, 0);
}

/* A tensor as [outer, size, inner] around a dimension. */
typedef struct around {
    int64_t outer, size, inner;
} around;

static inline around around_dim(const weft_shape *s, int64_t dim)
{
    around a = {1, s->dim[dim], 1};
    for (int i = 0; i < s->rank; i++) {
        if (i < dim) a.outer *= s->dim[i];
        if (i > dim) a.inner *= s->dim[i];
    }
    return a;
}

/* Prepares the operation, on the device if its operands are there. */
weft_status weft_transfer_prepare(transfer *t, weft_transfer what, weft_address send,
                                  weft_address receive) WEFT_NODISCARD;
/* Allocates a staging buffer; without a communicator, in planning, it is only counted. */
weft_status weft_transfer_make_room(transfer *t, size_t bytes, weft_memory **out) WEFT_NODISCARD;
/* A copy of positions [begin, end) of a dimension from a tensor to a dense block (`out`), or
 * back. */
copy weft_transfer_rows(const transfer *t, around a, int64_t begin, int64_t end,
                        weft_address tensor, weft_address block, bool out);

typedef weft_status pack_opener(weft_device *device, const far_rows *t, const far_range *part,
                                int parts, far_graph **out);

/* The parts of a tensor that kernels pack, unpack or add, of which those without elements are left
 * out; block[i]: where part i is as a dense block. */
typedef struct part_list {
    far_range range[WEFT_MAX_OUTPUTS];
    weft_address block[WEFT_MAX_OUTPUTS];
    int count;
} part_list;

static inline void add_part(part_list *p, int64_t begin, int64_t end, weft_address block)
{
    if (end == begin) return;
    p->range[p->count] = (far_range){begin, end};
    p->block[p->count++] = block;
}

/* Prepares kernels on the device between a tensor and its parts; from: the tensor is read. */
weft_status weft_transfer_pack(transfer *t, around a, const part_list *p, weft_address tensor,
                               bool from, pack_opener *make, packing *out) WEFT_NODISCARD;

/* transfer_halo.c */
weft_status weft_transfer_halo(transfer *t, const weft_address *in,
                               const weft_address *out) WEFT_NODISCARD;

#endif
