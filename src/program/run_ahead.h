/* Declares the parts of steps that are queued ahead: which programs allow it, and the watch of the
 * losses of a step by the device, a flag that stops the kernels which it guards once a loss of any
 * rank is not finite. */
#ifndef WEFT_PROGRAM_RUN_AHEAD_H
#define WEFT_PROGRAM_RUN_AHEAD_H

#include "program/instance.h"

/* The ranks that queue ahead together; NULL: there is one. */
static inline weft_comm *ahead_ranks(const weft_instance *x)
{
    weft_comm *learner = x->comms ? x->comms->learner : NULL;
    return learner && weft_comm_size(learner) > 1 ? learner : NULL;
}

/* whole_step.c: whether a program computes on the device alone, so that nothing but the copies of
 * inputs and fetched values, and other ranks, makes the host wait. */
bool weft_step_is_whole(const weft_program *program);
bool weft_step_has_transfers(const weft_program *program);
/* Whether an instruction is a kernel that writes parameters or state. */
bool weft_step_guards(const weft_program *program, const instruction *code);
/* The instruction that copies a value to the host, or -1. */
int weft_step_copy_of(const weft_program *program, weft_value value);

/* loss_watch.c */
typedef struct loss_watch loss_watch;

/* Opens the watch of an instance's losses: steps have so many micro-batches, and `loss` is the
 * buffer of the loss on the device; -1: this rank has none that counts. UNSUPPORTED: the device
 * watches no numbers of this type. */
weft_status weft_loss_watch_open(weft_instance *x, weft_dtype dtype, int micros, int loss,
                                 loss_watch **out) WEFT_NODISCARD;
void weft_loss_watch_close(loss_watch **watch);
weft_address weft_loss_watch_flag(const loss_watch *watch);
/* Queues behind the loss of a micro-batch, which is in the instance's slot, that it is noted. */
weft_status weft_loss_watch_note(const loss_watch *watch, int micro) WEFT_NODISCARD;
/* Queues the look at all losses of the step. Collective over the learner; the host meets the other
 * ranks, and waits for no device. *apart: the statistics of this meeting. */
weft_status weft_loss_watch_look(const loss_watch *watch, weft_comm_stats *apart) WEFT_NODISCARD;
/* Clears the flag, and waits for that. */
weft_status weft_loss_watch_clear(const loss_watch *watch) WEFT_NODISCARD;

#endif
