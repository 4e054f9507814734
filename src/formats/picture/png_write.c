/* Encodes PNG with the simplified interface of libpng. */
#include <png.h>

#include "formats/picture/picture.h"

weft_status weft_picture_encode(const weft_picture *p, const unsigned char *palette, weft_text *out)
{
    static const png_uint_32 formats[] = {
        [1] = PNG_FORMAT_GRAY, [3] = PNG_FORMAT_RGB, [4] = PNG_FORMAT_RGBA};
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = palette ? PNG_FORMAT_RGB_COLORMAP : formats[p->channels],
                       .colormap_entries = palette ? 256 : 0};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    char *bytes;
    WEFT_TRY(weft_new_bytes((void *)&bytes, size, 1));
    bool written = png_image_write_to_memory(&image, bytes, &size, 0, p->pixels, 0, palette);
    if (written) weft_text_add_bytes(out, bytes, size);
    free(bytes);
    return written ? WEFT_OK
                   : weft_fail(WEFT_ERR_INTERNAL, "a picture of %d x %d pixels is not encoded: %s",
                               p->width, p->height, image.message);
}
