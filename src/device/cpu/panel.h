/* Declares sums of products of panels, the inner loop of products whose operands were packed. */
#ifndef WEFT_DEVICE_CPU_PANEL_H
#define WEFT_DEVICE_CPU_PANEL_H

#include "base/base.h"

/* Most rows and columns of a block of the result, which is held in registers. */
enum { PANEL_MOST_ROWS = 11, PANEL_MOST_COLUMNS = 32 };

/* The set of instructions of a product, and the rows and columns of its whole blocks. */
typedef struct panel_shape {
    enum { PANEL_NONE, PANEL_ANY, PANEL_AVX512, PANEL_AVX512_BF16 } set;
    int rows, columns;
} panel_shape;
/* The shape for f32 or, if `narrow`, for bf16 on this processor, by instructions that oneDNN may
 * use, too (its variable ONEDNN_MAX_CPU_ISA). PANEL_NONE: it has none for bf16. */
panel_shape panel_shape_of(bool narrow);

/* Panels consist of steps. A step has a word of four bytes for each row or column: an f32, or two
 * bf16, of which both products are added. A run is `depth` steps, from step a of the panel of the
 * rows on, and from step b of the panel of the columns on. */
typedef struct panel_run {
    int32_t a, b, depth;
} panel_run;

/* A block of the result: the sum over the steps of all runs of a[row] * b[column], in this order.
 * Word (row, step) of a is a[row * a_row + step * a_step]; a step of b is a whole block of columns
 * in sequence. */
typedef struct panel_product {
    const uint32_t *a, *b;
    int64_t a_row, a_step;
    const panel_run *runs;
    int run_count, rows; /* rows: from 1 to those of a whole block */
    panel_shape shape;
    float *c; /* [rows, columns of a whole block]; overwritten */
} panel_product;
void panel_multiply(const panel_product *p);

/* --- packing --- */

/* Some channels of images, of f32 or bf16: the number of a channel at a position is at the sum of
 * their offsets. A position without numbers has offset -1. */
typedef struct panel_source {
    const void *data; /* of the first image */
    bool narrow;
    int64_t images, image; /* their number and distance */
    int64_t positions;
    const int64_t *position, *channel;
    int channels;
} panel_source;
/* Writes a panel with `width` words a step, whose columns behind the channels are zero. Positions
 * are outermost; a step is one image, or with bf16 a pair of images, of which the last one may lack
 * the second image and has zeros in its place. Steps of positions without numbers are left out, but
 * keep their place. */
void panel_pack(const panel_source *s, panel_shape shape, int width, uint32_t *to);

#endif
