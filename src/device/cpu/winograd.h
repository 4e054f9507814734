/* Declares convolutions by Winograd's transform, a candidate beside oneDNN's primitives. */
#ifndef WEFT_DEVICE_CPU_WINOGRAD_H
#define WEFT_DEVICE_CPU_WINOGRAD_H

#include "device/cpu/cpu.h"
#include "device/cpu/panel.h"

/* The main node is a convolution (x, w) -> y with a bias and a relu behind it, or the gradient
 * (dy, w) -> dx or (x, dy) -> dw, this one with the bias gradient beside it: of f32, two
 * dimensions, kernel 3, stride 1, without groups and dilation, with channels in multiples of 16. */
bool cpu_winograd_supports(const weft_group *group);
double cpu_winograd_seconds(const weft_group *group, const weft_layout *const *in);
/* As cpu_forward_make, cpu_dx_make and cpu_dw_make. UNSUPPORTED: a layout whose channels do
 * not lie in sequence by 16. */
weft_status cpu_winograd_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                              const cpu_weighted *m, const weft_layout *const *in,
                              weft_kernel **out) WEFT_NODISCARD;

/* --- the inside --- */

/* Products of a tile: F(4x4, 3x3) computes 4 x 4 results from 6 x 6 numbers. */
enum { WINO_TILE = 4, WINO_SIDE = WINO_TILE + 2, WINO_PRODUCTS = WINO_SIDE * WINO_SIDE };

/* An image [channel, height, width] in memory: 16 channels lie in sequence, and those from channel
 * 16 * i on begin at i * block. */
typedef struct wino_image {
    int64_t images, image, channels, block, height, row, width, column;
} wino_image;

/* The convolution of `from` with kernels that are turned by half a circle if it is the gradient of
 * the input; or the gradient of the weight from `from`, the input, and `to`, the gradient of the
 * result. */
typedef struct winograd {
    wino_image from, to;
    int64_t above, left;              /* padding */
    int64_t tiles_down, tiles, chunk; /* of an image down and in all; of all images at once */
    int64_t *in, *out, tap[9];        /* offsets in the weight; of taps in the order of products */
    bool outs_follow;                 /* 16 channels of `to` lie in sequence in the weight */
    bool relu;
    panel_shape shape;
    /* Scratch memory: transformed weights, tiles of `from`, which of their numbers are filled, and
     * the products of each thread or the tiles of `to`. */
    size_t weight_bytes, tile_bytes, filled_bytes, worker_bytes;
} winograd;

/* Rows of blocks for which the products are computed before they are transformed. */
enum { WINO_BLOCKS = 4 };

/* A run of a kernel for a chunk of tiles. */
typedef struct wino_run {
    const cpu_loop *k;
    const winograd *g;
    const float *from, *w, *bias;
    float *to;
    float *weights; /* [products, panels, channels of from, columns] */
    float *tiles;   /* [products, tiles of the chunk, channels of from] */
    /* [tiles of the chunk]: bit p: number p of the tile is not zero in all channels */
    uint64_t *filled;
    int64_t first, count; /* tiles of the chunk */
} wino_run;

/* The image of a tile, and the first row and column of its results. */
typedef struct wino_place {
    int64_t image, y, x;
} wino_place;
wino_place winograd_place(const winograd *g, int64_t tile);

static inline int64_t winograd_panels(const winograd *g)
{
    return (g->to.channels + g->shape.columns - 1) / g->shape.columns;
}

/* Transforms tiles [begin, end) of the chunk of a wino_run, with all channels of `from`. */
void winograd_tiles(void *user, int64_t begin, int64_t end);

/* Run kernels whose table is a winograd; winograd_grad.c computes the gradient of the weight. */
void winograd_loop(const cpu_loop *k);
void winograd_grad_loop(const cpu_loop *k);

#endif
