/* Implements kernels for elements of any type, and for operands of different types. */
#include "device/reference/reference.h"

int64_t weft_ref_element_of(const weft_ref *a, int operand, int64_t i)
{
    const weft_shape *full = out_shape(a, 0);
    int64_t stride[WEFT_MAX_RANK], at = 0;
    weft_broadcast_strides(in_shape(a, operand), full, stride);
    for (int d = full->rank - 1; d >= 0; i /= full->dim[d--]) at += i % full->dim[d] * stride[d];
    return at;
}

static void cast(const weft_ref *a)
{
    weft_dtype from = weft_in(a->graph, a->node, 0)->dtype;
    weft_dtype to = weft_out(a->graph, a->node, 0)->dtype;
    weft_numbers_cast(from, a->in[0], to, a->out[0], out_size(a, 0));
}

static void constant(const weft_ref *a)
{
    const weft_type *type = weft_out(a->graph, a->node, 0);
    const weft_attr *data = weft_node_attr(a->node, "data");
    double value = weft_node_real(a->node, "value", 0);
    if (data) memcpy(a->out[0], weft_attr_data(data, NULL), weft_type_bytes(type));
    for (int64_t i = 0; i < out_size(a, 0) && !data; i++)
        weft_number_put(type->dtype, a->out[0], i, value);
}

const weft_ref_entry weft_ref_any[] = {
    {"cast", cast, 0},
    {"constant", constant, 0},
    {NULL, NULL, 0},
};
