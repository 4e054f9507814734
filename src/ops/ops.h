/* Declares helpers that operators share: checks of operand types, label signatures, nodes of
 * gradients, and rows of halos. */
#ifndef WEFT_OPS_OPS_H
#define WEFT_OPS_OPS_H

#include "graph/graph.h"

/* The attribute list of an operator, as in WEFT_ATTRS("stride", "padding"). */
#define WEFT_ATTRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Each output may overwrite the input of the same number. */
#define WEFT_EACH_IN_PLACE                                                                         \
    {                                                                                              \
        1u << 0, 1u << 1, 1u << 2, 1u << 3, 1u << 4, 1u << 5, 1u << 6, 1u << 7, 1u << 8, 1u << 9,  \
            1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15                             \
    }

static inline weft_type weft_type_like(const weft_type *type, int rank)
{
    weft_type out = *type;
    out.shape.rank = rank;
    return out;
}

/* A shape rule: all inputs must have the type of input 0, and so has output 0. */
weft_status weft_shape_same(const weft_graph *graph, weft_node *node,
                            weft_type *out) WEFT_NODISCARD;

/* Fails unless input i has this type: "operand what has shape [..], must be [..]". */
weft_status weft_expect(const weft_graph *graph, const weft_node *node, int i, const char *what,
                        weft_dtype dtype, int rank, const int64_t *dim) WEFT_NODISCARD;
/* As weft_expect, with a whole type, such as that of another operand. */
weft_status weft_expect_like(const weft_graph *graph, const weft_node *node, int i,
                             const char *what, const weft_type *type) WEFT_NODISCARD;
weft_status weft_expect_real(const weft_graph *graph, const weft_node *node, int i,
                             const char *what, int min_rank) WEFT_NODISCARD;
weft_status weft_expect_scalar(const weft_graph *graph, const weft_node *node, int i,
                               const char *what, weft_dtype dtype) WEFT_NODISCARD;

/* Fails unless input i is a tensor [batch, channels, ...] with 1 to WEFT_MAX_SPACE spatial
 * dimensions. */
weft_status weft_expect_space(const weft_graph *graph, const weft_node *node, int i,
                              const char *what) WEFT_NODISCARD;
/* Checks a window against the input size, and computes the output size. Both sizes have a number
 * for each dimension of the window. */
weft_status weft_window_check(const weft_node *node, const weft_window *window, const int64_t *in,
                              int64_t *out) WEFT_NODISCARD;

/* Adds a node named "<node>/<suffix>", and returns its first result. */
weft_value weft_emit(weft_graph *graph, const weft_node *node, const char *suffix, const char *op,
                     const weft_value *in, int count, const weft_attr *attrs, int attr_count);
/* As weft_emit, with the attributes of `node`. */
weft_value weft_emit_same(weft_graph *graph, const weft_node *node, const char *suffix,
                          const char *op, const weft_value *in, int count);

/* Adds the node of the operator "<operator>_grad", from a value and dy, with the attributes of
 * `node`. */
weft_value weft_emit_gradient(weft_graph *graph, const weft_node *node, weft_value of,
                              weft_value dy);
/* The gradient rule of an operator of one input, from that input and dy. */
void weft_gradient_by_input(weft_graph *graph, const weft_node *node, const weft_value *dy,
                            const bool *want, weft_value *dx);

/* Appends a signature such as "b c S~, o c !K -> b o S". S stands for the labels of the spatial
 * dimensions (w, h w or d h w), K for those of a kernel; each label gets the mark of its letter. */
void weft_labels_space(weft_text *text, const char *pattern, int dims);
/* As weft_emit, with the attributes of `node` and one more. */
weft_value weft_emit_with(weft_graph *graph, const weft_node *node, const char *suffix,
                          const char *op, const weft_value *in, int count, const weft_attr *more);

/* Appends labels d0 d1 ... for `rank` dimensions; labels from number `whole` on get the mark
 * '!'. */
void weft_labels_dims(weft_text *text, int rank, int whole);
/* A shape rule: the output has the shape of attribute `shape`, and as many elements as the
 * input. */
weft_status weft_shape_reshape(const weft_graph *graph, weft_node *node, weft_type *out);

/* The label signature of elementwise operators: all operands have the same labels, scalars have
 * none. */
void weft_labels_elementwise(const weft_graph *graph, const weft_node *node, weft_text *text);

/* The rows [*begin, *end), of an input of `rows` rows, that the windows of one rank's part of the
 * output read. window: rows that a window spans, stride, padding, rows of the output. */
void weft_window_rows(const int64_t *window, int64_t rows, int rank, int ranks, int64_t *begin,
                      int64_t *end);
/* Whether no rank needs a halo: the windows of each rank's outputs read exactly the rank's own part
 * of the input. */
bool weft_window_aligned(const int64_t *window, int64_t rows, int ranks);
/* As weft_window_rows, with the window of a halo or halo_add node. */
void weft_halo_rows(const weft_node *node, int rank, int64_t *begin, int64_t *end);
/* The number of elements that this rank sends in a transfer node, with the best known algorithm. */
int64_t weft_transfer_elements(const weft_graph *graph, const weft_node *node);

/* added_operator.c: operators that programs and plug-ins add. */
extern const struct weft_extension weft_operators_extension;
/* Registers the built-in operators. */
weft_status weft_operators_register(weft_context *context) WEFT_NODISCARD;

#endif
