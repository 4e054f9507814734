/* Codecs compress the updates of a range of numbers, with error feedback (Seide et al. 2014;
 * Karimireddy et al. 2019).
 *
 * The sender keeps the residual, the part of its updates that no message contains, and adds it to
 * the next update. So the sum of all updates always equals the sum of all messages plus the
 * residual, but for the rounding of that addition.
 *
 * A codec belongs to one sender, one range and one direction. A message describes its own encoding:
 * a form that codecs share, or the one of its codec, whose table the receiver names. So a receiver
 * needs no codec: weft_encoded_open checks the message, and weft_encoded_add adds it to numbers, in
 * whole or in pieces.
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
    /* In place of `open`, of a codec that was added. */
    weft_status (*open_added)(const struct weft_codec_ops *ops, const char *arguments,
                              weft_dtype dtype, int64_t count, weft_codec **out);
    void (*close)(weft_codec *codec);
    /* Makes the codec a downlink codec (weft_codec_open_back), which applies no momentum. NULL: the
     * codec never applies momentum. */
    void (*back)(weft_codec *codec);
    /* Adds the update to the residual, and encodes a message. */
    weft_status (*encode)(weft_codec *codec, const void *update, uint8_t *message, size_t *bytes);
    bool plain; /* the codec encodes updates exactly, and keeps no residual */
    /* The form of messages of this codec alone, for F32 and F64 (kernels/kernels.h); NULL: its
     * messages have shared forms. */
    const struct weft_form *own[2];
    double
        tag; /* in the head of such messages as `step`: a number of the codec's name; 0: built in */
} weft_codec_ops;

/* The extent of a codec's state that checkpoints store. EACH: a number for each element of the
 * range, [count] of the codec's type. RANGE: one double for the range, which the codec's type can
 * represent. SENDER: one double that is equal in all codecs of a sender. */
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

/* A nonzero element of a sparse message. */
typedef struct weft_nonzero {
    uint32_t at;   /* index in the range */
    int32_t times; /* signed multiple of `step`; 1 where the number itself is sent */
} weft_nonzero;
typedef struct weft_nonzeros {
    weft_nonzero *list;
    size_t count, capacity;
} weft_nonzeros;

enum { WEFT_CODEC_STATES = 4 };

/* A run of padding elements in the range. */
typedef struct weft_codec_gap {
    int64_t begin, count;
} weft_codec_gap;

/* The head of every codec; implementations extend it. */
struct weft_codec {
    const weft_codec_ops *ops;
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;
    int64_t warmup;     /* this many messages are exact at first */
    double messages;    /* number of messages so far */
    double step;        /* present quantum of the codecs threshold and bitmap */
    double momentum;    /* momentum coefficient of the codec; 0: none */
    void *residual;     /* count numbers of dtype; NULL: the codec omits nothing */
    weft_nonzeros hits; /* nonzero elements of the message that is being encoded */
    weft_codec_state states[WEFT_CODEC_STATES];
    int state_count;
    weft_codec_gap *gaps;
    size_t gap_count, gap_capacity;
    int64_t skipped; /* number of padding elements */
};

extern const weft_codec_ops weft_codec_none, weft_codec_bf16, weft_codec_threshold,
    weft_codec_bitmap, weft_codec_onebit, weft_codec_topk, weft_codec_dgc;

/* added_codec.c: codecs that programs and plug-ins add. */
extern const struct weft_extension weft_codecs_extension;
/* Registers the built-in codecs with a context. */
weft_status weft_codecs_register(weft_context *context) WEFT_NODISCARD;

/* Opens "NAME:key=value,..." for `count` numbers (1 to 2^32 - 1) of F32 or F64. ARGUMENT: no such
 * codec, a wrong key or value, or an unsupported range. */
weft_status weft_codec_open(weft_context *context, const char *spec, weft_dtype dtype,
                            int64_t count, weft_codec **out) WEFT_NODISCARD;
/* Sets *out to the bytes that such a codec keeps. */
weft_status weft_codec_bytes(weft_context *context, const char *spec, weft_dtype dtype,
                             int64_t count, double *out) WEFT_NODISCARD;
/* Opens a downlink codec. Each of its updates is the difference between the parameters and the
 * reference that receivers have. That difference contains all that earlier messages have omitted,
 * so the caller clears the residual before each update, and the codec applies no momentum. */
weft_status weft_codec_open_back(weft_context *context, const char *spec, weft_dtype dtype,
                                 int64_t count, weft_codec **out) WEFT_NODISCARD;
/* The specification of the downlink codec: `back` if it is given, else `there`, the specification
 * of the uplink, else "none". A specification that is NULL or empty is not given. */
const char *weft_codec_back(const char *there, const char *back);
/* The codec that a specification names. */
weft_status weft_codec_find(const weft_context *context, const char *spec,
                            const weft_codec_ops **ops) WEFT_NODISCARD;
/* Whether a codec of this checked specification sends updates exactly. */
bool weft_codec_is_plain(const weft_context *context, const char *spec);
/* Checks a specification without opening a codec for a range. */
weft_status weft_codec_check(weft_context *context, const char *spec) WEFT_NODISCARD;
/* The momentum with which a codec of this specification gathers updates; 0: none. */
weft_status weft_codec_momentum(weft_context *context, const char *spec,
                                double *out) WEFT_NODISCARD;
