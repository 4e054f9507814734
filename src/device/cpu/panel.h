/* Declares panels: operands of products that are packed in the order in which the micro-kernel of
 * tile.h reads them. */
#ifndef WEFT_DEVICE_CPU_PANEL_H
#define WEFT_DEVICE_CPU_PANEL_H

#include "device/cpu/tile.h"

/* Most rows and columns of a block, which one panel of each operand gives. */
enum { PANEL_MOST_ROWS = TILE_WIDE_ROWS, PANEL_MOST_COLUMNS = 2 * TILE_COLUMNS };

/* The rows and columns of a whole block on this processor, by instructions that oneDNN may use, too
 * (its variable ONEDNN_MAX_CPU_ISA). narrow: of bf16 numbers; rows is 0 if it has no instructions
 * for their products. */
typedef struct panel_shape {
    int rows, columns;
    bool narrow, masks; /* masks: AVX-512 */
} panel_shape;
panel_shape panel_shape_of(bool narrow);

/* The product of a panel of rows, whose word (row, step) is a[row * a_row + step * a_step], and one
 * of columns, of which a step is `columns` words in sequence, into block [rows, columns]. A step is
 * an f32 number or a pair of bf16. Without runs, of `depth` steps. */
static inline void panel_multiply(panel_shape shape, const void *a, int64_t a_row, int64_t a_step,
                                  const void *b, int64_t rows, int64_t depth, const tile_run *runs,
                                  int run_count, float *block)
{
    tile_multiply(&(tile_product){.m = rows,
                                  .n = shape.columns,
                                  .k = depth,
                                  .a = a,
                                  .b = b,
                                  .c = block,
                                  .a_row = a_row,
                                  .a_column = a_step,
                                  .b_row = shape.columns,
                                  .c_row = shape.columns,
                                  .of = shape.narrow ? TILE_PAIRS_DOT : TILE_SINGLE,
                                  .runs = runs,
                                  .run_count = run_count});
}

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
