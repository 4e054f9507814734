/* Codecs compress the updates of a range of numbers, with error feedback (Seide et al. 2014;
 * Karimireddy et al. 2019).
 *
 * The sender keeps what a message omits, the residual, and adds it to the next update. So the sum
 * of all updates is at any time the sum of all messages and the residual; only the addition of
 * residual and update rounds.
 *
 * A codec belongs to one sender, one range and one direction. A message describes its own encoding,
 * so a receiver needs no codec: weft_encoded_open checks all of it, and then it can be added to
 * numbers, in whole or in pieces.
 *
 * Codecs and messages belong to one thread at a time. */
#ifndef WEFT_COMPRESS_COMPRESS_H
#define WEFT_COMPRESS_COMPRESS_H

#include "base/base.h"

typedef struct weft_codec weft_codec;

typedef struct weft_codec_ops {
    const char *name;
    const char *form; /* form of a specification */
    const char *help;
    /* arguments: the text after "NAME:", or "". count 0: they are only checked. */
    weft_status (*open)(const char *arguments, weft_dtype dtype, int64_t count, weft_codec **out);
    void (*close)(weft_codec *codec);
    /* Prepares it to encode differences that contain what it omitted before: it applies no
     * momentum. NULL: it never does. */
    void (*back)(weft_codec *codec);
    /* Adds the update to the residual, and encodes a message. */
    weft_status (*encode)(weft_codec *codec, const void *update, uint8_t *message, size_t *bytes);
    bool plain; /* it encodes updates exactly, and keeps no residual */
} weft_codec_ops;

/* State of a codec for checkpoints, to be read and written: a number for each element of the range,
 * [count] of the codec's type; one number of the range, a double with no more digits than that type
 * has; or one that is equal in all codecs of a sender, a double. */
typedef enum weft_codec_extent {
    WEFT_CODEC_EACH,
    WEFT_CODEC_RANGE,
    WEFT_CODEC_SENDER
} weft_codec_extent;
typedef struct weft_codec_state {
    const char *name; /* letters, digits and _ */
    const char *what; /* description, such as "the residuals" */
    weft_codec_extent extent;
    void *data;
} weft_codec_state;

/* A nonzero element of a sparse message: a signed multiple of `step`, or a number. */
typedef struct weft_nonzero {
    uint32_t at;
    int32_t times;
} weft_nonzero;
typedef struct weft_nonzeros {
    weft_nonzero *list;
    size_t count, capacity;
} weft_nonzeros;

enum { WEFT_CODEC_STATES = 4 };

/* A run of elements that are padding. */
typedef struct weft_codec_gap {
    int64_t begin, count;
} weft_codec_gap;

/* The head of every codec; implementations extend it. */
struct weft_codec {
    const weft_codec_ops *ops;
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;
    int64_t warmup;  /* the first so many messages are exact */
    double messages; /* number of messages so far */
    double step;     /* present quantum of THRESHOLD and BITMAP */
    double momentum; /* coefficient of its momentum; 0: none */
    void *residual;  /* count numbers of dtype; NULL: the codec omits nothing */
    weft_nonzeros hits;
    weft_codec_state states[WEFT_CODEC_STATES];
    int state_count;
    weft_codec_gap *gaps;
    size_t gap_count, gap_capacity;
    int64_t skipped; /* elements in gaps */
};

extern const weft_codec_ops weft_codec_none, weft_codec_bf16, weft_codec_threshold,
    weft_codec_bitmap, weft_codec_onebit, weft_codec_topk, weft_codec_dgc;

/* Registers the built-in codecs with a context. */
weft_status weft_codecs_register(weft_context *context) WEFT_NODISCARD;

/* Opens "NAME:key=value,..." for `count` numbers (1 to 2^32 - 1) of F32 or F64. ARGUMENT: no such
 * codec, a wrong key or value, or an unsupported range. */
weft_status weft_codec_open(weft_context *context, const char *spec, weft_dtype dtype,
                            int64_t count, weft_codec **out) WEFT_NODISCARD;
/* Opens a downlink codec: its update is the whole difference between the parameters and the
 * reference that receivers have, so no state is kept between messages. */
weft_status weft_codec_open_back(weft_context *context, const char *spec, weft_dtype dtype,
                                 int64_t count, weft_codec **out) WEFT_NODISCARD;
/* The specification of the downlink codec, where either may be NULL or empty: `back` if given, else
 * `there`. */
