/* Parses the pre-tokenizers of a tokenizer.json into cuts. Anything that would change the pieces
 * and is not known here is refused. */
#include "formats/tokenizer_cuts.h"

/* The pattern of GPT-2, which a ByteLevel pre-tokenizer uses. */
static const char GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                           "\\s+(?!\\S)|\\s+";
/* ASCII's punctuation, and Unicode's. */
static const char PUNCTUATION[] = "[!-/:-@\\[-`{-~\\p{P}]";

typedef struct reader {
    const char *name;
    weft_bpe_spec *spec;
    bool byte_level; /* one has been read */
} reader;

weft_status weft_bpe_other_kind(const char *name, const char *what, const char *kind)
{
    char shown[64];
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "%s: %s '%s' is not supported; the tokenizers that can be read are those of "
                     "byte-pair encoding over bytes ('BPE' with 'ByteLevel')",
                     name, what, weft_printable(kind ? kind : "", shown, sizeof(shown)));
}

const char *weft_json_type(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "";
}

bool weft_json_is_off(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_string(v) && *json_string_value(v) == '\0');
}

/* --- characters that stand for bytes --- */

static bool is_printable(int byte)
{
    return (byte > 32 && byte < 127) || (byte > 160 && byte < 256 && byte != 173);
}

uint32_t weft_bpe_character_of(int byte)
{
    uint32_t others = 0;
    if (is_printable(byte)) return (uint32_t)byte;
    for (int b = 0; b < byte; b++) others += !is_printable(b);
    return 256 + others;
}

int weft_bpe_byte_of(uint32_t point)
{
    for (int b = 0; b < 256; b++)
        if (weft_bpe_character_of(b) == point) return b;
    return -1;
}

/* --- pre-tokenizers --- */

static weft_status add_cut(reader *r, weft_bpe_cut cut)
{
    weft_bpe_spec *s = r->spec;
    if (s->cuts == WEFT_BPE_CUTS)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: its pre-tokenizer has more than %d steps, which is not supported",
                         r->name, WEFT_BPE_CUTS);
    s->cut[s->cuts++] = cut;
    return WEFT_OK;
}

/* `pattern` is copied. */
static weft_status add_split(reader *r, const char *pattern, weft_split_behavior behavior,
                             bool invert)
{
    char *copy;
    WEFT_TRY(weft_strdup(pattern, &copy));
    weft_status status = add_cut(r, (weft_bpe_cut){WEFT_CUT_SPLIT, copy, behavior, invert});
    if (status != WEFT_OK) free(copy);
    return status;
}

static weft_status find_behavior(const reader *r, const json_t *cut, weft_split_behavior *out)
{
    static const struct {
        const char *name;
        weft_split_behavior behavior;
    } names[] = {{"Isolated", WEFT_SPLIT_ISOLATED},
                 {"Removed", WEFT_SPLIT_REMOVED},
                 {"MergedWithPrevious", WEFT_SPLIT_MERGED_WITH_PREVIOUS},
                 {"MergedWithNext", WEFT_SPLIT_MERGED_WITH_NEXT},
                 {"Contiguous", WEFT_SPLIT_CONTIGUOUS}};
    const char *name = json_string_value(json_object_get(cut, "behavior"));
    for (size_t i = 0; name && i < WEFT_COUNT(names); i++)
        if (strcmp(name, names[i].name) == 0) {
            *out = names[i].behavior;
            return WEFT_OK;
        }
    return weft_bpe_other_kind(r->name, "the behavior of a pre-tokenizer", name);
}

/* Copies a plain text as a regular expression that matches it alone. */
static weft_status quote(const char *text, char **out)
{
    weft_text quoted = {0};
    for (; *text; text++)
        weft_text_add(&quoted, strchr("\\^$.|?*+()[]{}-&~ #", *text) ? "\\%c" : "%c", *text);
    return weft_text_take(&quoted, out);
}

