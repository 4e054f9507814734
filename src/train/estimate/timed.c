/* The kinds of transfers and codecs in tables of times, and the seconds of passes over memory. */
#include <stdio.h>

#include "train/estimate/tracks.h"

void weft_transfer_timed(weft_transfer_kind kind, weft_dtype dtype, const char *engine,
                         char out[WEFT_TRANSFER_KIND])
{
    bool rounds = dtype == WEFT_BF16 && (kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER);
    (void)snprintf(out, WEFT_TRANSFER_KIND, "%s %.40s%s", weft_transfer_name(kind), engine,
                   rounds ? " bf16" : "");
}

void weft_codec_timed(bool encodes, const char *codec, char out[WEFT_TRANSFER_KIND])
{
    (void)snprintf(out, WEFT_TRANSFER_KIND, "%s %.40s", encodes ? "encode" : "decode", codec);
}

weft_status weft_pass_seconds(weft_known *known, const char *kind, double bytes, int ranks,
                              double *seconds)
{
    const weft_timed what = {
        .kind = kind, .group = "", .threads = 1, .ranks = ranks, .bytes = bytes};
    weft_estimate e;
    *seconds = 0;
    if (bytes <= 0) return WEFT_OK;
    WEFT_TRY(weft_known_estimate(known, &what, &e));
    *seconds = e.seconds;
    return WEFT_OK;
}
