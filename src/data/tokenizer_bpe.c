/* The unit of a tokenizer.json: tokens are made by byte-pair encoding over bytes (Radford et al.
 * 2019). A text is first cut at the added tokens, then by the patterns of the file; the bytes of
 * each piece are merged. */
#include "data/bpe_merge.h"
#include "data/text_split.h"
#include "data/tokenizer.h"

typedef struct bpe_tokenizer {
    weft_tokenizer head;
    weft_bpe_spec spec;
    weft_bpe_merges *merges;
    weft_text_split *split;
    weft_names whole; /* numbers of the tokens by their text, if a piece may be a token */
    int32_t of_byte[256];
    char *bytes;   /* of all tokens, one after the other */
    size_t *begin; /* [tokens + 1]: of each token, in `bytes` */
} bpe_tokenizer;

/* --- bytes of tokens --- */

enum { CHARACTERS = 512 };

/* Writes the bytes of a token to `to`, or counts them if it is NULL. A token with a character that
 * stands for no byte is text. */
static size_t put_token(const int16_t byte[CHARACTERS], const char *text, bool added, char *to)
{
    size_t size = strlen(text), n = 0;
    for (size_t at = 0, bytes; at < size && !added; at += bytes) {
        uint32_t point;
        bytes = weft_utf8_decode((const unsigned char *)text + at, size - at, &point);
        if (bytes == 0 || point >= CHARACTERS || byte[point] < 0) {
            n = 0;
            added = true;
            break;
        }
        if (to) to[n] = (char)byte[point];
        n++;
    }
    if (!added) return n;
    for (size_t i = 0; to && i < size; i++) to[i] = text[i];
    return size;
}

static weft_status list_bytes(bpe_tokenizer *t)
{
    const weft_bpe_spec *s = &t->spec;
    int16_t byte[CHARACTERS];
    size_t all = 0;
    for (int i = 0; i < CHARACTERS; i++) byte[i] = (int16_t)weft_bpe_byte_of((uint32_t)i);
    WEFT_TRY(WEFT_NEW(&t->begin, (size_t)s->tokens + 1));
    for (int i = 0; i < s->tokens; i++)
        all += s->text[i] ? put_token(byte, s->text[i], s->added[i], NULL) : 0;
    WEFT_TRY(WEFT_NEW(&t->bytes, all + 1));
    for (int b = 0; b < 256; b++) t->of_byte[b] = -1;
    for (int i = 0; i < s->tokens; i++) {
        char *to = t->bytes + t->begin[i];
        size_t size = s->text[i] ? put_token(byte, s->text[i], s->added[i], to) : 0;
        t->begin[i + 1] = t->begin[i] + size;
        if (size == 1 && !s->added[i]) t->of_byte[(unsigned char)*to] = i;
    }
    return WEFT_OK;
}

/* --- reading --- */

static void bpe_free(weft_tokenizer *tokenizer)
{
    bpe_tokenizer *t = (bpe_tokenizer *)tokenizer;
    weft_bpe_spec_free(&t->spec);
    weft_bpe_merges_free(&t->merges);
    weft_text_split_free(&t->split);
    weft_names_free(&t->whole);
    free(t->bytes);
    free(t->begin);
    free(t);
}

static weft_status complete(bpe_tokenizer *t, const char *name)
{
    const weft_bpe_spec *s = &t->spec;
    t->head.tokens = s->tokens;
    WEFT_TRY(list_bytes(t));
    WEFT_TRY(weft_bpe_merges_create(s->merge, s->merges, &t->merges));
    for (int i = 0; i < s->tokens && s->ignore_merges; i++)
        if (s->text[i] && !s->added[i]) WEFT_TRY(weft_names_add(&t->whole, s->text[i], i));
    return weft_text_split_create(name, s->cut, s->cuts, &t->split);
}

static weft_status bpe_read(const char *name, const char *parameters, weft_tokenizer **out)
{
    bpe_tokenizer *t;
    WEFT_TRY(WEFT_NEW(&t, 1));
    weft_status status = weft_bpe_parse(name, parameters, strlen(parameters), &t->spec);
    if (status == WEFT_OK) status = complete(t, name);
    if (status == WEFT_OK)
        *out = &t->head;
    else
        bpe_free(&t->head);
    return status;
}

/* The parameters are the parts of the file, which `unit` names, that determine the tokens. */
static weft_status bpe_learn(const char *unit, const char *name, const weft_bytes *text,
                             char **parameters)
{
    weft_bytes file;
    (void)name;
    (void)text;
    WEFT_TRY(weft_file_map(unit, &file));
    weft_status status = weft_bpe_shorten(unit, (const char *)file.data, file.size, parameters);
    weft_file_unmap(&file);
    return status;
}

/* --- encoding --- */

typedef struct encoding {
    const bpe_tokenizer *t;
    const char *name;
    int32_t *to;
    int64_t count;
    weft_bpe_scratch scratch;
} encoding;

