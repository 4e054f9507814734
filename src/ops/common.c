#include <stdio.h>

#include "ops/ops.h"

weft_status weft_expect_like(const weft_graph *g, const weft_node *node, int i, const char *what,
                             const weft_type *type)
{
    const weft_type *in = weft_in(g, node, i);
    char have[128], want[128];
    if (in->dtype == type->dtype && weft_shape_equal(&in->shape, &type->shape)) return WEFT_OK;
    return weft_node_fail(node, "%s is %s%s, must be %s%s", what, weft_dtype_name(in->dtype),
                          weft_shape_text(&in->shape, have, sizeof(have)),
                          weft_dtype_name(type->dtype),
                          weft_shape_text(&type->shape, want, sizeof(want)));
}

weft_status weft_expect(const weft_graph *g, const weft_node *node, int i, const char *what,
                        weft_dtype dtype, int rank, const int64_t *dim)
{
    weft_type type = {dtype, weft_shape_of(rank, dim)};
    return weft_expect_like(g, node, i, what, &type);
}

weft_status weft_expect_scalar(const weft_graph *g, const weft_node *node, int i, const char *what,
                               weft_dtype dtype)
{
    return weft_expect(g, node, i, what, dtype, 0, NULL);
}

weft_status weft_expect_real(const weft_graph *g, const weft_node *node, int i, const char *what,
                             int min_rank)
{
    const weft_type *in = weft_in(g, node, i);
    char have[128];
    weft_dtype wanted = weft_node_float(g, node);
    if (in->dtype == wanted && in->shape.rank >= min_rank) return WEFT_OK;
    return weft_node_fail(node, "%s is %s%s, must be %s with at least %d dimensions", what,
                          weft_dtype_name(in->dtype),
                          weft_shape_text(&in->shape, have, sizeof(have)), weft_dtype_name(wanted),
                          min_rank);
}

weft_status weft_shape_same(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the first operand", 0));
    for (int i = 1; i < node->in_count; i++)
        WEFT_TRY(weft_expect_like(g, node, i, "an operand", weft_in(g, node, 0)));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

/* Checks that each attribute of a window has a number for each dimension; padding may have two, one
 * for each end. */
static weft_status check_counts(const weft_node *node, int dims)
{
    static const char *const each[] = {"kernel", "stride", "padding", "dilation", "size"};
    for (size_t i = 0; i < WEFT_COUNT(each); i++) {
        const weft_attr *attr = weft_node_attr(node, each[i]);
        bool ends = attr && i == 2 && attr->count == 2 * dims;
        if (attr && attr->count != dims && !ends)
            return weft_node_fail(node, "%s has %d number%s, the window %d dimension%s", each[i],
                                  attr->count, weft_plural(attr->count), dims, weft_plural(dims));
    }
    return WEFT_OK;
}

weft_status weft_window_check(const weft_node *node, const weft_window *w, const int64_t *in,
                              int64_t *out)
{
    static const char *const sides[WEFT_MAX_SPACE] = {"depth", "height", "width"};
    const char *const *side = sides + WEFT_MAX_SPACE - w->dims;
    WEFT_TRY(check_counts(node, w->dims));
    for (int i = 0; i < w->dims; i++) {
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 || w->padding[i] < 0 ||
            w->padding_end[i] < 0 || w->padding_end[i] > 65536 || w->kernel[i] > 65536 ||
            w->stride[i] > 65536 || w->dilation[i] > 65536 || w->padding[i] > 65536)
            return weft_node_fail(node,
                                  "%s: kernel %lld, stride %lld and dilation %lld must be at least "
                                  "1 and padding %lld at least 0 (all at most 65536)",
                                  side[i], (long long)w->kernel[i], (long long)w->stride[i],
                                  (long long)w->dilation[i], (long long)w->padding[i]);
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (w->padding[i] >= reach || w->padding_end[i] >= reach)
            return weft_node_fail(node, "%s: padding %lld must be smaller than the window of %lld",
                                  side[i], (long long)WEFT_MAX(w->padding[i], w->padding_end[i]),
                                  (long long)reach);
        int64_t padded = in[i] + w->padding[i] + w->padding_end[i];
        if (padded < reach)
            return weft_node_fail(node,
                                  "%s: the window of %lld is larger than the padded input of %lld",
                                  side[i], (long long)reach, (long long)padded);
        out[i] = (padded - reach) / w->stride[i] + 1;
    }
    return WEFT_OK;
}

