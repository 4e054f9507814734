/* What the files of codecs share. */
#ifndef WEFT_COMPRESS_CODEC_H
#define WEFT_COMPRESS_CODEC_H

#include "base/spec.h"
#include "compress/compress.h"
#include "compress/kernels/kernels.h"

/* A codec of `size` bytes that begins with a weft_codec, with a count of messages and, unless it
 * leaves nothing out, a residual; free with weft_codec_free. count 0: without either. */
weft_status weft_codec_new(size_t size, weft_dtype dtype, int64_t count, bool residual,
                           weft_codec **out) WEFT_NODISCARD;
void weft_codec_free(weft_codec *codec);
/* As many zeros as the range has numbers, which go with checkpoints. */
weft_status weft_codec_keep(weft_codec *codec, const char *name, const char *what,
                            void **data) WEFT_NODISCARD;
/* The same of one number, of its range or of its sender. */
void weft_codec_keep_one(weft_codec *codec, const char *name, const char *what,
                         weft_codec_extent extent, double *number);
/* Zeros where a range stands for nothing. */
void weft_codec_empty_gaps(const weft_codec *codec, void *numbers);
/* To the digits that the codec's numbers have. */
double weft_codec_round(const weft_codec *codec, double number);
/* As weft_spec_parse, where nothing is given too. */
weft_status weft_codec_parse(const char *name, const char *arguments,
                             const weft_spec_key *keys) WEFT_NODISCARD;

#define WEFT_WARMUP_KEY(to)                                                                        \
    {                                                                                              \
        .name = "warmup", .number = (to), .low = 0, .high = 1e7, .whole = true                     \
    }

#endif
