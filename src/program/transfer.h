/* Declares transfers between ranks as kernels: an operation of a communicator, with the copies that
 * pack and unpack its data. */
#ifndef WEFT_PROGRAM_TRANSFER_H
#define WEFT_PROGRAM_TRANSFER_H

#include "ops/ops.h"
#include "program/far.h"

/* Copies `count` rows of `bytes` bytes; with `add`, in host memory, the rows are added to those at
 * `to`. */
typedef struct copy {
    int64_t count;
    size_t bytes, from_step, to_step;
    weft_address from, to;
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
    reach_way way;
    int space; /* memory of its operands and results */
} transfer_kernel;

/* Kernels that pack or unpack parts on the device, and the addresses of these and of the tensor. */
typedef struct packing {
    far_graph *graph;
    weft_address at[WEFT_MAX_OUTPUTS + 1];
} packing;

typedef struct transfer {
    weft_bound head;
    const transfer_kernel *of;
    weft_comm *comm;         /* NULL: planning only; only room_bytes is valid */
    bool *differs;           /* weft_instance.differs */
    weft_instance *instance; /* as comm */
    far_buffers *far;        /* operands on the device; NULL: host memory */
    weft_operation *operation;
    weft_memory *send_room, *receive_room; /* staging buffers for contiguous parts; NULL: not
                                              needed */
    weft_memory *own_room;                 /* on the device: the part that stays on this rank */
    int64_t *counts;                       /* [2 ranks], while it is placed */
    copy *before, *after;
    int before_count, after_count;
    /* On the device, in place of these copies, of `own` and `zero`; NULL: nothing is packed. */
    packing pack, unpack;
    copy own;   /* the part that stays on this rank, copied while the transfer runs */
    void *zero; /* host memory that is set to zero before `own` is copied; NULL: none */
    size_t zero_bytes;
    bool begun;
    size_t room_bytes; /* of all three rooms; of a plan, also of the operation */
} transfer;

/* transfer_bind.c: prepares the operation and the copies of a transfer for these addresses; without
 * a communicator it only computes room_bytes. */
weft_status weft_transfer_place(transfer *t, const weft_address *in,
                                const weft_address *out) WEFT_NODISCARD;

/* The communicator of the ranks between which a transfer runs; NULL: there is none. */
weft_comm *weft_transfer_comm(const weft_comms *comms, const weft_node *node);

/* agree.c: checks that the transfers of a learner's ranks match. All ranks of the learner must call
 * it. INTERNAL: the transfers differ; the message names the first difference. */
weft_status weft_program_agree(const weft_program *program, const weft_comms *comms) WEFT_NODISCARD;

#endif