static weft_status read_split(reader *r, const json_t *cut)
{
    const json_t *pattern = json_object_get(cut, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    weft_split_behavior behavior = WEFT_SPLIT_ISOLATED;
    char *quoted = NULL;
    bool invert = !weft_json_is_off(cut, "invert");
    WEFT_TRY(find_behavior(r, cut, &behavior));
    if (!regex && (!text || !*text))
        return weft_bpe_other_kind(r->name, "the pre-tokenizer", "Split without a pattern");
    if (!regex) WEFT_TRY(quote(text, &quoted));
    weft_status status = add_split(r, regex ? regex : quoted, behavior, invert);
    free(quoted);
    return status;
}

static weft_status read_digits(reader *r, const json_t *cut)
{
    bool each = json_is_true(json_object_get(cut, "individual_digits"));
    return add_split(r, "\\p{N}", each ? WEFT_SPLIT_ISOLATED : WEFT_SPLIT_CONTIGUOUS, false);
}

static weft_status read_punctuation(reader *r, const json_t *cut)
{
    weft_split_behavior behavior = WEFT_SPLIT_ISOLATED;
    if (json_object_get(cut, "behavior")) WEFT_TRY(find_behavior(r, cut, &behavior));
    return add_split(r, PUNCTUATION, behavior, false);
}

static weft_status read_byte_level(reader *r, const json_t *cut)
{
    if (r->byte_level)
        return weft_bpe_other_kind(r->name, "the pre-tokenizer", "a second ByteLevel");
    r->byte_level = true;
    if (json_is_true(json_object_get(cut, "add_prefix_space")))
        WEFT_TRY(add_cut(r, (weft_bpe_cut){.kind = WEFT_CUT_PREFIX_SPACE}));
    if (!json_is_false(json_object_get(cut, "use_regex")))
        WEFT_TRY(add_split(r, GPT2, WEFT_SPLIT_ISOLATED, false));
    return add_cut(r, (weft_bpe_cut){.kind = WEFT_CUT_BYTES_TO_CHARACTERS});
}

static weft_status read_one(reader *r, const json_t *cut)
{
    static const struct {
        const char *type;
        weft_status (*read)(reader *r, const json_t *cut);
    } kinds[] = {{"Split", read_split},
                 {"Digits", read_digits},
                 {"Punctuation", read_punctuation},
                 {"ByteLevel", read_byte_level}};
    for (size_t i = 0; i < WEFT_COUNT(kinds); i++)
        if (strcmp(weft_json_type(cut), kinds[i].type) == 0) return kinds[i].read(r, cut);
    return weft_bpe_other_kind(r->name, "the pre-tokenizer", weft_json_type(cut));
}

/* `depth` bounds Sequences within Sequences. */
static weft_status read_all(reader *r, const json_t *cut, int depth)
{
    size_t i;
    json_t *one;
    if (strcmp(weft_json_type(cut), "Sequence") != 0) return read_one(r, cut);
    if (depth == 0) return weft_bpe_other_kind(r->name, "the pre-tokenizer", "nested Sequence");
    json_array_foreach(json_object_get(cut, "pretokenizers"), i, one)
        WEFT_TRY(read_all(r, one, depth - 1));
    return WEFT_OK;
}

weft_status weft_bpe_read_cuts(const char *name, const json_t *pre_tokenizer, weft_bpe_spec *out)
{
    reader r = {.name = name, .spec = out};
    WEFT_TRY(read_all(&r, pre_tokenizer, 8));
    if (!r.byte_level)
        return weft_bpe_other_kind(name, "without a ByteLevel, the pre-tokenizer",
                                   weft_json_type(pre_tokenizer));
    /* Nothing sees the characters of a ByteLevel that comes last. */
    if (out->cut[out->cuts - 1].kind == WEFT_CUT_BYTES_TO_CHARACTERS) out->cuts--;
    return WEFT_OK;
}
