/* The data source of texts: samples are windows over the tokens of a file, and each position is to
 * predict the next token. */
#include "data/tokenizer.h"
#include "data/windows.h"
#include "formats/formats.h"

typedef struct text_source {
    weft_windows windows;
    weft_bytes file;
    weft_tokenizer *tokenizer;
    void *encoded; /* the tokens, unless they are the bytes of the file */
} text_source;

static void text_close(weft_source *source)
{
    text_source *s = (text_source *)source;
    weft_gzip_close(&s->file);
    weft_tokenizer_free(&s->tokenizer);
    free(s->encoded);
    free(s);
}

static weft_status text_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* text_open has encoded the file */
    return WEFT_OK;
}

/* Encodes the file. A tokenizer whose tokens are the bytes reads them in the file; other tokens are
 * kept in two bytes each if they fit. */
static weft_status encode(text_source *s, const char *path)
{
    weft_windows *w = &s->windows;
    int32_t *tokens;
    if (s->tokenizer->ops->bytes) {
        w->tokens = s->file.data;
        w->total = (int64_t)s->file.size;
        w->width = 1;
        return WEFT_OK;
    }
    WEFT_TRY(weft_tokenizer_encode(s->tokenizer, path, &s->file, &tokens, &w->total));
    w->width = s->tokenizer->tokens <= 1 << 16 ? 2 : 4;
    for (int64_t i = 0; i < w->total && w->width == 2; i++) {
        uint16_t half = (uint16_t)tokens[i];
        memcpy((char *)tokens + 2 * i, &half, sizeof(half));
    }
    void *smaller = realloc(tokens, (size_t)WEFT_MAX(w->total, (int64_t)1) * (size_t)w->width);
    w->tokens = s->encoded = smaller ? smaller : tokens;
    return WEFT_OK;
}

/* Checks that the unit of the specification is that of the checkpoint, which has the tokenizer: its
 * file need not be there any more. */
static weft_status check_unit(const text_source *s, const char *unit, weft_context *context)
{
    const weft_tokenizer_ops *ops = s->tokenizer->ops;
    bool fits = true;
    const char *end = strrchr(unit, '.');
    if (ops->file && end && strcmp(end, ops->file) == 0 && !weft_file_exists(unit)) {
        weft_log(context, WEFT_LOG_NOTE,
                 "there is no %s; the text is read with the tokenizer of the checkpoint", unit);
        return WEFT_OK;
    }
    WEFT_TRY(weft_tokenizer_fits(s->tokenizer, unit, &fits));
    if (fits) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "data 'text': unit is '%s', and the training data had %s'%s'; leave it "
                     "out, as in --data text:FILE",
                     unit, ops->file ? "another tokenizer of unit " : "", ops->unit);
}

static weft_status load(text_source *s, const char *path, const char *unit, weft_window_keys *keys,
                        const weft_source_request *request)
{
    const char *trained = request->stats ? request->stats->tokenizer : NULL;
    WEFT_TRY(weft_gzip_open(path, &s->file));
    if (request->stats && !trained)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'text': the checkpoint was not trained on text, so it has no "
                         "tokenizer");
    WEFT_TRY(trained ? weft_tokenizer_read("the checkpoint", trained, &s->tokenizer)
                     : weft_tokenizer_learn(unit ? unit : "byte", path, &s->file, &s->tokenizer));
    if (trained && unit) WEFT_TRY(check_unit(s, unit, request->context));
    WEFT_TRY(encode(s, path));
    weft_windows_complete(&s->windows, keys, request);
    s->windows.head.tokenizer = s->tokenizer->description;
    return weft_windows_open(&s->windows, path, keys, s->tokenizer->tokens);
}

static weft_status text_open(const char *arguments, const weft_source_request *request,
                             weft_source **out)
{
    weft_window_keys window = {.test = -1};
    char *path, *unit = NULL;
    const weft_spec_key keys[] = {
        {.name = "unit", .text = &unit}, WEFT_WINDOW_KEYS(window), {.name = NULL}};
    text_source *s;
    weft_status status = WEFT_NEW(&s, 1);
    if (status != WEFT_OK) return status;
    s->windows.head.ops = &weft_source_text;
    status = weft_spec_file("text", arguments, keys, request, &path);
    if (status == WEFT_OK) status = load(s, path, unit, &window, request);
    free(path);
    free(unit);
    if (status == WEFT_OK)
        *out = &s->windows.head;
    else
        text_close(&s->windows.head);
    return status;
}

const weft_source_ops weft_source_text = {
    .kind = "text",
    .ends = ".txt,.txt.gz",
    .form = "text:FILE[,unit=byte|char|FILE.json," WEFT_WINDOW_FORM "]",
    .help = "a text, plain or gzip, in windows of `context` tokens that begin every `stride` "
            "tokens; each position is to predict the next token; a token is a byte, a UTF-8 "
            "character, or one of a tokenizer.json (byte-pair encoding); the test split is the end "
            "of the text",
    .open = text_open,
    .close = text_close,
    .prepare = text_prepare,
    .divide = weft_windows_divide,
    .features = weft_windows_features,
    .label = weft_windows_label,
};
