/* Parses generation requests, and writes their replies. */
#include <math.h>

#include "serve/front/infer_internal.h"
#include "serve/front/text_stream.h"

#define wrong(...) weft_fail(WEFT_ERR_ARGUMENT, __VA_ARGS__)

typedef struct wanted {
    weft_generation_request *request;
    char **prompt, **id;
    weft_texts *stops;
    unsigned seen;      /* a bit for each known member that was read */
    bool is_parameters; /* the object `parameters` is read, and not the body */
    bool streams;       /* the tokens are sent as they are drawn */
} wanted;

enum { MOST_ID = 16 << 10 };

static const char *const known[] = {
    "text_input", "max_tokens", "temperature", "top_k", "top_p",     "seed",  "timeout",
    "priority",   "id",         "parameters",  "stop",  "end_token", "stream"};

static weft_status read_real(weft_json *j, const char *what, double low, double high, double *out)
{
    weft_decimal d;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_NUMBER, what));
    WEFT_TRY(weft_json_number(j, &d));
    *out = weft_decimal_double(&d);
    if (*out >= low && *out <= high && isfinite(*out)) return WEFT_OK;
    if (isinf(high))
        return wrong("%s is %.*s, must be a number from %g on", what, (int)WEFT_MIN(d.size, 40),
                     d.text, low);
    return wrong("%s is %.*s, must be above 0 and at most %g", what, (int)WEFT_MIN(d.size, 40),
                 d.text, high);
}

static weft_status read_text(weft_json *j, const char *what, char **out)
{
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, what));
    return weft_json_text(j, out);
}

static weft_status add_stop(weft_json *j, weft_texts *stops)
{
    if (stops->count == WEFT_MOST_TEXTS)
        return wrong("stop has more than %d strings", WEFT_MOST_TEXTS);
    WEFT_TRY(read_text(j, "a string of stop", &stops->at[stops->count]));
    if (*stops->at[stops->count++]) return WEFT_OK;
    return wrong("stop has an empty string, with which no text would begin");
}

/* Reads a string, or an array of strings. */
static weft_status read_stops(weft_json *j, weft_texts *stops)
{
    if (weft_json_peek(j) == WEFT_JSON_STRING) return add_stop(j, stops);
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_ARRAY, "stop"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_item(j)) WEFT_TRY(add_stop(j, stops));
    return j->status;
}

static weft_status read_members(weft_json *j, wanted *w);

/* Reads the object `parameters`, which has the members of the body. */
static weft_status read_parameters(weft_json *j, wanted *w)
{
    wanted inner = *w;
    if (w->is_parameters) return wrong("parameters has parameters; do not nest them");
    inner.seen = 0;
    inner.is_parameters = true;
    WEFT_TRY(read_members(j, &inner));
    w->seen |= inner.seen << WEFT_COUNT(known); /* compared when the body is read */
    return WEFT_OK;
}

/* Clients of Triton say here what the path says. */
static weft_status read_stream(weft_json *j, const wanted *w)
{
    bool streams;
    WEFT_TRY(weft_infer_flag(j, "stream", &streams));
    if (!streams || w->streams) return WEFT_OK;
    return wrong("stream is true, and this path answers at once; ask generate_stream");
}

static weft_status read_value(weft_json *j, int which, wanted *w)
{
    weft_generation_request *q = w->request;
    int64_t number = 0;
    switch (which) {
    case 0: return read_text(j, "text_input", w->prompt);
    case 1: return weft_infer_whole(j, "max_tokens", 1, &q->tokens);
    case 2: return read_real(j, "temperature", 0, INFINITY, &q->sampling.temperature);
    case 3: return weft_infer_whole(j, "top_k", 0, &q->sampling.top_k);
    case 4: return read_real(j, "top_p", 5e-324, 1, &q->sampling.top_p);
    case 5: return weft_infer_whole(j, "seed", 0, &q->sampling.seed);
    case 6:
        WEFT_TRY(weft_infer_whole(j, "timeout, in microseconds,", 0, &number));
        q->queue_timeout = (double)number / 1e6;
        return WEFT_OK;
    case 7:
        WEFT_TRY(weft_infer_whole(j, "priority", 0, &number));
        q->priority = weft_priority_of(number);
        return WEFT_OK;
    case 8:
        WEFT_TRY(read_text(j, "id", w->id));
        if (strlen(*w->id) <= MOST_ID) return WEFT_OK;
        return wrong("id has %zu bytes, and %d are the most", strlen(*w->id), MOST_ID);
    case 9: return read_parameters(j, w);
    case 10: return read_stops(j, w->stops);
    case 11:
        WEFT_TRY(weft_infer_whole(j, "end_token", 0, &number));
        q->end_token = number;
        return WEFT_OK;
    default: return read_stream(j, w);
    }
}

static const char *known_member(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(known) ? known[i] : NULL;
}

