#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "base/base.h"
#include "base/decimal.h"

static bool text_reserve(weft_text *text, size_t more)
{
    if (text->failed) return false;
    if (text->size + more + 1 <= text->capacity) return true;
    size_t wanted = WEFT_MAX(text->capacity * 2, text->size + more + 64);
    char *data = realloc(text->data, wanted);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = wanted;
    return true;
}

char *weft_text_extend(weft_text *text, size_t size)
{
    if (!text_reserve(text, size)) return NULL;
    char *added = text->data + text->size;
    text->size += size;
    text->data[text->size] = '\0';
    return added;
}

void weft_text_add_bytes(weft_text *text, const char *data, size_t size)
{
    char *to = weft_text_extend(text, size);
    if (to) memcpy(to, data, size);
}

void weft_text_add_int(weft_text *text, int64_t number)
{
    char digits[24], *end = digits + sizeof(digits), *at = end;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0) *--at = '-';
    weft_text_add_bytes(text, at, (size_t)(end - at));
}

void weft_text_add(weft_text *text, const char *format, ...)
{
    char small[512];
    if (!strchr(format, '%')) {
        weft_text_add_bytes(text, format, strlen(format));
        return;
    }
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(small, sizeof(small), format, arguments);
    va_end(arguments);
    if (size >= 0 && (size_t)size < sizeof(small)) {
        weft_text_add_bytes(text, small, (size_t)size);
    } else if (size >= 0 && text_reserve(text, (size_t)size)) {
        (void)vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
}

void weft_text_add_json(weft_text *text, const char *string)
{
    const char *from = string, *at = string; /* from..at needs no escapes */
    weft_text_add_bytes(text, "\"", 1);
    for (size_t size; *at; at += WEFT_MAX(size, (size_t)1)) {
        unsigned char c = (unsigned char)*at;
        uint32_t point;
        size = c < 0x80 ? 1 : weft_utf8_decode((const unsigned char *)at, 4, &point);
        if (size > 0 && c >= 0x20 && c != '"' && c != '\\') continue;
        weft_text_add_bytes(text, from, (size_t)(at - from));
        if (size == 0)
            weft_text_add(text, "\\ufffd"); /* JSON is UTF-8 */
        else
            weft_text_add(text, c < 0x20 ? "\\u%04x" : "\\%c", c);
        from = at + 1;
    }
    weft_text_add_bytes(text, from, (size_t)(at - from));
    weft_text_add_bytes(text, "\"", 1);
}

weft_status weft_json_string(const char *string, char **out)
{
    WEFT_NEED(string, out);
    weft_text text = {0};
    weft_text_add_json(&text, string);
    return weft_text_take(&text, out);
}

weft_status weft_text_take(weft_text *text, char **out)
{
    if (!text_reserve(text, 0)) {
        size_t refused = text->capacity;
        free(text->data);
        *out = NULL;
        *text = (weft_text){0};
        return weft_fail_memory(refused);
    }
    text->data[text->size] = '\0';
    *out = text->data;
    *text = (weft_text){0};
    return WEFT_OK;
}

/* Levenshtein distance without regard to case. A name of more than 63 characters counts as far from
 * every name. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t row[LONGEST + 1], size_a = strlen(a), size_b = strlen(b);
    if (size_a > LONGEST || size_b > LONGEST) return LONGEST;
    for (size_t j = 0; j <= size_b; j++) row[j] = j;
    for (size_t i = 1; i <= size_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= size_b; j++) {
            size_t cost =
                diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            diagonal = row[j];
            row[j] = WEFT_MIN(cost, WEFT_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[size_b];
}

/* Words that people use for a name, which by letters may be near its opposite or far from all. */
static const char *const meanings[][2] = {{"gpu", "device"},
                                          {"gpu", "cuda"},
                                          {"gpus", "device"},
                                          {"learning-rate", "lr"},
                                          {"lr-scale", "lr-multiplier"},
                                          {"scheduler", "lr-schedule"},
                                          {"max-epochs", "epochs"},
                                          {"early-stopping", "patience"},
                                          {"pretrained", "init"},
                                          {"num-workers", "threads"},
                                          {"workers", "threads"},
                                          {"val-split", "validation"},
                                          {"accumulate", "microbatches"},
                                          {"logdir", "metrics"},
                                          {"ce", "cross_entropy"}};

/* Whether the first `size` characters are the same without regard to case, - and _. */
static bool same_start(const char *a, const char *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        int x = a[i] == '_' ? '-' : tolower((unsigned char)a[i]);
        int y = b[i] == '_' ? '-' : tolower((unsigned char)b[i]);
        if (x != y) return false;
        if (x == '\0') break;
    }
    return true;
}

static bool means(const char *name, const char *candidate, bool *other)
{
    for (size_t i = 0; i < WEFT_COUNT(meanings); i++) {
        if (!same_start(name, meanings[i][0], strlen(name) + 1)) continue;
        *other = true;
        if (strcmp(candidate, meanings[i][1]) == 0) return true;
    }
    return false;
}

/* Whether one name begins with the other: the candidate with a part of it, as acc for accuracy, or
 * the name with all of it and more words, as batch-size for batch. */
