/* Declares helpers that the codecs share: their allocation, their state for checkpoints, padding,
 * and arguments. */
#ifndef WEFT_COMPRESS_CODEC_H
#define WEFT_COMPRESS_CODEC_H

#include "base/spec.h"
#include "compress/compress.h"
#include "compress/kernels/kernels.h"

/* Allocates a codec struct of `size` bytes that begins with a weft_codec. With `residual` it has a
 * residual and a count of messages, both part of its state; with count 0 it has no residual. Free
 * it with weft_codec_free. */
weft_status weft_codec_new(size_t size, weft_dtype dtype, int64_t count, bool residual,
                           weft_codec **out) WEFT_NODISCARD;
void weft_codec_free(weft_codec *codec);
/* Adds a state for checkpoints that has one number, at first zero, for each element of the
 * range. */
weft_status weft_codec_keep(weft_codec *codec, const char *name, const char *what,
                            void **data) WEFT_NODISCARD;
/* Adds a state of one number, of the range or of the sender (see weft_codec_extent). */
void weft_codec_keep_one(weft_codec *codec, const char *name, const char *what,
                         weft_codec_extent extent, double *number);
/* Sets the padding elements of an array to zero. */
void weft_codec_empty_gaps(const weft_codec *codec, void *numbers);
/* Rounds to the precision of the codec's numbers. */
double weft_codec_round(const weft_codec *codec, double number);
/* As weft_spec_parse, which it calls unless there are no arguments. */
weft_status weft_codec_parse(const char *name, const char *arguments,
                             const weft_spec_key *keys) WEFT_NODISCARD;

#define WEFT_WARMUP_KEY(to)                                                                        \
    {                                                                                              \
        .name = "warmup", .number = (to), .low = 0, .high = 1e7, .integer = true                   \
    }

#endif
