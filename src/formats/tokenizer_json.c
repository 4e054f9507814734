/* Parses tokenizer.json: the vocabulary, the merges, the added tokens, and how a text is cut before
 * it is encoded. Anything that would change the tokens and is not known here is refused. */
#include "formats/formats.h"
#include "formats/tokenizer_cuts.h"

#include <jansson.h>

typedef struct reader {
    const char *name;
    weft_bpe_spec *spec;
    weft_names numbers; /* of tokens by their text */
} reader;

static weft_status damaged(const reader *r, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: no tokenizer.json: %s", r->name, what);
}

/* --- tokens --- */

static weft_status add_token(reader *r, const char *text, const json_t *id, weft_bpe_added added)
{
    weft_bpe_spec *s = r->spec;
    json_int_t number = json_integer_value(id);
    if (!json_is_integer(id) || number < 0 || number >= s->tokens || !text || !*text)
        return damaged(r, "the number of a token is missing, or not a number from 0 to 1048575");
    if (s->text[number] && strcmp(s->text[number], text) != 0)
        return weft_fail(WEFT_ERR_FORMAT, "%s: two tokens have the number %lld", r->name,
                         (long long)number);
    s->added[number] = added;
    if (s->text[number]) return WEFT_OK;
    WEFT_TRY(weft_strdup(text, &s->text[number]));
    return weft_names_add(&r->numbers, s->text[number], (int)number);
}

/* An added token may not swallow the spaces around it. */
static weft_status read_added(reader *r, const json_t *list)
{
    size_t i;
    json_t *token;
    json_array_foreach(list, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (!weft_json_is_off(token, "lstrip") || !weft_json_is_off(token, "rstrip") ||
            !weft_json_is_off(token, "single_word"))
            return weft_bpe_other_kind(r->name, "lstrip, rstrip or single_word of the added token",
                                       text);
        bool late = !weft_json_is_off(token, "normalized");
        WEFT_TRY(add_token(r, text, json_object_get(token, "id"),
                           late ? WEFT_BPE_ADDED_LATE : WEFT_BPE_ADDED));
    }
    return WEFT_OK;
}

static weft_status read_tokens(reader *r, const json_t *vocabulary, const json_t *added)
{
    weft_bpe_spec *s = r->spec;
    const char *text;
    json_t *id, *token;
    size_t i;
    json_int_t largest = -1;
    if (added && !json_is_null(added) && !json_is_array(added))
        return damaged(r, "its added_tokens are no list");
    if (!json_is_object(vocabulary) || json_object_size(vocabulary) == 0)
        return damaged(r, "it has no vocabulary (model.vocab)");
    json_object_foreach((json_t *)(uintptr_t)vocabulary, text, id) largest =
        WEFT_MAX(largest, json_integer_value(id));
    json_array_foreach(added, i, token) largest =
        WEFT_MAX(largest, json_integer_value(json_object_get(token, "id")));
    if (largest < 1 || largest >= WEFT_MOST_TOKENS)
        return damaged(r, "the largest number of a token is not from 1 to 1048575");
    s->tokens = (int)largest + 1;
    WEFT_TRY(WEFT_NEW(&s->text, s->tokens));
    WEFT_TRY(WEFT_NEW(&s->added, s->tokens));
    json_object_foreach((json_t *)(uintptr_t)vocabulary, text, id)
        WEFT_TRY(add_token(r, text, id, WEFT_BPE_USUAL));
    return read_added(r, added);
}

/* --- merges --- */

static weft_status no_merge(const reader *r, size_t i)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: merge %zu is not two tokens whose concatenation is a token", r->name, i);
}

/* A merge is "left right" or ["left", "right"]. */
static weft_status read_merge(reader *r, size_t i, const json_t *merge)
{
    const char *whole = json_string_value(merge), *space = whole ? strchr(whole, ' ') : NULL;
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    char *first, *both;
    if (whole && space) right = space + 1;
    if ((!left && !space) || !right) return no_merge(r, i);
    WEFT_TRY(whole ? weft_format(&first, "%.*s", (int)(space - whole), whole)
                   : weft_strdup(left, &first));
    weft_status status = weft_format(&both, "%s%s", first, right);
    if (status == WEFT_OK) {
        weft_bpe_merge m = {weft_names_find(&r->numbers, first),
                            weft_names_find(&r->numbers, right),
                            weft_names_find(&r->numbers, both)};
        free(both);
        if (m.left < 0 || m.right < 0 || m.result < 0)
            status = no_merge(r, i);
        else
            r->spec->merge[r->spec->merges++] = m;
    }
    free(first);
    return status;
}

