/* What the codecs of a rank keep between updates, as checkpoints have it: it belongs to parameters,
 * not to the ranges that they are sent in, and so loads on another number of servers or ranks. */
#ifndef WEFT_EXCHANGE_KEPT_H
#define WEFT_EXCHANGE_KEPT_H

#include "compress/compress.h"
#include "exchange/shared_params.h"
#include "exchange/exchange.h"

typedef struct weft_kept weft_kept;

/* Of a codec, by its specification, for the parameters of a store in one or more ranges. What a
 * codec keeps to begin with is in it. back: of another one that goes the other way, of which
 * nothing is kept; NULL: there is none. copies: what another rank of the learner has, too, and
 * speaks of, is nothing of this one's; NULL: all is. */
weft_status weft_kept_open(weft_context *context, const char *spec, const char *back,
                           const weft_store *store, const weft_copies *copies,
                           weft_kept **out) WEFT_NODISCARD;
void weft_kept_close(weft_kept **kept);

/* The codec of the range that begins at number `begin` of them as they lie: what it keeps, into it,
 * once, and out of it. The first also tells it what of its range is no parameter, */
weft_status weft_kept_give(const weft_kept *kept, weft_codec *codec, int64_t begin) WEFT_NODISCARD;
void weft_kept_take(weft_kept *kept, weft_codec *codec, int64_t begin);
/* and this tells a codec that alone. */
weft_status weft_kept_skip(const weft_kept *kept, weft_codec *codec, int64_t begin) WEFT_NODISCARD;

/* Says so in a note where updates gather momentum twice, in the codec and in the optimiser. */
void weft_kept_tell_momentum(const weft_kept *kept, const weft_exchange_site *site);

/* padding.c: as weft_parameter_gaps, and what another rank speaks of. */
weft_status weft_gaps_of(const weft_store *store, const weft_copies *copies,
                         weft_gap_list *out) WEFT_NODISCARD;
/* Tells the codec of the range that begins at number `begin` of those that are in it. */
weft_status weft_gaps_skip(weft_gap_list gaps, weft_codec *codec, int64_t begin) WEFT_NODISCARD;
weft_gap_list weft_kept_gaps(const weft_kept *kept);

/* State i, each learner's own; false past the end. */
bool weft_kept_state(const weft_kept *kept, int i, weft_exchange_state *out);

#endif
