/* The unit char: a token is a UTF-8 character of the text that the tokenizer was made for. Its
 * parameters are these characters, in the order of their code points. */
#include "data/tokenizer.h"

enum { POINTS = 0x110000 };

typedef struct char_tokenizer {
    weft_tokenizer head;
    char *characters;   /* one after the other */
    const char **begin; /* [tokens + 1]: of each token, in `characters` */
    int32_t *token_of;  /* [POINTS]: token of a code point; -1: none */
} char_tokenizer;

static weft_status not_utf8(const char *name, size_t at)
{
    return weft_fail(
        WEFT_ERR_FORMAT,
        "%s: byte %zu is not valid UTF-8, of which the unit char takes the characters; the "
        "unit byte takes any text",
        name, at);
}

/* Writes a code point in UTF-8. */
static void add_point(weft_text *text, uint32_t point)
{
    char c[4];
    size_t size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (size == 1) {
        c[0] = (char)point;
    } else {
        for (size_t i = size; i-- > 1; point >>= 6) c[i] = (char)(0x80 | (point & 0x3F));
        c[0] = (char)((0xF00u >> size & 0xF0u) | point);
    }
    weft_text_add_bytes(text, c, size);
}

/* Bytes of a byte order mark, which is no part of the text. */
static size_t mark_of(const weft_bytes *text)
{
    return text->size >= 3 && memcmp(text->data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

static weft_status char_learn(const char *unit, const char *name, const weft_bytes *text,
                              char **parameters)
{
    unsigned char *present;
    weft_text all = {0};
    (void)unit;
    weft_status status = WEFT_OK;
    WEFT_TRY(WEFT_NEW(&present, POINTS));
    for (size_t at = mark_of(text), size; at < text->size && status == WEFT_OK; at += size) {
        uint32_t point;
        size = weft_utf8_decode(text->data + at, text->size - at, &point);
        if (size == 0)
            status = not_utf8(name, at);
        else if (point == 0)
            status = weft_fail(WEFT_ERR_FORMAT,
                               "%s: byte %zu is zero, so this is no text; give unit=byte, which "
                               "takes any file",
                               name, at);
        else
            present[point] = 1;
    }
    for (uint32_t point = 0; point < POINTS && status == WEFT_OK; point++)
        if (present[point]) add_point(&all, point);
    free(present);
    weft_status made = weft_text_take(&all, parameters);
    if (status == WEFT_OK) return made;
    if (made == WEFT_OK) free(*parameters);
    *parameters = NULL;
    return status;
}

/* Gives each character of the parameters its token. */
static weft_status number_characters(const char *name, char_tokenizer *t)
{
    size_t size = strlen(t->characters);
    for (int i = 0; i < POINTS; i++) t->token_of[i] = -1;
    for (size_t at = 0, bytes; at < size; at += bytes) {
        uint32_t point;
        bytes = weft_utf8_decode((const unsigned char *)t->characters + at, size - at, &point);
        if (bytes == 0) return not_utf8(name, at);
        if (t->token_of[point] >= 0)
            return weft_fail(WEFT_ERR_FORMAT, "%s: a character has two tokens", name);
        t->token_of[point] = t->head.tokens;
        t->begin[t->head.tokens++] = t->characters + at;
    }
    t->begin[t->head.tokens] = t->characters + size;
    return WEFT_OK;
}

static void char_free(weft_tokenizer *tokenizer)
{
    char_tokenizer *t = (char_tokenizer *)tokenizer;
    free(t->characters);
    free(t->begin);
    free(t->token_of);
    free(t);
}

static weft_status char_read(const char *name, const char *parameters, weft_tokenizer **out)
{
    char_tokenizer *t;
    WEFT_TRY(WEFT_NEW(&t, 1));
    weft_status status = weft_strdup(parameters, &t->characters);
    if (status == WEFT_OK) status = WEFT_NEW(&t->begin, strlen(parameters) + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&t->token_of, POINTS);
    if (status == WEFT_OK) status = number_characters(name, t);
    if (status == WEFT_OK)
        *out = &t->head;
    else
        char_free(&t->head);
    return status;
}

static weft_status unknown(const char *name, const char_tokenizer *t, const weft_bytes *text,
                           size_t at, size_t size)
{
    char character[8] = "", shown[32];
    memcpy(character, text->data + at, size);
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: byte %zu: the character '%s' is not among the %d that the model was "
                     "trained on",
                     name, at, weft_printable(character, shown, sizeof(shown)), t->head.tokens);
}

static weft_status char_encode(const weft_tokenizer *tokenizer, const char *name,
                               const weft_bytes *text, int32_t *to, int64_t *count)
{
    const char_tokenizer *t = (const char_tokenizer *)tokenizer;
    *count = 0;
    size_t begin = t->token_of[0xFEFF] < 0 ? mark_of(text) : 0;
    for (size_t at = begin, size; at < text->size; at += size) {
        uint32_t point;
        size = weft_utf8_decode(text->data + at, text->size - at, &point);
        if (size == 0) return not_utf8(name, at);
        if (t->token_of[point] < 0) return unknown(name, t, text, at, size);
        to[(*count)++] = t->token_of[point];
    }
    return WEFT_OK;
}

static const char *char_decode(const weft_tokenizer *tokenizer, int32_t token, size_t *size)
{
    const char_tokenizer *t = (const char_tokenizer *)tokenizer;
    *size = (size_t)(t->begin[token + 1] - t->begin[token]);
    return t->begin[token];
}

const weft_tokenizer_ops weft_tokenizer_char = {.unit = "char",
                                                .learn = char_learn,
                                                .read = char_read,
                                                .encode = char_encode,
                                                .decode = char_decode,
                                                .free = char_free};
