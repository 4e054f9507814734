/* Declares convolutions as one product of gathered rows, a candidate beside oneDNN's primitives. */
#ifndef WEFT_DEVICE_CPU_IM2COL_H
#define WEFT_DEVICE_CPU_IM2COL_H

#include "device/cpu/cpu.h"

/* The main node is a convolution (x, w) -> y with a bias and a relu behind it: of f32, two
 * dimensions, without groups, with channels in multiples of 16. */
bool cpu_im2col_supports(const weft_group *group);
double cpu_im2col_seconds(const weft_group *group, const weft_layout *const *in);
/* As cpu_forward_make. UNSUPPORTED: layouts that are not in blocks of 16 channels, the weight's in
 * the order output block, input block, tap, input, output. */
weft_status cpu_im2col_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                            const cpu_weighted *m, weft_kernel **out) WEFT_NODISCARD;

#endif
