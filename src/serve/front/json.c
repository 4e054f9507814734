/* A pull parser for JSON (RFC 8259), see json.h. */
#include <stdio.h>

#include "serve/front/json.h"

/* --- errors --- */

static weft_status stops(const weft_json *j, const char *at, const char *wanted)
{
    size_t byte = (size_t)(at - j->begin) + 1;
    if (at >= j->end)
        return weft_fail(WEFT_ERR_FORMAT, "it ends after %zu byte%s, where %s must follow",
                         byte - 1, weft_plural((long long)byte - 1), wanted);
    char seen[8];
    unsigned char c = (unsigned char)*at;
    (void)snprintf(seen, sizeof(seen), c > 0x20 && c < 0x7F ? "'%c'" : "\\x%02x", c);
    return weft_fail(WEFT_ERR_FORMAT, "byte %zu is %s, where %s must stand", byte, seen, wanted);
}

void weft_json_start(weft_json *j, const char *text, size_t size)
{
    *j = (weft_json){.begin = text, .at = text, .end = text + size};
}

static void pass_space(weft_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
        j->at++;
}

weft_json_kind weft_json_peek(weft_json *j)
{
    pass_space(j);
    if (j->at >= j->end) return WEFT_JSON_WRONG;
    switch (*j->at) {
    case '{': return WEFT_JSON_OBJECT;
    case '[': return WEFT_JSON_ARRAY;
    case '"': return WEFT_JSON_STRING;
    case 't':
    case 'f': return WEFT_JSON_FLAG;
    case 'n': return WEFT_JSON_NULL;
    default: break;
    }
    return *j->at == '-' || (*j->at >= '0' && *j->at <= '9') ? WEFT_JSON_NUMBER : WEFT_JSON_WRONG;
}

const char *weft_json_kind_name(weft_json_kind kind)
{
    static const char *const names[] = {"no JSON",  "null",     "true or false", "a number",
                                        "a string", "an array", "an object"};
    return names[kind];
}