const char *weft_codec_back(const char *there, const char *back);
/* Checks the specification alone. */
weft_status weft_codec_check(weft_context *context, const char *spec) WEFT_NODISCARD;
void weft_codec_close(weft_codec **codec);
/* Declares `count` elements of the range, after all those declared before, as padding: whatever is
 * sent for them, no residual of them is kept, and means and shares leave them out. */
weft_status weft_codec_skip(weft_codec *codec, int64_t begin, int64_t count) WEFT_NODISCARD;
/* State i; false past the end. */
bool weft_codec_state_of(weft_codec *codec, int i, weft_codec_state *out);

/* Largest size of a message of so many numbers, in bytes. */
size_t weft_encoded_bound(weft_dtype dtype, int64_t count);
/* message: weft_encoded_bound bytes. update NULL: all of it was written there by weft_codec_lay.
 * NUMERIC: a number is not finite, and the codec is unusable. */
weft_status weft_codec_encode(weft_codec *codec, const void *update, void *message,
                              size_t *bytes) WEFT_NODISCARD;
/* With a plain codec: writes n numbers of an update, from element `at` of the range on, into a
 * message before the rest is ready. NUMERIC: one of them is not finite. */
weft_status weft_codec_lay(const weft_codec *codec, const void *numbers, int64_t at, int64_t n,
                           void *message) WEFT_NODISCARD;
/* Begins a message for a sum of others: a dense one of zeros (weft_encoded_bound bytes). Returns
 * its numbers, to which the others are added. */
void *weft_encoded_begin_sum(weft_dtype dtype, int64_t count, void *message);

/* --- messages --- */

/* Encodings of a message. */
typedef enum weft_encoded_form {
    WEFT_MESSAGE_DENSE,  /* all numbers */
    WEFT_MESSAGE_HALVES, /* all numbers in bf16 */
    WEFT_MESSAGE_GAPS,   /* sparse multiples of `step`: gap to the next nonzero element, sign,
                            multiple */
    WEFT_MESSAGE_BITMAP, /* multiples of `step`: two bits each, and the multiple where it is more
                            than 1 */
    WEFT_MESSAGE_VALUES, /* sparse numbers: gaps between nonzero elements, and their numbers */
    WEFT_MESSAGE_SHORTS, /* sparse numbers in bf16 */
    WEFT_MESSAGE_BLOCKS, /* a bit each, which chooses between two numbers of its block */
    WEFT_MESSAGE_FORMS
} weft_encoded_form;

enum { WEFT_MESSAGE_HEADER = 24, WEFT_MESSAGE_VERSION = 1 };

/* The header before the body, little endian: form, dtype, version, 0, u32 hits, u64 count, f64
 * step. */
typedef struct weft_encoded_head {
    weft_encoded_form form;
    weft_dtype dtype;
    uint32_t hits; /* number of nonzero elements; for BLOCKS the size of a block */
    int64_t count;
    double step;
} weft_encoded_head;

/* A checked message, and the position up to which it has been read. */
typedef struct weft_encoded {
    weft_encoded_head head;
    const uint8_t *body;
    size_t bytes;
    struct weft_encoded_place {
        int64_t at;    /* elements read so far */
        uint32_t left; /* nonzero elements not read yet */
        int64_t hit;   /* the next nonzero element if known, else the first possible one */
        bool known;
        int32_t times;     /* its signed multiple */
        uint64_t hold;     /* bits taken from the body */
        const uint8_t *in; /* the next byte */
        int held;
        uint64_t gap_sum;
        uint32_t gap_count;
    } place;
} weft_encoded;

/* Checks a message from any source. FORMAT: it is damaged, not of this version, or not of `count`
 * numbers of this type, all finite; the message says which. The bytes begin at a multiple of 8 and
 * must outlive *m. */
weft_status weft_encoded_open(const void *data, size_t bytes, weft_dtype dtype, int64_t count,
                              weft_encoded *m) WEFT_NODISCARD;
/* to[i] += scale * number[i] for the next n numbers, which must be there; `to` is of the message's
 * type. Leaves elements alone where the number is zero. */
void weft_encoded_add(weft_encoded *message, int64_t n, double scale, void *to);
/* Returns to the first element. */
void weft_encoded_rewind(weft_encoded *message);

/* Whether all numbers are finite. dtype F32 or F64. */
bool weft_numbers_finite(weft_dtype dtype, const void *numbers, int64_t n);

#endif
