/* Tests the decoding of images: PNG files of every pixel format give the known pixels exactly, JPEG
 * gives nearly the pixels that were encoded, and images are scaled right. */
#include <dlfcn.h>
#include <math.h>

#include "formats/picture/picture.h"
#include "pictures.h"

enum { MOST = 1 << 20 };

/* --- PNG --- */

static void check_png(const picture_file *f, int channels, const unsigned char *want, size_t count)
{
    weft_picture p;
    assert_int_equal(weft_picture_begins(f->bytes, f->size), WEFT_PNG);
    assert_ok(weft_picture_decode("p", f->bytes, f->size, channels, MOST, &p));
    assert_int_equal((size_t)p.width * (size_t)p.height * (size_t)channels, count);
    for (size_t i = 0; i < count; i++)
        if (p.pixels[i] != want[i])
            fail_msg("value %zu of %d channels is %d, not %d", i, channels, p.pixels[i], want[i]);
    weft_picture_free(&p);
}

static void test_png_kinds(void **state)
{
    (void)state;
    static picture_file f;
    static const unsigned char grey[] = {0, 0, 1, 254, 0, 255, 100, 7};
    make_png(&f, 3, 2, 8, 0, grey, sizeof(grey));
    check_png(&f, 1, (const unsigned char[]){0, 1, 254, 255, 100, 7}, 6);
    check_png(&f, 3,
              (const unsigned char[]){0, 0, 0, 1, 1, 1, 254, 254, 254, 255, 255, 255, 100, 100, 100,
                                      7, 7, 7},
              18);
    static const unsigned char colour[] = {0, 255, 0, 0, 0, 255, 0, 0, 0, 0, 255, 10, 20, 30};
    make_png(&f, 2, 2, 8, 2, colour, sizeof(colour));
    check_png(&f, 3, (const unsigned char[]){255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}, 12);
    check_png(&f, 1, (const unsigned char[]){76, 150, 29, 18}, 4);
    /* Pixels are drawn on white: a fully transparent one is white, half transparent black is
     * grey. */
    static const unsigned char clear[] = {0, 9, 9, 9, 0, 0, 0, 0, 128, 40, 40, 40, 255};
    make_png(&f, 3, 1, 8, 6, clear, sizeof(clear));
    check_png(&f, 1, (const unsigned char[]){255, 127, 40}, 3);
    check_png(&f, 4, (const unsigned char[]){9, 9, 9, 0, 0, 0, 0, 128, 40, 40, 40, 255}, 12);
    static const unsigned char deep[] = {0, 0xFF, 0xFF, 0x80, 0x80, 0, 0};
    make_png(&f, 3, 1, 16, 0, deep, sizeof(deep));
    check_png(&f, 1, (const unsigned char[]){255, 128, 0}, 3);
    static const unsigned char bits[] = {0, 0xA0};
    make_png(&f, 3, 1, 1, 0, bits, sizeof(bits));
    check_png(&f, 1, (const unsigned char[]){255, 0, 255}, 3);
    static const unsigned char places[] = {0, 0, 1, 2};
    make_png(&f, 3, 1, 8, 3, places, sizeof(places));
    check_png(&f, 3, (const unsigned char[]){10, 20, 30, 255, 0, 0, 0, 255, 0}, 9);
}

