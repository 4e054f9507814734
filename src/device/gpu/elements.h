/* Declares the generator of kernels for functions of each element, which other kinds of kernels use
 * for what follows them. */
#ifndef WEFT_DEVICE_GPU_ELEMENTS_H
#define WEFT_DEVICE_GPU_ELEMENTS_H

#include "device/gpu/gpu.h"

/* How the elements of a group's input are read. */
typedef struct gpu_operand {
    bool used, scalar, direct;     /* direct: the element of the same index */
    int64_t stride[WEFT_MAX_RANK]; /* otherwise */
} gpu_operand;

/* Nodes that are functions of each element of the shape `full`, in the order of the graph. */
typedef struct gpu_elements {
    const weft_node *node[WEFT_GROUP_NODES];
    int count;
    weft_shape full;
    gpu_operand operand[WEFT_GROUP_VALUES];
} gpu_elements;

/* A text that grows; its owner frees it. */
typedef struct gpu_body {
    char *text;
    size_t size, room;
} gpu_body;

/* The formula of a node, and p and q; NULL: it has none. */
const weft_element *gpu_element_of(const weft_node *node, double *parameters);
/* Reads the nodes of a group from `first` on; false: they are no functions of each element of one
 * shape, or read a value in two ways. */
bool gpu_elements_read(const weft_group *group, int first, gpu_elements *out);
void gpu_text_add(gpu_plan *plan, gpu_body *body, const char *format, ...) WEFT_PRINTF(3, 4);
/* Append the parameters of the function, with a comma before each; returns whether an operand is
 * spread, for which coordinates are needed. */
int gpu_elements_parameters(gpu_plan *plan, const gpu_elements *e, gpu_body *body);
/* Whether a result of the group may overlie an input, element by element. */
bool gpu_elements_overlies(const weft_group *group, const gpu_elements *e, int out, int in);
void gpu_elements_arguments(gpu_plan *plan, const gpu_elements *e);
/* Appends the statements for element `at`; main_value: the result that `value` holds. */
void gpu_elements_statements(gpu_plan *plan, const gpu_elements *e, gpu_body *body, bool spread,
                             weft_value main_value);

#endif
