/* Inside of pictures: PNG. */
#ifndef WEFT_FORMATS_PICTURE_H
#define WEFT_FORMATS_PICTURE_H

#include "formats/formats.h"

/* png.c: what begins as one. */
weft_status weft_png_size(const char *name, const void *data, size_t size, int *width,
                          int *height) WEFT_NODISCARD;
/* out: its channels are set, and its pixels are freed by the caller in either case. */
weft_status weft_png_decode(const char *name, const void *data, size_t size,
                            weft_picture *out) WEFT_NODISCARD;

#endif
