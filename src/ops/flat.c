/* Defines the operators flat and unflat, which convert a tensor to a vector of its elements in
 * memory order, and back.
 *
 * The order is that of leaf `like` in the layout that the device has chosen for it. If `like` is
 * itself a range of a tensor, the order is that of the layout in which the first reader needs the
 * whole tensor. So no data are moved, and elementwise operators work in any order. With `like` -1,
 * or if that layout has padding, the order is row-major. A flat node and its unflat node must name
 * the same `like`. Rewrites add these nodes (ZeRO); they are not differentiable. */
#include "ops/ops.h"

static weft_status flat_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *x = weft_in(g, node, 0);
    int64_t like = weft_node_int(node, "like", 0, -1), count = weft_shape_elements(&x->shape);
    const weft_value_info *leaf =
        like >= 0 && like < (int64_t)g->value_count ? &g->values[like] : NULL;
    const weft_shape *shape = leaf && leaf->flat ? &leaf->flat_shape
                              : leaf             ? &leaf->type.shape
                                                 : NULL;
    if (like >= 0 && (!shape || !weft_shape_equal(shape, &x->shape)))
        return weft_node_fail(node, "is not like value %lld", (long long)like);
    out[0] = (weft_type){x->dtype, weft_shape_of(1, &count)};
    return WEFT_OK;
}

/* Rewrites add the nodes after sharding, so no dimension may be split (mark '!'), and no label is
 * shared. */
static void whole_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    for (int side = 0; side < 2; side++) {
        const weft_shape *s = side ? &weft_out(g, node, 0)->shape : &weft_in(g, node, 0)->shape;
        weft_text_add(text, "%s", side ? " -> " : "");
        for (int d = 0; d < s->rank; d++)
            weft_text_add(text, "%s!%c%d", d ? " " : "", side ? 'e' : 'd', d);
    }
}

WEFT_OPERATOR(flat, "the elements in the order in which they lie", 1, 1,
              .attrs = WEFT_ATTRS("like"), .takes = {WEFT_ALL_TYPES}, .shape = flat_shape,
              .labels = whole_labels, .view = WEFT_VIEW_WHOLE, .as_it_lies = true);
WEFT_OPERATOR(unflat, "a tensor of elements in the order in which they lie", 1, 1,
              .attrs = WEFT_ATTRS("like", "shape"), .takes = {WEFT_ALL_TYPES},
              .shape = weft_shape_reshape, .labels = whole_labels, .view = WEFT_VIEW_WHOLE,
              .as_it_lies = true);
