/* A codec between a sender and a receiver, with the sums of what went in and what came out. */
#ifndef WEFT_TESTS_CODEC_PAIR_H
#define WEFT_TESTS_CODEC_PAIR_H

#include <math.h>

#include "base/registry.h"
#include "compress/compress.h"
#include "support.h"

static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64};

typedef struct line {
    weft_codec *codec;
    weft_dtype dtype;
    int64_t count;
    void *update, *message, *got;
    size_t bound, bytes;
    double *sent, *given; /* sums of the decoded messages and of the updates, by element */
    weft_random random;
} line;

line line_open(weft_context *context, const char *spec, weft_dtype dtype, int64_t count,
               uint64_t seed);
void line_close(line *l);
/* Draws n multiples of 1/1024, with so few digits that sums are exact. Every third hundred of
 * elements is almost empty, and one element in a hundred is large. */
void draw(weft_random *random, weft_dtype dtype, void *to, int64_t n);
/* Encodes `update` into `message`, which must stay within the bound, decodes that, and adds both to
 * the sums. */
void line_send(line *l);
/* Decodes the last message into `got`, times `scale`, in pieces of `piece` elements. */
void line_receive(line *l, double scale, int64_t piece);
/* The residual that the sender's codec keeps for element i; 0: the codec has none. */
double line_kept(const line *l, int64_t i);

#endif
