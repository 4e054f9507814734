/* Internals of transfers: an operation of a communicator, and the copies before and after it. */
#ifndef WEFT_PROGRAM_TRANSFER_H
#define WEFT_PROGRAM_TRANSFER_H

#include "ops/ops.h"
#include "program/program.h"

/* Copies `count` rows of `bytes`; adds them where `add` is set. */
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
    int ranks; /* 0: a message, sent or received */
} transfer_kernel;

typedef struct transfer {
    weft_bound head;
    const transfer_kernel *of;
    weft_comm *comm; /* NULL: planning only; only room_bytes is valid */
    bool *differs;   /* of the instance */
    weft_operation *operation;
    char *send_room, *receive_room; /* staging buffers for contiguous parts; NULL: not needed */
    int64_t *counts;                /* [2 ranks], while it is placed */
    copy *before, *after;
    int before_count, after_count;
    copy own;   /* the part that stays on this rank; copied during the transfer */
    void *zero; /* set to zero before `own` */
    size_t zero_bytes;
    bool begun;
    size_t room_bytes; /* of send_room and receive_room */
} transfer;

/* transfer_bind.c: prepares operation and copies of a transfer for these addresses; without a
 * communicator only computes room_bytes. */
weft_status weft_transfer_place(transfer *t, void *const *in, void *const *out) WEFT_NODISCARD;

/* The communicator of a transfer's ranks; NULL: none. */
weft_comm *weft_transfer_comm(const weft_comms *comms, const weft_node *node);

/* agree.c: checks that the transfers of a learner's ranks match. Collective over all its
 * communicators. INTERNAL: they do not; the message names the first difference. */
weft_status weft_program_agree(const weft_program *program, const weft_comms *comms) WEFT_NODISCARD;

#endif
