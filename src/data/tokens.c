/* The data source of token files: arrays of 16 or 32 bit numbers, mapped, so they may be larger
 * than memory. */
#include <stdio.h>

#include "data/windows.h"
#include "formats/formats.h"

typedef struct token_source {
    weft_windows windows;
    weft_bytes file;
    char *path;
} token_source;

static void tokens_close(weft_source *source)
{
    token_source *s = (token_source *)source;
    weft_file_unmap(&s->file);
    free(s->path);
    free(s);
}

static uint32_t token_at(const token_source *s, int64_t i)
{
    const uint16_t *halves = s->windows.tokens;
    const uint32_t *words = s->windows.tokens;
    return s->windows.width == 2 ? halves[i] : words[i];
}

static void tokens_describe(const weft_source *source, weft_split split, int64_t i, int column,
                            int64_t j, char *out, size_t size)
{
    const token_source *s = (const token_source *)source;
    const weft_windows *w = &s->windows;
    int64_t at = weft_windows_first(w, split, i) + column + j;
    (void)snprintf(out, size, "%s: token %lld (byte %lld) is %lu", s->path, (long long)at,
                   (long long)(at * w->width), (unsigned long)token_at(s, at));
}

/* Checks all tokens once, since windows may have many of them in common. */
static weft_status check_tokens(const token_source *s, int64_t values)
{
    for (int64_t i = 0; i < s->windows.total; i++) {
        uint32_t token = token_at(s, i);
        if (token < values) continue;
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: token %lld (byte %lld) is %lu, and there are %lld different tokens, "
                         "from 0; give values=%lu or more, or another type",
                         s->path, (long long)i, (long long)(i * s->windows.width),
                         (unsigned long)token, (long long)values, (unsigned long)token + 1);
    }
    return WEFT_OK;
}

static bool is_npy(const weft_bytes *file)
{
    return file->size >= 6 && memcmp(file->data, "\x93NUMPY", 6) == 0;
}

/* The types of tokens, by the width of which a file is read; the first is that of plain files. */
static const struct {
    const char *name, *reading;
    int width;
} types[] = {{"uint16", "tokens:type=uint16", 2}, {"uint32", "tokens:type=uint32", 4}};

/* Finds the tokens of a NumPy array, whose header gives their type; *type is that of the
 * specification (NULL: not given). FORMAT: the array has other numbers, or the type is another. */
static weft_status open_array(token_source *s, const char *path, const char **type, size_t *size)
{
    weft_npy array;
    WEFT_TRY(weft_npy_parse(path, s->file.data, s->file.size, &array));
    if (!strchr("iu", array.kind) || array.size < 2 || array.size > 4 || array.big)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: is a NumPy array of other numbers than uint16 or uint32, "
                         "little-endian; save its tokens as x.astype('uint32')",
                         path);
    const char *own = types[array.size == types[1].width].name;
    if (*type && strcmp(*type, own) != 0)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: type is '%s', and its NumPy header says %s; leave type= out", path,
                         *type, own);
    if ((uintptr_t)array.data % (size_t)array.size)
        return weft_fail(WEFT_ERR_FORMAT, "%s: its tokens are not aligned; save it anew", path);
    *type = own;
    s->windows.tokens = array.data;
    *size = (size_t)weft_shape_elements(&array.shape) * (size_t)array.size;
    return WEFT_OK;
}

/* held: the type of the training, for a file without type= that does not say its own. */
static weft_status load(token_source *s, const char *type, const char *held, double values,
                        weft_window_keys *keys, const weft_source_request *request)
{
    weft_windows *w = &s->windows;
    const char *path = s->path;
    WEFT_TRY(weft_file_map(path, &s->file));
    w->tokens = s->file.data;
    size_t size = s->file.size;
    if (is_npy(&s->file)) WEFT_TRY(open_array(s, path, &type, &size));
    if (!type) type = held;
    int kind = 0;
    if (type) WEFT_TRY(weft_choose("data 'tokens': type", type, "uint16,uint32", NULL, &kind));
    if (values == 0 && request->stats) values = request->stats->input[0].values;
    if (values == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'tokens': give the number of different tokens, "
                                            "as in values=50257");
    w->width = types[kind].width;
    w->head.reading = types[kind].reading;
    if (size % (size_t)w->width)
        return weft_fail(WEFT_ERR_FORMAT, "%s has %zu bytes, no multiple of the %d of a %s", path,
                         size, w->width, types[kind].name);
    w->total = (int64_t)size / w->width;
    w->head.large = weft_bytes_large(&s->file);
    if (!w->head.large) WEFT_TRY(check_tokens(s, (int64_t)values));
    weft_windows_complete(w, keys, request);
    return weft_windows_open(w, path, keys, (int)values);
}

static weft_status tokens_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* tokens_open has mapped and checked the file */
    return WEFT_OK;
}

static weft_status tokens_open(const char *arguments, const weft_source_request *request,
                               weft_source **out)
{
    weft_window_keys window = {.test = -1};
    double values = 0;
    char *type = NULL;
    const weft_spec_key keys[] = {
        {.name = "type", .text = &type},
        {.name = "values", .number = &values, .low = 2, .high = 65536 * 16, .integer = true},
        WEFT_WINDOW_KEYS(window),
        {.name = NULL}};
    token_source *s;
    weft_status status = WEFT_NEW(&s, 1);
    if (status != WEFT_OK) return status;
    s->windows.head.ops = &weft_source_tokens;
    status = weft_spec_file("tokens", arguments, keys, request, &s->path);
    char *held = NULL; /* the type of the training */
    if (status == WEFT_OK && !type) status = weft_spec_held(request, "tokens", "type", &held);
    if (status == WEFT_OK) status = load(s, type, held, values, &window, request);
    free(type);
    free(held);
    if (status == WEFT_OK)
        *out = &s->windows.head;
    else
        tokens_close(&s->windows.head);
    return status;
}

const weft_source_ops weft_source_tokens = {
    .kind = "tokens",
    .form = "tokens:FILE,values=N[,type=uint16|uint32," WEFT_WINDOW_FORM "]",
    .help = "a file of little-endian numbers, or a NumPy array of them, memory-mapped: tokens from "
            "0 to values - 1, in windows as text",
    .open = tokens_open,
    .close = tokens_close,
    .prepare = tokens_prepare,
    .divide = weft_windows_divide,
    .features = weft_windows_features,
    .label = weft_windows_label,
    .describe = tokens_describe,
};
