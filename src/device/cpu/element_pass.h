/* Declares the pass of a group of functions of each element: elementwise.c creates it,
 * element_pass.c runs it. */
#ifndef WEFT_DEVICE_CPU_ELEMENT_PASS_H
#define WEFT_DEVICE_CPU_ELEMENT_PASS_H

#include "device/cpu/spread.h"

enum { ELEMENT_BLOCK = 512 };

/* Where a node finds an operand, or writes its result. */
typedef enum element_place { OPERAND, RESULT, BETWEEN, SPREAD } element_place;
typedef struct element_where {
    element_place place;
    int index; /* of the group's input or output, of a block of scratch memory */
} element_where;

typedef struct element_step {
    const weft_node *node;
    const weft_element *element; /* NULL: it rounds at random, or casts that */
    int operands;                /* of the elements */
    double parameters[2];
    element_where in[3], out;
} element_step;

typedef struct element_pass {
    weft_kernel head;
    const weft_graph *graph;
    element_step steps[WEFT_GROUP_NODES];
    int count, in_count, out_count;
    bool spread[WEFT_GROUP_VALUES];     /* of each input of the group: it is spread out, */
    cpu_spread how[WEFT_GROUP_VALUES];  /* like this */
    bool narrow[WEFT_GROUP_VALUES];     /* of each input: it is bf16, and in memory order */
    int other[WEFT_GROUP_VALUES];       /* of each output: 1 + the block of one that is not f32 */
    weft_dtype type[WEFT_GROUP_VALUES]; /* of each output */
    int blocks;                         /* of scratch memory that a thread has */
    int64_t size;
    int threads;
} element_pass;

extern const weft_kernel_ops cpu_element_pass_ops;

#endif