static void test_png_wrong(void **state)
{
    (void)state;
    static picture_file f;
    weft_picture p;
    static const unsigned char grey[] = {0, 0, 1, 254, 0, 255, 100, 7};
    make_png(&f, 3, 2, 8, 0, grey, sizeof(grey));
    for (size_t size = 0; size < f.size; size++) {
        unsigned char *own = malloc(size + 1);
        assert_non_null(own);
        memcpy(own, f.bytes, size);
        assert_int_equal(weft_picture_decode("p", own, size, 1, MOST, &p), WEFT_ERR_FORMAT);
        free(own);
    }
    for (size_t i = 8; i < f.size - 4; i++) {
        picture_file g = f;
        g.bytes[i] ^= 0x10;
        assert_int_not_equal(weft_picture_decode("p", g.bytes, g.size, 1, MOST, &p), WEFT_OK);
    }
    assert_refused(weft_picture_decode("p", f.bytes, f.size, 1, 5, &p), WEFT_ERR_ARGUMENT,
                   "3 x 2 pixels, and 5 are the most");
    /* A small file whose header claims 60000 x 60000 pixels is refused before decoding. */
    make_png(&f, 60000, 60000, 8, 6, grey, sizeof(grey));
    assert_refused(weft_picture_decode("p", f.bytes, f.size, 1, MOST, &p), WEFT_ERR_ARGUMENT,
                   "60000 x 60000");
    make_png(&f, 0, 2, 8, 0, grey, sizeof(grey));
    assert_refused(weft_picture_decode("p", f.bytes, f.size, 1, MOST, &p), WEFT_ERR_FORMAT,
                   "broken");
    assert_refused(weft_picture_decode("p", "GIF89a", 6, 1, MOST, &p), WEFT_ERR_FORMAT,
                   "neither PNG nor JPEG nor WebP");
}

/* --- JPEG --- */

static void test_jpeg(void **state)
{
    (void)state;
    enum { WIDTH = 37, HEIGHT = 21 };
    static unsigned char from[HEIGHT * WIDTH * 3];
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    weft_picture p;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++)
                from[(y * WIDTH + x) * 3 + c] = (unsigned char)(3 * x + 4 * y + 30 * c);
    tjhandle handle = tjInitCompress();
    assert_int_equal(tjCompress2(handle, from, WIDTH, 0, HEIGHT, TJPF_RGB, &bytes, &size,
                                 TJSAMP_444, 98, TJFLAG_ACCURATEDCT),
                     0);
    tjDestroy(handle);
    assert_int_equal(weft_picture_begins(bytes, size), WEFT_JPEG);
    for (int channels = 1; channels <= 3; channels += 2) {
        assert_ok(weft_picture_decode("p", bytes, size, channels, MOST, &p));
        assert_int_equal(p.width, WIDTH);
        assert_int_equal(p.height, HEIGHT);
        for (int i = 0; i < WIDTH * HEIGHT; i++) {
            const unsigned char *s = from + (ptrdiff_t)i * 3,
                                *g = p.pixels + (ptrdiff_t)i * channels;
            double grey = 0.299 * s[0] + 0.587 * s[1] + 0.114 * s[2];
            for (int c = 0; c < WEFT_MIN(channels, 3); c++)
                assert_true(fabs((channels == 1 ? grey : s[c]) - g[c]) <= 4);
        }
        weft_picture_free(&p);
    }
    assert_refused(weft_picture_decode("p", bytes, size, 1, WIDTH * HEIGHT - 1, &p),
                   WEFT_ERR_ARGUMENT, "37 x 21");
    for (unsigned long cut = 3; cut < size; cut += 7) {
        unsigned char *own = malloc(cut);
        assert_non_null(own);
        memcpy(own, bytes, cut);
        assert_int_equal(weft_picture_decode("p", own, cut, 1, MOST, &p), WEFT_ERR_FORMAT);
        free(own);
    }
    tjFree(bytes);
}

/* The pixel of a picture that was held in one of eight ways, in the upright picture. */
static void upright(int orientation, int width, int height, int x, int y, int *at_x, int *at_y)
{
    const int to_x[] = {x, width - 1 - x, width - 1 - x, x, y, height - 1 - y, height - 1 - y, y},
              to_y[] = {y, y, height - 1 - y, height - 1 - y, x, x, width - 1 - x, width - 1 - x};
    *at_x = to_x[orientation - 1];
    *at_y = to_y[orientation - 1];
}

