/* Windows over a long sequence of tokens. */
#include "data/windows.h"

enum { CONTEXT = 256 };
static const double TEST = 0.1;

void weft_windows_complete(weft_windows *w, weft_window_keys *keys,
                           const weft_source_request *request)
{
    const weft_data_stats *stats = request->stats;
    if (keys->context == 0)
        keys->context = stats && stats->input[0].shape.rank == 1
                            ? (double)stats->input[0].shape.dim[0]
                            : CONTEXT;
    if (keys->stride == 0) keys->stride = keys->context;
    w->head.divided = keys->test >= 0;
    if (keys->test < 0) keys->test = TEST;
}

/* The number of windows of context + 1 tokens in `size` tokens. */
static int64_t windows_in(int64_t size, int64_t context, int64_t stride)
{
    return size > context ? (size - context - 1) / stride + 1 : 0;
}

weft_status weft_windows_divide(weft_source *source, double share)
{
    weft_windows *w = (weft_windows *)source;
    int64_t test = (int64_t)((double)w->total * share + 0.5);
    w->begin[WEFT_TEST] = w->total - test;
    source->count[WEFT_TRAIN] = windows_in(w->total - test, w->context, w->stride);
    source->count[WEFT_TEST] = windows_in(test, w->context, w->context);
    return WEFT_OK;
}

weft_status weft_windows_open(weft_windows *w, const char *name, const weft_window_keys *keys,
                              int values)
{
    weft_source *s = &w->head;
    w->context = (int64_t)keys->context;
    w->stride = (int64_t)keys->stride;
    if (w->total <= w->context)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s has %lld token%s, and a window of context=%lld needs %lld; give a "
                         "shorter context",
                         name, (long long)w->total, weft_plural(w->total), (long long)w->context,
                         (long long)w->context + 1);
    s->inputs = 1;
    s->input[0] = (weft_input){.name = "x",
                               .dtype = WEFT_I32,
                               .shape = weft_shape_of(1, (int64_t[]){w->context}),
                               .values = values};
    s->positions = w->context;
    s->continues = w->stride == w->context;
    s->overlaps = w->stride < w->context;
    s->classes = values;
    s->valid = true;
    return weft_windows_divide(s, keys->test);
}

/* Copies the tokens from `first` on. */
static void copy_tokens(const weft_windows *w, int64_t first, int32_t *to)
{
    const uint8_t *bytes = w->tokens;
    const uint16_t *halves = w->tokens;
    const uint32_t *words = w->tokens;
    for (int64_t j = 0; j < w->context && w->width == 1; j++) to[j] = bytes[first + j];
    for (int64_t j = 0; j < w->context && w->width == 2; j++) to[j] = halves[first + j];
    for (int64_t j = 0; j < w->context && w->width == 4; j++) to[j] = (int32_t)words[first + j];
}

int64_t weft_windows_first(const weft_windows *w, weft_split split, int64_t i)
{
    return w->begin[split] + i * (split == WEFT_TRAIN ? w->stride : w->context);
}

void weft_windows_features(const weft_source *source, weft_split split, int64_t i, int input,
                           void *to)
{
    const weft_windows *w = (const weft_windows *)source;
    (void)input;
    copy_tokens(w, weft_windows_first(w, split, i), to);
}

void weft_windows_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    const weft_windows *w = (const weft_windows *)source;
    copy_tokens(w, weft_windows_first(w, split, i) + 1, label);
}
