/* Makes tokenizers by the names of their units, and defines the unit byte. */
#include "data/tokenizer.h"

static const weft_tokenizer_ops *const units[] = {&weft_tokenizer_byte, &weft_tokenizer_char,
                                                  &weft_tokenizer_bpe};

static const char *unit_candidate(const void *user, int i)
{
    (void)user;
    if (i >= (int)WEFT_COUNT(units)) return NULL;
    return units[i]->file ? "tokenizer.json" : units[i]->unit;
}

static bool ends_with(const char *text, size_t size, const char *end)
{
    size_t n = strlen(end);
    return size > n && memcmp(text + size - n, end, n) == 0;
}

static weft_status find_unit(const char *name, const char *unit, size_t size,
                             const weft_tokenizer_ops **out)
{
    char near[64], *copy;
    for (size_t i = 0; i < WEFT_COUNT(units); i++)
        if ((strlen(units[i]->unit) == size && memcmp(units[i]->unit, unit, size) == 0) ||
            (units[i]->file && ends_with(unit, size, units[i]->file))) {
            *out = units[i];
            return WEFT_OK;
        }
    WEFT_TRY(weft_format(&copy, "%.*s", (int)WEFT_MIN(size, (size_t)32), unit));
    weft_status status =
        weft_fail(WEFT_ERR_ARGUMENT, "%s: '%s' is not a unit of text%s", name, copy,
                  weft_suggest(near, sizeof(near), copy, unit_candidate, NULL));
    free(copy);
    return status;
}

weft_status weft_tokenizer_read(const char *name, const char *description, weft_tokenizer **out)
{
    const weft_tokenizer_ops *ops;
    size_t unit = strcspn(description, ":");
    WEFT_TRY(find_unit(name, description, unit, &ops));
    weft_tokenizer *t;
    WEFT_TRY(ops->read(name, description[unit] ? description + unit + 1 : "", &t));
    t->ops = ops;
    weft_status status = weft_strdup(description, &t->description);
    if (status != WEFT_OK) {
        weft_tokenizer_free(&t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

weft_status weft_tokenizer_learn(const char *unit, const char *name, const weft_bytes *text,
                                 weft_tokenizer **out)
{
    const weft_tokenizer_ops *ops;
    char *parameters = NULL, *description;
    WEFT_TRY(find_unit(name, unit, strlen(unit), &ops));
    if (ops->file && !ends_with(unit, strlen(unit), ops->file))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: give the file of the tokenizer as the unit, as in "
                         "unit=tokenizer%s",
                         name, ops->file);
    if (ops->learn) WEFT_TRY(ops->learn(unit, name, text, &parameters));
    weft_status status = weft_format(&description, "%s%s%s", ops->unit, parameters ? ":" : "",
                                     parameters ? parameters : "");
    free(parameters);
    if (status != WEFT_OK) return status;
    status = weft_tokenizer_read(ops->file ? unit : name, description, out);
    free(description);
    return status;
}

weft_status weft_tokenizer_fits(const weft_tokenizer *t, const char *unit, bool *out)
{
    const weft_tokenizer_ops *ops;
    weft_tokenizer *other;
    WEFT_TRY(find_unit("the text", unit, strlen(unit), &ops));
    *out = ops == t->ops;
    if (!*out || !ops->file || strcmp(unit, ops->unit) == 0) return WEFT_OK;
    WEFT_TRY(weft_tokenizer_learn(unit, unit, NULL, &other));
    *out = strcmp(other->description, t->description) == 0;
    weft_tokenizer_free(&other);
    return WEFT_OK;
}

weft_status weft_tokenizer_encode(const weft_tokenizer *t, const char *name, const weft_bytes *text,
                                  int32_t **tokens, int64_t *count)
{
    int32_t *all;
    WEFT_TRY(WEFT_NEW(&all, WEFT_TOKENS_OF(text->size)));
    weft_status status = t->ops->encode(t, name, text, all, count);
    if (status != WEFT_OK)
        free(all);
    else
        *tokens = all;
    return status;
}

void weft_tokenizer_free(weft_tokenizer **tokenizer)
{
    if (!tokenizer || !*tokenizer) return;
    free((*tokenizer)->description);
    (*tokenizer)->ops->free(*tokenizer);
    *tokenizer = NULL;
}

/* --- byte: a token is a byte --- */

typedef struct byte_tokenizer {
    weft_tokenizer head;
    char bytes[256];
} byte_tokenizer;

static weft_status byte_read(const char *name, const char *parameters, weft_tokenizer **out)
{
    byte_tokenizer *t;
    if (*parameters) return weft_fail(WEFT_ERR_FORMAT, "%s: the unit byte has no parameters", name);
    WEFT_TRY(WEFT_NEW(&t, 1));
    t->head.tokens = 256;
    for (int i = 0; i < 256; i++) t->bytes[i] = (char)i;
    *out = &t->head;
    return WEFT_OK;
}

static weft_status byte_encode(const weft_tokenizer *t, const char *name, const weft_bytes *text,
                               int32_t *to, int64_t *count)
{
    (void)t;
    (void)name;
    for (size_t i = 0; i < text->size; i++) to[i] = text->data[i];
    *count = (int64_t)text->size;
    return WEFT_OK;
}

static const char *byte_decode(const weft_tokenizer *t, int32_t token, size_t *size)
{
    *size = 1;
    return ((const byte_tokenizer *)t)->bytes + token;
}

static void byte_free(weft_tokenizer *t)
{
    free(t);
}

const weft_tokenizer_ops weft_tokenizer_byte = {.unit = "byte",
                                                .bytes = true,
                                                .read = byte_read,
                                                .encode = byte_encode,
                                                .decode = byte_decode,
                                                .free = byte_free};
