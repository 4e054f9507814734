/* Implements kernels for elements of any type, and for operands of different types. */
#include "device/reference/reference.h"

static void cast(const weft_ref *a)
{
    weft_dtype from = weft_in(a->graph, a->node, 0)->dtype;
    weft_dtype to = weft_out(a->graph, a->node, 0)->dtype;
    int64_t n = out_size(a, 0);
    for (int64_t i = 0; i < n; i++)
        weft_number_put(to, a->out[0], i, weft_number_get(from, a->in[0], i));
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