/* A member that is not known is refused, since a text would come without what it asks for. */
static weft_status unknown(weft_json *j, const weft_json_key *key, const char *where)
{
    char name[WEFT_JSON_KEY + 1], near[512];
    size_t size = WEFT_MIN(key->size, sizeof(name) - 1);
    memcpy(name, key->text, size);
    name[size] = '\0';
    WEFT_TRY(weft_json_skip(j)); /* a syntax error in its value is reported first */
    return wrong("%s has '%s', which is no option of a text%s", where, name,
                 weft_suggest(near, sizeof(near), name, known_member, NULL));
}

static weft_status read_members(weft_json *j, wanted *w)
{
    const char *where = w->is_parameters ? "parameters" : "the body";
    weft_json_key key;
    int which;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, where));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_key(&key, known, WEFT_COUNT(known), where, &w->seen, &which));
        if (which < 0) return unknown(j, &key, where);
        if ((which == 0 && *w->prompt) || (which == 8 && *w->id))
            return wrong("%s is in the body and in its parameters", known[which]);
        WEFT_TRY(read_value(j, which, w));
    }
    return j->status;
}

static weft_status read_body(weft_json *j, wanted *w)
{
    WEFT_TRY(read_members(j, w));
    unsigned both = w->seen & w->seen >> WEFT_COUNT(known);
    for (size_t i = 0; i < WEFT_COUNT(known); i++)
        if (both >> i & 1) return wrong("%s is in the body and in its parameters", known[i]);
    return weft_json_finish(j);
}

weft_status weft_generate_read(const char *body, size_t size, bool streams,
                               weft_generation_request *out, char **prompt, char **id,
                               weft_texts *stops)
{
    wanted w = {.request = out, .prompt = prompt, .id = id, .stops = stops, .streams = streams};
    weft_json j;
    *prompt = *id = NULL;
    *stops = (weft_texts){.count = 0};
    weft_generation_request_init(out);
    weft_json_start(&j, body ? body : "", body ? size : 0);
    weft_status status = read_body(&j, &w);
    if (status == WEFT_ERR_FORMAT) status = weft_fail_within(status, "the body is no JSON");
    if (status != WEFT_OK) {
        free(*prompt);
        free(*id);
        *prompt = *id = NULL;
    }
    out->prompt = *prompt;
    return status;
}

/* --- replies --- */

typedef struct utf8_form {
    unsigned char low, high; /* of the first byte */
    unsigned char second_low, second_high;
    size_t bytes;
} utf8_form;

/* Reads the UTF-8 character at the beginning of a text. *bytes: its bytes, or if it is none those
 * that one replacement character stands for: the longest beginning of a character (Unicode, section
 * 3.9). *cut: the text ends within it. */
static bool read_character(const unsigned char *at, size_t size, size_t *bytes, bool *cut)
{
    static const utf8_form forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    const utf8_form *form = NULL;
    for (size_t i = 0; i < WEFT_COUNT(forms) && !form; i++)
        if (at[0] >= forms[i].low && at[0] <= forms[i].high) form = &forms[i];
    *bytes = 1;
    *cut = false;
    for (; form && *bytes < form->bytes; ++*bytes) {
        *cut = *bytes == size;
        if (*cut) return false;
        unsigned char low = *bytes == 1 ? form->second_low : 0x80;
        unsigned char high = *bytes == 1 ? form->second_high : 0xbf;
        if (at[*bytes] < low || at[*bytes] > high) return false;
    }
    return form != NULL;
}

size_t weft_json_add_text(weft_text *out, const char *text, size_t size, bool all)
{
    weft_text_add(out, "\"");
    size_t at = 0, bytes;
    for (bool cut; at < size; at += bytes) {
        unsigned char first = (unsigned char)text[at];
        bool valid = read_character((const unsigned char *)text + at, size - at, &bytes, &cut);
        if (cut && !all) break;
        if (!valid)
            weft_text_add(out, "\xef\xbf\xbd"); /* U+FFFD */
        else if (first >= 0x20 && first != '"' && first != '\\')
            weft_text_add_bytes(out, text + at, bytes);
        else
            weft_text_add(out, first < 0x20 ? "\\u%04x" : "\\%c", first);
    }
    weft_text_add(out, "\"");
    return at;
}

size_t weft_generate_write(const weft_servable_info *about, const char *text, size_t size, bool all,
                           const char *id, weft_text *out)
{
    weft_text_add(out, "{\"model_name\":");
    weft_text_add_json(out, about->name);
    weft_text_add(out, ",\"model_version\":\"%lld\",", (long long)about->version);
    if (id) {
        weft_text_add(out, "\"id\":");
        weft_text_add_json(out, id);
        weft_text_add(out, ",");
    }
    weft_text_add(out, "\"text_output\":");
    size_t taken = weft_json_add_text(out, text, size, all);
    weft_text_add(out, "}");
    return taken;
}
