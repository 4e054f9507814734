/* What the codecs of a rank keep between updates, as checkpoints have it: it belongs to parameters,
 * not to the ranges that they are sent in, and so loads on another number of servers or ranks. */
#ifndef WEFT_EXCHANGE_CODEC_CHECKPOINT_H
#define WEFT_EXCHANGE_CODEC_CHECKPOINT_H

#include "compress/compress.h"
#include "exchange/shared_params.h"
#include "exchange/exchange.h"

typedef struct weft_codec_checkpoint weft_codec_checkpoint;

/* Of a codec, by its specification, for the parameters of a store in one or more ranges. What a
 * codec keeps to begin with is in it. back: of another one that goes the other way, of which
 * nothing is kept; NULL: there is none. copies: what another rank of the learner has, too, and
 * speaks of, is nothing of this one's; NULL: all is. */
weft_status weft_codec_checkpoint_open(weft_context *context, const char *spec, const char *back,
                                       const weft_store *store, const weft_shared_params *copies,
                                       weft_codec_checkpoint **out) WEFT_NODISCARD;
void weft_codec_checkpoint_close(weft_codec_checkpoint **kept);

/* The codec of the range that begins at number `begin` of them as they lie: what it keeps, into it,
 * once, and out of it. The first also tells it what of its range is no parameter, */
weft_status weft_codec_checkpoint_load(const weft_codec_checkpoint *kept, weft_codec *codec,
                                       int64_t begin) WEFT_NODISCARD;
void weft_codec_checkpoint_store(weft_codec_checkpoint *kept, weft_codec *codec, int64_t begin);
/* and this tells a codec that alone. */
weft_status weft_codec_checkpoint_exclude_padding(const weft_codec_checkpoint *kept,
                                                  weft_codec *codec, int64_t begin) WEFT_NODISCARD;

/* Says so in a note where updates gather momentum twice, in the codec and in the optimiser. */
void weft_codec_checkpoint_set_momentum(const weft_codec_checkpoint *kept,
                                        const weft_exchange_site *site);

/* padding.c: as weft_parameter_gaps, and what another rank speaks of. */
weft_status weft_gaps_of(const weft_store *store, const weft_shared_params *copies,
                         weft_gap_list *out) WEFT_NODISCARD;
/* Tells the codec of the range that begins at number `begin` of those that are in it. */
weft_status weft_gaps_skip(weft_gap_list gaps, weft_codec *codec, int64_t begin) WEFT_NODISCARD;
weft_gap_list weft_codec_checkpoint_padding(const weft_codec_checkpoint *kept);

/* State i, each learner's own; false past the end. */
bool weft_codec_checkpoint_state(const weft_codec_checkpoint *kept, int i,
                                 weft_exchange_state *out);

#endif
