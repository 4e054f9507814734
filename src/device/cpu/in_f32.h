/* Declares the computation of bf16 nodes by the cpu device's kernels for f32. */
#ifndef WEFT_DEVICE_CPU_IN_F32_H
#define WEFT_DEVICE_CPU_IN_F32_H

#include "device/cpu/cpu.h"

extern const cpu_entry cpu_in_f32_entry;
/* Whether the device has a kernel for the group in f32. */
bool cpu_in_f32_has(weft_device *device, const weft_group *group);

/* device.c: weft_device_ops.candidates and .kernel; the caller of cpu_kernel is within
 * weft_reserve_enter. */
int cpu_candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                   weft_candidate out[WEFT_CANDIDATES]);
weft_status cpu_kernel(weft_device *device, const weft_group *group,
                       const weft_candidate *candidate, const weft_layout *const *in,
                       weft_kernel **out) WEFT_NODISCARD;

/* Makes a kernel that copies f32 values from one layout to another, likewise. */
weft_status cpu_reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                        const weft_layout *to, weft_kernel **out) WEFT_NODISCARD;

#endif
