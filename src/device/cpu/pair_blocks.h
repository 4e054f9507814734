/* Declares reorders that round blocks of f32 numbers to blocks of pairs of bf16 numbers. */
#ifndef WEFT_DEVICE_CPU_PAIR_BLOCKS_H
#define WEFT_DEVICE_CPU_PAIR_BLOCKS_H

#include "device/cpu/cpu.h"

/* Whether `from` has blocks of f32 of two axes, and `to` the same blocks with neighbours along one
 * of the axes as pairs of bf16. */
bool cpu_pair_blocks_has(cpu_md from, cpu_md to);
/* Creates the reorder, without the layouts of its operands. */
weft_status cpu_pair_blocks_make(weft_device *device, cpu_md from, cpu_md to,
                                 weft_kernel **out) WEFT_NODISCARD;

#endif
