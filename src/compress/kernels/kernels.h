/* The arithmetic of codecs. Each file is compiled once for float and once for double (WEFT_REAL),
 * without contraction: both ends of a link must come to the same numbers. */
#ifndef WEFT_COMPRESS_KERNELS_H
#define WEFT_COMPRESS_KERNELS_H

#include "compress/compress.h"

/* steps.c, plain.c, blocks.c, largest.c, add.c. Where a codec's residual is NULL it is zero, and
 * nothing is kept. NUMERIC: what is to be sent is no finite number. */
#define WEFT_CODEC_ARITHMETIC(R)                                                                   \
    /* Residual and update, of which whole steps become hits, in order, and leave the residual. */ \
    weft_status weft_steps_take_##R(weft_codec *codec, const void *update, double step);           \
    /* What the hits stand for, in numbers[count]. */                                              \
    void weft_steps_fill_##R(const weft_nonzeros *hits, double step, int64_t count,                \
                             void *numbers);                                                       \
    /* All of residual and update. */                                                              \
    weft_status weft_all_take_##R(weft_codec *codec, const void *update, void *numbers);           \
    /* Numbers of an update into their place in a body, from number `at` on. */                    \
    weft_status weft_numbers_lay_##R(const void *numbers, int64_t at, int64_t n, void *body);      \
    /* All in bf16; what that rounds off is kept. */                                               \
    weft_status weft_halves_take_##R(weft_codec *codec, const void *update, uint16_t *numbers);    \
    /* For each block the means of what is below zero and of what is not, then a bit a number. */  \
    weft_status weft_blocks_take_##R(weft_codec *codec, const void *update, int64_t block,         \
                                     uint8_t *body);                                               \
    /* Names the first number of the residual that is not finite. */                               \
    weft_status weft_residual_check_##R(const weft_codec *codec);                                  \
    /* residual += update */                                                                       \
    weft_status weft_residual_add_##R(weft_codec *codec, const void *update);                      \
    /* momentum = m momentum + update, and residual += momentum; `most`: so large may the norm of  \
     * an update be, 0: as large as it is. */                                                      \
    weft_status weft_momentum_add_##R(weft_codec *codec, void *momentum, const void *update,       \
                                      double m, double most);                                      \
    /* The `most` numbers of the residual that are farthest from zero become hits, in order; of    \
     * equal ones the first. */                                                                    \
    weft_status weft_largest_##R(weft_codec *codec, int64_t most);                                 \
    /* Takes the hits' numbers out of the residual; in bf16 (`halves`) what that rounds off stays. \
     */                                                                                            \
    void weft_hits_take_##R(weft_codec *codec, bool halves, uint8_t *numbers);                     \
    bool weft_all_finite_##R(const void *numbers, int64_t n);                                      \
    void weft_encoded_add_##R(weft_encoded *message, int64_t n, double scale, void *to);
WEFT_CODEC_ARITHMETIC(float)
WEFT_CODEC_ARITHMETIC(double)
#define WEFT_OF_REAL(dtype, name) ((dtype) == WEFT_F64 ? name##_double : name##_float)

/* --- message.c --- */

/* Reads on to the next hit of a message that has gaps: place.hit and place.times. false: the bits
 * are none of ours. */
bool weft_encoded_nonzero(weft_encoded *message);
/* Of BITMAP: how often the next one goes whose two bits say "more than once". */
bool weft_encoded_levels(weft_encoded *message, int32_t *times);
/* Where the bits stand behind the numbers or pairs of bits of a body. */
size_t weft_encoded_table(const weft_encoded_head *head);

/* --- write.c --- */

weft_status weft_hits_add(weft_nonzeros *hits, int64_t at, int32_t times) WEFT_NODISCARD;
void weft_encoded_begin(uint8_t *message, const weft_encoded_head *head);
/* The codec's hits in the shortest form, or with `bitmap` in that one unless all numbers are
 * shorter. */
size_t weft_encoded_steps(weft_codec *codec, double step, bool bitmap, uint8_t *message);
/* The codec's hits with their numbers, which leave the residual. */
size_t weft_encoded_numbers(weft_codec *codec, bool halves, uint8_t *message);
/* All numbers of residual and update. */
weft_status weft_encoded_all(weft_codec *codec, const void *update, uint8_t *message,
                             size_t *bytes) WEFT_NODISCARD;

#endif
