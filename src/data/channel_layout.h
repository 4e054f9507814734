/* The position of the channels in an array [n, ...]. */
#ifndef WEFT_DATA_CHANNEL_LAYOUT_H
#define WEFT_DATA_CHANNEL_LAYOUT_H

#include "data/data.h"

typedef enum weft_channels {
    WEFT_CHANNELS_FIRST,
    WEFT_CHANNELS_LAST,
    WEFT_CHANNELS_NONE
} weft_channels;

/* Finds where the channels of an array are. layout= decides (said; NULL: not given). Without it,
 * samples of two dimensions have no channel dimension, samples of three are taken for images whose
 * shape must be unambiguous (else ARGUMENT), and others have channels first. name: the file, for
 * messages. */
weft_status weft_layout_find(const char *name, const weft_shape *file, const char *said,
                             weft_context *context, weft_channels *out) WEFT_NODISCARD;
/* The shape of a sample in memory, where channels are always first. */
weft_shape weft_layout_shape(const weft_shape *file, weft_channels channels);
/* The name of the layout of such samples; NULL: there is none. */
const char *weft_layout_name(const weft_shape *file, weft_channels channels);
/* Whether later samples of an input have their channels last, as the file of the training had them
 * (weft_data_stats.reading); bit k of *out: of input k. */
WEFT_PRIVATE_API weft_status weft_layout_held(const weft_data_stats *stats,
                                              unsigned *out) WEFT_NODISCARD;
/* The shape in memory of a sample whose channels are last, as it is in the file. */
WEFT_PRIVATE_API weft_shape weft_layout_channels_last(const weft_shape *shape);
/* Copies a sample whose channels are last so that they are first; each: bytes of an element; shape:
 * that in memory. */
WEFT_PRIVATE_API void weft_layout_move_channels(const weft_shape *shape, size_t each,
                                                const void *from, void *to);
/* Writes the layouts that give samples the wanted shape, as in "layout=cw or layout=wc"; false: no
 * layout does. */
bool weft_layout_suggest(const weft_shape *file, const weft_shape *want, char *out, size_t room);

#endif
