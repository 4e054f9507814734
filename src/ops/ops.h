/* Helpers of the operators, and the list of all operators. */
#ifndef WEFT_OPS_OPS_H
#define WEFT_OPS_OPS_H

#include "graph/graph.h"

/* Attribute lists: WEFT_ATTRS("stride", "padding"). */
#define WEFT_ATTRS(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline weft_type weft_type_like(const weft_type *type, int rank)
{
    weft_type out = *type;
    out.shape.rank = rank;
    return out;
}

/* Output 0 has the type of input 0, and so must all other inputs. */
weft_status weft_shape_same(const weft_graph *graph, weft_node *node,
                            weft_type *out) WEFT_NODISCARD;

/* Fails unless input i has this type: "operand what has shape [..], must be [..]". */
weft_status weft_expect(const weft_graph *graph, const weft_node *node, int i, const char *what,
                        weft_dtype dtype, int rank, const int64_t *dim) WEFT_NODISCARD;
/* As above, with the type of another operand. */
weft_status weft_expect_like(const weft_graph *graph, const weft_node *node, int i,
                             const char *what, const weft_type *type) WEFT_NODISCARD;
weft_status weft_expect_real(const weft_graph *graph, const weft_node *node, int i,
                             const char *what, int min_rank) WEFT_NODISCARD;
weft_status weft_expect_scalar(const weft_graph *graph, const weft_node *node, int i,
                               const char *what, weft_dtype dtype) WEFT_NODISCARD;

/* A tensor [batch, channels, ...] with 1 to WEFT_MAX_SPACE spatial dimensions. */
weft_status weft_expect_space(const weft_graph *graph, const weft_node *node, int i,
                              const char *what) WEFT_NODISCARD;
/* Checks the window against the input size, and computes the output size; both have a number for
 * each dimension of the window. */
weft_status weft_window_check(const weft_node *node, const weft_window *window, const int64_t *in,
                              int64_t *out) WEFT_NODISCARD;

/* Adds a node "<node>/<suffix>" with one result. */
weft_value weft_emit(weft_graph *graph, const weft_node *node, const char *suffix, const char *op,
                     const weft_value *in, int count, const weft_attr *attrs, int attr_count);
/* As above, with the attributes of the node. */
weft_value weft_emit_same(weft_graph *graph, const weft_node *node, const char *suffix,
                          const char *op, const weft_value *in, int count);

/* Appends a signature in which S stands for the spatial dimensions, w, h w or d h w, and K for
 * those of a kernel, each with the marks of the letter: "b c S~, o c !K -> b o S". */
void weft_labels_space(weft_text *text, const char *pattern, int dims);
/* As above, with one more attribute. */
weft_value weft_emit_with(weft_graph *graph, const weft_node *node, const char *suffix,
                          const char *op, const weft_value *in, int count, const weft_attr *more);

/* Appends labels d0 d1 ... of a rank; those from `whole` on get the mark. */
void weft_labels_dims(weft_text *text, int rank, int whole);
/* Elementwise: all operands of full rank have the same labels, scalars have none. */
/* The shape of attribute `shape`, with the elements of the input. */
weft_status weft_shape_reshape(const weft_graph *graph, weft_node *node, weft_type *out);

void weft_labels_elementwise(const weft_graph *graph, const weft_node *node, weft_text *text);

/* The rows of an input of `rows` that the windows of output part `rank` touch. window: reach,
 * stride, padding, rows of the output. */
void weft_window_rows(const int64_t *window, int64_t rows, int rank, int ranks, int64_t *begin,
                      int64_t *end);
/* Whether each part is exactly what the windows of its outputs touch. */
bool weft_window_aligned(const int64_t *window, int64_t rows, int ranks);
/* As above, for a halo or halo_add node. */
void weft_halo_rows(const weft_node *node, int rank, int64_t *begin, int64_t *end);
/* Elements that this rank sends in a transfer node, with the best known algorithm. */
int64_t weft_transfer_elements(const weft_graph *graph, const weft_node *node);

/* Registers the built-in operators. */
weft_status weft_operators_register(weft_context *context) WEFT_NODISCARD;

#endif