/* The token that a whole piece is; -1: none. */
static int32_t whole_piece(const encoding *e, const unsigned char *piece, size_t size)
{
    if (!e->t->spec.ignore_merges) return -1;
    char *name;
    weft_text text = {0};
    for (size_t i = 0; i < size; i++) {
        uint32_t point = weft_bpe_character_of(piece[i]);
        char two[2] = {(char)(0xC0 | point >> 6), (char)(0x80 | (point & 63))};
        if (point < 128)
            weft_text_add(&text, "%c", (char)point);
        else
            weft_text_add_bytes(&text, two, 2);
    }
    if (weft_text_take(&text, &name) != WEFT_OK) return -1;
    int found = weft_names_find(&e->t->whole, name);
    free(name);
    return found;
}

static weft_status encode_piece(void *user, const unsigned char *piece, size_t size)
{
    encoding *e = user;
    int32_t *to = e->to + e->count, token = whole_piece(e, piece, size);
    int64_t n = (int64_t)size;
    if (token >= 0) {
        e->to[e->count++] = token;
        return WEFT_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i] = e->t->of_byte[piece[i]];
        if (to[i] < 0)
            return weft_fail(WEFT_ERR_FORMAT, "%s: the tokenizer has no token for the byte 0x%02x",
                             e->name, piece[i]);
    }
    WEFT_TRY(weft_bpe_merge_all(e->t->merges, &e->scratch, to, &n));
    e->count += n;
    return WEFT_OK;
}

/* The added tokens of a kind. */
typedef struct added_tokens {
    int *list, count;
    bool first[256]; /* whether one begins with this byte */
} added_tokens;

static weft_status find_added(const weft_bpe_spec *spec, weft_bpe_added kind, added_tokens *out)
{
    *out = (added_tokens){0};
    WEFT_TRY(WEFT_NEW(&out->list, spec->tokens));
    for (int i = 0; i < spec->tokens; i++) {
        if (spec->added[i] != kind) continue;
        out->list[out->count++] = i;
        out->first[(unsigned char)spec->text[i][0]] = true;
    }
    return WEFT_OK;
}

/* The longest of the tokens at this place of the text; -1: none. */
static int added_at(const bpe_tokenizer *t, const added_tokens *added, const unsigned char *text,
                    size_t left)
{
    int best = -1;
    size_t longest = 0;
    for (int i = 0; i < added->count && added->first[text[0]]; i++) {
        const char *content = t->spec.text[added->list[i]];
        size_t size = strlen(content);
        if (size <= left && size > longest && memcmp(content, text, size) == 0) {
            best = added->list[i];
            longest = size;
        }
    }
    return best;
}

/* Encodes a text at whose added tokens of the kinds from `kind` on it is cut. */
static weft_status encode_parts(encoding *e, const added_tokens *kind, int kinds,
                                const unsigned char *text, size_t size)
{
    size_t done = 0;
    if (kinds == 0) return weft_text_split_run(e->t->split, e->name, text, size, encode_piece, e);
    for (size_t at = 0; at < size;) {
        int token = added_at(e->t, kind, text + at, size - at);
        if (token < 0) {
            at++;
            continue;
        }
        WEFT_TRY(encode_parts(e, kind + 1, kinds - 1, text + done, at - done));
        e->to[e->count++] = token;
        done = at += strlen(e->t->spec.text[token]);
    }
    return encode_parts(e, kind + 1, kinds - 1, text + done, size - done);
}

static weft_status check_utf8(const char *name, const weft_bytes *text)
{
    uint32_t point;
    for (size_t at = 0, size; at < text->size; at += size) {
        size = weft_utf8_decode(text->data + at, text->size - at, &point);
        if (size == 0)
            return weft_fail(WEFT_ERR_FORMAT, "%s: byte %zu is not valid UTF-8", name, at);
    }
    return WEFT_OK;
}

static weft_status bpe_encode(const weft_tokenizer *tokenizer, const char *name,
                              const weft_bytes *text, int32_t *to, int64_t *count)
{
    const bpe_tokenizer *t = (const bpe_tokenizer *)tokenizer;
    encoding e = {.t = t, .name = name, .to = to};
    added_tokens added[2] = {{0}};
    WEFT_TRY(check_utf8(name, text));
    weft_status status = find_added(&t->spec, WEFT_BPE_ADDED, &added[0]);
    if (status == WEFT_OK) status = find_added(&t->spec, WEFT_BPE_ADDED_LATE, &added[1]);
    if (status == WEFT_OK) status = encode_parts(&e, added, 2, text->data, text->size);
    weft_bpe_scratch_free(&e.scratch);
    free(added[0].list);
    free(added[1].list);
    *count = e.count;
    return status;
}

static const char *bpe_decode(const weft_tokenizer *tokenizer, int32_t token, size_t *size)
{
    const bpe_tokenizer *t = (const bpe_tokenizer *)tokenizer;
    *size = t->begin[token + 1] - t->begin[token];
    return t->bytes + t->begin[token];
}

const weft_tokenizer_ops weft_tokenizer_bpe = {.unit = "bpe",
                                               .file = ".json",
                                               .read = bpe_read,
                                               .learn = bpe_learn,
                                               .encode = bpe_encode,
                                               .decode = bpe_decode,
                                               .free = bpe_free};
