/* Declares a walk through a step of a program without running it, for estimates of its time. */
#ifndef WEFT_PROGRAM_WALK_H
#define WEFT_PROGRAM_WALK_H

#include "program/program.h"
#include "program/tuning.h"

typedef enum weft_walk_event {
    WEFT_WALK_FEED,   /* the inputs of a micro-batch are written */
    WEFT_WALK_RUN,    /* an instruction runs */
    WEFT_WALK_START,  /* a transfer begins */
    WEFT_WALK_FINISH, /* the rank waits for its end */
    WEFT_WALK_LOSS    /* the ranks add up their losses */
} weft_walk_event;
typedef weft_status weft_walk_fn(void *user, weft_walk_event event, int instruction, int slot);

/* Calls fn with everything that a step does, in the order of the schedule, which the update
 * follows. The device shares the host's memory. */
weft_status weft_program_walk(const weft_program *program, const weft_schedule *schedule,
                              weft_walk_fn *fn, void *user) WEFT_NODISCARD;

/* An instruction as something that takes time: `kind` names its operators, the type of its first
 * operand and its implementation; `size` is equal for instructions of a kind with equal shapes,
 * attributes and layouts, and up to its '-' for those whose first operators differ in the samples
 * that they compute alone. */
typedef struct weft_work {
    char kind[160], size[40];
    double flops, bytes;
} weft_work;
/* The graph of the program must still exist. */
weft_status weft_instruction_work(const weft_program *program, int i,
                                  weft_work *out) WEFT_NODISCARD;
/* The number of the kernel that an instruction shares with others of the same work, below
 * weft_program_kernels; -1: it shares none. */
int weft_instruction_kernel(const weft_program *program, int i);
/* Names an instruction by its layer and its operator, as "conv1 conv". */
void weft_instruction_name(const weft_program *program, int i, char *out, size_t size);
/* Node k of those that an instruction computes: its operator and its operations. false: the
 * instruction has no such node. */
bool weft_instruction_node(const weft_program *program, int i, int k, const char **op,
                           double *flops);
/* Whether an instruction is part of the update. */
bool weft_instruction_updates(const weft_program *program, int i);
/* Writes the name of an instruction as a trace has it, "conv+bias conv1", and returns its phase. */
weft_phase weft_instruction_text(const weft_program *program, int i, char *out, size_t size);
/* The node of a transfer; NULL: the instruction is none. */
const weft_node *weft_instruction_transfer(const weft_program *program, int i);
/* The bytes that a rank sends in a transfer: those of sums with the padding of their layouts. */
double weft_instruction_sends(const weft_program *program, int i);
/* transfer_bind.c: the operation of a communicator that a transfer becomes. */
weft_transfer_kind weft_transfer_kind_of(const weft_node *node);

/* trace_times.c: what an instance recorded, without the first steps: means over the middle half of
 * the steps by their length. seconds: [instructions] the time of each instruction that is no
 * transfer; 0: it did not run. *step: that of a step; *rest: that of what the host does in a step
 * beside its instructions and transfers. The device shares the host's memory. ARGUMENT: too few
 * steps were recorded. */
weft_status weft_instance_times(const weft_instance *x, int first_steps, double *seconds,
                                double *step, double *rest) WEFT_NODISCARD;

#endif
