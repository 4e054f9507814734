/* Escapes the bytes of text from outside that are invalid UTF-8 or could control a terminal, so
 * that the text is safe to print. */
#include <stdio.h>

#include "base/base.h"

/* Code points that change the text direction or end a line without being control characters. */
static bool is_steering(uint32_t c)
{
    return (c >= 0x80 && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

size_t weft_utf8_decode(const unsigned char *c, size_t left, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (left == 0) return 0;
    size_t size = c[0] < 0x80 ? 1 : c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    *point = size == 1 ? c[0] : c[0] & (0x7Fu >> size);
    if (size == 1) return 1;
    if (size > left || c[0] < 0xC2 || c[0] > 0xF4) return 0;
    for (size_t i = 1; i < size; i++) {
        if ((c[i] & 0xC0) != 0x80) return 0; /* also if a string ends here */
        *point = *point << 6 | (c[i] & 0x3Fu);
    }
    bool legal =
        *point >= least[size] && *point <= 0x10FFFF && (*point < 0xD800 || *point > 0xDFFF);
    return legal ? size : 0;
}

/* The number of bytes of the UTF-8 character that begins at c, in a string; 0: it is not printable
 * or invalid. */
static size_t character(const unsigned char *c)
{
    uint32_t point;
    size_t size = weft_utf8_decode(c, 4, &point);
    bool control = point < 0x20 || point == 0x7F || is_steering(point);
    return control ? 0 : size;
}

const char *weft_plural(long long count)
{
    return count == 1 ? "" : "s";
}

bool weft_is_printable(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    for (size_t size; *c; c += size) {
        size = character(c);
        if (size == 0) return false;
    }
    return true;
}

void weft_make_printable(char *text)
{
    for (char *c = text; *c;) {
        size_t size = character((const unsigned char *)c);
        if (size == 0) *c = '?';
        c += size ? size : 1;
    }
}

const char *weft_printable(const char *text, char *buffer, size_t size)
{
    WEFT_NEED_ELSE(NULL, text, buffer);
    const unsigned char *c = (const unsigned char *)text;
    size_t used = 0;
    while (*c) {
        size_t bytes = character(c), wanted = bytes ? bytes : 4;
        if (used + wanted >= size) break;
        if (bytes)
            memcpy(buffer + used, c, bytes);
        else
            (void)snprintf(buffer + used, size - used, "\\x%02x", *c);
        used += wanted;
        c += bytes ? bytes : 1;
    }
    if (size > 0) buffer[used] = '\0';
    return buffer;
}

void weft_text_add_printable(weft_text *text, const char *string)
{
    const unsigned char *c = (const unsigned char *)string;
    for (size_t size; *c; c += size) {
        size = character(c);
        if (size == 0) weft_text_add(text, "\\x%02x", *c);
        if (size > 0) weft_text_add_bytes(text, (const char *)c, size);
        if (size == 0) size = 1;
    }
}
