/* Chunked bodies (RFC 9112, section 7.1): a machine that reads a byte at a time, except in the data
 * of chunks. */
#include "serve/http/http.h"

/* A chunk is SIZE, extensions, CR LF, data, CR LF. The last one has size 0, no data, and lines of
 * trailers before its second CR LF. */
enum {
    SIZE_FIRST, /* before the first digit of a size */
    SIZE,
    BEFORE_EXTENSION, /* behind a space that follows the size */
    EXTENSION,
    SIZE_LF, /* behind the CR of the line of the size */
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST, /* before the first byte of a line of trailers */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    ENDED
};
/* Digits of the largest size, without leading zeros: below 2^60. */
enum { MOST_DIGITS = 15 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) return (c | 0x20) - 'a' + 10;
    return -1;
}

/* Whether the byte may be in an extension or in the value of a trailer. */
static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f);
}

/* Reads a byte of the line of a chunk's size; returns the next state, or -1: it may not be here. */
static int read_size(weft_http_chunks *k, char c)
{
    int digit = hex_digit(c);
    if (k->state == SIZE_FIRST) k->left = 0, k->digits = 0;
    if (digit >= 0 && (k->state == SIZE_FIRST || k->state == SIZE)) {
        k->left = k->left << 4 | (unsigned)digit;
        k->digits += k->digits > 0 || digit > 0;
        return k->digits <= MOST_DIGITS ? SIZE : -1;
    }
    if (k->state == SIZE_FIRST) return -1;
    if (k->state == EXTENSION) return c == '\r' ? SIZE_LF : is_text(c) ? EXTENSION : -1;
    if (c == ';') return EXTENSION;
    if (c == ' ' || c == '\t') return BEFORE_EXTENSION;
    return c == '\r' && k->state == SIZE ? SIZE_LF : -1;
}

static int read_trailer(int state, char c)
{
    switch (state) {
    case TRAILER_FIRST:
        if (c == '\r') return END_LF;
        return weft_http_is_token((unsigned char)c) ? TRAILER_NAME : -1;
    case TRAILER_NAME:
        if (c == ':') return TRAILER_VALUE;
        return weft_http_is_token((unsigned char)c) ? TRAILER_NAME : -1;
    case TRAILER_VALUE: return c == '\r' ? TRAILER_LF : is_text(c) ? TRAILER_VALUE : -1;
    case TRAILER_LF: return c == '\n' ? TRAILER_FIRST : -1;
    default: return c == '\n' ? ENDED : -1;
    }
}

/* Reads a byte outside the data; returns the next state or -1. */
static int next_state(weft_http_chunks *k, char c)
{
    switch (k->state) {
    case SIZE_LF: return c != '\n' ? -1 : k->left > 0 ? DATA : TRAILER_FIRST;
    case DATA_CR: return c == '\r' ? DATA_LF : -1;
    case DATA_LF: return c == '\n' ? SIZE_FIRST : -1;
    default: return k->state < SIZE_LF ? read_size(k, c) : read_trailer(k->state, c);
    }
}

/* Whether the state is that of bytes whose number has a limit. A leading zero counts, too. */
static bool is_extra(const weft_http_chunks *k)
{
    return (k->state == SIZE && k->digits == 0) || k->state == BEFORE_EXTENSION ||
           k->state == EXTENSION || (k->state >= TRAILER_FIRST && k->state < ENDED);
}

weft_http_result weft_http_chunks_read(weft_http_chunks *chunks, const char *data, size_t size,
                                       size_t *used, size_t *piece, weft_http_fault *fault)
{
    weft_http_chunks *k = chunks;
    *piece = 0;
    for (*used = 0; *used < size;) {
        if (k->state == DATA) {
            *piece = (size_t)WEFT_MIN((uint64_t)(size - *used), k->left);
            *used += *piece;
            k->left -= *piece;
            if (k->left == 0) k->state = DATA_CR;
            return WEFT_HTTP_DATA;
        }
        int next = next_state(k, data[*used]);
        if (next < 0) {
            *fault = (weft_http_fault){400, "the chunks of the body are not formed as they must be "
                                            "(RFC 9112, section 7.1)"};
            return WEFT_HTTP_FAULTY;
        }
        k->state = next;
        ++*used;
        if (next == ENDED) return WEFT_HTTP_END;
        if (is_extra(k) && ++k->extra > WEFT_HTTP_CHUNK_EXTRA) {
            *fault = (weft_http_fault){431, "the extensions and trailers of the body's chunks are "
                                            "longer than the server takes"};
            return WEFT_HTTP_FAULTY;
        }
    }
    return WEFT_HTTP_MORE;
}