static bool begins(const char *name, const char *candidate)
{
    size_t size = strlen(name), all = strlen(candidate), least = WEFT_MIN(size, all);
    return least >= 3 && same_start(name, candidate, least) &&
           (size <= all || !isalpha((unsigned char)name[all]));
}

/* A name that is one letter or so away counts before one that begins alike, and that before one
 * that is further away. */
const char *weft_nearest(const char *name, const char *(*next)(const void *user, int i),
                         const void *user)
{
    const char *best = NULL, *alike = NULL;
    /* Four changes are too many however long a name is: 'activation' would be near 'dilation'. */
    size_t limit = WEFT_MIN(strlen(name) / 3 + 2, (size_t)4), best_distance = limit;
    for (int i = 0;; i++) {
        const char *candidate = next(user, i);
        bool other = false;
        if (!candidate) break;
        if (means(name, candidate, &other)) return candidate;
        if (other) continue;
        if (begins(name, candidate) && (!alike || strlen(candidate) < strlen(alike)))
            alike = candidate;
        size_t distance = edit_distance(name, candidate);
        /* All letters changed, as 'b' for 'x': nothing is alike. */
        bool some = distance < WEFT_MAX(strlen(name), strlen(candidate));
        if (some && distance < best_distance && distance < WEFT_MAX(strlen(candidate), (size_t)2)) {
            best = candidate;
            best_distance = distance;
        }
    }
    return alike && (!best || best_distance * 4 > strlen(name)) ? alike : best;
}

const char *weft_suggest(char *buffer, size_t size, const char *name,
                         const char *(*next)(const void *user, int i), const void *user)
{
    const char *near = weft_nearest(name, next, user);
    if (near) {
        (void)snprintf(buffer, size, "; did you mean '%s'?", near);
        return buffer;
    }
    if (!next(user, 0)) {
        (void)snprintf(buffer, size, "; there are none");
        return buffer;
    }
    size_t used = (size_t)snprintf(buffer, size, "; known are");
    for (int i = 0; next(user, i) && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s %s", i ? "," : "", next(user, i));
    return buffer;
}

/* A list with commas whose pieces have been cut apart. */
typedef struct pieces {
    const char *first;
    size_t size;
} pieces;

static const char *piece_at(const void *user, int i)
{
    const pieces *p = user;
    for (size_t at = 0; at < p->size; at += strlen(p->first + at) + 1)
        if (i-- == 0) return p->first + at;
    return NULL;
}

weft_status weft_choose(const char *what, const char *text, const char *list, const char *otherwise,
                        int *out)
{
    char *copy, near[256];
    const char *name;
    WEFT_TRY(weft_strdup(list, &copy));
    const pieces p = {copy, strlen(list) + 1};
    for (char *c = copy; (c = strchr(c, ','));) *c++ = '\0';
    for (*out = 0; (name = piece_at(&p, *out)) && strcmp(name, text) != 0;) ++*out;
    weft_status status = WEFT_OK;
    if (!name)
        status = weft_fail(WEFT_ERR_ARGUMENT, "%s is '%s', must be one of %s%s", what, text, list,
                           weft_nearest(text, piece_at, &p)
                               ? weft_suggest(near, sizeof(near), text, piece_at, &p)
                           : otherwise ? otherwise
                                       : "");
    free(copy);
    return status;
}

weft_status weft_each_piece(const char *what, const char *text, weft_piece_fn fn, void *user)
{
    char *copy;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_strdup(text, &copy));
    for (char *piece = copy, *next; piece && status == WEFT_OK; piece = next) {
        next = strchr(piece, ',');
        if (next) *next++ = '\0';
        status = *piece
                     ? fn(user, piece)
                     : weft_fail(WEFT_ERR_ARGUMENT,
                                 "%s: '%s' has an empty piece; pieces are separated by one comma",
                                 what, text);
    }
    free(copy);
    return status;
}

const char *weft_real_text(double value, char *buffer, size_t size)
{
    double back;
    if (fabs(value) < 1e15 && value == floor(value)) { /* 1000000000, not 1e+09 */
        (void)snprintf(buffer, size, "%.0f", value);
        return buffer;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(buffer, size, "%.*g", digits, value);
        if (weft_parse_real(buffer, &back) && back == value) break;
    }
    return buffer;
}

bool weft_parse_int(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE || isspace((unsigned char)*text)) return false;
    *out = value;
    return true;
}

/* Whether the text is inf, infinity or nan, in any case, after a sign or none. */
static bool parse_word(const char *text, double *out)
{
    double sign = *text == '-' ? -1 : 1;
    if (*text == '-' || *text == '+') text++;
    bool infinite = strcasecmp(text, "inf") == 0 || strcasecmp(text, "infinity") == 0;
    if (!infinite && strcasecmp(text, "nan") != 0) return false;
    *out = infinite ? sign * INFINITY : NAN;
    return true;
}

bool weft_parse_real(const char *text, double *out)
{
    weft_decimal d;
    const char *end = text + strlen(text);
    if (end == text || weft_decimal_scan_loosely(text, end, &d) != end)
        return parse_word(text, out);
    *out = weft_decimal_double(&d);
    return true;
}
