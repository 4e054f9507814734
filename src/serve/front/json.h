/* JSON (RFC 8259) read in one pass, from memory that nobody owns here: the caller walks through it
 * and takes what it wants. Strict: what is not JSON is refused with the byte at which it stops to
 * be. Nothing is allocated but texts that are asked for.
 *
 *   weft_json_start(&j, text, size);
 *   WEFT_TRY(weft_json_enter(&j));
 *   while (weft_json_member(&j, &key))
 *       WEFT_TRY(weft_json_skip(&j));     or another one that takes the value
 *   WEFT_TRY(j.status);
 *   WEFT_TRY(weft_json_finish(&j));
 *
 * All that fails with FORMAT has met what is not JSON. A copy of a reader stays where it is. */
#ifndef WEFT_SERVE_FRONT_JSON_H
#define WEFT_SERVE_FRONT_JSON_H

#include "serve/front/decimal.h"

enum { WEFT_JSON_DEPTH = 128, WEFT_JSON_KEY = 64 };

typedef struct weft_json {
    const char *begin, *at, *end;
    int depth;
    weft_status status;                     /* of item and member */
    bool first;                             /* nothing has been read of what was entered last */
    uint64_t objects[WEFT_JSON_DEPTH / 64]; /* a bit for each depth: an object, no array */
} weft_json;

typedef enum weft_json_kind {
    WEFT_JSON_WRONG, /* nothing that begins so is JSON; also at the end */
    WEFT_JSON_NULL,
    WEFT_JSON_FLAG,
    WEFT_JSON_NUMBER,
    WEFT_JSON_STRING,
    WEFT_JSON_ARRAY,
    WEFT_JSON_OBJECT
} weft_json_kind;

/* A name in an object; longer ones are cut off, and equal to none that is known. */
typedef struct weft_json_key {
    char text[WEFT_JSON_KEY];
    size_t size; /* of all of it */
} weft_json_key;

void weft_json_start(weft_json *j, const char *text, size_t size);
/* What stands next, which is not read by this. */
weft_json_kind weft_json_peek(weft_json *j);
/* "a number", for sentences. */
const char *weft_json_kind_name(weft_json_kind kind);

/* Goes into the array or object that stands next. */
weft_status weft_json_enter(weft_json *j) WEFT_NODISCARD;
/* Whether there is another item of the array, or member of the object, that was entered last; its
 * value must be taken then. If not, it has been left, or `status` is no longer OK. */
bool weft_json_item(weft_json *j);
bool weft_json_member(weft_json *j, weft_json_key *key);
bool weft_json_is(const weft_json_key *key, const char *name);

/* Takes the value that stands next: any, or one that must be of the kind (as weft_json_peek says).
 * text: freed with free(); a zero in it is refused. cut: into `room` bytes with a zero, cut off
 * where it is longer; *size is all of it. */
weft_status weft_json_skip(weft_json *j) WEFT_NODISCARD;
weft_status weft_json_number(weft_json *j, weft_decimal *out) WEFT_NODISCARD;
weft_status weft_json_flag(weft_json *j, bool *out) WEFT_NODISCARD;
weft_status weft_json_text(weft_json *j, char **out) WEFT_NODISCARD;
weft_status weft_json_cut(weft_json *j, char *to, size_t room, size_t *size) WEFT_NODISCARD;
/* Nothing but white space follows. */
weft_status weft_json_finish(weft_json *j) WEFT_NODISCARD;

#endif
