/* Pictures: PNG, JPEG and WebP. */
#ifndef WEFT_FORMATS_PICTURE_H
#define WEFT_FORMATS_PICTURE_H

#include "base/base.h"

typedef struct weft_picture {
    int width, height;
    int channels;          /* 1: grey; 3: RGB; 4: RGBA */
    unsigned char *pixels; /* [height, width, channels], from the top */
} weft_picture;

typedef enum weft_picture_kind {
    WEFT_NO_PICTURE,
    WEFT_PNG,
    WEFT_JPEG,
    WEFT_WEBP
} weft_picture_kind;
/* The format of a picture, found by its first bytes. */
WEFT_PRIVATE_API weft_picture_kind weft_picture_begins(const void *data, size_t size);
/* Reads width and height from the header. FORMAT: no picture, or a broken header. */
WEFT_PRIVATE_API weft_status weft_picture_size(const char *name, const void *data, size_t size,
                                               int *width, int *height) WEFT_NODISCARD;
/* As weft_picture_size, as the picture is seen: that of a JPEG once it is turned. */
weft_status weft_picture_seen_size(const char *name, const weft_bytes *bytes, int *width,
                                   int *height) WEFT_NODISCARD;
/* Decodes a picture of at most `most` pixels to 1, 3 or 4 channels of 8 bits; larger pictures are
 * refused before decoding. Grey is 0.299 red + 0.587 green + 0.114 blue; palettes and deeper
 * samples become 8 bits, and colour profiles are ignored. With 1 or 3 channels, transparent pixels
 * are blended with white; JPEG is turned as its EXIF says, and colours of print (CMYK) are taken
 * for Adobe's. FORMAT: broken or truncated; ARGUMENT: too large; UNSUPPORTED: WebP without its
 * library.
 */
WEFT_PRIVATE_API weft_status weft_picture_decode(const char *name, const void *data, size_t size,
                                                 int channels, int64_t most,
                                                 weft_picture *out) WEFT_NODISCARD;
/* png_write.c: appends a picture as PNG. palette: red, green and blue of 256 numbers, of which the
 * pixels of one channel are; NULL: they are colours. */
weft_status weft_picture_encode(const weft_picture *picture, const unsigned char *palette,
                                weft_text *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_picture_free(weft_picture *picture);
/* Scales a picture to width x height with a triangle filter whose half-width is one pixel of the
 * coarser picture. out: [channels, height, width], whole numbers from 0 to 255. A picture that has
 * this size is only copied. */
WEFT_PRIVATE_API weft_status weft_picture_scale(const weft_picture *picture, int width, int height,
                                                float *out) WEFT_NODISCARD;

/* The part of a picture with this left upper corner and size. */
typedef struct weft_picture_part {
    int x, y, width, height;
} weft_picture_part;
/* As weft_picture_scale, of which only a part is computed: out is [channels, part]. */
weft_status weft_picture_scale_part(const weft_picture *picture, int width, int height,
                                    const weft_picture_part *part, float *out) WEFT_NODISCARD;
/* Decodes a picture and scales it, keeping its proportions, until it just covers the shape
 * [channels, height, width], of which it fills the middle. JPEG is decoded at a fraction of its
 * size that is still large enough. */
WEFT_PRIVATE_API weft_status weft_picture_fill(const char *name, const void *data, size_t size,
                                               int64_t most, const weft_shape *shape,
                                               float *out) WEFT_NODISCARD;

/* The size of picture p, or of a mask, once it is scaled until it covers width x height and touches
 * two of its sides. */
void weft_picture_cover(int *width, int *height, const weft_picture *p);
/* mask.c: decodes a mask [height, width] of the picture `of`, whose pixels are those of the picture
 * as weft_picture_fill gives it; of a scaled one the nearest. FORMAT: it is no PNG with one number
 * of 8 bits or fewer for each pixel (a palette or grey), or has another size than the picture. */
weft_status weft_mask_fill(const char *name, const weft_bytes *bytes, int64_t most, const char *of,
                           const weft_bytes *picture, int width, int height,
                           uint8_t *out) WEFT_NODISCARD;

/* Gives each pixel of the mask `to`, which has the size of a picture, the number of the nearest one
 * of the mask `from`, which has that of the picture as weft_picture_fill gives it, or `outside`
 * where the picture was cut off. Returns whether it was. */
bool weft_mask_spread(const weft_picture *from, unsigned char outside, weft_picture *to);

/* Brightness of a colour. */
unsigned char weft_picture_grey(unsigned red, unsigned green, unsigned blue);
/* Converts pixels of RGBA to 1, 3 or 4 channels as weft_picture_decode says. */
void weft_picture_convert(const unsigned char *from, unsigned char *to, size_t pixels,
                          int channels);

/* turn.c: the orientation of a JPEG by EXIF, from 1 to 8; 1: as it is. */
int weft_jpeg_orientation(const void *data, size_t size);
weft_status weft_picture_turn(weft_picture *picture, int orientation) WEFT_NODISCARD;

/* jpeg.c and webp.c: as png.c below. least_width and least_height: the least size that is needed,
 * for which a JPEG may be decoded at a half, a quarter or an eighth; 0: all of it. */
weft_status weft_jpeg_size(const char *name, const void *data, size_t size, int *width,
                           int *height) WEFT_NODISCARD;
weft_status weft_jpeg_decode(const char *name, const void *data, size_t size, int least_width,
                             int least_height, weft_picture *out) WEFT_NODISCARD;
weft_status weft_webp_size(const char *name, const void *data, size_t size, int *width,
                           int *height) WEFT_NODISCARD;
weft_status weft_webp_decode(const char *name, const void *data, size_t size,
                             weft_picture *out) WEFT_NODISCARD;

/* png.c: reads width and height from the header of a PNG. FORMAT: the header is broken. */
weft_status weft_png_size(const char *name, const void *data, size_t size, int *width,
                          int *height) WEFT_NODISCARD;
/* Decodes a PNG to out->channels channels, which the caller sets. The caller frees out->pixels,
 * also after a failure. */
weft_status weft_png_decode(const char *name, const void *data, size_t size,
                            weft_picture *out) WEFT_NODISCARD;
/* As weft_png_decode, with the numbers of the pixels as they are: indices of a palette, or grey.
 * FORMAT: a pixel has several numbers, or one of 16 bits. */
weft_status weft_png_decode_numbers(const char *name, const void *data, size_t size,
                                    weft_picture *out) WEFT_NODISCARD;

#endif
