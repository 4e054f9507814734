/* Internals of pictures: PNG. */
#ifndef WEFT_FORMATS_PICTURE_H
#define WEFT_FORMATS_PICTURE_H

#include "formats/formats.h"

/* png.c: for data that begin like a PNG. */
weft_status weft_png_size(const char *name, const void *data, size_t size, int *width,
                          int *height) WEFT_NODISCARD;
/* out: channels is set; the caller frees the pixels in any case. */
weft_status weft_png_decode(const char *name, const void *data, size_t size,
                            weft_picture *out) WEFT_NODISCARD;

#endif
