/* Decodes masks: PNG whose pixels are numbers of classes, as palette indices or grey values. They
 * are scaled as the picture that they belong to, without mixing numbers, and predicted ones back.
 */
#include <math.h>

#include "formats/picture/picture.h"

weft_status weft_picture_seen_size(const char *name, const weft_bytes *bytes, int *width,
                                   int *height)
{
    WEFT_TRY(weft_picture_size(name, bytes->data, bytes->size, width, height));
    bool turned = weft_picture_begins(bytes->data, bytes->size) == WEFT_JPEG &&
                  weft_jpeg_orientation(bytes->data, bytes->size) >= 5;
    int wide = *width;
    if (turned) *width = *height;
    if (turned) *height = wide;
    return WEFT_OK;
}

static weft_status check_size(const char *name, const weft_bytes *bytes, int64_t most,
                              const char *of, const weft_bytes *picture)
{
    int width, height, wide, high;
    WEFT_TRY(weft_picture_size(name, bytes->data, bytes->size, &width, &height));
    WEFT_TRY(weft_picture_seen_size(of, picture, &wide, &high));
    if (width != wide || height != high)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: the mask is %d pixels wide and %d high, and its picture %s is %d "
                         "wide and %d high; they must be alike",
                         name, width, height, of, wide, high);
    if ((int64_t)width * height <= most) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: the mask has %d x %d pixels, and %lld are the most",
                     name, width, height, (long long)most);
}

weft_status weft_mask_fill(const char *name, const weft_bytes *bytes, int64_t most, const char *of,
                           const weft_bytes *picture, int width, int height, uint8_t *out)
{
    weft_picture mask = {.channels = 1};
    if (weft_picture_begins(bytes->data, bytes->size) != WEFT_PNG)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: is no PNG; a mask is one, since other formats change numbers", name);
    WEFT_TRY(check_size(name, bytes, most, of, picture));
    weft_status status = weft_png_decode_numbers(name, bytes->data, bytes->size, &mask);
    int wide = width, high = height;
    if (status == WEFT_OK) weft_picture_cover(&wide, &high, &mask);
    int left = (int)lrint((wide - width) / 2.0), top = (int)lrint((high - height) / 2.0);
    for (int y = 0; y < height && status == WEFT_OK; y++)
        for (int x = 0; x < width; x++) {
            /* the pixel in which the middle of this one lies */
            int64_t from_y = (2 * (int64_t)(top + y) + 1) * mask.height / (2 * (int64_t)high),
                    from_x = (2 * (int64_t)(left + x) + 1) * mask.width / (2 * (int64_t)wide);
            *out++ = mask.pixels[from_y * mask.width + from_x];
        }
    weft_picture_free(&mask);
    return status;
}

bool weft_mask_spread(const weft_picture *from, unsigned char outside, weft_picture *to)
{
    bool cut = false;
    int wide = from->width, high = from->height;
    unsigned char *out = to->pixels;
    weft_picture_cover(&wide, &high, to);
    int left = (int)lrint((wide - from->width) / 2.0),
        top = (int)lrint((high - from->height) / 2.0);
    for (int y = 0; y < to->height; y++)
        for (int x = 0; x < to->width; x++) {
            int64_t row = (2 * (int64_t)y + 1) * high / (2 * (int64_t)to->height) - top,
                    column = (2 * (int64_t)x + 1) * wide / (2 * (int64_t)to->width) - left;
            bool inside = row >= 0 && row < from->height && column >= 0 && column < from->width;
            *out++ = inside ? from->pixels[row * from->width + column] : outside;
            cut = cut || !inside;
        }
    return cut;
}
