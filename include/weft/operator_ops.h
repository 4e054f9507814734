/*
 * The interface between Weft and the implementations of operators, for programs and plug-ins that
 * add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_OPERATOR whose `ops` is a
 * weft_operator_ops).
 *
 * An operator is a set of rules for its nodes: which operands they take, what type the results
 * have, which nodes compute the gradients, and which dimensions may be split over ranks. A function
 * of each element is given once, as loops in single and double precision; the reference device and
 * the device cpu run them, and cpu fuses such nodes into one pass. Any other operator gives a
 * kernel in host memory, which the reference device runs; a device may have a faster one, which it
 * finds by the operator's name.
 *
 * Arrays are dense and row-major. Functions are called by several threads at once, with different
 * graphs or different memory; they keep no state. Functions with a status return WEFT_OK, or fail
 * with a message (services->fail_node, services->fail); a rule that adds nodes fails by the graph,
 * which keeps its first failure. docs/howto/add-from-outside.md is a tutorial.
 */
#ifndef WEFT_OPERATOR_OPS_H
#define WEFT_OPERATOR_OPS_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A node of a graph; plug-ins read it through their services (weft/services.h). */
typedef struct weft_node weft_node;

/* A function of each element. */
typedef struct weft_element {
    int count;            /* operands, 1 to 3 */
    const char *attrs[2]; /* attributes that are the numbers p and q; NULL: none */
    double values[2];     /* p and q where the node lacks the attribute */
    const char *text;     /* the formula, in a, b, c, p and q */
    /* Computes `count` elements; in[3] has an address for each operand, and the first again in the
     * place of others. parameters: p and q. `out` may be one of the inputs. */
    void (*f32)(const void *const *in, const double *parameters, void *out, int64_t count);
    void (*f64)(const void *const *in, const double *parameters, void *out, int64_t count);
    uint64_t room[4]; /* of later versions: 0 */
} weft_element;

/* A run of a kernel of an operator. */
typedef struct weft_operator_call {
    const weft_graph *graph;
    const weft_node *node;
    const void *const *in; /* the node's inputs */
    void *const *out;      /* and its outputs, which overlap neither each other nor the inputs */
} weft_operator_call;

/* The rules of an operator. */
typedef struct weft_operator_ops {
    size_t struct_size; /* sizeof(weft_operator_ops) */
    /* The function of each element that the operator is, or NULL. Shapes of operands are then
     * broadcast (aligned at the last dimension, where sizes are equal or 1), and the next six
     * fields are not used. */
    const weft_element *element;

    int min_inputs, max_inputs; /* max_inputs < 0: any number */
    const char *const *attrs;   /* names of its attributes, NULL-terminated; NULL: none */
    /* Checks the operands and attributes of a node, and sets the types of its *count outputs (1 at
     * first, at most 16). ARGUMENT: operands do not suit the operator. */
    weft_status (*shape)(const weft_graph *graph, const weft_node *node, weft_type *out,
                         int *count);
    /* Writes the label signature of a node, such as "b k, k n -> b n": dimensions with one label
     * belong together. One that stands in inputs and outputs may be split over ranks, one that
     * stands in inputs alone is summed over, and one with the mark '!' stays whole. If all tensors
     * have the same labels without marks, a rank may compute a range of their elements, as
     * vectors. NULL: all dimensions stay whole. */
    weft_status (*labels)(const weft_graph *graph, const weft_node *node, char *text, size_t size);
    /* Computes a node, whose real values are f32 or f64 as the graph is; others are integers or
     * bool. */
    weft_status (*compute)(const weft_operator_call *call);
    /* The floating-point operations of a node; NULL: one for each output element. */
    double (*flops)(const weft_graph *graph, const weft_node *node);

    /* Adds nodes (services->emit) for the gradients of the inputs. dy[i] is WEFT_NO_VALUE where the
     * loss does not depend on output i. want[i] says whether dx[i] is needed; dx starts as
     * WEFT_NO_VALUE. NULL: not differentiable. */
    void (*gradient)(weft_graph *graph, const weft_node *node, const weft_value *dy,
                     const bool *want, weft_value *dx);
} weft_operator_ops;

#ifdef __cplusplus
}
#endif
#endif
