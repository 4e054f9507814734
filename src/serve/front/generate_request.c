/* Parses generation requests, and writes their replies. */
#include <math.h>

#include "serve/front/infer_internal.h"
#include "serve/front/text_stream.h"

#define wrong(...) weft_fail(WEFT_ERR_ARGUMENT, __VA_ARGS__)

typedef struct wanted {
    weft_generation_request *request;
    char **prompt;
    unsigned seen;
    const char *where; /* the object that is being read, for messages */
} wanted;

static weft_status read_real(weft_json *j, const char *what, double *out)
{
    weft_decimal d;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_NUMBER, what));
    WEFT_TRY(weft_json_number(j, &d));
    *out = weft_decimal_double(&d);
    return isfinite(*out) ? WEFT_OK : wrong("%s is too large", what);
}

static weft_status read_members(weft_json *j, wanted *w);

static weft_status read_value(weft_json *j, int which, wanted *w)
{
    weft_generation_request *q = w->request;
    int64_t number = 0;
    switch (which) {
    case 0:
        WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, "text_input"));
        return weft_json_text(j, w->prompt);
    case 1: return weft_infer_whole(j, "max_tokens", 1, &q->tokens);
    case 2: return read_real(j, "temperature", &q->sampling.temperature);
    case 3: return weft_infer_whole(j, "top_k", 0, &q->sampling.top_k);
    case 4: return read_real(j, "top_p", &q->sampling.top_p);
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
        w->where = "parameters";
        WEFT_TRY(read_members(j, w));
        w->where = "the body";
        return WEFT_OK;
    default: return weft_json_skip(j);
    }
}

/* Reads the body, and in it the object `parameters`, which has the same members. */
static weft_status read_members(weft_json *j, wanted *w)
{
    static const char *const known[] = {"text_input", "max_tokens", "temperature",
                                        "top_k",      "top_p",      "seed",
                                        "timeout",    "priority",   "parameters"};
    weft_json_key key;
    int which;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, w->where));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_key(&key, known, WEFT_COUNT(known), w->where, &w->seen, &which));
        WEFT_TRY(read_value(j, which, w));
    }
    return j->status;
}

weft_status weft_generate_read(const char *body, size_t size, weft_generation_request *out,
                               char **prompt)
{
    wanted w = {.request = out, .prompt = prompt, .where = "the body"};
    weft_json j;
    *prompt = NULL;
    weft_generation_request_init(out);
    weft_json_start(&j, body ? body : "", body ? size : 0);
    weft_status status = read_members(&j, &w);
    if (status == WEFT_OK) status = weft_json_finish(&j);
    if (status == WEFT_ERR_FORMAT) status = weft_fail_within(status, "the body is no JSON");
    if (status != WEFT_OK) {
        free(*prompt);
        *prompt = NULL;
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
                           weft_text *out)
{
    weft_text_add(out, "{\"model_name\":");
    weft_text_add_json(out, about->name);
    weft_text_add(out, ",\"model_version\":\"%lld\",\"text_output\":", (long long)about->version);
    size_t taken = weft_json_add_text(out, text, size, all);
    weft_text_add(out, "}");
    return taken;
}
