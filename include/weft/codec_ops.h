/*
 * The interface between Weft and the implementations of codecs, for programs and plug-ins that add
 * one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_CODEC whose `ops` is a
 * weft_codec_rule).
 *
 * A codec chooses which numbers of the updates of a range a message has, or writes a form of
 * messages of its own (sparse, quantized, of low rank). The library keeps what was not sent (the
 * residual), adds the next update to it, asks the codec, and takes what the message says off the
 * residual; checkpoints have the residual and the number of messages. The library writes the
 * numbers that were chosen in the shortest of its forms, which all receivers know. Receivers of
 * another form need the codec, too: servers, peers and learners add up its messages by `add`,
 * without a codec that is open, and refuse those that `valid` refuses.
 *
 * Arguments begin with those that every codec has: warmup=N, the number of messages at first that
 * have all numbers. One thread at a time uses a codec; a sender has one for each range. The choice
 * must depend on what `choose` gets alone, so that a run that goes on from a checkpoint sends the
 * same. Functions return WEFT_OK or fail with a message (services->fail), which ends the run.
 */
#ifndef WEFT_CODEC_OPS_H
#define WEFT_CODEC_OPS_H

#include <stdbool.h>

#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers from which a codec chooses. */
typedef struct weft_codec_choice {
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;
    const void *numbers; /* [count]: residual and update, all finite */
    int64_t message;     /* number of earlier messages; stays at 2^24 */
    /* [count]: to be set to the indices of the numbers that are sent, ascending, and *chosen to
     * their number; others than from 0 to count - 1 are refused. */
    uint32_t *at;
    int64_t *chosen;
} weft_codec_choice;

/* A message in a codec's own form, from anywhere: none of its numbers and bytes is known to be
 * right before `valid` has seen it, except dtype and count, which are those of the range. */
typedef struct weft_codec_message {
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;    /* numbers of the range */
    uint32_t number;  /* any, as the encoder has set it */
    const uint8_t *body;
    size_t bytes; /* of the body, which begins at a multiple of 8 */
} weft_codec_message;

typedef struct weft_codec_rule {
    size_t struct_size; /* sizeof(weft_codec_rule) */
    bool halves;        /* the numbers are sent in bf16; the residual keeps the rest */
    /* Reads the arguments, the text after "NAME:", or "". *state is the codec's own. count: numbers
     * of the range; 0: the arguments are only checked, and `close` is called at once. */
    weft_status (*open)(const char *arguments, int64_t count, void **state);
    void (*close)(void *state);
    weft_status (*choose)(void *state, const weft_codec_choice *choice);
    /* In place of `choose` and `halves`, a form of its own: all three or none.
     *
     * Writes the numbers of a choice (whose at and chosen are NULL), or what the message says of
     * them, into body, which has room for message->bytes bytes, and sets bytes and number. If it
     * leaves bytes as they are, all numbers are sent as they are. */
    weft_status (*encode)(void *state, const weft_codec_choice *choice, uint8_t *body,
                          weft_codec_message *message);
    /* Whether all of a message is right, so that `add` may rely on it: its lengths, and each number
     * that it says is finite, of a magnitude of at most `most`. Reads nothing beyond the body. */
    bool (*valid)(const weft_codec_message *message, double most);
    /* to[i] += scale * number[begin + i] for n numbers of a valid message, in its dtype. The sum of
     * pieces must have the bits of the whole. Several threads may call both at once. */
    void (*add)(const weft_codec_message *message, int64_t begin, int64_t n, double scale,
                void *to);
} weft_codec_rule;

#ifdef __cplusplus
}
#endif
#endif
