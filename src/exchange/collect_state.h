/* What the other learners of a job keep for themselves (residuals of codecs, mostly), at the first
 * one, which writes checkpoints in the middle of a run: each hands it over when it comes to a step
 * after which one is written. Where all take their steps together the first one has what all had at
 * that step; elsewhere what has come by then, and nobody waits.
 *
 * Rank r of a learner hands over to rank r of the first. Not with learners that come and go. */
#ifndef WEFT_EXCHANGE_COLLECT_STATE_H
#define WEFT_EXCHANGE_COLLECT_STATE_H

#include "exchange/exchange.h"

/* *out is NULL where nobody has anything to hand over. */
weft_status weft_collect_open(weft_exchange *exchange, weft_collect **out) WEFT_NODISCARD;
void weft_collect_close(weft_collect **others);
/* Of a learner that is not the first: what it keeps after that step goes, if what went before has
 * been taken. Collective over its ranks. */
weft_status weft_collect_send(weft_collect *others, int64_t step) WEFT_NODISCARD;
/* Of the first: takes what has come. Collective over its ranks. */
weft_status weft_collect_receive(weft_collect *others, int64_t step) WEFT_NODISCARD;
/* State number i of the others' own, as this learner has it now; NULL: nothing has come. */
void *weft_collect_data(const weft_collect *others, int learner, int i);
/* Nothing more is handed over. `before` all have left, and then without `before`. */
weft_status weft_collect_end(weft_collect *others, bool before) WEFT_NODISCARD;

#endif
