/* Cuts a text into pieces as the pre-tokenizers of Hugging Face's tokenizers do: each cut is
 * applied to every piece of the cut before. Patterns are those of Oniguruma, which tokenizers uses
 * as well, so that both read every pattern alike. */
#include "data/text_split.h"

#include <oniguruma.h>

typedef struct text_cut {
    weft_bpe_cut as; /* its pattern is not owned, and no longer there */
    regex_t *regex;  /* of a split */
} text_cut;

struct weft_text_split {
    int count;
    text_cut cut[WEFT_BPE_CUTS];
};

/* A run over a text. */
typedef struct run {
    const weft_text_split *s;
    const char *name;
    OnigRegion *match[WEFT_BPE_CUTS];
    bool characters; /* pieces are of characters that stand for bytes */
    weft_split_fn fn;
    void *user;
} run;

/* Copies a pattern for an Oniguruma before 6.9.9, in which [[:punct:]] lacks the symbols that it
 * has had since. */
static weft_status with_symbols(const char *pattern, char **out)
{
    static const char *const words[][2] = {{"[:punct:]", "\\p{P}\\p{S}"},
                                           {"[:^punct:]", "[^\\p{P}\\p{S}]"}};
    weft_text text = {0};
    int classes = 0;
    while (*pattern) {
        const char *word = NULL;
        size_t size = *pattern == '\\' && pattern[1] ? 2 : 1;
        for (size_t i = 0; classes > 0 && i < WEFT_COUNT(words); i++) {
            if (strncmp(pattern, words[i][0], strlen(words[i][0])) != 0) continue;
            word = words[i][1];
            size = strlen(words[i][0]);
        }
        weft_text_add_bytes(&text, word ? word : pattern, word ? strlen(word) : size);
        if (!word && size == 1) classes += *pattern == '[' ? 1 : *pattern == ']' ? -1 : 0;
        pattern += size;
    }
    return weft_text_take(&text, out);
}

static weft_status compile_as(const char *name, const char *pattern, text_cut *cut)
{
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    OnigErrorInfo info = {0};
    char shown[64];
    OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = {0};
    const OnigUChar *begin = (const OnigUChar *)pattern;
    (void)onig_initialize(&utf8, 1);
    int error = onig_new(&cut->regex, begin, begin + strlen(pattern), ONIG_OPTION_NONE, utf8,
                         ONIG_SYNTAX_DEFAULT, &info);
    if (error == ONIG_NORMAL) return WEFT_OK;
    cut->regex = NULL;
    if (error == ONIGERR_MEMORY) return weft_fail_memory(1);
    (void)onig_error_code_to_str(why, error, &info);
    return weft_fail(WEFT_ERR_FORMAT, "%s: the pattern '%s' is not a regular expression: %s", name,
                     weft_printable(pattern, shown, sizeof(shown)), (const char *)why);
}

static weft_status compile(const char *name, const char *pattern, text_cut *cut)
{
    char *own;
    if (ONIGURUMA_VERSION_INT >= 60909) return compile_as(name, pattern, cut);
    WEFT_TRY(with_symbols(pattern, &own));
    weft_status status = compile_as(name, own, cut);
    free(own);
    return status;
}

weft_status weft_text_split_create(const char *name, const weft_bpe_cut *cuts, int count,
                                   weft_text_split **out)
{
    weft_text_split *s;
    weft_status status = WEFT_OK;
    WEFT_TRY(WEFT_NEW(&s, 1));
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        text_cut *cut = &s->cut[s->count++];
        cut->as = cuts[i];
        cut->as.pattern = NULL;
        if (cuts[i].pattern) status = compile(name, cuts[i].pattern, cut);
    }
    if (status != WEFT_OK) weft_text_split_free(&s);
    *out = s;
    return status;
}

void weft_text_split_free(weft_text_split **split)
{
    weft_text_split *s = *split;
    for (int i = 0; s && i < s->count; i++)
        if (s->cut[i].regex) onig_free(s->cut[i].regex);
    free(s);
    *split = NULL;
}

static weft_status cut(run *r, int next, const unsigned char *text, size_t size);

/* --- a split: matches and the texts between them become pieces --- */

typedef struct span {
    size_t begin, end;
    bool match;
} span;

/* The pieces of a split, of which the last one may still grow. */
typedef struct pieces {
    run *r;
    int next; /* cut */
    const unsigned char *text;
    const weft_bpe_cut *as;
    bool some; /* whether `last` is there */
    span last;
} pieces;

/* Whether a span joins the one before it. */
static bool joins(const pieces *p, const span *s)
{
    switch (p->as->behavior) {
    case WEFT_SPLIT_CONTIGUOUS: return s->match == p->last.match;
    case WEFT_SPLIT_MERGED_WITH_PREVIOUS: return s->match && !p->last.match;
    case WEFT_SPLIT_MERGED_WITH_NEXT: return !s->match && p->last.match;
    default: return false;
    }
}

static weft_status end_piece(const pieces *p)
{
    bool removed = p->as->behavior == WEFT_SPLIT_REMOVED && p->last.match;
    if (!p->some || removed) return WEFT_OK;
    return cut(p->r, p->next, p->text + p->last.begin, p->last.end - p->last.begin);
}

