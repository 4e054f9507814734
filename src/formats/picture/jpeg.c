/* Decodes JPEG with libjpeg-turbo, also at a half, a quarter or an eighth of its size, and turns
 * the picture as the camera's note on it says (EXIF). */
#include <turbojpeg.h>

#include "formats/picture/picture.h"

static weft_status failed(const char *name, tjhandle handle)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: this JPEG is broken: %s", name, tjGetErrorStr2(handle));
}

/* Reads the header. *print: the colours are those of print (CMYK). */
static weft_status read_header(const char *name, tjhandle handle, const void *data, size_t size,
                               int *width, int *height, bool *print)
{
    int subsampling, colours = -1;
    *width = *height = 0;
    if (tjDecompressHeader3(handle, data, (unsigned long)size, width, height, &subsampling,
                            &colours) != 0)
        return failed(name, handle);
    /* The library accepts a JPEG file that has only tables and no picture. */
    if (*width < 1 || *height < 1)
        return weft_fail(WEFT_ERR_FORMAT, "%s: this JPEG ends before its picture begins", name);
    *print = colours == TJCS_CMYK || colours == TJCS_YCCK;
    return WEFT_OK;
}

static weft_status begin(const char *name, const void *data, size_t size, tjhandle *handle,
                         int *width, int *height, bool *print)
{
    *handle = tjInitDecompress();
    if (!*handle) return weft_fail_memory(size);
    weft_status status = read_header(name, *handle, data, size, width, height, print);
    if (status != WEFT_OK) tjDestroy(*handle);
    return status;
}

weft_status weft_jpeg_size(const char *name, const void *data, size_t size, int *width, int *height)
{
    tjhandle handle;
    bool print = false;
    WEFT_TRY(begin(name, data, size, &handle, width, height, &print));
    tjDestroy(handle);
    return WEFT_OK;
}

/* Colours of print as Adobe's programs write them, with the amounts of ink inverted. */
static void from_print(const unsigned char *ink, size_t pixels, weft_picture *out)
{
    unsigned char *to = out->pixels;
    for (size_t i = 0; i < pixels; i++, ink += 4, to += out->channels) {
        unsigned c[3];
        for (int k = 0; k < 3; k++) c[k] = (ink[k] * (unsigned)ink[3] + 127) / 255;
        for (int k = 0; k < out->channels; k++) to[k] = k < 3 ? (unsigned char)c[k] : 255;
        if (out->channels == 1) to[0] = weft_picture_grey(c[0], c[1], c[2]);
    }
}

static weft_status decode_print(const char *name, tjhandle handle, const void *data, size_t size,
                                int flags, weft_picture *out)
{
    unsigned char *ink = NULL;
    size_t pixels = (size_t)out->width * (size_t)out->height;
    WEFT_TRY(WEFT_NEW(&ink, pixels * 4));
    weft_status status = WEFT_OK;
    if (tjDecompress2(handle, data, (unsigned long)size, ink, out->width, 0, out->height, TJPF_CMYK,
                      flags) != 0)
        status = failed(name, handle);
    else
        from_print(ink, pixels, out);
    free(ink);
    return status;
}

/* Divides the size by 2, 4 or 8 while it stays at least as large as what is needed. */
static void reduce(weft_picture *out, int least_width, int least_height)
{
    int full[] = {out->width, out->height};
    for (int by = 2; by <= 8 && least_width > 0; by *= 2) {
        const tjscalingfactor factor = {1, by};
        int width = TJSCALED(full[0], factor), height = TJSCALED(full[1], factor);
        if (width < least_width || height < least_height) return;
        out->width = width;
        out->height = height;
    }
}

weft_status weft_jpeg_decode(const char *name, const void *data, size_t size, int least_width,
                             int least_height, weft_picture *out)
{
    static const int formats[] = {0, TJPF_GRAY, 0, TJPF_RGB, TJPF_RGBA};
    enum { FLAGS = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS };
    tjhandle handle;
    bool print = false;
    WEFT_TRY(begin(name, data, size, &handle, &out->width, &out->height, &print));
    reduce(out, least_width, least_height);
    weft_status status =
        WEFT_NEW(&out->pixels, (size_t)out->width * (size_t)out->height * (size_t)out->channels);
    if (status == WEFT_OK && print)
        status = decode_print(name, handle, data, size, FLAGS, out);
    else if (status == WEFT_OK &&
             tjDecompress2(handle, data, (unsigned long)size, out->pixels, out->width, 0,
                           out->height, formats[out->channels], FLAGS) != 0)
        status = failed(name, handle);
    tjDestroy(handle);
    return status;
}