/* --- strings --- */

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The value of the four hexadecimal digits at `at`; -1: there are not four. */
static int32_t unit(const char *at, const char *end)
{
    int32_t value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex(at[i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t encode(uint32_t point, char *out)
{
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(leads[size] | point);
    return size;
}

/* Decodes the escape \uXXXX at `at`, or two of them that are a surrogate pair, and moves `at`
 * behind it. */
static weft_status escaped_point(const weft_json *j, const char **at, uint32_t *point)
{
    int32_t high = unit(*at + 2, j->end), low;
    if (high < 0) return stops(j, *at, "\\u with four hexadecimal digits");
    *point = (uint32_t)high;
    if (high < 0xD800 || high > 0xDFFF) {
        *at += 6;
        return WEFT_OK;
    }
    bool pair = high < 0xDC00 && j->end - *at >= 12 && (*at)[6] == '\\' && (*at)[7] == 'u';
    low = pair ? unit(*at + 8, j->end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return stops(j, *at, "both halves of a surrogate pair");
    *point = 0x10000 + ((uint32_t)(high - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    *at += 12;
    return WEFT_OK;
}

static weft_status escape(const weft_json *j, const char **at, char *out, size_t *size)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char c = j->end - *at > 1 ? (*at)[1] : '\0';
    const char *name = c ? strchr(names, c) : NULL;
    if (c == 'u') {
        uint32_t point = 0;
        WEFT_TRY(escaped_point(j, at, &point));
        *size = encode(point, out);
        return WEFT_OK;
    }
    if (!name) return stops(j, *at + 1, "one of \"\\/bfnrtu behind a backslash");
    out[0] = means[name - names];
    *size = 1;
    *at += 2;
    return WEFT_OK;
}

/* The number of bytes of the UTF-8 character that begins here; 0: it is invalid, for example
 * overlong. */
static size_t character(const unsigned char *c, size_t room)
{
    size_t size = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    unsigned char low = c[0] == 0xE0   ? 0xA0
                        : c[0] == 0xF0 ? 0x90
                                       : 0x80,
                  high = c[0] == 0xED   ? 0x9F
                         : c[0] == 0xF4 ? 0x8F
                                        : 0xBF;
    if (c[0] < 0xC2 || c[0] > 0xF4 || room < size || c[1] < low || c[1] > high) return 0;
    for (size_t i = 2; i < size; i++)
        if ((c[i] & 0xC0) != 0x80) return 0;
    return size;
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* The length of the next run of unescaped bytes in a string: ASCII characters, or one character of
 * several bytes. */
static weft_status plain(const weft_json *j, const char *at, size_t *size)
{
    const char *from = at;
    while (at < j->end && is_plain(*at)) at++;
    *size = (size_t)(at - from);
    if (*size > 0) return WEFT_OK;
    if (at >= j->end) return stops(j, at, "a quote that ends the string");
    if ((unsigned char)*at < 0x20) return stops(j, at, "an escape instead of a control character");
    *size = character((const unsigned char *)at, (size_t)(j->end - at));
    return *size ? WEFT_OK : stops(j, at, "UTF-8");
}

/* Decodes a string and copies its first `room` bytes; *size is the length of the whole string. */
static weft_status string(weft_json *j, char *to, size_t room, size_t *size)
{
    const char *at = j->at + 1;
    size_t used = 0;
    while (at >= j->end || *at != '"') {
        char one[4];
        const char *from = at;
        size_t more = 0;
        if (at < j->end && *at == '\\') {
            WEFT_TRY(escape(j, &at, one, &more));
            from = one;
        } else {
            WEFT_TRY(plain(j, at, &more));
            at += more;
        }
        if (used < room) memcpy(to + used, from, WEFT_MIN(more, room - used));
        used += more;
    }
    j->at = at + 1;
    *size = used;
    return WEFT_OK;
}

weft_status weft_json_cut(weft_json *j, char *to, size_t room, size_t *size)
{
    if (weft_json_peek(j) != WEFT_JSON_STRING) return stops(j, j->at, "a string");
    WEFT_TRY(string(j, to, room - 1, size));
    to[WEFT_MIN(*size, room - 1)] = '\0';
    return WEFT_OK;
}

weft_status weft_json_text(weft_json *j, char **out)
{
    size_t size;
    weft_json all = *j;
    *out = NULL;
    if (weft_json_peek(j) != WEFT_JSON_STRING) return stops(j, j->at, "a string");
    all.at = j->at;
    const char *from = j->at;
    WEFT_TRY(string(&all, NULL, 0, &size));
    WEFT_TRY(WEFT_NEW(out, size + 1));
    WEFT_TRY(string(j, *out, size, &size));
    if (strlen(*out) == size) return WEFT_OK;
    free(*out);
    *out = NULL;
    return weft_fail(WEFT_ERR_ARGUMENT, "byte %zu: a string with \\u0000 has no meaning here",
                     (size_t)(from - j->begin) + 1);
}

/* --- other values --- */

weft_status weft_json_number(weft_json *j, weft_decimal *out)
{
    pass_space(j);
    const char *end = weft_decimal_scan(j->at, j->end, out);
    if (!end) return stops(j, j->at, "a number as JSON writes it");
    j->at = end;
    return WEFT_OK;
}

static weft_status word(weft_json *j, const char *name)
{
    size_t size = strlen(name);
    if ((size_t)(j->end - j->at) < size || memcmp(j->at, name, size) != 0)
        return stops(j, j->at, "a value");
    j->at += size;
    return WEFT_OK;
}

weft_status weft_json_flag(weft_json *j, bool *out)
{
    if (weft_json_peek(j) != WEFT_JSON_FLAG) return stops(j, j->at, "true or false");
    *out = *j->at == 't';
    return word(j, *out ? "true" : "false");
}

/* --- arrays and objects --- */

static bool in_object(const weft_json *j)
{
    int top = j->depth - 1;
    return j->objects[top / 64] >> (top % 64) & 1;
}

weft_status weft_json_enter(weft_json *j)
{
    weft_json_kind kind = weft_json_peek(j);
    if (kind != WEFT_JSON_ARRAY && kind != WEFT_JSON_OBJECT)
        return stops(j, j->at, "an array or object");
    if (j->depth == WEFT_JSON_DEPTH)
        return weft_fail(WEFT_ERR_FORMAT, "byte %zu: more than %d arrays and objects in each other",
                         (size_t)(j->at - j->begin) + 1, WEFT_JSON_DEPTH);
    uint64_t bit = 1ULL << (j->depth % 64), *bits = &j->objects[j->depth / 64];
    *bits = kind == WEFT_JSON_OBJECT ? *bits | bit : *bits & ~bit;
    j->depth++;
    j->first = true;
    j->at++;
    return WEFT_OK;
}

/* Moves to the next item of an array or object; *there false: there is none, and the parser has
 * left the array or object. */
static weft_status next(weft_json *j, char closing, const char *wanted, bool *there)
{
    pass_space(j);
    bool first = j->first;
    j->first = false;
    *there = j->at >= j->end || *j->at != closing;
    if (!*there) {
        j->at++;
        j->depth--;
        return WEFT_OK;
    }
    if (first) return WEFT_OK;
    if (j->at >= j->end || *j->at != ',') return stops(j, j->at, wanted);
    j->at++;
    return WEFT_OK;
}

bool weft_json_item(weft_json *j)
{
    bool there;
    j->status = next(j, ']', "a comma or ]", &there);
    return j->status == WEFT_OK && there;
}

static weft_status next_name(weft_json *j, weft_json_key *key, bool *there)
{
    WEFT_TRY(next(j, '}', "a comma or }", there));
    if (!*there) return WEFT_OK;
    if (weft_json_peek(j) != WEFT_JSON_STRING) return stops(j, j->at, "a name in quotes");
    WEFT_TRY(string(j, key->text, sizeof(key->text), &key->size));
    pass_space(j);
    if (j->at >= j->end || *j->at != ':') return stops(j, j->at, "a colon");
    j->at++;
    return WEFT_OK;
}

bool weft_json_member(weft_json *j, weft_json_key *key)
{
    bool there;
    j->status = next_name(j, key, &there);
    return j->status == WEFT_OK && there;
}

bool weft_json_is(const weft_json_key *key, const char *name)
{
    return key->size == strlen(name) && key->size <= sizeof(key->text) &&
           memcmp(key->text, name, key->size) == 0;
}

/* Reads a null, flag, number or string, or enters an array or object. */
static weft_status pass_one(weft_json *j)
{
    weft_decimal number;
    size_t size;
    bool flag;
    switch (weft_json_peek(j)) {
    case WEFT_JSON_ARRAY:
    case WEFT_JSON_OBJECT: return weft_json_enter(j);
    case WEFT_JSON_STRING: return string(j, NULL, 0, &size);
    case WEFT_JSON_NUMBER: return weft_json_number(j, &number);
    case WEFT_JSON_FLAG: return weft_json_flag(j, &flag);
    case WEFT_JSON_NULL: return word(j, "null");
    default: return stops(j, j->at, "a value");
    }
}

weft_status weft_json_skip(weft_json *j)
{
    int depth = j->depth;
    weft_json_key ignored;
    for (bool there = true; there;) {
        WEFT_TRY(pass_one(j));
        there = false;
        while (j->depth > depth && !there) {
            there = in_object(j) ? weft_json_member(j, &ignored) : weft_json_item(j);
            WEFT_TRY(j->status);
        }
    }
    return WEFT_OK;
}

weft_status weft_json_finish(weft_json *j)
{
    pass_space(j);
    return j->at == j->end ? WEFT_OK : stops(j, j->at, "nothing");
}
