/* Decodes WebP with libwebp, which is opened when the first such picture is met, so that only those
 * who have WebP need it. */
#include <dlfcn.h>

#include "formats/picture/picture.h"

typedef struct webp_library {
    int (*size)(const uint8_t *data, size_t size, int *width, int *height);
    uint8_t *(*decode)(const uint8_t *data, size_t size, int *width, int *height);
    void (*free)(void *memory);
} webp_library;

static webp_library library;
static bool found;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void look(void)
{
    static const char *const names[] = {"WebPGetInfo", "WebPDecodeRGBA", "WebPFree"};
    void **const functions[] = {(void **)&library.size, (void **)&library.decode,
                                (void **)&library.free};
    void *opened = dlopen("libwebp.so.7", RTLD_NOW | RTLD_LOCAL);
    found = opened != NULL;
    for (size_t i = 0; i < WEFT_COUNT(names) && found; i++) {
        *functions[i] = dlsym(opened, names[i]);
        found = *functions[i] != NULL;
    }
}

weft_status weft_webp_size(const char *name, const void *data, size_t size, int *width, int *height)
{
    (void)pthread_once(&looked, look);
    if (!found)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: WebP needs libwebp.so.7, which is not installed (Debian: libwebp7); "
                         "install it, or save the picture as PNG or JPEG",
                         name);
    if (library.size(data, size, width, height)) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: this WebP is broken", name);
}

weft_status weft_webp_decode(const char *name, const void *data, size_t size, weft_picture *out)
{
    WEFT_TRY(weft_webp_size(name, data, size, &out->width, &out->height));
    uint8_t *pixels = library.decode(data, size, &out->width, &out->height);
    if (!pixels) return weft_fail(WEFT_ERR_FORMAT, "%s: this WebP is broken or cut off", name);
    size_t count = (size_t)out->width * (size_t)out->height;
    weft_status status = WEFT_NEW(&out->pixels, count * (size_t)out->channels);
    if (status == WEFT_OK) weft_picture_convert(pixels, out->pixels, count, out->channels);
    library.free(pixels);
    return status;
}
