/* Declares transfers between ranks whose devices read each other's memory: the sums, the buffers
 * that a communicator is given, and what the ranks agree on before programs are made. */
#ifndef WEFT_PROGRAM_FAR_H
#define WEFT_PROGRAM_FAR_H

#include "comm/comm.h"
#include "program/program.h"

/* far_graph.c: a graph whose inputs are in memory of a device, and where its results go; the graph
 * is taken, also on failure. fused: its only result is that of the last node, which may lie over
 * inputs; one kernel may compute all nodes. UNSUPPORTED: the device has no plain kernel for a node.
 * out NULL: to ask whether it has, without compiling any. */
typedef struct far_graph far_graph;
weft_status weft_far_graph_open(weft_device *device, weft_graph *graph, const weft_value *result,
                                int results, bool fused, far_graph **out) WEFT_NODISCARD;
/* Queues a run. at: the inputs in their order, then the results; other addresses than those of the
 * run before only if that has ended. */
weft_status weft_far_graph_run(far_graph *f, const weft_address *at,
                               weft_queue *queue) WEFT_NODISCARD;
void weft_far_graph_close(far_graph **graph);

/* far_sum.c: the sum over the subtrees of all ranks, of `count` elements; its inputs are in the
 * order of weft_tree_steps. UNSUPPORTED: the device has no kernel for it. */
weft_status weft_far_sum_open(weft_device *device, weft_dtype dtype, int leaves, int ranks,
                              int64_t count, far_graph **out) WEFT_NODISCARD;
/* Whether the device has kernels for sums of a type. */
bool weft_far_adds(weft_device *device, weft_dtype dtype);

/* far_pack.c: a tensor around a dimension, and parts of that dimension, at most WEFT_MAX_OUTPUTS
 * and none empty. */
typedef struct far_rows {
    weft_dtype dtype;
    int64_t outer, size, inner;
} far_rows;
typedef struct far_range {
    int64_t begin, end;
} far_range;
/* From a tensor to dense parts; from all parts to the tensor; and from parts, which may overlap, to
 * a tensor of their sums. */
weft_status weft_far_split(weft_device *device, const far_rows *t, const far_range *part, int parts,
                           far_graph **out) WEFT_NODISCARD;
weft_status weft_far_join(weft_device *device, const far_rows *t, const far_range *part, int parts,
                          far_graph **out) WEFT_NODISCARD;
weft_status weft_far_add_rows(weft_device *device, const far_rows *t, const far_range *part,
                              int parts, far_graph **out) WEFT_NODISCARD;
/* Whether the device has kernels for these with values of a type. */
bool weft_far_packs(weft_device *device, weft_dtype dtype);

/* collective.c: a library of the ranks' devices. Its name; NULL: this device uses none. */
typedef struct device_library device_library;
const char *weft_collectives_library(const weft_device *device);
/* All ranks of the learner have it, and its communicators are open while `learner` is. */
weft_status weft_collectives_new(weft_device *device, weft_comm *learner,
                                 device_library **out) WEFT_NODISCARD;
void weft_collectives_free(device_library **given);
/* The library's communicator for the ranks of `comm`, which is that of these axes (negative: of the
 * learner). All of its ranks call it. */
weft_status weft_collectives_open(device_library *c, weft_comm *comm, int axes,
                                  weft_collective **out) WEFT_NODISCARD;
weft_queue **weft_collectives_queue(device_library *c);
/* Queues a transfer there. After a failure the library has given up all that it had queued. */
weft_status weft_collectives_run(device_library *c, weft_collective *of, const weft_transfer *t,
                                 const int64_t *counts, weft_address send,
                                 weft_address receive) WEFT_NODISCARD;

/* far.c: the buffers of a transfer on the device of an instance, of elements of a type. The sum of
 * a transfer is that of `what`. by: the library that runs the whole of it; NULL: the ranks do. They
 * are closed after the operation. */
typedef struct far_buffers far_buffers;
weft_status weft_far_open(weft_instance *x, const weft_transfer *what, int ranks, int rank,
                          weft_address send, weft_address receive, weft_collective *by,
                          far_buffers **out) WEFT_NODISCARD;
weft_far *weft_far_head(far_buffers *far);
/* Records, in the instance's queue, that the operands are there; makes that queue wait for the end
 * of a transfer whose operation has ended. */
weft_status weft_far_ready(far_buffers *far) WEFT_NODISCARD;
weft_status weft_far_end(far_buffers *far) WEFT_NODISCARD;
void weft_far_close(far_buffers **far);

/* reach.c: where a transfer runs; the same on all its ranks. */
typedef enum reach_way {
    REACH_HOST,    /* in host memory, by the communicator */
    REACH_FAR,     /* on the ranks' devices, which read each other's memory */
    REACH_LIBRARY, /* on the ranks' devices, by a library of theirs */
    REACH_ADDRESS  /* in memory of devices, by the communicator, for which the host waits */
} reach_way;
reach_way weft_reach_transfer(const schema *s, const weft_graph *graph, const weft_node *node,
                              weft_dtype dtype);

#endif
