/* Declares the reference kernels, which are portable, serial C that is easy to verify by eye. Each
 * file is compiled for float and for double (WEFT_REAL); sums are always in double. */
#ifndef WEFT_DEVICE_REFERENCE_H
#define WEFT_DEVICE_REFERENCE_H

#include "device/device.h"

/* One call of a kernel. in[i] and out[i] are the node's operands, dense and row-major. Outputs may
 * overlie inputs if the operator allows it (weft_op.in_place). */
typedef struct weft_ref {
    const weft_graph *graph;
    const weft_node *node;
    const void *const *in;
    void *const *out;
    void *scratch; /* bytes as in the kernel's entry */
} weft_ref;

typedef void (*weft_ref_fn)(const weft_ref *a);

typedef struct weft_ref_entry {
    const char *op;
    weft_ref_fn fn;
    size_t scratch; /* bytes */
} weft_ref_entry;

/* elementwise.c: operators with an element function, of which no table has a kernel. */
extern const weft_ref_entry weft_ref_element_float, weft_ref_element_double;

/* mixed_types.c: kernels for values of any type, which may differ between operands; moves.c: those
 * that move or compare elements of any type. */
extern const weft_ref_entry weft_ref_any[], weft_ref_moves[];
/* mixed_types.c: the element of an operand that element i of the result reads. */
int64_t weft_ref_element_of(const weft_ref *a, int operand, int64_t i);

/* One table for each file and precision; an entry without a name ends it. */
#define WEFT_REF_FILES(X)                                                                          \
    X(elementwise) X(matrix) X(window) X(norm) X(shape) X(loss) X(update) X(recurrence) X(attention)
#define WEFT_REF_DECLARE(file)                                                                     \
    extern const weft_ref_entry weft_ref_##file##_float[];                                         \
    extern const weft_ref_entry weft_ref_##file##_double[];
WEFT_REF_FILES(WEFT_REF_DECLARE)

#ifndef WEFT_REAL
#define WEFT_REAL float
#endif
typedef WEFT_REAL real;
#define WEFT_REF_NAME2(file, type) weft_ref_##file##_##type
#define WEFT_REF_NAME1(file, type) WEFT_REF_NAME2(file, type)
#define WEFT_REF_TABLE(file) WEFT_REF_NAME1(file, WEFT_REAL)

static inline const weft_shape *in_shape(const weft_ref *a, int i)
{
    return &weft_in(a->graph, a->node, i)->shape;
}
static inline const weft_shape *out_shape(const weft_ref *a, int i)
{
    return &weft_out(a->graph, a->node, i)->shape;
}
static inline int64_t in_size(const weft_ref *a, int i)
{
    return weft_shape_elements(in_shape(a, i));
}
static inline int64_t out_size(const weft_ref *a, int i)
{
    return weft_shape_elements(out_shape(a, i));
}

#endif