weft_value weft_emit(weft_graph *g, const weft_node *node, const char *suffix, const char *op,
                     const weft_value *in, int count, const weft_attr *attrs, int attr_count)
{
    char *name = weft_graph_format(g, "%s/%s", node->name, suffix);
    weft_value out = weft_graph_node(g, op, name, in, count, attrs, attr_count);
    free(name);
    return out;
}

weft_value weft_emit_same(weft_graph *g, const weft_node *node, const char *suffix, const char *op,
                          const weft_value *in, int count)
{
    return weft_emit(g, node, suffix, op, in, count, node->attrs, node->attr_count);
}

weft_value weft_emit_gradient(weft_graph *g, const weft_node *node, weft_value of, weft_value dy)
{
    char *op = weft_graph_format(g, "%s_grad", node->op->name);
    weft_value dx =
        op ? weft_emit_same(g, node, "dx", op, (weft_value[]){of, dy}, 2) : WEFT_NO_VALUE;
    free(op);
    return dx;
}

void weft_gradient_by_input(weft_graph *g, const weft_node *node, const weft_value *dy,
                            const bool *want, weft_value *dx)
{
    (void)want;
    dx[0] = weft_emit_gradient(g, node, node->in[0], dy[0]);
}

void weft_labels_space(weft_text *text, const char *pattern, int dims)
{
    for (const char *p = pattern; *p; p++) {
        const char *names = *p == 'S' ? "dhw" : *p == 'K' ? "lij" : NULL;
        if (!names) weft_text_add(text, "%c", *p);
        for (int i = 0; names && i < dims; i++)
            weft_text_add(text, "%s%c%s",
                          i == 0         ? ""
                          : p[-1] == '!' ? " !"
                                         : " ",
                          names[WEFT_MAX_SPACE - dims + i], p[1] == '~' && i + 1 < dims ? "~" : "");
    }
}

weft_status weft_expect_space(const weft_graph *g, const weft_node *node, int i, const char *what)
{
    WEFT_TRY(weft_expect_real(g, node, i, what, 3));
    int rank = weft_in(g, node, i)->shape.rank;
    if (rank <= 2 + WEFT_MAX_SPACE) return WEFT_OK;
    return weft_node_fail(node,
                          "%s has %d dimensions; batch, channels and 1 to %d of space are "
                          "possible",
                          what, rank, WEFT_MAX_SPACE);
}

weft_value weft_emit_with(weft_graph *g, const weft_node *node, const char *suffix, const char *op,
                          const weft_value *in, int count, const weft_attr *more)
{
    weft_attr *attrs;
    weft_status status = WEFT_NEW(&attrs, (size_t)node->attr_count + 1);
    if (status != WEFT_OK) return weft_graph_stick(g, status);
    for (int i = 0; i < node->attr_count; i++) attrs[i] = node->attrs[i];
    attrs[node->attr_count] = *more;
    weft_value out = weft_emit(g, node, suffix, op, in, count, attrs, node->attr_count + 1);
    free(attrs);
    return out;
}

void weft_labels_dims(weft_text *text, int rank, int whole)
{
    for (int i = 0; i < rank; i++) {
        if (i > 0) weft_text_add_bytes(text, " ", 1);
        if (i >= whole) weft_text_add_bytes(text, "!", 1);
        weft_text_add_bytes(text, "d", 1);
        weft_text_add_int(text, i);
    }
}

void weft_labels_elementwise(const weft_graph *g, const weft_node *node, weft_text *text)
{
    for (int i = 0; i < node->in_count; i++) {
        weft_text_add_bytes(text, ", ", i ? 2 : 0);
        weft_labels_dims(text, weft_in(g, node, i)->shape.rank, WEFT_MAX_RANK);
    }
    weft_text_add(text, " -> ");
    for (int i = 0; i < node->out_count; i++) {
        weft_text_add_bytes(text, ", ", i ? 2 : 0);
        weft_labels_dims(text, weft_out(g, node, i)->shape.rank, WEFT_MAX_RANK);
    }
}
