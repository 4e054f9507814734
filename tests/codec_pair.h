/* A sender and a receiver with a codec between them. */
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
    double *sent, *given; /* sums */
    weft_random random;
} line;

line line_open(weft_context *context, const char *spec, weft_dtype dtype, int64_t count,
               uint64_t seed);
void line_close(line *l);
/* Multiples of a power of two, so few digits that sums are exact: some ranges are empty, some full,
 * and now and then there is something large. */
void draw(weft_random *random, weft_dtype dtype, void *to, int64_t n);
/* Encodes the update that is there, within the bound, and sums up both sides. */
void line_send(line *l);
/* What was sent last, scaled, in pieces of any size. */
void line_receive(line *l, double scale, int64_t piece);
/* What the sender's codec keeps of a number. */
double line_kept(const line *l, int64_t i);

#endif
