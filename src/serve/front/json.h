/* Pull parser for JSON (RFC 8259): one pass over memory that the caller owns. The parser is strict:
 * an error names the byte at which the text stops being JSON. Memory is allocated only for the
 * strings that weft_json_text returns.
 *
 *    weft_json_start(&j, text, size);
 *    WEFT_TRY(weft_json_enter(&j));
 *    while (weft_json_member(&j, &key))
 *        WEFT_TRY(weft_json_skip(&j));     or another function that takes the value
 *    WEFT_TRY(j.status);
 *    WEFT_TRY(weft_json_finish(&j));
 *
 * FORMAT from any function means that the text is no JSON. A copy of the parser continues at the
 * position of the copying. */
#ifndef WEFT_SERVE_FRONT_JSON_H
#define WEFT_SERVE_FRONT_JSON_H

#include "base/decimal.h"

enum { WEFT_JSON_DEPTH = 128, WEFT_JSON_KEY = 64 };

typedef struct weft_json {
    const char *begin, *at, *end;
    int depth;
    weft_status status; /* error of the last weft_json_item or weft_json_member */
    bool first;         /* no item of the array or object entered last has been read yet */
    uint64_t objects[WEFT_JSON_DEPTH / 64]; /* a bit for each depth: 1 object, 0 array */
} weft_json;

typedef enum weft_json_kind {
    WEFT_JSON_WRONG, /* no JSON value begins like this, or the text ends */
    WEFT_JSON_NULL,
    WEFT_JSON_FLAG,
    WEFT_JSON_NUMBER,
    WEFT_JSON_STRING,
    WEFT_JSON_ARRAY,
    WEFT_JSON_OBJECT
} weft_json_kind;

/* The name of an object's member. A longer name is cut off, and equals no known name. */
typedef struct weft_json_key {
    char text[WEFT_JSON_KEY];
    size_t size; /* length of the whole name */
} weft_json_key;

void weft_json_start(weft_json *j, const char *text, size_t size);
/* The kind of the next value, which is not consumed. */
weft_json_kind weft_json_peek(weft_json *j);
/* The name of a kind for messages, such as "a number". */
const char *weft_json_kind_name(weft_json_kind kind);

/* Enters the array or object that comes next. */
weft_status weft_json_enter(weft_json *j) WEFT_NODISCARD;
/* Whether the array or object entered last has another item or member; if so, the caller must read
 * its value next. If not, the parser has left the array or object, or `status` is an error. */
bool weft_json_item(weft_json *j);
bool weft_json_member(weft_json *j, weft_json_key *key);
bool weft_json_is(const weft_json_key *key, const char *name);

/* Read the next value. skip: a value of any kind; the other functions: a value of their kind (see
 * weft_json_peek). text: release the string with free(); ARGUMENT: it contains a zero byte. cut:
 * copies the beginning of the string and a zero byte, at most `room` bytes in all; *size is the
 * length of the whole string. */
weft_status weft_json_skip(weft_json *j) WEFT_NODISCARD;
weft_status weft_json_number(weft_json *j, weft_decimal *out) WEFT_NODISCARD;
weft_status weft_json_flag(weft_json *j, bool *out) WEFT_NODISCARD;
weft_status weft_json_text(weft_json *j, char **out) WEFT_NODISCARD;
weft_status weft_json_cut(weft_json *j, char *to, size_t room, size_t *size) WEFT_NODISCARD;
/* Checks that only white space follows the value. */
weft_status weft_json_finish(weft_json *j) WEFT_NODISCARD;

#endif
