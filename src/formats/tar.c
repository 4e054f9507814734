/* Reads the files of a tar archive in memory: ustar, with the long names of GNU and of POSIX (pax).
 */
#include <stdio.h>

#include "formats/formats.h"

enum {
    BLOCK = 512,
    NAME = 100,
    SIZE_AT = 124,
    SIZE = 12,
    SUM_AT = 148,
    SUM = 8,
    TYPE = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX = 155
};

/* A number of octal digits, or of bytes if the first one says so. false: it is none. */
static bool read_number(const unsigned char *at, size_t size, uint64_t *out)
{
    *out = 0;
    if (*at & 0x80) {
        for (size_t i = 1; i < size; i++) {
            if (*out >> 55) return false;
            *out = *out << 8 | at[i];
        }
        return true;
    }
    while (size > 0 && *at == ' ') at++, size--;
    for (; size > 0 && *at >= '0' && *at <= '7'; at++, size--) *out = *out << 3 | (*at - '0');
    return size == 0 || *at == '\0' || *at == ' ';
}

static bool is_header(const unsigned char *block)
{
    uint64_t said, sum = 0;
    for (size_t i = 0; i < BLOCK; i++) sum += i >= SUM_AT && i < SUM_AT + SUM ? ' ' : block[i];
    return read_number(block + SUM_AT, SUM, &said) && said == sum;
}

static void copy_name(weft_tar_entry *out, const unsigned char *from, size_t size)
{
    size = WEFT_MIN(strnlen((const char *)from, size), sizeof(out->name) - 1);
    memcpy(out->name, from, size);
    out->name[size] = '\0';
}

/* The path in a record of pax, "LENGTH path=NAME\n". */
static void copy_pax(weft_tar_entry *out, const unsigned char *from, size_t size)
{
    for (size_t at = 0, length = 0; at < size; at += length) {
        size_t digits = 0;
        for (length = 0; at + digits < size && from[at + digits] >= '0' && from[at + digits] <= '9';
             digits++)
            length = WEFT_MIN(length * 10 + (size_t)(from[at + digits] - '0'), size + 1);
        if (length < digits + 2 || length > size - at) return;
        const unsigned char *key = from + at + digits + 1;
        size_t left = length - digits - 2; /* without the blank and the end of the line */
        if (left > 5 && memcmp(key, "path=", 5) == 0) copy_name(out, key + 5, left - 5);
    }
}

/* The name in a header, unless an entry before it has given a long one. */
static void name_of(const unsigned char *block, weft_tar_entry *out)
{
    size_t used = 0;
    if (out->name[0]) return;
    if (memcmp(block + MAGIC_AT, "ustar", 5) == 0 && block[PREFIX_AT]) {
        copy_name(out, block + PREFIX_AT, PREFIX);
        used = strlen(out->name);
        out->name[used++] = '/';
    }
    size_t size = strnlen((const char *)block, NAME);
    memcpy(out->name + used, block, size);
    out->name[used + size] = '\0';
}

weft_status weft_tar_next(const char *name, const unsigned char *data, size_t size, size_t *at,
                          weft_tar_entry *out)
{
    out->name[0] = '\0';
    for (uint64_t bytes; *at + BLOCK <= size && data[*at];
         *at += (bytes + BLOCK - 1) / BLOCK * BLOCK) {
        const unsigned char *block = data + *at;
        if (!is_header(block) || !read_number(block + SIZE_AT, SIZE, &bytes))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: is no tar archive, or damaged, at byte %zu; fetch it again", name,
                             *at);
        *at += BLOCK;
        if (bytes > size - *at)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: the tar archive is cut off at byte %zu, within "
                             "'%.200s'; fetch it again",
                             name, size, out->name[0] ? out->name : (const char *)block);
        out->data = data + *at;
        out->size = (size_t)bytes;
        if (block[TYPE] == 'L') copy_name(out, out->data, out->size);
        if (block[TYPE] == 'x') copy_pax(out, out->data, out->size);
        if (block[TYPE] == 'L' || block[TYPE] == 'x' || block[TYPE] == 'g') continue;
        name_of(block, out);
        if (block[TYPE] == '0' || block[TYPE] == '\0') {
            *at += (size_t)((bytes + BLOCK - 1) / BLOCK * BLOCK);
            return WEFT_OK;
        }
        out->name[0] = '\0'; /* a folder or a link */
    }
    out->data = NULL;
    if (*at + BLOCK <= size) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: the tar archive is cut off at byte %zu, before its end; fetch it again",
                     name, size);
}
