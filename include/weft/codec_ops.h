/*
 * The interface between Weft and the implementations of codecs, for programs and plug-ins that add
 * one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_CODEC whose `ops` is a
 * weft_codec_rule).
 *
 * A codec chooses which numbers of the updates of a range a message has. The library keeps what was
 * not sent (the residual), adds the next update to it, asks the codec, writes the message in its
 * shortest form and takes what it says off the residual; checkpoints have the residual and the
 * number of messages. A message describes itself, so receivers need neither codec nor plug-in.
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

typedef struct weft_codec_rule {
    size_t struct_size; /* sizeof(weft_codec_rule) */
    bool halves;        /* the numbers are sent in bf16; the residual keeps the rest */
    /* Reads the arguments, the text after "NAME:", or "". *state is the codec's own. count: numbers
     * of the range; 0: the arguments are only checked, and `close` is called at once. */
    weft_status (*open)(const char *arguments, int64_t count, void **state);
    void (*close)(void *state);
    weft_status (*choose)(void *state, const weft_codec_choice *choice);
} weft_codec_rule;

#ifdef __cplusplus
}
#endif
#endif
