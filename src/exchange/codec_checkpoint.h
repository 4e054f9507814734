/* State of the codecs of a rank, such as residuals, for checkpoints: by parameter, not by the
 * ranges in which updates are sent, so it loads with any number of servers or ranks. */
#ifndef WEFT_EXCHANGE_CODEC_CHECKPOINT_H
#define WEFT_EXCHANGE_CODEC_CHECKPOINT_H

#include "compress/compress.h"
#include "exchange/shared_params.h"
#include "exchange/exchange.h"

typedef struct weft_codec_checkpoint weft_codec_checkpoint;

/* For a codec, by its specification, and the parameters of a store, in one or more ranges; begins
 * with the codec's initial state. back: the downlink codec, which keeps no state; NULL: none.
 * shared: parameters for which another rank of the learner is the leader are left out; NULL: none
 * are. */
weft_status weft_codec_checkpoint_open(weft_context *context, const char *spec, const char *back,
                                       const weft_store *store, const weft_shared_params *shared,
                                       weft_codec_checkpoint **out) WEFT_NODISCARD;
void weft_codec_checkpoint_close(weft_codec_checkpoint **checkpoint);

/* For the codec of the range that begins at element `begin` of the parameters: loads the state into
 * it, once, and stores the state from it. `_load` also excludes the padding of the range; */
weft_status weft_codec_checkpoint_load(const weft_codec_checkpoint *checkpoint, weft_codec *codec,
                                       int64_t begin) WEFT_NODISCARD;
void weft_codec_checkpoint_store(weft_codec_checkpoint *checkpoint, weft_codec *codec,
                                 int64_t begin);
/* this excludes only the padding. */
weft_status weft_codec_checkpoint_exclude_padding(const weft_codec_checkpoint *checkpoint,
                                                  weft_codec *codec, int64_t begin) WEFT_NODISCARD;

/* Logs a note if both the codec and the optimizer apply momentum. */
void weft_codec_checkpoint_note_momentum(const weft_codec_checkpoint *checkpoint,
                                         const weft_exchange_site *site);

/* padding.c: as weft_parameter_gaps, and parameters that another rank leads. */
weft_status weft_gaps_of(const weft_store *store, const weft_shared_params *shared,
                         weft_gap_list *out) WEFT_NODISCARD;
/* Excludes from the codec of the range that begins at element `begin` the gaps in it. */
weft_status weft_gaps_skip(weft_gap_list gaps, weft_codec *codec, int64_t begin) WEFT_NODISCARD;
weft_gap_list weft_codec_checkpoint_padding(const weft_codec_checkpoint *checkpoint);

/* State i, each learner's own; false past the end. */
bool weft_codec_checkpoint_state(const weft_codec_checkpoint *checkpoint, int i,
                                 weft_exchange_state *out);

#endif
