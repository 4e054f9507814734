/* Computes the rows that a convolution or pooling reads for this rank's part (its halo), and the
 * attributes of the node for that part. */
#include "rewrite/rewrite.h"

weft_status weft_window_touched(const rewriter *r, const weft_node *node, const decision *d,
                                int operand, touched_rows *out)
{
    const weft_operand_labels *labels = &d->labels.operand[operand];
    *out = (touched_rows){.dim = -1};
    for (int a = 0; a < SHARD_AXES; a++) {
        int dim = weft_label_dim(d, operand, d->label[a]);
        if (dim < 0 || !labels->label[dim].windowed) continue;
        weft_window w = node->op->window(r->from, node);
        int side = dim - 2;
        const weft_type *type = operand < node->in_count
                                    ? weft_in(r->from, node, operand)
                                    : weft_out(r->from, node, operand - node->in_count);
        out->axis = a;
        out->dim = dim;
        out->rows = type->shape.dim[dim];
        out->window[0] = (w.kernel[side] - 1) * w.dilation[side] + 1;
        out->window[1] = w.stride[side];
        out->window[2] = w.padding[side];
        for (int i = 0; i < node->in_count + node->out_count; i++) {
            int other = weft_label_dim(d, i, d->label[a]);
            if (other < 0 || d->labels.operand[i].label[other].windowed) continue;
            out->window[3] = (i < node->in_count ? weft_in(r->from, node, i)
                                                 : weft_out(r->from, node, i - node->in_count))
                                 ->shape.dim[other];
        }
        weft_rewrite_ask(r, ASKED_COORDINATE, a, 0);
        weft_window_rows(out->window, out->rows, r->coordinate[a], r->plan->size[a], &out->begin,
                         &out->end);
        out->aligned = weft_window_aligned(out->window, out->rows, r->plan->size[a]);
    }
    return WEFT_OK;
}

/* Sets the padding of the node for a part: a part has padding only at the edges of the whole
 * tensor. */
static weft_status set_padding(const rewriter *r, const weft_node *node, const touched_rows *t,
                               weft_node *part)
{
    weft_window w = node->op->window(r->from, node);
    int side = t->dim - 2, n = r->plan->size[t->axis], c = r->coordinate[t->axis];
    int64_t first = weft_part_start(t->window[3], c, n);
    int64_t last = weft_part_start(t->window[3], c + 1, n) - 1;
    w.padding[side] = WEFT_MAX((int64_t)0, t->window[2] - first * t->window[1]);
    w.padding_end[side] =
        WEFT_MAX((int64_t)0, last * t->window[1] - t->window[2] + t->window[0] - t->rows);
    weft_attr padding = {.name = "padding", .count = 2 * w.dims};
    for (int i = 0; i < w.dims; i++) {
        padding.ints[i] = w.padding[i];
        padding.ints[w.dims + i] = w.padding_end[i];
    }
    return weft_node_set(part, &padding);
}

/* Tells a node that computes a range of a part which range it is; start: set to that of the part.
 */
static weft_status set_range(const rewriter *r, const weft_shape *whole, sharding split,
                             weft_node *part, int64_t *start)
{
    weft_attr begin = WEFT_ATTR_INT("begin", start[0]), sizes = {.name = "part"};
    weft_shape around;
    split.at[AXIS_DATA] = WHOLE;
    weft_rewrite_part(r, whole, split, &around, start);
    sizes.count = around.rank;
    for (int i = 0; i < around.rank; i++) sizes.ints[i] = around.dim[i];
    WEFT_TRY(weft_node_set(part, &begin));
    return weft_node_set(part, &sizes);
}

weft_status weft_window_localize(const rewriter *r, const weft_node *node, const decision *d,
                                 weft_node *part)
{
    weft_shape shape;
    int64_t start[WEFT_MAX_RANK];
    bool windowed = false;
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        touched_rows t;
        WEFT_TRY(weft_window_touched(r, node, d, i, &t));
        if (t.dim < 0 || windowed) continue;
        WEFT_TRY(set_padding(r, node, &t, part));
        windowed = true;
    }
    sharding split = weft_decision_split(d, node, node->in_count);
    const weft_shape *whole = &weft_out(r->from, node, 0)->shape;
    /* The work of a part depends on its place where an operator counts positions (dimension 1). */
    bool counts = weft_operator_has(r->to->context, node->op->name, "first");
    for (int a = 0; a < SHARD_AXES && node->op->localize; a++)
        if (counts && split.at[a] == 1) weft_rewrite_ask(r, ASKED_COORDINATE, a, 0);
    weft_rewrite_part(r, whole, split, &shape, start);
    if (split.at[AXIS_DATA] == FLAT && weft_operator_has(r->to->context, node->op->name, "begin"))
        WEFT_TRY(set_range(r, whole, split, part, start));
    touched_rows out;
    WEFT_TRY(weft_window_touched(r, node, d, node->in_count, &out));
    if (out.dim >= 0) shape.dim[out.dim] = out.end - out.begin;
    if (node->op->dims) {
        weft_attr dims = {.name = node->op->dims, .count = shape.rank - node->op->dims_from};
        for (int i = 0; i < dims.count; i++) dims.ints[i] = shape.dim[i + node->op->dims_from];
        WEFT_TRY(weft_node_set(part, &dims));
    }
    return node->op->localize ? node->op->localize(r->from, node, start, part) : WEFT_OK;
}
