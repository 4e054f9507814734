/*
 * Codecs make the updates of a range of numbers small enough to be sent.
 *
 * What a message leaves out is not lost: the sender keeps it, the residual, and adds it to the next
 * update. So the sum of all updates is at any time the sum of all that was sent and the residual;
 * nothing is rounded on the way but the sum of the residual and an update.
 *
 * A codec is what one sender has for one range and one direction. A message says itself how it is
 * written, so that a receiver needs no codec: weft_encoded_open looks at all of it, and then it can
 * be added to numbers, in whole or in pieces.
 *
 * Codecs and messages belong to one thread at a time.
 */
#ifndef WEFT_COMPRESS_COMPRESS_H
#define WEFT_COMPRESS_COMPRESS_H

#include "base/base.h"

typedef struct weft_codec weft_codec;

typedef struct weft_codec_ops {
    const char *name;
    const char *form; /* how a specification looks */
    const char *help;
    /* arguments: what stands behind "NAME:", or "". count 0: they are only checked. */
    weft_status (*open)(const char *arguments, weft_dtype dtype, int64_t count, weft_codec **out);
    void (*close)(weft_codec *codec);
    /* It is to encode differences of which what it left out before is part: it keeps no momentum.
     * NULL: it never does. */
    void (*back)(weft_codec *codec);
    /* Adds the update to what is kept, and writes a message of what goes now. */
    weft_status (*encode)(weft_codec *codec, const void *update, uint8_t *message, size_t *bytes);
    bool plain; /* it writes updates as they are, and keeps nothing */
} weft_codec_ops;

/* What goes with a checkpoint, to be read and to be written: a number for each of the range,
 * [count] of the codec's type; one of its range, a double with no more digits than that type has;
 * or one that all codecs of a sender have alike, a double. */
typedef enum weft_codec_extent {
    WEFT_CODEC_EACH,
    WEFT_CODEC_RANGE,
    WEFT_CODEC_SENDER
} weft_codec_extent;
typedef struct weft_codec_state {
    const char *name; /* letters, digits and _ */
    const char *what; /* the same in words, such as "the residuals" */
    weft_codec_extent extent;
    void *data;
} weft_codec_state;

/* Something of a range that is sent: how many times `step` in which direction, or a number. */
typedef struct weft_nonzero {
    uint32_t at;
    int32_t times;
} weft_nonzero;
typedef struct weft_nonzeros {
    weft_nonzero *list;
    size_t count, capacity;
} weft_nonzeros;

enum { WEFT_CODEC_STATES = 4 };

/* Numbers in a row. */
typedef struct weft_codec_gap {
    int64_t begin, count;
} weft_codec_gap;

/* The head of every codec; implementations extend it. */
struct weft_codec {
    const weft_codec_ops *ops;
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;
    int64_t warmup;  /* so many messages have all there is, before any leaves something out */
    double messages; /* until now */
    double step;     /* of THRESHOLD and BITMAP, at present */
    double momentum; /* it gathers updates with; 0: it does not */
    void *residual;  /* count numbers of dtype; NULL: this codec leaves nothing out */
    weft_nonzeros hits;
    weft_codec_state states[WEFT_CODEC_STATES];
    int state_count;
    weft_codec_gap *gaps;
    size_t gap_count, gap_capacity;
    int64_t skipped; /* numbers in gaps */
};

extern const weft_codec_ops weft_codec_none, weft_codec_bf16, weft_codec_threshold,
    weft_codec_bitmap, weft_codec_onebit, weft_codec_topk, weft_codec_dgc;

/* Adds those that are built in to what a context knows. */
weft_status weft_codecs_register(weft_context *context) WEFT_NODISCARD;

/* Opens "NAME:key=value,..." for `count` numbers (1 to 2^32 - 1) of F32 or F64. ARGUMENT: no such
 * codec, a wrong key or value, or a range of another kind. */
weft_status weft_codec_open(weft_context *context, const char *spec, weft_dtype dtype,
                            int64_t count, weft_codec **out) WEFT_NODISCARD;
/* The same for the way back: an update there is the whole difference between what is and what
 * others know of it, so that nothing is kept from one to the next. */
weft_status weft_codec_open_back(weft_context *context, const char *spec, weft_dtype dtype,
                                 int64_t count, weft_codec **out) WEFT_NODISCARD;
/* The specification of the way back, where either may be NULL or empty: as the way there, unless
 * another one is given. */
