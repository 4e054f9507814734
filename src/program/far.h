/* Declares transfers between ranks whose devices read each other's memory: the sums, the buffers
 * that a communicator is given, and what the ranks agree on before programs are made. */
#ifndef WEFT_PROGRAM_FAR_H
#define WEFT_PROGRAM_FAR_H

#include "comm/comm.h"
#include "program/program.h"

/* far_sum.c: the sum over the subtrees of all ranks, of `count` elements. UNSUPPORTED: the device
 * has no kernel for it. source: the addresses in the order of weft_tree_steps. A run is queued; it
 * may have other addresses than the one before only if that has ended. */
typedef struct far_sum far_sum;
weft_status weft_far_sum_open(weft_device *device, weft_dtype dtype, int leaves, int ranks,
                              int64_t count, far_sum **out) WEFT_NODISCARD;
weft_status weft_far_sum_run(far_sum *sum, const weft_address *source, weft_address to,
                             weft_queue *queue) WEFT_NODISCARD;
void weft_far_sum_close(far_sum **sum);
/* Whether the device has kernels for sums of a type. */
bool weft_far_adds(weft_device *device, weft_dtype dtype);

/* far.c: the buffers of a transfer on the device of an instance, of elements of a type. The sum of
 * a transfer is that of `what`. They are closed after the operation. */
typedef struct far_buffers far_buffers;
weft_status weft_far_open(weft_instance *x, const weft_transfer *what, int ranks, int rank,
                          weft_address send, weft_address receive,
                          far_buffers **out) WEFT_NODISCARD;
weft_far *weft_far_head(far_buffers *far);
/* Records, in the instance's queue, that the operands are there; makes that queue wait for the end
 * of a transfer whose operation has ended. */
weft_status weft_far_ready(far_buffers *far) WEFT_NODISCARD;
weft_status weft_far_end(far_buffers *far) WEFT_NODISCARD;
void weft_far_close(far_buffers **far);

/* reach.c: whether a transfer runs on devices; the same on all its ranks. */
bool weft_reach_transfer(const schema *s, const weft_graph *graph, const weft_node *node,
                         weft_dtype dtype);

#endif
