/* Declares the drawing of tokens from logits. */
#ifndef WEFT_TRAIN_SAMPLING_H
#define WEFT_TRAIN_SAMPLING_H

#include "base/base.h"
#include "weft/generate.h"

typedef struct weft_token_share {
    double probability;
    int32_t token;
} weft_token_share;

typedef struct weft_sampler {
    weft_token_share *candidates; /* [tokens] */
    int tokens;
    bool begun; /* `random` has begun with `seed` */
    int64_t seed;
    weft_random random;
} weft_sampler;

WEFT_PRIVATE_API weft_status weft_sampler_open(int tokens, weft_sampler *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_sampler_close(weft_sampler *sampler);
/* ARGUMENT: the sampling is invalid. */
WEFT_PRIVATE_API weft_status weft_sampling_check(const weft_sampling *sampling) WEFT_NODISCARD;
/* Draws a token. ARGUMENT: the sampling is invalid; NUMERIC: a logit is not a number. */
WEFT_PRIVATE_API weft_status weft_sampler_sample(weft_sampler *sampler,
                                                 const weft_sampling *sampling,
                                                 const double *logits,
                                                 int32_t *token) WEFT_NODISCARD;

#endif