const char *weft_codec_back(const char *there, const char *back);
/* Checks the specification alone. */
weft_status weft_codec_check(weft_context *context, const char *spec) WEFT_NODISCARD;
void weft_codec_close(weft_codec **codec);
/* `count` numbers of the range, behind all that were told of before, stand for nothing, as those
 * between parameters do: whatever is sent for them, nothing of them is kept, and means and shares
 * are of the others. */
weft_status weft_codec_skip(weft_codec *codec, int64_t begin, int64_t count) WEFT_NODISCARD;
/* State i, which is of this codec and range whatever it was opened with; false past the end. */
bool weft_codec_state_of(weft_codec *codec, int i, weft_codec_state *out);

/* The most bytes that a message of so many numbers can have. */
size_t weft_encoded_bound(weft_dtype dtype, int64_t count);
/* message: weft_encoded_bound bytes. update NULL: all of it has been laid there. NUMERIC: something
 * in the update is no finite number, and the codec is of no use any more. */
weft_status weft_codec_encode(weft_codec *codec, const void *update, void *message,
                              size_t *bytes) WEFT_NODISCARD;
/* With a codec that is plain, n numbers of an update, from number `at` of the range on, may be put
 * into a message as soon as they are there. NUMERIC: one of them is not finite. */
weft_status weft_codec_lay(const weft_codec *codec, const void *numbers, int64_t at, int64_t n,
                           void *message) WEFT_NODISCARD;
/* Begins a message that adds others up: a dense one of zeros (weft_encoded_bound bytes). Returns
 * its numbers, to which the others are added. */
void *weft_encoded_begin_sum(weft_dtype dtype, int64_t count, void *message);

/* --- messages --- */

/* How the numbers of a message are written. */
typedef enum weft_encoded_form {
    WEFT_MESSAGE_DENSE,  /* all of them */
    WEFT_MESSAGE_HALVES, /* all of them in bf16 */
    WEFT_MESSAGE_GAPS,   /* times `step`: gaps between those that are not zero, sign, how often */
    WEFT_MESSAGE_BITMAP, /* times `step`: two bits each, and how often where it is more than once */
    WEFT_MESSAGE_VALUES, /* gaps between those that are not zero, and what they are */
    WEFT_MESSAGE_SHORTS, /* the same in bf16 */
    WEFT_MESSAGE_BLOCKS, /* a bit each, and two numbers a block that the bit chooses from */
    WEFT_MESSAGE_FORMS
} weft_encoded_form;

enum { WEFT_MESSAGE_HEADER = 24, WEFT_MESSAGE_VERSION = 1 };

/* The header, which stands before the body byte by byte, little endian: form, dtype, version, 0,
 * u32 hits, u64 count, f64 step. */
typedef struct weft_encoded_head {
    weft_encoded_form form;
    weft_dtype dtype;
    uint32_t hits; /* numbers that are not zero; for BLOCKS the size of a block */
    int64_t count;
    double step;
} weft_encoded_head;

/* A message that has been looked at, and how far it has been read. */
typedef struct weft_encoded {
    weft_encoded_head head;
    const uint8_t *body;
    size_t bytes;
    struct weft_encoded_place {
        int64_t at;    /* numbers read until now */
        uint32_t left; /* hits that are not read yet */
        int64_t hit;   /* the next of them if it is known, else the first place it can have */
        bool known;
        int32_t times;     /* it goes so often, with a sign */
        uint64_t hold;     /* bits that were taken from the body */
        const uint8_t *in; /* the next byte */
        int held;
        uint64_t gap_sum;
        uint32_t gap_count;
    } place;
} weft_encoded;

/* Looks at a message from anywhere. FORMAT: it is damaged, not of this version, or not of `count`
 * numbers of this type, all finite; the message says which. The bytes begin at a multiple of 8 and
 * must outlive it. */
weft_status weft_encoded_open(const void *data, size_t bytes, weft_dtype dtype, int64_t count,
                              weft_encoded *m) WEFT_NODISCARD;
/* to[i] += scale * number[i] for the next n numbers, which must be there; `to` is of the message's
 * type. Only what is not zero is touched. */
void weft_encoded_add(weft_encoded *message, int64_t n, double scale, void *to);
/* Back to its beginning. */
void weft_encoded_rewind(weft_encoded *message);

/* Of numbers that came as they are: whether all are finite. dtype F32 or F64. */
bool weft_numbers_finite(weft_dtype dtype, const void *numbers, int64_t n);

#endif
