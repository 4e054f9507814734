/* Pull parser for JSON (RFC 8259): one pass over memory that the caller owns. It is strict: an
 * error names the byte at which the text stops being JSON. Only texts that are asked for are
 * allocated.
 *
 *    weft_json_start(&j, text, size);
 *    WEFT_TRY(weft_json_enter(&j));
 *    while (weft_json_member(&j, &key))
 *        WEFT_TRY(weft_json_skip(&j));     or another function that takes the value
 *    WEFT_TRY(j.status);
 *    WEFT_TRY(weft_json_finish(&j));
 *
 * FORMAT from any function means that the text is no JSON. A copy of a parser keeps its
 * position. */
#ifndef WEFT_SERVE_FRONT_JSON_H
#define WEFT_SERVE_FRONT_JSON_H

#include "serve/front/decimal.h"

enum { WEFT_JSON_DEPTH = 128, WEFT_JSON_KEY = 64 };

typedef struct weft_json {
    const char *begin, *at, *end;
    int depth;
    weft_status status; /* of weft_json_item and weft_json_member */
    bool first;         /* nothing has been read of the array or object entered last */
    uint64_t objects[WEFT_JSON_DEPTH / 64]; /* a bit for each depth: 1 for an object */
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

/* A member's name; longer ones are cut off, and differ from all known names. */
typedef struct weft_json_key {
    char text[WEFT_JSON_KEY];
    size_t size; /* of the whole name */
} weft_json_key;

void weft_json_start(weft_json *j, const char *text, size_t size);
/* The kind of the next value, which is not consumed. */
weft_json_kind weft_json_peek(weft_json *j);
/* "a number", for messages. */
const char *weft_json_kind_name(weft_json_kind kind);

/* Enters the array or object that comes next. */
weft_status weft_json_enter(weft_json *j) WEFT_NODISCARD;
/* Whether the array or object entered last has another item or member, whose value must be taken
 * then. If not, it has been left, or `status` is an error. */
bool weft_json_item(weft_json *j);
bool weft_json_member(weft_json *j, weft_json_key *key);
bool weft_json_is(const weft_json_key *key, const char *name);

/* Take the next value: any, or one that must be of the kind (see weft_json_peek). text: release it
 * with free(); it must not contain a zero byte. cut: copies at most `room` bytes with the zero;
 * *size is the whole length. */
weft_status weft_json_skip(weft_json *j) WEFT_NODISCARD;
weft_status weft_json_number(weft_json *j, weft_decimal *out) WEFT_NODISCARD;
weft_status weft_json_flag(weft_json *j, bool *out) WEFT_NODISCARD;
weft_status weft_json_text(weft_json *j, char **out) WEFT_NODISCARD;
weft_status weft_json_cut(weft_json *j, char *to, size_t room, size_t *size) WEFT_NODISCARD;
/* Only white space may follow. */
weft_status weft_json_finish(weft_json *j) WEFT_NODISCARD;

#endif
