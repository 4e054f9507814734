/* Defines the operator cast, which converts a tensor to another number type. */
#include "ops/ops.h"

static weft_status cast_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *in = weft_in(g, node, 0);
    int64_t dtype = weft_node_int(node, "dtype", 0, -1);
    if (dtype < 0 || dtype >= WEFT_DTYPE_COUNT)
        return weft_node_fail(node, "needs attribute 'dtype', a type of numbers");
    out[0] = (weft_type){(weft_dtype)dtype, in->shape};
    return WEFT_OK;
}

/* The gradient is cast back; it ignores the rounding. Integers have none. */
static void cast_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    weft_attr back = WEFT_ATTR_INT("dtype", weft_in(g, node, 0)->dtype);
    if (want[0]) dx[0] = weft_emit(g, node, "dx", "cast", dy, 1, &back, 1);
}

WEFT_OPERATOR(cast, "the same numbers in the type of the attribute 'dtype'", 1, 1,
              .attrs = WEFT_ATTRS("dtype"), .takes = {WEFT_ALL_TYPES}, .shape = cast_shape,
              .gradient = cast_gradient, .labels = weft_labels_elementwise);
