/* Declares the sizes of convolutions and pooling. */
#ifndef WEFT_DEVICE_GPU_WINDOW_H
#define WEFT_DEVICE_GPU_WINDOW_H

#include "device/gpu/gpu.h"

/* There are always three dimensions of space: fewer have dimensions of size 1 in front. */
typedef struct gpu_window {
    int64_t batch, in, out, groups, x[3], y[3], kernel[3], stride[3], padding[3], dilation[3];
    int64_t x_plane, y_plane, kernel_size;
} gpu_window;

/* Reads the window of the plan's node, from x [b, c, ...] to y. weight: [o, c, ...], or NULL: the
 * attribute `kernel`. */
gpu_window gpu_window_of(const gpu_plan *plan, const weft_shape *x, const weft_shape *weight,
                         const weft_shape *y);

#endif
