/* Makes picture files for tests, JPEG by libjpeg-turbo and PNG by hand, and tar archives. */
#ifndef WEFT_TESTS_PICTURES_H
#define WEFT_TESTS_PICTURES_H

#include <turbojpeg.h>
#include <zlib.h>

#include "support.h"

typedef struct picture_file {
    unsigned char bytes[1 << 16];
    size_t size;
} picture_file;

static inline void put32(picture_file *f, uint32_t x)
{
    for (int i = 3; i >= 0; i--) f->bytes[f->size++] = (unsigned char)(x >> (8 * i));
}

static inline void chunk(picture_file *f, const char *name, const void *data, size_t size)
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
static inline void make_png(picture_file *f, uint32_t width, uint32_t height, int bits, int colour,
                            const unsigned char *rows, size_t size)
{
    static const unsigned char mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    static const unsigned char palette[] = {10, 20, 30, 255, 0, 0, 0, 255, 0};
    picture_file head = {.size = 0};
    unsigned char packed[1 << 15];
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

/* Writes a JPEG file of pixels in a format of libjpeg-turbo. orientation: noted by EXIF; 0: not. */
static inline void make_jpeg(picture_file *f, const unsigned char *pixels, int width, int height,
                             int format, int orientation)
{
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    tjhandle handle = tjInitCompress();
    assert_int_equal(tjCompress2(handle, pixels, width, 0, height, format, &bytes, &size,
                                 format == TJPF_GRAY ? TJSAMP_GRAY : TJSAMP_444, 98,
                                 TJFLAG_ACCURATEDCT),
                     0);
    tjDestroy(handle);
    const unsigned char note[] = {
        0xFF, 0xE1, 0, 34, 'E', 'x', 'i',  'f', 0, 0, 'M', 'M', 0, 42, 0,
        0,    0,    8, 0,  1,   1,   0x12, 0,   3, 0, 0,   0,   1, 0,  (unsigned char)orientation,
        0,    0,    0, 0,  0,   0};
    size_t noted = orientation ? sizeof(note) : 0;
    assert_true(size + noted <= sizeof(f->bytes));
    memcpy(f->bytes, bytes, 2);
    memcpy(f->bytes + 2, note, noted);
    memcpy(f->bytes + 2 + noted, bytes + 2, size - 2);
    f->size = size + noted;
    tjFree(bytes);
}

/* Appends a file to an archive; type 'L' or 'x': the long name of the next one. */
static inline size_t put_tar(unsigned char *to, const char *name, char type, const void *data,
                             size_t size)
{
    unsigned sum = 0;
    memset(to, 0, 512 + (size + 511) / 512 * 512);
    (void)snprintf((char *)to, 100, "%s", name);
    (void)snprintf((char *)to + 124, 12, "%011o", (unsigned)size);
    memcpy(to + 257, "ustar", 5);
    to[156] = (unsigned char)type;
    memset(to + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += to[i];
    (void)snprintf((char *)to + 148, 8, "%06o", sum);
    memcpy(to + 512, data, size);
    return 512 + (size + 511) / 512 * 512;
}

#endif
