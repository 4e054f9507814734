/* Declares the sizes of products and convolutions, which own kernels and libraries compute. */
#ifndef WEFT_DEVICE_GPU_PRODUCT_H
#define WEFT_DEVICE_GPU_PRODUCT_H

#include "device/gpu/elements.h"
#include "device/gpu/window.h"

/* GPU_PLAIN: c [m, n] = a b, for each of `batch`. The others are kinds of kernels/product.cl, too:
 * y from x and w, dx from w and dy, dw from x and dy. */
typedef enum gpu_product_kind { GPU_PLAIN, GPU_FORWARD, GPU_DATA, GPU_WEIGHT } gpu_product_kind;

struct gpu_product {
    gpu_product_kind kind;
    int a, b; /* operands of the node; of convolutions a is the second one, b the first */
    int64_t m, n, k, batch, slices, slice;
    bool a_fast, b_fast; /* neighbouring terms are neighbours in memory */
    /* GPU_PLAIN: element (i, p) of a is at i ai + p ap, (p, j) of b at p bp + j bj, a product of
     * the batch at a_batch and b_batch from the last one. Others: groups, channels of x and of y
     * in a group, and the lists of the window. */
    int64_t sizes[24];
    int size_count, tile_m, tile_n;
    gpu_window window; /* of convolutions */
};
enum { GPU_AI, GPU_AP, GPU_BP, GPU_BJ, GPU_A_BATCH, GPU_B_BATCH };

/* The memory that a routine writes: the result of the whole group, or one that own kernels read. */
void gpu_routine_result(gpu_plan *plan);

#endif
