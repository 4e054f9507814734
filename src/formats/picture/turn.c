/* How a camera was held: the orientation that EXIF notes in a JPEG, and the turning of pictures. */
#include "formats/picture/picture.h"

/* Bytes that are read in the order of the file's processor. */
typedef struct bytes {
    const unsigned char *data;
    size_t size;
    bool big; /* the most significant byte comes first */
} bytes;

/* The number of `count` bytes at `at`; 0 beyond the end. */
static uint32_t number(const bytes *b, size_t at, int count)
{
    uint32_t x = 0;
    if (at + (size_t)count > b->size) return 0;
    for (int i = 0; i < count; i++) x = x << 8 | b->data[at + (size_t)(b->big ? i : count - 1 - i)];
    return x;
}

/* The orientation in the first directory of a TIFF file; 1 if it has none. */
static int in_tiff(bytes b)
{
    enum { ORIENTATION = 0x112, SHORT = 3, ENTRY = 12 };
    if (b.size < 8) return 1;
    b.big = b.data[0] == 'M';
    size_t at = number(&b, 4, 4);
    uint32_t entries = number(&b, at, 2);
    for (uint32_t i = 0; i < entries && at + 2 + ENTRY <= b.size; i++, at += ENTRY) {
        if (number(&b, at + 2, 2) != ORIENTATION || number(&b, at + 4, 2) != SHORT) continue;
        uint32_t found = number(&b, at + 10, 2);
        return found >= 1 && found <= 8 ? (int)found : 1;
    }
    return 1;
}

int weft_jpeg_orientation(const void *data, size_t size)
{
    enum { APP1 = 0xE1, SCAN = 0xDA, HEAD = 6 };
    const bytes b = {data, size, true};
    for (size_t at = 2; at + 4 <= size && b.data[at] == 0xFF && b.data[at + 1] != SCAN;) {
        size_t length = number(&b, at + 2, 2);
        const unsigned char *body = b.data + at + 4;
        if (length < 2 || at + 2 + length > size) return 1;
        if (b.data[at + 1] == APP1 && length >= 2 + HEAD && memcmp(body, "Exif\0", HEAD) == 0)
            return in_tiff((bytes){body + HEAD, length - 2 - HEAD, false});
        at += 2 + length;
    }
    return 1;
}

weft_status weft_picture_turn(weft_picture *p, int orientation)
{
    /* Bits 1 to 8 of these: which orientations are so. */
    enum {
        MIRROR_X = 1 << 2 | 1 << 3 | 1 << 7 | 1 << 8,
        MIRROR_Y = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7
    };
    bool swap = orientation >= 5, mirror_x = MIRROR_X >> orientation & 1,
         mirror_y = MIRROR_Y >> orientation & 1;
    if (orientation <= 1) return WEFT_OK;
    int width = swap ? p->height : p->width, height = swap ? p->width : p->height;
    size_t each = (size_t)p->channels;
    unsigned char *to;
    WEFT_TRY(WEFT_NEW(&to, (size_t)width * (size_t)height * each));
    unsigned char *at = to;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, at += each) {
            int column = swap ? y : x, row = swap ? x : y;
            if (mirror_x) column = p->width - 1 - column;
            if (mirror_y) row = p->height - 1 - row;
            memcpy(at, p->pixels + ((size_t)row * (size_t)p->width + (size_t)column) * each, each);
        }
    free(p->pixels);
    p->pixels = to;
    p->width = width;
    p->height = height;
    return WEFT_OK;
}
