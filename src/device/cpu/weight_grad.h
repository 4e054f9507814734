/* Declares the gradient of weights by products of panels, a candidate beside oneDNN's primitives.
 */
#ifndef WEFT_DEVICE_CPU_WEIGHT_GRAD_H
#define WEFT_DEVICE_CPU_WEIGHT_GRAD_H

#include "device/cpu/cpu.h"
#include "device/cpu/panel.h"

/* Whether the group, a main node (x, dy) -> dw, can be computed: it has no groups of channels, one
 * type of operands for whose products the processor has instructions, and an f32 result. */
bool cpu_weight_grad_supports(const weft_group *group);
double cpu_weight_grad_seconds(const weft_group *group, const weft_layout *const *in);
/* As cpu_dw_make; an operand that lies in blocks or is plain is read as it lies. */
weft_status cpu_weight_grad_make(weft_device *device, const weft_group *group,
                                 const onednn_spec *spec, const cpu_weighted *m,
                                 const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

/* --- the inside --- */

/* A tensor [image, channel, position]: its element is at the sum of the three offsets. A position
 * with offset -1 is outside of the image and has no numbers. */
typedef struct tensor {
    int64_t image, channels, positions;
    int64_t *channel, *position;
} tensor;

typedef struct weight_grad {
    tensor x, dy;
    int64_t images, chunk, taps;
    int64_t *in, *out, *tap; /* offsets in the gradient */
    bool rows_of_out;        /* 16 outputs lie in sequence, if they begin at a multiple of 16 */
    tile_run *runs;          /* in positions; those of tap t begin at first[t] */
    int64_t *first;
    bool narrow;
    panel_shape shape;
    size_t x_bytes, dy_bytes; /* of the panels of a chunk */
    size_t padded_bytes;      /* of a gradient whose layout has padding; 0: it has none */
} weight_grad;

/* The number of blocks of `size` channels, and the steps of a position for so many images. */
static inline int64_t weight_grad_blocks(int64_t channels, int64_t size)
{
    return (channels + size - 1) / size;
}
static inline int64_t weight_grad_steps(const weight_grad *g, int64_t images)
{
    return g->narrow ? (images + 1) / 2 : images;
}

/* Runs a kernel whose table is a weight_grad. */
void weight_grad_loop(const cpu_loop *k);

#endif
