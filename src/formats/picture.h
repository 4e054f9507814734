/* Internals of pictures: the PNG decoder. */
#ifndef WEFT_FORMATS_PICTURE_H
#define WEFT_FORMATS_PICTURE_H

#include "formats/formats.h"

/* png.c: reads width and height from the header of a PNG. FORMAT: the header is broken. */
weft_status weft_png_size(const char *name, const void *data, size_t size, int *width,
                          int *height) WEFT_NODISCARD;
/* Decodes a PNG to out->channels channels, which the caller sets. The caller frees out->pixels,
 * also after a failure. */
weft_status weft_png_decode(const char *name, const void *data, size_t size,
                            weft_picture *out) WEFT_NODISCARD;

#endif