static void test_orientations(void **state)
{
    (void)state;
    enum { WIDTH = 24, HEIGHT = 16 };
    static unsigned char from[HEIGHT * WIDTH];
    static picture_file f;
    weft_picture p;
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        from[i] = (unsigned char)(2 * (i % WIDTH) + 11 * (i / WIDTH));
    for (int orientation = 0; orientation <= 9; orientation++) {
        make_jpeg(&f, from, WIDTH, HEIGHT, TJPF_GRAY, orientation);
        assert_ok(weft_picture_decode("p", f.bytes, f.size, 1, MOST, &p));
        bool swaps = orientation >= 5 && orientation <= 8;
        assert_int_equal(p.width, swaps ? HEIGHT : WIDTH);
        for (int i = 0; i < HEIGHT * WIDTH; i++) {
            int x, y, held = orientation < 1 || orientation > 8 ? 1 : orientation;
            upright(held, WIDTH, HEIGHT, i % WIDTH, i / WIDTH, &x, &y);
            assert_true(abs(from[i] - p.pixels[y * p.width + x]) <= 4);
        }
        weft_picture_free(&p);
        for (size_t cut = 2; cut < 40; cut++) (void)weft_jpeg_orientation(f.bytes, cut);
    }
}

/* Colours of print with the amounts of ink inverted. */
static void test_print(void **state)
{
    (void)state;
    static unsigned char ink[16 * 16 * 4];
    static picture_file f;
    weft_picture p;
    for (int i = 0; i < 16 * 16; i++) memcpy(ink + 4 * i, (unsigned char[]){200, 100, 50, 204}, 4);
    make_jpeg(&f, ink, 16, 16, TJPF_CMYK, 0);
    assert_ok(weft_picture_decode("p", f.bytes, f.size, 3, MOST, &p));
    const int want[] = {160, 80, 40};
    for (int i = 0; i < 16 * 16 * 3; i++) assert_true(abs(p.pixels[i] - want[i % 3]) <= 4);
    weft_picture_free(&p);
}

static void test_webp(void **state)
{
    (void)state;
    void *library = dlopen("libwebp.so.7", RTLD_NOW);
    size_t (*encode)(const uint8_t *, int, int, int, uint8_t **) = NULL;
    if (library) *(void **)&encode = dlsym(library, "WebPEncodeLosslessRGBA");
    if (!encode) {
        print_message("SKIPPED: libwebp.so.7 is not here\n");
        return;
    }
    static const uint8_t pixels[] = {9, 8, 7, 255, 0, 0, 0, 128, 1, 2, 3, 255};
    uint8_t *bytes;
    weft_picture p;
    size_t size = encode(pixels, 3, 1, 12, &bytes);
    assert_int_equal(weft_picture_begins(bytes, size), WEFT_WEBP);
    assert_ok(weft_picture_decode("p", bytes, size, 3, MOST, &p));
    assert_int_equal(p.width, 3);
    assert_memory_equal(p.pixels, ((uint8_t[]){9, 8, 7, 127, 127, 127, 1, 2, 3}), 9);
    weft_picture_free(&p);
    for (size_t cut = 12; cut < size; cut++) {
        uint8_t *own = malloc(cut);
        assert_non_null(own);
        memcpy(own, bytes, cut);
        assert_int_equal(weft_picture_decode("p", own, cut, 3, MOST, &p), WEFT_ERR_FORMAT);
        free(own);
    }
    free(bytes);
}

/* --- sizes --- */

/* A pixel of the scaled image by definition: a mean of all pixels, weighted by a triangle
 * filter. */
static double place_of(const weft_picture *p, int width, int height, int x, int y, int c)
{
    double across = (double)p->width / width, down = (double)p->height / height, sum = 0, all = 0;
    for (int j = 0; j < p->height; j++)
        for (int i = 0; i < p->width; i++) {
            double far_x = fabs(i + 0.5 - (x + 0.5) * across) / WEFT_MAX(across, 1.0),
                   far_y = fabs(j + 0.5 - (y + 0.5) * down) / WEFT_MAX(down, 1.0);
            double weight = WEFT_MAX(1 - far_x, 0.0) * WEFT_MAX(1 - far_y, 0.0);
            sum += weight * p->pixels[(j * p->width + i) * p->channels + c];
            all += weight;
        }
    return sum / all;
}

