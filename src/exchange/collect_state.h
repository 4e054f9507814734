/* Collects the exchange state of a job's learners (mostly residuals) at the first learner, which
 * saves the checkpoints in the middle of a run. Each other learner sends its state after a step
 * with a checkpoint. If all learners take their steps together, the first one waits until it has
 * the state of all after that step; otherwise it takes the state that has arrived, and no learner
 * waits.
 *
 * Rank r of a learner sends to rank r of the first learner. The state of elastic learners is not
 * collected. */
#ifndef WEFT_EXCHANGE_COLLECT_STATE_H
#define WEFT_EXCHANGE_COLLECT_STATE_H

#include "exchange/exchange.h"

/* *out is NULL if nothing has to be collected: in lock step, with elastic learners, with one
 * learner, or without state that differs between learners. */
weft_status weft_collect_open(weft_exchange *exchange, weft_collect **out) WEFT_NODISCARD;
void weft_collect_close(weft_collect **others);
/* A learner other than the first sends its state after step `step`, or sends nothing if its last
 * buffer is still in transit. Collective over its ranks. */
weft_status weft_collect_send(weft_collect *others, int64_t step) WEFT_NODISCARD;
/* The first learner receives the states of the others for a checkpoint after step `step`.
 * Collective over its ranks. */
weft_status weft_collect_receive(weft_collect *others, int64_t step) WEFT_NODISCARD;
/* State i of another learner, as the first learner has received it last; NULL: none has arrived. */
void *weft_collect_data(const weft_collect *others, int learner, int i);
/* Ends the collection: no more states are sent. Called with `before` ahead of the exchange's `end`,
 * when other learners may still train, and without `before` after it. */
weft_status weft_collect_end(weft_collect *others, bool before) WEFT_NODISCARD;

#endif
