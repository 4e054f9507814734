#include "formats/formats.h"

/* Parses IDX, the array format of MNIST: a type, the dimensions, and big-endian elements. */

static uint32_t big_u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static size_t element_size(int type)
{
    switch (type) {
    case 0x08:
    case 0x09: return 1;
    case 0x0B: return 2;
    case 0x0C:
    case 0x0D: return 4;
    case 0x0E: return 8;
    default: return 0;
    }
}

weft_status weft_idx_parse(const char *name, const void *data, size_t size, weft_idx *out)
{
    const unsigned char *bytes = data;
    if (size < 4)
        return weft_fail(WEFT_ERR_FORMAT, "%s: %zu bytes are too few for IDX", name, size);
    if (bytes[0] != 0 || bytes[1] != 0 || element_size(bytes[2]) == 0)
        return weft_fail(
            WEFT_ERR_FORMAT,
            "%s: begins with %02x %02x %02x %02x, which is not IDX (00 00, a type 08 09 "
            "0b 0c 0d or 0e, the number of dimensions)",
            name, bytes[0], bytes[1], bytes[2], bytes[3]);
    weft_idx idx = {.type = bytes[2], .shape = {.rank = bytes[3]}};
    if (idx.shape.rank < 1 || idx.shape.rank > WEFT_MAX_RANK)
        return weft_fail(WEFT_ERR_FORMAT, "%s: has %d dimensions, 1 to %d are possible", name,
                         idx.shape.rank, WEFT_MAX_RANK);
    size_t header = 4 + 4 * (size_t)idx.shape.rank, room = size, wanted = element_size(idx.type);
    if (size < header) return weft_fail(WEFT_ERR_FORMAT, "%s: is cut off in its header", name);
    room -= header;
    for (int i = 0; i < idx.shape.rank; i++) {
        size_t dim = big_u32(bytes + 4 + 4 * i);
        if (dim == 0) return weft_fail(WEFT_ERR_FORMAT, "%s: dimension %d is 0", name, i);
        if (dim > SIZE_MAX / 16 / wanted)
            return weft_fail(WEFT_ERR_FORMAT, "%s: its dimensions overflow", name);
        wanted *= dim;
        idx.shape.dim[i] = (int64_t)dim;
    }
    if (room != wanted)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: its header promises %zu bytes of data, %zu follow; the file is %s",
                         name, wanted, room,
                         room < wanted ? "cut off" : "longer than it should be");
    idx.data = bytes + header;
    *out = idx;
    return WEFT_OK;
}

double weft_idx_get(const weft_idx *idx, int64_t i)
{
    size_t size = element_size(idx->type);
    const unsigned char *p = idx->data + (size_t)i * size;
    uint64_t raw = 0;
    for (size_t b = 0; b < size; b++) raw = raw << 8 | p[b];
    uint32_t low = (uint32_t)raw;
    float f;
    double d;
    switch (idx->type) {
    case 0x08: return (double)raw;
    case 0x09: return (int8_t)low;
    case 0x0B: return (int16_t)low;
    case 0x0C: return (int32_t)low;
    case 0x0D: memcpy(&f, &low, sizeof(f)); return (double)f;
    default: memcpy(&d, &raw, sizeof(d)); return d;
    }
}
