#include <zlib.h>

#include "formats/formats.h"

/* Decompresses gzip files (RFC 1952) with zlib, also files of several members, in memory. */

bool weft_is_gzip(const unsigned char *data, size_t size)
{
    return size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

typedef struct inflater {
    z_stream stream;
    const char *name, *advice; /* advice: what to do with data that are too large */
    unsigned char *out;
    size_t used, capacity, limit, in_left;
} inflater;

static weft_status damage(const inflater *f, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: damaged gzip data after %zu inflated bytes (%s); fetch the file again",
                     f->name, f->used, what);
}

static weft_status room(inflater *f)
{
    if (f->used < f->capacity) return WEFT_OK;
    size_t wanted = WEFT_MIN(WEFT_MAX(f->capacity * 2, (size_t)4096), f->limit);
    if (wanted <= f->used)
        return weft_fail(WEFT_ERR_MEMORY, "%s: inflates to more than %zu bytes%s", f->name,
                         f->limit, f->advice);
    unsigned char *out = realloc(f->out, wanted);
    if (!out) return weft_fail_memory(wanted);
    f->out = out;
    f->capacity = wanted;
    return WEFT_OK;
}

/* Inflates one piece of the current member. zlib counts bytes in 32 bits, so input and output are
 * passed to it in pieces of at most 1 GiB. */
static weft_status inflate_member(inflater *f, int *result)
{
    const size_t piece = (size_t)1 << 30;
    WEFT_TRY(room(f));
    size_t in = WEFT_MIN(f->in_left, piece), out = WEFT_MIN(f->capacity - f->used, piece);
    f->stream.avail_in = (uInt)in;
    f->stream.avail_out = (uInt)out;
    f->stream.next_out = f->out + f->used;
    *result = inflate(&f->stream, Z_NO_FLUSH);
    f->in_left -= in - f->stream.avail_in;
    f->used += out - f->stream.avail_out;
    if (*result == Z_OK || *result == Z_STREAM_END) return WEFT_OK;
    if (*result == Z_BUF_ERROR && f->in_left == 0) return damage(f, "it is cut off");
    if (*result == Z_BUF_ERROR) return WEFT_OK; /* output is full; the next call enlarges it */
    return damage(f, f->stream.msg ? f->stream.msg : "no such stream");
}

static weft_status inflate_all(inflater *f)
{
    int result = Z_OK;
    while (f->in_left > 0 || result == Z_OK) {
        WEFT_TRY(inflate_member(f, &result));
        if (result == Z_OK && f->in_left == 0 && f->used < f->capacity)
            return damage(f, "it is cut off");
        if (result != Z_STREAM_END) continue;
        if (!weft_is_gzip(f->stream.next_in, f->in_left)) break;
        if (inflateReset(&f->stream) != Z_OK)
            return damage(f, "a second member"); /* gzip files may be concatenated */
        result = Z_OK;
    }
    if (f->in_left > 0) return damage(f, "other bytes follow its end");
    return WEFT_OK;
}

static weft_status inflate_bytes(const char *name, const void *data, size_t size, size_t limit,
                                 const char *advice, unsigned char **out, size_t *out_size)
{
    const unsigned char *bytes = data;
    inflater f = {.name = name, .advice = advice, .limit = limit, .in_left = size};
    if (!weft_is_gzip(bytes, size)) return weft_fail(WEFT_ERR_FORMAT, "%s: is not gzip data", name);
    /* The last four bytes hold the inflated size modulo 2^32. They are a hint for the first
     * allocation, which saves copies, and are not trusted. */
    if (size >= 18) {
        size_t hint = bytes[size - 4] | (size_t)bytes[size - 3] << 8 |
                      (size_t)bytes[size - 2] << 16 | (size_t)bytes[size - 1] << 24;
        f.capacity = WEFT_MIN(WEFT_MIN(hint + 1, size * 1040), limit);
        f.out = malloc(f.capacity);
        if (!f.out) return weft_fail_memory(f.capacity);
    }
    f.stream.next_in = (Bytef *)(uintptr_t)bytes; /* zlib does not write to it */
    if (inflateInit2(&f.stream, 15 + 16) != Z_OK) {
        free(f.out);
        return weft_fail_memory(sizeof(f.stream));
    }
    weft_status status = inflate_all(&f);
    inflateEnd(&f.stream);
    if (status != WEFT_OK) {
        free(f.out);
        return status;
    }
    *out = f.out;
    *out_size = f.used;
    return WEFT_OK;
}

weft_status weft_gzip_inflate(const char *name, const void *data, size_t size, size_t limit,
                              unsigned char **out, size_t *out_size)
{
    return inflate_bytes(name, data, size, limit, "", out, out_size);
}

/* The most bytes to which a file of this size may inflate. A megabyte of gzip data can become a
 * gigabyte of zeros, which no data are; and half of the memory must be left for other things. */
static size_t most_inflated(size_t size)
{
    const size_t always = (size_t)1 << 30, ratio = 200;
    size_t most = WEFT_MAX(always, size <= SIZE_MAX / ratio ? ratio * size : SIZE_MAX);
    return WEFT_MIN(most, weft_memory_limit("") / 2);
}

weft_status weft_gzip_open(const char *path, weft_bytes *out)
{
    weft_bytes file;
    WEFT_TRY(weft_file_map(path, &file));
    if (!weft_is_gzip(file.data, file.size)) {
        *out = file;
        return WEFT_OK;
    }
    unsigned char *data;
    size_t size;
    weft_status status = inflate_bytes(
        path, file.data, file.size, most_inflated(file.size),
        ", from so few that it may be a decompression bomb, or half of the memory; if these are "
        "data, decompress them first (gunzip)",
        &data, &size);
    weft_file_unmap(&file);
    if (status == WEFT_OK) *out = (weft_bytes){.data = data, .size = size};
    return status;
}

void weft_gzip_close(weft_bytes *bytes)
{
    if (bytes->mapped)
        weft_file_unmap(bytes);
    else
        free((void *)(uintptr_t)bytes->data);
    *bytes = (weft_bytes){0};
}
