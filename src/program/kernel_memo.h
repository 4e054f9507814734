/* Declares the kernels that a program which is only planned has made so far. */
#ifndef WEFT_PROGRAM_KERNEL_MEMO_H
#define WEFT_PROGRAM_KERNEL_MEMO_H

#include "program/program.h"

typedef struct kernel_memo kernel_memo;

weft_status weft_kernel_memo_new(kernel_memo **out) WEFT_NODISCARD;
/* The kernel of a candidate, the `option`th of the device; the memo owns it. `in`: as for
 * weft_device_kernel, whose errors it has. */
weft_status weft_kernel_memo_get(kernel_memo *memo, weft_device *device, int option,
                                 const weft_group *group, const weft_candidate *candidate,
                                 const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;
/* The kernel that converts a value of a type from one layout to another; likewise. */
weft_status weft_kernel_memo_reorder(kernel_memo *memo, weft_device *device, const weft_type *type,
                                     const weft_layout *from, const weft_layout *to,
                                     weft_kernel **out) WEFT_NODISCARD;
/* An instruction takes a kernel of the memo, of a group or (NULL) a reorder. Sets *number to that
 * of the kernel, and adds to *saved, unless it is NULL, the bytes of a kernel of its own, if
 * another instruction has this one. */
weft_status weft_kernel_memo_use(kernel_memo *memo, const weft_kernel *kernel,
                                 const weft_group *group, size_t *saved,
                                 int *number) WEFT_NODISCARD;
/* Frees the memo, and gives the caller the kernels that instructions have, in the order of their
 * numbers. */
weft_status weft_kernel_memo_close(kernel_memo **memo, weft_kernel ***kernels,
                                   size_t *count) WEFT_NODISCARD;

#endif
