/* Declares the placement of buffers by first fit: each at the lowest offset that is free during its
 * lifetime. */
#ifndef WEFT_PROGRAM_FIRST_FIT_H
#define WEFT_PROGRAM_FIRST_FIT_H

#include "base/base.h"

typedef struct weft_first_fit weft_first_fit;

/* For lifetimes from 0 to times - 1. */
weft_status weft_first_fit_new(int times, weft_first_fit **out) WEFT_NODISCARD;
void weft_first_fit_free(weft_first_fit **fit);
/* Sets *offset, a multiple of 64, to the lowest one from which `bytes` bytes are free from time
 * `first` to `last`, and takes them. */
weft_status weft_first_fit_place(weft_first_fit *fit, int first, int last, size_t bytes,
                                 size_t *offset) WEFT_NODISCARD;

#endif
