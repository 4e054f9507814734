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

/* Copies a pattern with White_Space in place of \s, whose meaning depends on the library. */
static weft_status translate(const char *pattern, char **out)
{
    weft_text text = {0};
    for (const char *at = pattern; *at; at++) {
        bool space = at[0] == '\\' && (at[1] == 's' || at[1] == 'S');
        if (space)
            weft_text_add(&text, "\\%c{White_Space}", at[1] == 's' ? 'p' : 'P');
        else
            weft_text_add(&text, "%c", *at);
        if (at[0] != '\\' || !at[1]) continue;
        at++;
        if (!space) weft_text_add(&text, "%c", *at);
    }
    return weft_text_take(&text, out);
}

static weft_status compile(const char *name, const char *pattern, weft_text_split *s)
{
    int error;
    size_t at;
    char *own, shown[64];
    WEFT_TRY(translate(pattern, &own));
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)own, strlen(own), PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
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
    while (at < size) {
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
        if (begin >= end) { /* an empty match cuts nothing */
            at = end < size ? end + weft_utf8_decode(text + end, size - end, &point) : size;
            continue;
        }
        WEFT_TRY(cut(r, first + 1, text + done, begin - done));
        WEFT_TRY(cut(r, first + 1, text + begin, end - begin));
        done = at = end;
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
