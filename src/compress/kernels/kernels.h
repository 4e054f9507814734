/* Declares the arithmetic of the codecs. Each kernel file is compiled once for float and once for
 * double (WEFT_REAL), without contraction into fused multiply-adds, since sender and receivers must
 * compute the same numbers. */
#ifndef WEFT_COMPRESS_KERNELS_H
#define WEFT_COMPRESS_KERNELS_H

#include "compress/compress.h"

/* A form of messages of one type of numbers. */
typedef struct weft_form {
    /* The bytes of the fixed part of a body (numbers, or bits for each element), which a stream of
     * bits may follow. */
    size_t (*bytes)(const weft_encoded_head *head);
    /* Whether the whole body of an untrusted message is valid; `bytes` are those of the fixed
     * part. Leaves the message read to its end. */
    bool (*check)(weft_encoded *message, size_t bytes);
    /* Whether no number of a checked message has a magnitude above `most`. */
    bool (*within)(const weft_encoded *message, double most);
    /* to[i] += scale * number[i] for the next n numbers of a checked message. */
    void (*add)(weft_encoded *message, int64_t n, double scale, void *to);
    bool plain; /* the body is the numbers themselves */
    /* In the own form of a codec: adds the update to the residual and moves what the message says
     * into a body. number: hits of the head. */
    weft_status (*take)(weft_codec *codec, const void *update, uint32_t number, uint8_t *body);
} weft_form;

/* Implemented in threshold.c, dense.c, topk.c and form_*.c. A codec without a
 * residual (NULL) sends exactly. NUMERIC: a number to be sent is not finite. */
#define WEFT_CODEC_ARITHMETIC(R)                                                                   \
    /* Quantizes residual and update: multiples of `step` become hits, in order. */                \
    weft_status weft_steps_take_##R(weft_codec *codec, const void *update, double step);           \
    /* Expands hits into numbers[count]. */                                                        \
    void weft_steps_fill_##R(const weft_nonzeros *hits, double step, int64_t count,                \
                             void *numbers);                                                       \
    /* Moves residual and update into `numbers`. */                                                \
    weft_status weft_all_take_##R(weft_codec *codec, const void *update, void *numbers);           \
    /* Writes numbers of an update into a dense body, from element `at` on. */                     \
    weft_status weft_numbers_lay_##R(const void *numbers, int64_t at, int64_t n, void *body);      \
    /* Rounds residual and update to bf16; the rounding errors remain. */                          \
    weft_status weft_halves_take_##R(weft_codec *codec, const void *update, uint16_t *numbers);    \
    /* Names the first number of the residual that is not finite. */                               \
    weft_status weft_residual_check_##R(const weft_codec *codec);                                  \
    /* residual += update */                                                                       \
    weft_status weft_residual_add_##R(weft_codec *codec, const void *update);                      \
    /* momentum = m momentum + update, residual += momentum; most: clips the norm, 0: no */        \
    weft_status weft_momentum_add_##R(weft_codec *codec, void *momentum, const void *update,       \
                                      double m, double most);                                      \
    /* The `most` largest magnitudes of the residual become hits, in order; ties: the first. */    \
    weft_status weft_largest_##R(weft_codec *codec, int64_t most);                                 \
    /* Moves the hits' numbers out of the residual; halves: bf16 rounding errors remain. */        \
    void weft_hits_take_##R(weft_codec *codec, bool halves, uint8_t *numbers);                     \
    bool weft_all_finite_##R(const void *numbers, int64_t n);                                      \
    /* Whether no magnitude is above `most`. */                                                    \
    bool weft_all_within_##R(const void *numbers, int64_t n, double most);                         \
    extern const weft_form weft_form_dense_##R, weft_form_halves_##R, weft_form_gaps_##R,          \
        weft_form_bitmap_##R, weft_form_values_##R, weft_form_shorts_##R;
WEFT_CODEC_ARITHMETIC(float)
WEFT_CODEC_ARITHMETIC(double)
#define WEFT_OF_REAL(dtype, name) ((dtype) == WEFT_F64 ? name##_double : name##_float)

/* --- decode.c --- */

/* Reads the next nonzero element of a sparse message to place.hit and, if the message has
 * multiples, place.times. false: the bits are invalid. */
bool weft_encoded_nonzero(weft_encoded *message, bool times);
/* BITMAP: reads the multiple of the next element whose two bits are 3. */
bool weft_encoded_levels(weft_encoded *message, int32_t *times);
/* Whether only the unused bits of the last byte are left, and are zeros. */
bool weft_encoded_at_end(const weft_encoded *message);
/* Whether the step of multiples is a number of the message's type above 0; whether no multiple of
 * it is above `most`. */
bool weft_encoded_step_fits(const weft_encoded *message);
bool weft_encoded_step_within(const weft_encoded *message, double most);
/* Whether n numbers in bf16 are finite; whether their squares are, as numbers of type float. */
bool weft_halves_finite(const uint8_t *numbers, int64_t n);
bool weft_halves_within(const uint8_t *numbers, int64_t n);
/* `bytes` of the shared form of this head. */
size_t weft_encoded_table(const weft_encoded_head *head);

/* --- encode.c --- */

weft_status weft_hits_add(weft_nonzeros *hits, int64_t at, int32_t times) WEFT_NODISCARD;
void weft_encoded_begin(uint8_t *message, const weft_encoded_head *head);
/* Encodes the codec's hits as multiples of `step`, in the shortest form; with `bitmap` as a bitmap,
 * unless a dense message is shorter. Returns the bytes of the message. */
size_t weft_encoded_steps(weft_codec *codec, double step, bool bitmap, uint8_t *message);
/* Encodes the codec's hits with their numbers, which are subtracted from the residual. Returns the
 * bytes of the message. */
size_t weft_encoded_numbers(weft_codec *codec, bool halves, uint8_t *message);
/* Encodes the residual as a dense message, and clears it. Returns the bytes of the message. */
size_t weft_encoded_residual(weft_codec *codec, uint8_t *message);
/* Encodes the sum of residual and update in the codec's own form, or as a dense message if that is
 * shorter. number: hits of the head. */
weft_status weft_encoded_own(weft_codec *codec, const void *update, uint32_t number,
                             uint8_t *message, size_t *bytes) WEFT_NODISCARD;
/* Encodes the sum of residual and update as a dense message. */
weft_status weft_encoded_all(weft_codec *codec, const void *update, uint8_t *message,
                             size_t *bytes) WEFT_NODISCARD;

#endif
