/* Implements broadcasting: dimensions of operands are aligned at the last one, and a dimension that
 * an operand lacks, or of which it has one element, is repeated (as in NumPy). */
#include "graph/graph.h"

bool weft_broadcast_shape(const weft_shape *a, const weft_shape *b, weft_shape *out)
{
    const weft_shape *longer = a->rank >= b->rank ? a : b, *other = longer == a ? b : a;
    weft_shape shape = *longer;
    int lacks = longer->rank - other->rank;
    for (int d = lacks; d < shape.rank; d++) {
        int64_t x = longer->dim[d], y = other->dim[d - lacks];
        if (x != y && x != 1 && y != 1) return false;
        shape.dim[d] = WEFT_MAX(x, y);
    }
    *out = shape;
    return true;
}

void weft_broadcast_strides(const weft_shape *operand, const weft_shape *full, int64_t *stride)
{
    int lacks = full->rank - operand->rank;
    int64_t each = 1;
    for (int d = full->rank - 1; d >= 0; d--) {
        int64_t size = d < lacks ? 1 : operand->dim[d - lacks];
        stride[d] = size == 1 ? 0 : each;
        each *= size;
    }
}
