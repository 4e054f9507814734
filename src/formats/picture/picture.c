/* Finds the format of a picture and decodes it, and scales a picture so that its middle fills a
 * size. */
#include <math.h>

#include "formats/picture/picture.h"

weft_picture_kind weft_picture_begins(const void *data, size_t size)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'},
                               jpeg[] = {0xFF, 0xD8, 0xFF};
    if (size >= sizeof(png) && memcmp(data, png, sizeof(png)) == 0) return WEFT_PNG;
    if (size >= sizeof(jpeg) && memcmp(data, jpeg, sizeof(jpeg)) == 0) return WEFT_JPEG;
    if (size >= 12 && memcmp(data, "RIFF", 4) == 0 &&
        memcmp((const unsigned char *)data + 8, "WEBP", 4) == 0)
        return WEFT_WEBP;
    return WEFT_NO_PICTURE;
}

weft_status weft_picture_size(const char *name, const void *data, size_t size, int *width,
                              int *height)
{
    switch (weft_picture_begins(data, size)) {
    case WEFT_PNG: return weft_png_size(name, data, size, width, height);
    case WEFT_JPEG: return weft_jpeg_size(name, data, size, width, height);
    case WEFT_WEBP: return weft_webp_size(name, data, size, width, height);
    default: return weft_fail(WEFT_ERR_FORMAT, "%s: is neither PNG nor JPEG nor WebP", name);
    }
}

unsigned char weft_picture_grey(unsigned red, unsigned green, unsigned blue)
{
    return (unsigned char)((19595U * red + 38470U * green + 7471U * blue + 32768U) >> 16);
}

/* A colour value with opacity `opaque` (0 to 255), blended with white. */
static unsigned char seen(unsigned value, unsigned opaque)
{
    return (unsigned char)((value * opaque + 255 * (255 - opaque) + 127) / 255);
}

void weft_picture_convert(const unsigned char *from, unsigned char *to, size_t pixels, int channels)
{
    for (size_t i = 0; i < pixels; i++, from += 4, to += channels) {
        unsigned char c[3] = {seen(from[0], from[3]), seen(from[1], from[3]),
                              seen(from[2], from[3])};
        if (channels == 4)
            memcpy(to, from, 4);
        else if (channels == 3)
            memcpy(to, c, 3);
        else
            to[0] = weft_picture_grey(c[0], c[1], c[2]);
    }
}

void weft_picture_cover(int *width, int *height, const weft_picture *p)
{
    int wide = *width, high = *height;
    if (p->width < 1 || p->height < 1) return; /* no picture is so */
    if ((int64_t)wide * p->height >= (int64_t)high * p->width)
        *height = WEFT_MAX(high, (int)((int64_t)p->height * wide / p->width));
    else
        *width = WEFT_MAX(wide, (int)((int64_t)p->width * high / p->height));
}

/* Decodes a picture, of which the covering of width x height is needed; 0: all of it. */
static weft_status decode(const char *name, const void *data, size_t size, int64_t most, int width,
                          int height, weft_picture *p)
{
    WEFT_TRY(weft_picture_size(name, data, size, &p->width, &p->height));
    if ((int64_t)p->width * p->height > most)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the picture has %d x %d pixels, and %lld are the most; give a "
                         "smaller one",
                         name, p->width, p->height, (long long)most);
    weft_picture_kind kind = weft_picture_begins(data, size);
    if (kind == WEFT_PNG) return weft_png_decode(name, data, size, p);
    if (kind == WEFT_WEBP) return weft_webp_decode(name, data, size, p);
    int orientation = weft_jpeg_orientation(data, size);
    if (orientation >= 5) { /* the camera lay on its side */
        int across = width;
        width = height;
        height = across;
    }
    if (width > 0) weft_picture_cover(&width, &height, p);
    WEFT_TRY(weft_jpeg_decode(name, data, size, width, height, p));
    return weft_picture_turn(p, orientation);
}

weft_status weft_picture_decode(const char *name, const void *data, size_t size, int channels,
                                int64_t most, weft_picture *out)
{
    weft_picture picture = {.channels = channels};
    weft_status status = decode(name, data, size, most, 0, 0, &picture);
    if (status == WEFT_OK)
        *out = picture;
    else
        weft_picture_free(&picture);
    return status;
}

weft_status weft_picture_fill(const char *name, const void *data, size_t size, int64_t most,
                              const weft_shape *shape, float *out)
{
    int width = (int)shape->dim[2], height = (int)shape->dim[1], wide = width, high = height;
    weft_picture picture = {.channels = (int)shape->dim[0]};
    weft_status status = decode(name, data, size, most, width, height, &picture);
    if (status == WEFT_OK) {
        weft_picture_cover(&wide, &high, &picture);
        const weft_picture_part part = {(int)lrint((wide - width) / 2.0),
                                        (int)lrint((high - height) / 2.0), width, height};
        status = weft_picture_scale_part(&picture, wide, high, &part, out);
    }
    weft_picture_free(&picture);
    return status;
}

void weft_picture_free(weft_picture *picture)
{
    free(picture->pixels);
    *picture = (weft_picture){0};
}
