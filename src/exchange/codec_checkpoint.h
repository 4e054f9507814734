/* The state of a rank's codecs, such as residuals, for checkpoints. A checkpoint has this state by
 * parameter, not by the ranges in which updates are sent, so that any number of servers or ranks
 * can load it. */
#ifndef WEFT_EXCHANGE_CODEC_CHECKPOINT_H
#define WEFT_EXCHANGE_CODEC_CHECKPOINT_H

#include "compress/compress.h"
#include "exchange/shared_params.h"
#include "exchange/exchange.h"

typedef struct weft_codec_checkpoint weft_codec_checkpoint;

/* Opens the state of codec `spec` for the parameters of a store, which are sent in one or more
 * ranges. The state begins as that of a new codec. back: the downlink codec, which keeps no state;
 * NULL: none. shared: parameters for which another rank of the learner is the leader count as
 * padding; NULL: none do. */
weft_status weft_codec_checkpoint_open(weft_context *context, const char *spec, const char *back,
                                       const weft_store *store, const weft_shared_params *shared,
                                       weft_codec_checkpoint **out) WEFT_NODISCARD;
void weft_codec_checkpoint_close(weft_codec_checkpoint **checkpoint);

/* For the codec of the range that begins at element `begin` of the parameters. `_load`, called once
 * for a codec, copies the state into it and excludes the padding of the range; `_store` copies the
 * codec's state back. */
weft_status weft_codec_checkpoint_load(const weft_codec_checkpoint *checkpoint, weft_codec *codec,
                                       int64_t begin) WEFT_NODISCARD;
void weft_codec_checkpoint_store(weft_codec_checkpoint *checkpoint, weft_codec *codec,
                                 int64_t begin);
/* Writes the name in checkpoints of a state of a codec: prefix, codec and state, with _ for what a
 * codec's name may have and a state's may not. */
void weft_codec_state_name(char *out, size_t size, const char *prefix, const char *codec,
                           const char *state);
/* Excludes only the padding of such a range from its codec. */
weft_status weft_codec_checkpoint_exclude_padding(const weft_codec_checkpoint *checkpoint,
                                                  weft_codec *codec, int64_t begin) WEFT_NODISCARD;

/* Logs a note if the codec gathers updates with momentum and the optimizer (NULL: none) has
 * moments. The optimizer is that of parameters in `store`. */
weft_status
weft_codec_checkpoint_note_momentum(const weft_codec_checkpoint *checkpoint, weft_context *context,
                                    const weft_store *store, const char *codec,
                                    const weft_optimizer_options *optimizer) WEFT_NODISCARD;

/* padding.c: like weft_parameter_gaps; with `shared`, parameters for which another rank is the
 * leader count as padding, too. */
weft_status weft_gaps_of(const weft_store *store, const weft_shared_params *shared,
                         weft_gap_list *out) WEFT_NODISCARD;
/* Declares the gaps inside a range, which begins at element `begin` of the parameters, as padding
 * of its codec. */
weft_status weft_gaps_skip(weft_gap_list gaps, weft_codec *codec, int64_t begin) WEFT_NODISCARD;
/* The padding; empty if no codec has a residual. The gaps stay the checkpoint's. */
weft_gap_list weft_codec_checkpoint_padding(const weft_codec_checkpoint *checkpoint);

/* The first element from `begin` on that is not padding, which has no state in a checkpoint. */
int64_t weft_codec_checkpoint_first(const weft_codec_checkpoint *checkpoint, int64_t begin);

/* State i for a checkpoint, of which each learner has its own; false past the end. */
bool weft_codec_checkpoint_state(const weft_codec_checkpoint *checkpoint, int i,
                                 weft_exchange_state *out);

#endif
