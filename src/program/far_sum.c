/* Adds up memory of a device in the order of the fixed tree, with the device's own kernels of the
 * operator add: one for all additions where it has such a kernel, else one for each. */
#include <stdio.h>

#include "base/tree_sum.h"
#include "program/far.h"

/* Adds the tree's inputs and additions to the graph; *sum: the last one. */
static weft_status build(weft_graph *graph, const weft_tree_step *step, int steps, weft_dtype dtype,
                         int64_t count, weft_value *sum)
{
    const weft_shape shape = weft_shape_of(1, &count);
    weft_value *stack;
    int depth = 0;
    WEFT_TRY(WEFT_NEW(&stack, steps));
    for (int i = 0; i < steps; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "p%d", i);
        if (step[i].rank < 0) {
            depth -= 2;
            stack[depth] = weft_graph_node(graph, "add", name, &stack[depth], 2, NULL, 0);
        } else
            stack[depth] = weft_graph_leaf(graph, WEFT_VALUE_INPUT, name, dtype, &shape,
                                           (weft_init){.kind = WEFT_INIT_CONSTANT});
        depth++;
    }
    *sum = stack[0];
    free(stack);
    return weft_graph_status(graph);
}

weft_status weft_far_sum_open(weft_device *device, weft_dtype dtype, int leaves, int ranks,
                              int64_t count, far_graph **out)
{
    weft_graph *graph;
    weft_tree_step *step;
    weft_value sum = WEFT_NO_VALUE;
    int steps = weft_tree_steps(leaves, ranks, NULL);
    WEFT_TRY(weft_graph_create(device->context, WEFT_F32, &graph));
    weft_status status = WEFT_NEW(&step, steps);
    if (status == WEFT_OK) {
        (void)weft_tree_steps(leaves, ranks, step);
        status = build(graph, step, steps, dtype, count, &sum);
        free(step);
    }
    if (status == WEFT_OK) return weft_far_graph_open(device, graph, &sum, 1, true, out);
    weft_graph_destroy(&graph);
    return status;
}

bool weft_far_adds(weft_device *device, weft_dtype dtype)
{
    return weft_far_sum_open(device, dtype, 2, 2, 1, NULL) == WEFT_OK;
}