static weft_status add_span(pieces *p, size_t begin, size_t end, bool match)
{
    span s = {begin, end, match != p->as->invert};
    if (p->some && joins(p, &s)) {
        p->last.end = end;
        p->last.match = s.match;
        return WEFT_OK;
    }
    WEFT_TRY(end_piece(p));
    p->last = s;
    p->some = true;
    return WEFT_OK;
}

/* Finds the next match from *at on; *found: whether there is one. */
static weft_status find(const run *r, int i, const unsigned char *text, size_t size, size_t at,
                        bool *found)
{
    OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = {0};
    onig_region_clear(r->match[i]);
    int place = onig_search(r->s->cut[i].regex, text, text + size, text + at, text + size,
                            r->match[i], ONIG_OPTION_NONE);
    *found = place >= 0;
    if (place >= 0 || place == ONIG_MISMATCH) return WEFT_OK;
    if (place == ONIGERR_MEMORY) return weft_fail_memory(size);
    (void)onig_error_code_to_str(why, place);
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: a pattern of the tokenizer cannot be matched with the text: %s", r->name,
                     (const char *)why);
}

/* A match of no characters cuts the text at its place, but not at the end of a match. */
static weft_status split(run *r, int i, const unsigned char *text, size_t size)
{
    pieces p = {.r = r, .next = i + 1, .text = text, .as = &r->s->cut[i].as};
    size_t done = 0, at = 0;
    bool found, matched = false;
    while (at <= size) {
        WEFT_TRY(find(r, i, text, size, at, &found));
        if (!found) break;
        size_t begin = (size_t)r->match[i]->beg[0], end = (size_t)r->match[i]->end[0];
        uint32_t point;
        if (begin == end && matched && end == done) {
            at += at < size ? weft_utf8_decode(text + at, size - at, &point) : 1;
            continue;
        }
        if (begin > done) WEFT_TRY(add_span(&p, done, begin, false));
        WEFT_TRY(add_span(&p, begin, end, true));
        done = at = end;
        matched = true;
    }
    if (done < size) WEFT_TRY(add_span(&p, done, size, false));
    return end_piece(&p);
}

/* --- other cuts --- */

static weft_status put_space(run *r, int next, const unsigned char *text, size_t size)
{
    unsigned char *prefixed;
    if (text[0] == ' ') return cut(r, next, text, size);
    WEFT_TRY(WEFT_NEW(&prefixed, size + 1));
    prefixed[0] = ' ';
    memcpy(prefixed + 1, text, size);
    weft_status status = cut(r, next, prefixed, size + 1);
    free(prefixed);
    return status;
}

/* Goes on with the characters that stand for the bytes of a piece. */
static weft_status to_characters(run *r, int next, const unsigned char *text, size_t size)
{
    unsigned char *characters;
    size_t n = 0;
    WEFT_TRY(WEFT_NEW(&characters, 2 * size));
    for (size_t i = 0; i < size; i++) {
        uint32_t point = weft_bpe_character_of(text[i]);
        if (point >= 128) characters[n++] = (unsigned char)(0xC0 | point >> 6);
        characters[n++] = (unsigned char)(point < 128 ? point : 0x80 | (point & 63));
    }
    r->characters = true;
    weft_status status = cut(r, next, characters, n);
    r->characters = false;
    free(characters);
    return status;
}

static weft_status give(const run *r, const unsigned char *piece, size_t size)
{
    unsigned char *bytes;
    size_t n = 0;
    if (!r->characters) return r->fn(r->user, piece, size);
    WEFT_TRY(WEFT_NEW(&bytes, size));
    for (size_t at = 0; at < size; n++) {
        uint32_t point;
        at += weft_utf8_decode(piece + at, size - at, &point);
        bytes[n] = (unsigned char)weft_bpe_byte_of(point);
    }
    weft_status status = r->fn(r->user, bytes, n);
    free(bytes);
    return status;
}

/* Applies the cuts from number `next` on to a piece. */
static weft_status cut(run *r, int next, const unsigned char *text, size_t size)
{
    if (size == 0) return WEFT_OK;
    if (next == r->s->count) return give(r, text, size);
    switch (r->s->cut[next].as.kind) {
    case WEFT_CUT_PREFIX_SPACE: return put_space(r, next + 1, text, size);
    case WEFT_CUT_BYTES_TO_CHARACTERS: return to_characters(r, next + 1, text, size);
    default: return split(r, next, text, size);
    }
}

weft_status weft_text_split_run(const weft_text_split *s, const char *name,
                                const unsigned char *text, size_t size, weft_split_fn fn,
                                void *user)
{
    run r = {.s = s, .name = name, .fn = fn, .user = user};
    weft_status status = WEFT_OK;
    if (size > INT32_MAX)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "%s: has %zu bytes, and a tokenizer takes 2 GiB",
                         name, size);
    for (int i = 0; i < s->count && status == WEFT_OK; i++) {
        r.match[i] = s->cut[i].regex ? onig_region_new() : NULL;
        if (s->cut[i].regex && !r.match[i]) status = weft_fail_memory(1);
    }
    if (status == WEFT_OK) status = cut(&r, 0, text, size);
    for (int i = 0; i < s->count; i++)
        if (r.match[i]) onig_region_free(r.match[i], 1);
    return status;
}
