/* Detects whether a picture is PNG or JPEG, and decodes it: JPEG here, with libjpeg-turbo, PNG in
 * png.c. */
#include <stdio.h>
#include <turbojpeg.h>

#include "formats/picture/picture.h"

weft_picture_kind weft_picture_begins(const void *data, size_t size)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'},
                               jpeg[] = {0xFF, 0xD8, 0xFF};
    if (size >= sizeof(png) && memcmp(data, png, sizeof(png)) == 0) return WEFT_PNG;
    if (size >= sizeof(jpeg) && memcmp(data, jpeg, sizeof(jpeg)) == 0) return WEFT_JPEG;
    return WEFT_NO_PICTURE;
}

/* --- JPEG --- */

static weft_status jpeg_failed(const char *name, tjhandle handle)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: this JPEG is broken: %s", name, tjGetErrorStr2(handle));
}

static weft_status jpeg_header(const char *name, tjhandle handle, const void *data, size_t size,
                               int *width, int *height)
{
    int subsampling, colours = -1;
    *width = *height = 0;
    if (tjDecompressHeader3(handle, data, (unsigned long)size, width, height, &subsampling,
                            &colours) != 0)
        return jpeg_failed(name, handle);
    /* The library accepts a JPEG file that has only tables and no picture. */
    if (*width < 1 || *height < 1)
        return weft_fail(WEFT_ERR_FORMAT, "%s: this JPEG ends before its picture begins", name);
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: this JPEG has the colours of print (CMYK); save it as RGB", name);
    return WEFT_OK;
}

static weft_status jpeg_open(const char *name, const void *data, size_t size, tjhandle *handle,
                             int *width, int *height)
{
    *handle = tjInitDecompress();
    if (!*handle) return weft_fail_memory(size);
    weft_status status = jpeg_header(name, *handle, data, size, width, height);
    if (status != WEFT_OK) tjDestroy(*handle);
    return status;
}

static weft_status jpeg_decode(const char *name, const void *data, size_t size, weft_picture *out)
{
    static const int formats[] = {0, TJPF_GRAY, 0, TJPF_RGB, TJPF_RGBA};
    tjhandle handle;
    WEFT_TRY(jpeg_open(name, data, size, &handle, &out->width, &out->height));
    weft_status status =
        WEFT_NEW(&out->pixels, (size_t)out->width * (size_t)out->height * (size_t)out->channels);
    if (status == WEFT_OK &&
        tjDecompress2(handle, data, (unsigned long)size, out->pixels, out->width, 0, out->height,
                      formats[out->channels],
                      TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
        status = jpeg_failed(name, handle);
    tjDestroy(handle);
    return status;
}

/* --- any format --- */

weft_status weft_picture_size(const char *name, const void *data, size_t size, int *width,
                              int *height)
{
    tjhandle handle;
    switch (weft_picture_begins(data, size)) {
    case WEFT_PNG: return weft_png_size(name, data, size, width, height);
    case WEFT_JPEG:
        WEFT_TRY(jpeg_open(name, data, size, &handle, width, height));
        tjDestroy(handle);
        return WEFT_OK;
    default: return weft_fail(WEFT_ERR_FORMAT, "%s: is neither PNG nor JPEG", name);
    }
}

weft_status weft_picture_decode(const char *name, const void *data, size_t size, int channels,
                                int64_t most, weft_picture *out)
{
    weft_picture picture = {.channels = channels};
    int width, height;
    WEFT_TRY(weft_picture_size(name, data, size, &width, &height));
    if ((int64_t)width * height > most)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the picture has %d x %d pixels, and %lld are the most; send a "
                         "smaller one",
                         name, width, height, (long long)most);
    weft_status status = weft_picture_begins(data, size) == WEFT_PNG
                             ? weft_png_decode(name, data, size, &picture)
                             : jpeg_decode(name, data, size, &picture);
    if (status == WEFT_OK)
        *out = picture;
    else
        weft_picture_free(&picture);
    return status;
}

void weft_picture_free(weft_picture *picture)
{
    free(picture->pixels);
    *picture = (weft_picture){0};
}
