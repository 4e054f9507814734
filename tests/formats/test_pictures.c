/* Tests the decoding of images: PNG files of every pixel format give the known pixels exactly, JPEG
 * gives nearly the pixels that were encoded, and images are scaled right. */
#include <math.h>
#include <turbojpeg.h>
#include <zlib.h>

#include "formats/picture/picture.h"
#include "support.h"

enum { MOST = 1 << 20 };

/* --- PNG, written by hand --- */

typedef struct file {
    unsigned char bytes[1 << 16];
    size_t size;
} file;

static void put32(file *f, uint32_t x)
{
    for (int i = 3; i >= 0; i--) f->bytes[f->size++] = (unsigned char)(x >> (8 * i));
}

static void chunk(file *f, const char *name, const void *data, size_t size)
{
    put32(f, (uint32_t)size);
    size_t from = f->size;
    memcpy(f->bytes + f->size, name, 4);
    f->size += 4;
    if (size) memcpy(f->bytes + f->size, data, size);
    f->size += size;
    put32(f, (uint32_t)crc32(0, f->bytes + from, (uInt)(size + 4)));
}

/* Writes a PNG file. rows: each row begins with the number of its filter, 0 (none). */
static void make_png(file *f, uint32_t width, uint32_t height, int bits, int colour,
                     const unsigned char *rows, size_t size)
{
    static const unsigned char mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    static const unsigned char palette[] = {10, 20, 30, 255, 0, 0, 0, 255, 0};
    file head = {.size = 0};
    unsigned char packed[4096];
    uLongf packed_size = sizeof(packed);
    f->size = sizeof(mark);
    memcpy(f->bytes, mark, sizeof(mark));
    put32(&head, width);
    put32(&head, height);
    head.bytes[8] = (unsigned char)bits;
    head.bytes[9] = (unsigned char)colour;
    chunk(f, "IHDR", head.bytes, 13);
    if (colour == 3) chunk(f, "PLTE", palette, sizeof(palette));
    assert_int_equal(compress(packed, &packed_size, rows, size), Z_OK);
    chunk(f, "IDAT", packed, packed_size);
    chunk(f, "IEND", NULL, 0);
}

static void check_png(const file *f, int channels, const unsigned char *want, size_t count)
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
    static file f;
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
    static file f;
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
        file g = f;
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
                   "neither PNG nor JPEG");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_kinds),
        cmocka_unit_test(test_png_wrong),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