static weft_status read_model(reader *r, const json_t *model, const json_t *added)
{
    size_t i;
    json_t *merge;
    const json_t *merges = json_object_get(model, "merges");
    const char *type = weft_json_type(model);
    if (!json_is_object(model)) return damaged(r, "it has no model");
    if (*type ? strcmp(type, "BPE") != 0 : !merges)
        return weft_bpe_other_kind(r->name, "the model", type);
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                      "byte_fallback"};
    for (size_t k = 0; k < WEFT_COUNT(off); k++)
        if (!weft_json_is_off(model, off[k]))
            return weft_bpe_other_kind(r->name, "the option of the model", off[k]);
    if (!json_is_array(merges)) return damaged(r, "it has no merges (model.merges)");
    WEFT_TRY(read_tokens(r, json_object_get(model, "vocab"), added));
    WEFT_TRY(WEFT_NEW(&r->spec->merge, json_array_size(merges)));
    json_array_foreach(merges, i, merge) WEFT_TRY(read_merge(r, i, merge));
    r->spec->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    return WEFT_OK;
}

/* --- the file --- */

void weft_bpe_spec_free(weft_bpe_spec *s)
{
    for (int i = 0; s->text && i < s->tokens; i++) free(s->text[i]);
    for (int i = 0; i < s->cuts; i++) free(s->cut[i].pattern);
    free(s->text);
    free(s->added);
    free(s->merge);
    *s = (weft_bpe_spec){0};
}

static weft_status load(const char *name, const char *data, size_t size, json_t **out)
{
    json_error_t error;
    *out = NULL;
    if (size == 0) return weft_fail(WEFT_ERR_FORMAT, "%s: is empty", name);
    *out = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    if (*out) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s:%d: no JSON: %s", name, error.line, error.text);
}

weft_status weft_bpe_parse(const char *name, const char *data, size_t size, weft_bpe_spec *out)
{
    json_t *root;
    *out = (weft_bpe_spec){0};
    reader r = {.name = name, .spec = out};
    WEFT_TRY(load(name, data, size, &root));
    const json_t *normalizer = json_object_get(root, "normalizer");
    bool empty = strcmp(weft_json_type(normalizer), "Sequence") == 0 &&
                 json_array_size(json_object_get(normalizer, "normalizers")) == 0;
    weft_status status =
        empty || weft_json_is_off(root, "normalizer")
            ? WEFT_OK
            : weft_bpe_other_kind(name, "the normalizer", weft_json_type(normalizer));
    if (status == WEFT_OK)
        status =
            read_model(&r, json_object_get(root, "model"), json_object_get(root, "added_tokens"));
    if (status == WEFT_OK)
        status = weft_bpe_read_cuts(name, json_object_get(root, "pre_tokenizer"), out);
    weft_names_free(&r.numbers);
    json_decref(root);
    if (status != WEFT_OK) weft_bpe_spec_free(out);
    return status;
}

weft_status weft_bpe_shorten(const char *name, const char *data, size_t size, char **out)
{
    static const char *const parts[] = {"normalizer", "pre_tokenizer", "model", "added_tokens"};
    json_t *root, *kept = json_object();
    weft_status status = load(name, data, size, &root);
    for (size_t i = 0; status == WEFT_OK && i < WEFT_COUNT(parts); i++)
        if (json_object_get(root, parts[i]))
            json_object_set(kept, parts[i], json_object_get(root, parts[i]));
    char *text = status == WEFT_OK ? json_dumps(kept, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (status == WEFT_OK && !text) status = weft_fail_memory(size);
    if (status == WEFT_OK) status = weft_strdup(text, out);
    free(text);
    json_decref(kept);
    json_decref(root);
    return status;
}