static void test_scale(void **state)
{
    (void)state;
    enum { LARGEST = 40 };
    static unsigned char pixels[LARGEST * LARGEST * 3];
    static float out[LARGEST * LARGEST * 3];
    weft_random r;
    weft_random_start(&r, 5, 1);
    for (int i = 0; i < 60; i++) {
        weft_picture p = {.width = 1 + (int)(weft_random_u32(&r) % LARGEST),
                          .height = 1 + (int)(weft_random_u32(&r) % LARGEST),
                          .channels = i % 2 ? 1 : 3,
                          .pixels = pixels};
        int width = i % 7 ? 1 + (int)(weft_random_u32(&r) % LARGEST) : p.width,
            height = i % 7 ? 1 + (int)(weft_random_u32(&r) % LARGEST) : p.height;
        bool flat = i % 5 == 0;
        for (int k = 0; k < p.width * p.height * p.channels; k++)
            pixels[k] = flat ? 201 : (unsigned char)(weft_random_u32(&r) % 256);
        assert_ok(weft_picture_scale(&p, width, height, out));
        for (int c = 0; c < p.channels; c++)
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++) {
                    float got = out[(c * height + y) * width + x];
                    assert_true(got == rintf(got));
                    assert_true(!flat || got == 201);
                    assert_true(fabs((double)got - place_of(&p, width, height, x, y, c)) < 0.51);
                }
    }
}

/* A picture is scaled until it covers the size, and its middle is taken: pixels of a PNG are those
 * of the whole scaled picture, and those of a JPEG, which is decoded at a fraction of its size, are
 * near. */
static void test_fill(void **state)
{
    (void)state;
    enum { SIDE = 100 };
    static unsigned char rows[SIDE * (SIDE + 1)], pixels[SIDE * SIDE];
    static float out[SIDE * SIDE], whole[SIDE * SIDE * 4];
    static picture_file f;
    weft_random r;
    weft_random_start(&r, 7, 1);
    for (int i = 0; i < 40; i++) {
        int width = 1 + (int)(weft_random_u32(&r) % SIDE), wide,
            height = 1 + (int)(weft_random_u32(&r) % SIDE), high;
        const weft_shape shape =
            weft_shape_of(3, (int64_t[]){1, 1 + (int)(weft_random_u32(&r) % 40),
                                         1 + (int)(weft_random_u32(&r) % 40)});
        int to_high = (int)shape.dim[1], to_wide = (int)shape.dim[2];
        double scale = WEFT_MAX((double)to_wide / width, (double)to_high / height);
        wide = WEFT_MAX(to_wide, (int)(width * scale + 1e-9));
        high = WEFT_MAX(to_high, (int)(height * scale + 1e-9));
        if (wide * high > SIDE * SIDE * 4) continue;
        memset(rows, 0, sizeof(rows));
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                rows[y * (width + 1) + 1 + x] = pixels[y * width + x] =
                    (unsigned char)(i % 2 ? weft_random_u32(&r) % 256 : (unsigned)(x + y));
        const weft_picture p = {width, height, 1, pixels};
        assert_ok(weft_picture_scale(&p, wide, high, whole));
        if (i % 2)
            make_png(&f, (uint32_t)width, (uint32_t)height, 8, 0, rows,
                     (size_t)height * (size_t)(width + 1));
        else
            make_jpeg(&f, pixels, width, height, TJPF_GRAY, 0);
        assert_ok(weft_picture_fill("p", f.bytes, f.size, MOST, &shape, out));
        int left = (int)lrint((wide - to_wide) / 2.0), top = (int)lrint((high - to_high) / 2.0);
        for (int y = 0; y < to_high; y++)
            for (int x = 0; x < to_wide; x++) {
                float want = whole[(y + top) * wide + x + left], got = out[y * to_wide + x];
                if (fabsf(want - got) > (i % 2 ? 0.0F : 5.0F))
                    fail_msg("%d: %g at %d, %d, not %g", i, (double)got, x, y, (double)want);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_kinds),    cmocka_unit_test(test_png_wrong),
        cmocka_unit_test(test_jpeg),         cmocka_unit_test(test_scale),
        cmocka_unit_test(test_orientations), cmocka_unit_test(test_print),
        cmocka_unit_test(test_webp),         cmocka_unit_test(test_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