void weft_codec_close(weft_codec **codec);
/* Declares `count` elements of the range as padding; calls are in the order of the elements. The
 * codec keeps no residual of padding, whatever its messages contain there, and leaves it out of
 * means and of the share of sent elements. */
weft_status weft_codec_skip(weft_codec *codec, int64_t begin, int64_t count) WEFT_NODISCARD;
/* Gets state i of a codec for a checkpoint; false past the last one. */
bool weft_codec_state_of(weft_codec *codec, int i, weft_codec_state *out);

/* The largest size in bytes of a message of `count` numbers. */
size_t weft_encoded_bound(weft_dtype dtype, int64_t count);
/* Encodes an update into `message`, which has room for weft_encoded_bound bytes. update NULL:
 * weft_codec_write_slice has written the whole update there. NUMERIC: a number is not finite, and
 * the codec cannot be used any more. */
weft_status weft_codec_encode(weft_codec *codec, const void *update, void *message,
                              size_t *bytes) WEFT_NODISCARD;
/* With a plain codec: writes n numbers of an update, from element `at` of the range on, into a
 * message while other numbers of the update are not ready yet. NUMERIC: a number is not finite. */
weft_status weft_codec_write_slice(const weft_codec *codec, const void *numbers, int64_t at,
                                   int64_t n, void *message) WEFT_NODISCARD;
/* Writes a message of `count` zeros, which takes WEFT_MESSAGE_HEADER bytes; returns these. */
size_t weft_encoded_zeros(weft_dtype dtype, int64_t count, void *message);
/* Begins a message that will hold the sum of other messages: a dense message of zeros
 * (weft_encoded_bound bytes). Returns its numbers, to which the caller adds the other messages. */
void *weft_encoded_begin_sum(weft_dtype dtype, int64_t count, void *message);

/* --- messages --- */

/* Encodings of a message. */
typedef enum weft_encoded_form {
    WEFT_MESSAGE_DENSE,  /* all numbers */
    WEFT_MESSAGE_HALVES, /* all numbers in bf16 */
    WEFT_MESSAGE_GAPS,   /* sparse multiples of `step`: gap to the next nonzero element, sign,
                            multiple */
    WEFT_MESSAGE_BITMAP, /* multiples of `step`: two bits for each element, and the multiple
                            where it is more than 1 */
    WEFT_MESSAGE_VALUES, /* sparse numbers: gaps between nonzero elements, and their numbers */
    WEFT_MESSAGE_SHORTS, /* sparse numbers in bf16 */
    WEFT_MESSAGE_OWN,    /* the form of its codec */
} weft_encoded_form;

enum { WEFT_MESSAGE_HEADER = 24, WEFT_MESSAGE_VERSION = 1 };

/* The header of a message, before the body. Its bytes are little endian: form, dtype, version, 0
 * (u8 each), u32 hits, u64 count, f64 step. */
typedef struct weft_encoded_head {
    weft_encoded_form form;
    weft_dtype dtype;
    uint32_t hits; /* number of nonzero elements; for OWN a number of the codec */
    int64_t count; /* elements of the range */
    double step;   /* quantum of GAPS and BITMAP; the tag of a codec for OWN; else 0 */
} weft_encoded_head;

/* A checked message, and the position up to which it has been read. */
typedef struct weft_encoded {
    weft_encoded_head head;
    const struct weft_form *form;
    const weft_codec_ops *codec; /* of the form OWN; else any */
    const uint8_t *body;
    size_t bytes;
    struct weft_encoded_place {
        int64_t at;    /* elements read so far */
        uint32_t left; /* nonzero elements not read yet */
        int64_t hit;   /* the next nonzero element if known, else the first possible one */
        bool known;
        int32_t times;     /* signed multiple of that element */
        uint64_t hold;     /* `held` bits read from the body */
        const uint8_t *in; /* the next byte of the body */
        int held;
        uint64_t gap_sum;
        uint32_t gap_count;
    } place;
} weft_encoded;

/* Checks a message from an untrusted source. codec: whose own form it may have; NULL: none. FORMAT:
 * the message is damaged, of another version or another codec, not of `count` numbers of this type,
 * or has a number that is not finite. The bytes begin at a multiple of 8 and must outlive *m. */
weft_status weft_encoded_open(const void *data, size_t bytes, const weft_codec_ops *codec,
                              weft_dtype dtype, int64_t count, weft_encoded *m) WEFT_NODISCARD;
/* to[i] += scale * number[i] for the next n numbers of the message, which must have that many left;
 * `to` has the message's type. A sparse message does not touch elements of `to` whose number is
 * zero. */
void weft_encoded_add(weft_encoded *message, int64_t n, double scale, void *to);
/* Whether the body of a message is its numbers themselves, in the message's type. */
bool weft_encoded_is_plain(const weft_encoded *message);
/* Makes the next weft_encoded_add begin with the first element again. */
void weft_encoded_rewind(weft_encoded *message);

/* Whether the squares of all numbers of a message, as an optimizer computes them in its type, are
 * finite, with a factor of at least four to spare. */
bool weft_encoded_squares(const weft_encoded *message);

/* Whether all numbers are finite. dtype F32 or F64. */
bool weft_numbers_finite(weft_dtype dtype, const void *numbers, int64_t n);

#endif
