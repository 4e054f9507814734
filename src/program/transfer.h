/* Inside of transfers: an operation of a communicator, and the copies around it. */
#ifndef WEFT_PROGRAM_TRANSFER_H
#define WEFT_PROGRAM_TRANSFER_H

#include "ops/ops.h"
#include "program/program.h"

/* Rows of `bytes`, `count` of them, from one place to another; added where `add` is set. */
typedef struct copy {
    int64_t count;
    size_t bytes, from_step, to_step;
    const char *from;
    char *to;
    bool add;
} copy;

typedef struct transfer_kernel {
    weft_kernel head;
    const schema *schema;
    const weft_graph *graph;
    const weft_node *node;
    weft_dtype dtype;
    int in_count, out_count;
    int ranks; /* 0: the two ends of a message */
} transfer_kernel;

typedef struct transfer {
    weft_bound head;
    const transfer_kernel *of;
    weft_comm *comm; /* NULL: in no memory, only room_bytes counts */
    bool *differs;   /* of the instance */
    weft_operation *operation;
    char *send_room, *receive_room; /* where parts lie one after the other; NULL: not needed */
    int64_t *counts;                /* [2 ranks], while it is placed */
    copy *before, *after;
    int before_count, after_count;
    copy own;   /* what stays on this rank; made while the rest is under way */
    void *zero; /* set to zero before `own` */
    size_t zero_bytes;
    bool begun;
    size_t room_bytes; /* of send_room and receive_room */
} transfer;

/* bind.c: prepares the operation and the copies of a transfer for its memory; without a
 * communicator only room_bytes, for addresses that nobody reads. */
weft_status weft_transfer_place(transfer *t, void *const *in, void *const *out) WEFT_NODISCARD;

/* The communicator of a transfer's ranks; NULL: there is none. */
weft_comm *weft_transfer_comm(const weft_comms *comms, const weft_node *node);

/* agree.c: whether the transfers of the ranks of a learner fit together. Collective over all its
 * communicators. INTERNAL: they do not; the message names the first difference. */
weft_status weft_program_agree(const weft_program *program, const weft_comms *comms) WEFT_NODISCARD;

#endif
