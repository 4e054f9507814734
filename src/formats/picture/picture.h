/* Pictures, PNG and JPEG. */
#ifndef WEFT_FORMATS_PICTURE_H
#define WEFT_FORMATS_PICTURE_H

#include "base/base.h"

typedef struct weft_picture {
    int width, height;
    int channels;          /* 1: grey; 3: RGB; 4: RGBA */
    unsigned char *pixels; /* [height, width, channels], from the top */
} weft_picture;

typedef enum weft_picture_kind { WEFT_NO_PICTURE, WEFT_PNG, WEFT_JPEG } weft_picture_kind;
/* The format of a picture, found by its first bytes. */
WEFT_PRIVATE_API weft_picture_kind weft_picture_begins(const void *data, size_t size);
/* Reads width and height from the header. FORMAT: no picture, or a broken header. */
WEFT_PRIVATE_API weft_status weft_picture_size(const char *name, const void *data, size_t size,
                                               int *width, int *height) WEFT_NODISCARD;
/* Decodes a picture of at most `most` pixels to 1, 3 or 4 channels of 8 bits; larger pictures are
 * refused before decoding. Grey is 0.299 red + 0.587 green + 0.114 blue; palettes and deeper
 * samples become 8 bits, and colour profiles are ignored. With 1 or 3 channels, transparent pixels
 * are blended with white. FORMAT: broken or truncated; ARGUMENT: too large. */
WEFT_PRIVATE_API weft_status weft_picture_decode(const char *name, const void *data, size_t size,
                                                 int channels, int64_t most,
                                                 weft_picture *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_picture_free(weft_picture *picture);
/* Scales a picture to width x height with a triangle filter whose half-width is one pixel of the
 * coarser picture. out: [channels, height, width], whole numbers from 0 to 255. A picture that has
 * this size is only copied. */
WEFT_PRIVATE_API weft_status weft_picture_scale(const weft_picture *picture, int width, int height,
                                                float *out) WEFT_NODISCARD;

/* png.c: reads width and height from the header of a PNG. FORMAT: the header is broken. */
weft_status weft_png_size(const char *name, const void *data, size_t size, int *width,
                          int *height) WEFT_NODISCARD;
/* Decodes a PNG to out->channels channels, which the caller sets. The caller frees out->pixels,
 * also after a failure. */
weft_status weft_png_decode(const char *name, const void *data, size_t size,
                            weft_picture *out) WEFT_NODISCARD;

#endif
