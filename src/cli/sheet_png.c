/* Pictures within SVG: PNG, whose bytes are stored and not compressed, in base64. */
#include <stdint.h>
#include <string.h>

#include "sheet.h"
#include "weft/output.h"

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put32(bytes *b, uint32_t x)
{
    put(b,
        (unsigned char[]){(unsigned char)(x >> 24), (unsigned char)(x >> 16),
                          (unsigned char)(x >> 8), (unsigned char)x},
        4);
}

/* The check of a chunk (CRC-32) from position `from` on. */
static void put_check(bytes *b, size_t from)
{
    uint32_t check = 0xFFFFFFFF;
    for (size_t i = from; i < b->size; i++) {
        check ^= b->data[i];
        for (int k = 0; k < 8; k++) check = check >> 1 ^ (check & 1 ? 0xEDB88320 : 0);
    }
    put32(b, ~check);
}

static void put_chunk(bytes *b, const char *name, const void *data, size_t size)
{
    put32(b, (uint32_t)size);
    size_t from = b->size;
    put(b, name, 4);
    put(b, data, size);
    put_check(b, from);
}

/* Stored blocks of zlib, each of a row with its filter in front. */
static void put_rows(bytes *b, const unsigned char *pixels, size_t row, int height)
{
    uint32_t low = 1, high = 0; /* Adler-32 */
    size_t size = 2 + (size_t)height * (row + 6) + 4, length = row + 1;
    put32(b, (uint32_t)size);
    size_t from = b->size;
    put(b, "IDAT\x78\x01", 6);
    for (int y = 0; y < height; y++) {
        const unsigned char *at = pixels + (size_t)y * row;
        put(b,
            (unsigned char[]){y == height - 1, (unsigned char)length, (unsigned char)(length >> 8),
                              (unsigned char)~length, (unsigned char)(~length >> 8), 0},
            6);
        put(b, at, row);
        high = (high + low) % 65521; /* the filter, 0 */
        for (size_t i = 0; i < row; i++) {
            low = (low + at[i]) % 65521;
            high = (high + low) % 65521;
        }
    }
    put32(b, high << 16 | low);
    put_check(b, from);
}

static weft_status put_base64(weft_output *to, const bytes *b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b->size; i += 3) {
        size_t left = b->size - i;
        uint32_t x = (uint32_t)b->data[i] << 16 | (left > 1 ? (uint32_t)b->data[i + 1] << 8 : 0) |
                     (left > 2 ? b->data[i + 2] : 0);
        const char text[] = {digits[x >> 18], digits[x >> 12 & 63],
                             left > 1 ? digits[x >> 6 & 63] : '=', left > 2 ? digits[x & 63] : '='};
        WEFT_TRY(weft_output_write(to, text, 4));
    }
    return WEFT_OK;
}

size_t sheet_image_bytes(int width, int height)
{
    return (size_t)height * ((size_t)width * 3 + 6) + 128;
}

weft_status sheet_image(weft_output *to, const unsigned char *pixels, int width, int height,
                        unsigned char *room)
{
    bytes b = {.data = room};
    bytes head = {.data = (unsigned char[16]){0}};
    put32(&head, (uint32_t)width);
    put32(&head, (uint32_t)height);
    put(&head, "\x08\x02\0\0\0", 5); /* 8 bits, RGB */
    put(&b, "\x89PNG\r\n\x1A\n", 8);
    put_chunk(&b, "IHDR", head.data, head.size);
    put_rows(&b, pixels, (size_t)width * 3, height);
    put_chunk(&b, "IEND", "", 0);
    WEFT_TRY(weft_output_print(to, "data:image/png;base64,"));
    return put_base64(to, &b);
}
