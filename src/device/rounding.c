/* Finds the place of elements of the operator stochastic_round in the whole tensor. */
#include "device/rounding.h"

int64_t weft_round_position(const weft_graph *g, const weft_node *node, int64_t i, int64_t *run)
{
    const weft_attr *whole = weft_node_attr(node, "whole"), *start = weft_node_attr(node, "start");
    const weft_attr *part = weft_node_attr(node, "part");
    const weft_shape *own = &weft_in(g, node, 0)->shape;
    const int64_t *dim = part ? part->ints : own->dim;
    int64_t at = i + weft_node_int(node, "begin", 0, 0), place = 0, step = 1, each = 1;
    int d = whole ? whole->count - 1 : -1;
    *run = weft_shape_elements(own) - i;
    /* Inner dimensions of which the part has all are passed over as one. */
    while (d > 0 && dim[d] == whole->ints[d]) each *= dim[d--];
    if (d <= 0) return at + (d < 0 ? 0 : start->ints[0] * each);
    *run = WEFT_MIN(*run, dim[d] * each - at % (dim[d] * each));
    place = at % each;
    step = each;
    for (at /= each; d >= 0; d--) {
        place += (at % dim[d] + start->ints[d]) * step;
        at /= dim[d];
        step *= whole->ints[d];
    }
    return place;
}

uint64_t weft_round_key(const weft_node *node)
{
    return weft_mix((uint64_t)weft_node_int(node, "seed", 0, 0),
                    (uint64_t)weft_node_int(node, "stream", 0, 0));
}
