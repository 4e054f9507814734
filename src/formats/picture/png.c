/* Decodes PNG with libpng. libpng reports failures by longjmp, which would lose local variables, so
 * all resources are kept in one struct. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>

#include "formats/picture/picture.h"

typedef struct decoder {
    const unsigned char *data;
    size_t size, at;
    png_structp png;
    png_infop info;
    jmp_buf failed;
    char why[160];
    unsigned char *pixels; /* [height, width, channels] */
    png_bytep *rows;
    int width, height;
} decoder;

static void fail(png_structp png, png_const_charp why)
{
    decoder *d = png_get_error_ptr(png);
    (void)snprintf(d->why, sizeof(d->why), "%s", why);
    longjmp(d->failed, 1);
}

static void be_silent(png_structp png, png_const_charp why)
{
    (void)png, (void)why;
}

static void read_bytes(png_structp png, png_bytep to, png_size_t size)
{
    decoder *d = png_get_io_ptr(png);
    if (size > d->size - d->at) png_error(png, "it is cut off");
    memcpy(to, d->data + d->at, size);
    d->at += size;
}

static void end(decoder *d)
{
    png_destroy_read_struct(&d->png, &d->info, NULL);
    free(d->rows);
    free(d->pixels);
    d->rows = NULL;
    d->pixels = NULL;
}

/* Reads the header. Every libpng function that may longjmp is called after setjmp(d->failed). */
static bool begin(decoder *d)
{
    enum { CHUNK = 8 << 20, CHUNKS = 1000, SIDE = 1000000 };
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, fail, be_silent);
    if (!d->png) return false;
    if (setjmp(d->failed)) return false;
    d->info = png_create_info_struct(d->png);
    if (!d->info) png_error(d->png, "there is no memory");
    png_set_read_fn(d->png, d, read_bytes);
    png_set_user_limits(d->png, SIDE, SIDE);
    png_set_chunk_malloc_max(d->png, CHUNK);
    png_set_chunk_cache_max(d->png, CHUNKS);
    png_read_info(d->png, d->info);
    d->width = (int)png_get_image_width(d->png, d->info);
    d->height = (int)png_get_image_height(d->png, d->info);
    return true;
}

/* Reads the pixels: as they are, of one channel of up to 8 bits, or as four channels of 8 bits. */
static bool read_pixels(decoder *d, int channels)
{
    if (setjmp(d->failed)) return false;
    if (channels == 1) {
        png_set_packing(d->png);
    } else {
        png_set_expand(d->png);
        png_set_scale_16(d->png);
        png_set_gray_to_rgb(d->png);
        png_set_add_alpha(d->png, 0xFF, PNG_FILLER_AFTER);
    }
    (void)png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    size_t bytes = png_get_rowbytes(d->png, d->info);
    if (bytes != (size_t)d->width * (size_t)channels)
        png_error(d->png, "its rows have an unknown form");
    d->pixels = malloc(bytes * (size_t)d->height);
    d->rows = malloc(sizeof(*d->rows) * (size_t)d->height);
    if (!d->pixels || !d->rows) png_error(d->png, "there is no memory for its pixels");
    for (int i = 0; i < d->height; i++) d->rows[i] = d->pixels + (size_t)i * bytes;
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL);
    return true;
}

static weft_status broken(const char *name, const decoder *d)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: this PNG is broken: %s", name,
                     d->why[0] ? d->why : "there is no memory to read it");
}

weft_status weft_png_size(const char *name, const void *data, size_t size, int *width, int *height)
{
    decoder d = {.data = data, .size = size};
    weft_status status = begin(&d) ? WEFT_OK : broken(name, &d);
    *width = d.width;
    *height = d.height;
    end(&d);
    return status;
}

weft_status weft_png_decode(const char *name, const void *data, size_t size, weft_picture *out)
{
    decoder d = {.data = data, .size = size};
    weft_status status = begin(&d) && read_pixels(&d, 4) ? WEFT_OK : broken(name, &d);
    size_t pixels = (size_t)d.width * (size_t)d.height;
    out->width = d.width;
    out->height = d.height;
    if (status == WEFT_OK) status = WEFT_NEW(&out->pixels, pixels * (size_t)out->channels);
    if (status == WEFT_OK) weft_picture_convert(d.pixels, out->pixels, pixels, out->channels);
    end(&d);
    return status;
}

weft_status weft_png_decode_numbers(const char *name, const void *data, size_t size,
                                    weft_picture *out)
{
    decoder d = {.data = data, .size = size};
    weft_status status = begin(&d) ? WEFT_OK : broken(name, &d);
    int type = status == WEFT_OK ? png_get_color_type(d.png, d.info) : 0,
        depth = status == WEFT_OK ? png_get_bit_depth(d.png, d.info) : 0;
    if (status == WEFT_OK &&
        ((type != PNG_COLOR_TYPE_PALETTE && type != PNG_COLOR_TYPE_GRAY) || depth > 8))
        status = weft_fail(WEFT_ERR_FORMAT,
                           "%s: this PNG has %s; a mask has one number of up to 8 bits for each "
                           "pixel, that of its class, as an index of a palette or as grey",
                           name, depth > 8 ? "16 bits" : "several numbers for each pixel");
    if (status == WEFT_OK && !read_pixels(&d, 1)) status = broken(name, &d);
    *out = (weft_picture){.width = d.width, .height = d.height, .channels = 1, .pixels = d.pixels};
    d.pixels = NULL;
    end(&d);
    return status;
}
