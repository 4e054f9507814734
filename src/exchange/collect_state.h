/* Collects the codec state of the other learners of a job (mostly residuals) at the first one,
 * which writes checkpoints during a run: each sends its state after a step with a checkpoint. If
 * all learners take their steps together, the first has the state of all after that step; otherwise
 * the state that has arrived, and no learner waits.
 *
 * Rank r of a learner sends to rank r of the first. Not with elastic learners. */
#ifndef WEFT_EXCHANGE_COLLECT_STATE_H
#define WEFT_EXCHANGE_COLLECT_STATE_H

#include "exchange/exchange.h"

/* *out is NULL if there is no such state. */
weft_status weft_collect_open(weft_exchange *exchange, weft_collect **out) WEFT_NODISCARD;
void weft_collect_close(weft_collect **others);
/* A learner other than the first sends its state after that step, unless the last one is still in
 * transit. Collective over its ranks. */
weft_status weft_collect_send(weft_collect *others, int64_t step) WEFT_NODISCARD;
/* The first learner receives states. Collective over its ranks. */
weft_status weft_collect_receive(weft_collect *others, int64_t step) WEFT_NODISCARD;
/* State i of another learner, as received last; NULL: none yet. */
void *weft_collect_data(const weft_collect *others, int learner, int i);
/* No more states are sent. `before` all have left, and then without `before`. */
weft_status weft_collect_end(weft_collect *others, bool before) WEFT_NODISCARD;

#endif
