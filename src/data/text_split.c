/* Cuts a text by regular expressions, one after the other: each match is a piece, and so is each
 * text between two matches. */
#include "data/text_split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { PATTERNS = 8 };

struct weft_text_split {
    int count;
    pcre2_code *code[PATTERNS];
};

/* A run over a text. */
typedef struct run {
    const weft_text_split *s;
    const char *name;
    pcre2_match_data *match[PATTERNS];
    weft_split_fn fn;
    void *user;
} run;

/* Whether a class of characters has &&, which PCRE2 takes for two characters. */
static bool has_intersection(const char *pattern)
{
    int classes = 0;
    for (const char *at = pattern; *at; at++) {
        if (at[0] == '\\' && at[1]) {
            at++;
            continue;
        }
        classes += *at == '[' ? 1 : *at == ']' && classes > 0 ? -1 : 0;
        if (classes > 0 && at[0] == '&' && at[1] == '&') return true;
    }
    return false;
}

/* Copies a pattern in the words of PCRE2: \s and \h have other meanings in Oniguruma, White_Space
 * and a hexadecimal digit. */
static weft_status translate(const char *pattern, char **out)
{
    static const char *const words[][2] = {{"s", "\\p{White_Space}"},
                                           {"S", "\\P{White_Space}"},
                                           {"h", "\\p{ASCII_Hex_Digit}"},
                                           {"H", "\\P{ASCII_Hex_Digit}"}};
    weft_text text = {0};
    for (const char *at = pattern; *at; at++) {
        const char *word = NULL;
        for (size_t i = 0; at[0] == '\\' && i < WEFT_COUNT(words); i++)
            if (at[1] == words[i][0][0]) word = words[i][1];
        if (word)
            weft_text_add(&text, "%s", word);
        else
            weft_text_add(&text, "%c", *at);
        if (at[0] != '\\' || !at[1]) continue;
        at++;
        if (!word) weft_text_add(&text, "%c", *at);
    }
    return weft_text_take(&text, out);
}

static weft_status compile(const char *name, const char *pattern, weft_text_split *s)
{
    int error;
    size_t at;
    char *own, shown[64];
    if (has_intersection(pattern))
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: its pattern has an intersection of classes (&&), which is not "
                         "supported",
                         name);
    WEFT_TRY(translate(pattern, &own));
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context) (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    /* In Oniguruma ^ and $ are at the ends of lines. */
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)own, strlen(own),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context);
    pcre2_compile_context_free(context);
    free(own);
    if (!code)
        return weft_fail(WEFT_ERR_FORMAT, "%s: the pattern '%s' is not a regular expression", name,
                         weft_printable(pattern, shown, sizeof(shown)));
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without it, matches are slower */
    s->code[s->count++] = code;
    return WEFT_OK;
}

weft_status weft_text_split_create(const char *name, char *const *patterns, int count,
                                   weft_text_split **out)
{
    weft_text_split *s;
    weft_status status = WEFT_OK;
    WEFT_TRY(WEFT_NEW(&s, 1));
    if (count > PATTERNS)
        status = weft_fail(WEFT_ERR_FORMAT, "%s: there are more than %d patterns", name, PATTERNS);
    for (int i = 0; i < count && status == WEFT_OK; i++) status = compile(name, patterns[i], s);
    if (status != WEFT_OK) weft_text_split_free(&s);
    *out = s;
    return status;
}

void weft_text_split_free(weft_text_split **split)
{
    weft_text_split *s = *split;
    for (int i = 0; s && i < s->count; i++) pcre2_code_free(s->code[i]);
    free(s);
    *split = NULL;
}

/* Splits by the patterns from number `first` on. */
static weft_status cut(const run *r, int first, const unsigned char *text, size_t size)
{
    if (size == 0) return WEFT_OK;
    if (first == r->s->count) return r->fn(r->user, text, size);
    size_t done = 0, at = 0;
    while (at <= size) {
        int found = pcre2_match(r->s->code[first], text, size, at, PCRE2_NO_UTF_CHECK,
                                r->match[first], NULL);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0)
            return weft_fail(
                WEFT_ERR_FORMAT,
                "%s: a pattern of the tokenizer cannot be matched with the text (PCRE2 "
                "error %d)",
                r->name, found);
        const size_t *range = pcre2_get_ovector_pointer(r->match[first]);
        size_t begin = range[0], end = range[1];
        uint32_t point;
        /* A match of no characters cuts the text at its place. */
        WEFT_TRY(cut(r, first + 1, text + done, begin - done));
        if (end > begin) WEFT_TRY(cut(r, first + 1, text + begin, end - begin));
        done = at = WEFT_MAX(end, begin);
        if (end <= begin)
            at = done < size ? done + weft_utf8_decode(text + done, size - done, &point) : size + 1;
    }
    return cut(r, first + 1, text + done, size - done);
}

weft_status weft_text_split_run(const weft_text_split *s, const char *name,
                                const unsigned char *text, size_t size, weft_split_fn fn,
                                void *user)
{
    run r = {.s = s, .name = name, .fn = fn, .user = user};
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->count && status == WEFT_OK; i++) {
        r.match[i] = pcre2_match_data_create_from_pattern(s->code[i], NULL);
        if (!r.match[i]) status = weft_fail_memory(1);
    }
    if (status == WEFT_OK) status = cut(&r, 0, text, size);
    for (int i = 0; i < s->count; i++) pcre2_match_data_free(r.match[i]);
    return status;
}
