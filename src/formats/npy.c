#include <ctype.h>
#include <math.h>

#include "formats/formats.h"

/* Parses NPY, NumPy's file format for one array, in versions 1 to 3 and in C order only. */

/* A parser of the header. The header is a Python dict literal with three keys, and the parser knows
 * only the strings, tuples and constants that occur there. */
typedef struct dict {
    const char *name, *next, *end;
} dict;

static void spaces(dict *d)
{
    while (d->next < d->end && isspace((unsigned char)*d->next)) d->next++;
}

static bool accept_character(dict *d, char c)
{
    spaces(d);
    if (d->next >= d->end || *d->next != c) return false;
    d->next++;
    return true;
}

static weft_status bad(const dict *d, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: NPY header: %s", d->name, what);
}

static weft_status string(dict *d, char *out, size_t size)
{
    spaces(d);
    char quote = d->next < d->end ? *d->next : 0;
    if (quote != '\'' && quote != '"') return bad(d, "a string must stand here");
    d->next++;
    size_t used = 0;
    while (d->next < d->end && *d->next != quote) {
        if (used + 1 >= size) return bad(d, "a string is too long");
        out[used++] = *d->next++;
    }
    out[used] = '\0';
    return accept_character(d, quote) ? WEFT_OK : bad(d, "a string does not end");
}

static weft_status shape(dict *d, weft_shape *out)
{
    if (!accept_character(d, '(')) return bad(d, "the shape must be a tuple");
    out->rank = 0;
    while (!accept_character(d, ')')) {
        int64_t dim = 0;
        spaces(d);
        if (d->next >= d->end || !isdigit((unsigned char)*d->next))
            return bad(d, "the shape must hold whole numbers");
        if (out->rank == WEFT_MAX_RANK) return bad(d, "more than 6 dimensions");
        for (; d->next < d->end && isdigit((unsigned char)*d->next); d->next++) {
            if (dim > INT64_MAX / 100) return bad(d, "a dimension overflows");
            dim = dim * 10 + (*d->next - '0');
        }
        if (dim == 0) return bad(d, "a dimension is 0, so the array is empty");
        out->dim[out->rank++] = dim;
        if (!accept_character(d, ',') && (d->next >= d->end || *d->next != ')'))
            return bad(d, "a comma or ) is missing in the shape");
    }
    return WEFT_OK;
}

static weft_status descr(dict *d, weft_npy *out)
{
    char text[16];
    spaces(d);
    if (d->next < d->end && *d->next == '[')
        return bad(d, "the array is structured, with several named fields; save each field, or "
                      "numpy.lib.recfunctions.structured_to_unstructured(x), as a plain array");
    WEFT_TRY(string(d, text, sizeof(text)));
    int64_t size = 0;
    if (strlen(text) < 3 || !weft_parse_int(text + 2, &size) || !strchr("<>|=", text[0]) ||
        !strchr("fiub", text[1]) || !(size == 1 || size == 2 || size == 4 || size == 8) ||
        (text[1] == 'f' && size < 2) || (text[1] == 'b' && size != 1))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: NPY type '%s'; use f2, f4, f8, b1 or an integer of 1 to 8 bytes",
                         d->name, text);
    out->big = text[0] == '>';
    out->kind = text[1];
    out->size = (int)size;
    return WEFT_OK;
}

static weft_status parse_dict(dict *d, weft_npy *out)
{
    unsigned seen = 0;
    if (!accept_character(d, '{')) return bad(d, "a dict must stand here");
    while (!accept_character(d, '}')) {
        char key[24];
        WEFT_TRY(string(d, key, sizeof(key)));
        if (!accept_character(d, ':')) return bad(d, "':' is missing after a key");
        spaces(d);
        if (strcmp(key, "descr") == 0) {
            WEFT_TRY(descr(d, out));
            seen |= 1;
        } else if (strcmp(key, "shape") == 0) {
            WEFT_TRY(shape(d, &out->shape));
            seen |= 2;
        } else if (strcmp(key, "fortran_order") == 0) {
            if (d->end - d->next >= 4 && strncmp(d->next, "True", 4) == 0)
                return bad(d, "fortran_order is True; save numpy.ascontiguousarray(x) instead");
            if (d->end - d->next < 5 || strncmp(d->next, "False", 5) != 0)
                return bad(d, "fortran_order must be True or False");
            d->next += 5;
            seen |= 4;
        } else {
            return bad(d, "a key other than descr, fortran_order and shape");
        }
        if (!accept_character(d, ',')) {
            spaces(d);
            if (d->next >= d->end || *d->next != '}') return bad(d, "',' or '}' is missing");
        }
    }
    return seen == 7 ? WEFT_OK : bad(d, "descr, fortran_order or shape is missing");
}

weft_status weft_npy_parse(const char *name, const void *data, size_t size, weft_npy *out)
{
    const unsigned char *bytes = data;
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return weft_fail(WEFT_ERR_FORMAT, "%s: is not an NPY file (numpy.save writes them)", name);
    int major = bytes[6];
    size_t start = major == 1 ? 10 : 12;
    if (major < 1 || major > 3 || size < start)
        return weft_fail(WEFT_ERR_FORMAT, "%s: NPY version %d is not 1, 2 or 3", name, major);
    size_t header = bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1) header |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (header > size - start)
        return weft_fail(WEFT_ERR_FORMAT, "%s: is cut off in its header", name);
    dict d = {name, (const char *)bytes + start, (const char *)bytes + start + header};
    weft_npy npy = {0};
    WEFT_TRY(parse_dict(&d, &npy));
    size_t wanted = (size_t)npy.size, room = size - start - header;
    for (int i = 0; i < npy.shape.rank; i++) {
        if ((size_t)npy.shape.dim[i] > SIZE_MAX / 16 / wanted)
            return weft_fail(WEFT_ERR_FORMAT, "%s: its dimensions overflow", name);
        wanted *= (size_t)npy.shape.dim[i];
    }
    if (room != wanted)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: its header promises %zu bytes of data, %zu follow; the file is %s",
                         name, wanted, room,
                         room < wanted ? "cut off" : "longer than it should be");
    npy.data = bytes + start + header;
    *out = npy;
    return WEFT_OK;
}

/* The number of a half float (IEEE 754: 1 sign bit, 5 of the exponent, 10 of the fraction). */
static double half(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

double weft_npy_get(const weft_npy *npy, int64_t i)
{
    const unsigned char *p = npy->data + (size_t)i * (size_t)npy->size;
    uint64_t raw = 0;
    for (int b = 0; b < npy->size; b++) raw = raw << 8 | p[npy->big ? b : npy->size - 1 - b];
    uint32_t low = (uint32_t)raw;
    float f;
    double d;
    if (npy->kind == 'f' && npy->size == 2) return half(low);
    if (npy->kind == 'f' && npy->size == 4) {
        memcpy(&f, &low, sizeof(f));
        return (double)f;
    }
    if (npy->kind == 'f') {
        memcpy(&d, &raw, sizeof(d));
        return d;
    }
    if (npy->kind == 'i' && npy->size < 8 && raw >> (8 * npy->size - 1))
        raw |= ~(uint64_t)0 << (8 * npy->size);
    return npy->kind == 'i' ? (double)(int64_t)raw : (double)raw;
}
