/* Declares windows over a long sequence of tokens: the samples of text and token files. */
#ifndef WEFT_DATA_WINDOWS_H
#define WEFT_DATA_WINDOWS_H

#include "data/data.h"

/* The head of a source whose samples are windows over an array of tokens. Sample i has the tokens
 * from i * stride of its split on; the label of a position is the token after it. The test split is
 * the end of the array; its windows do not overlap. */
typedef struct weft_windows {
    weft_source head;
    const void *tokens; /* [total], of `width` bytes each, little-endian */
    int width;          /* 1, 2 or 4 */
    int64_t total, context, stride;
    int64_t begin[2]; /* first token of a split */
} weft_windows;

/* The keys context, stride and test of a specification. */
typedef struct weft_window_keys {
    double context, stride, test;
} weft_window_keys;
#define WEFT_WINDOW_KEYS(keys)                                                                     \
    {.name = "context", .number = &(keys).context, .low = 1, .high = 1e6, .integer = true},        \
        {.name = "stride", .number = &(keys).stride, .low = 1, .high = 1e9, .integer = true},      \
    {                                                                                              \
        .name = "test", .number = &(keys).test, .low = 0, .high = 1                                \
    }
#define WEFT_WINDOW_FORM "context=256,stride=CONTEXT,test=0.1"

/* Completes the keys: unset ones (0; test < 0) get their defaults, context that of the training. */
void weft_windows_complete(weft_windows *windows, weft_window_keys *keys,
                           const weft_source_request *request);
/* Sets up the windows. `tokens` and `width` are set; `values` is the number of different tokens.
 * FORMAT: the sequence is shorter than a window. */
weft_status weft_windows_open(weft_windows *w, const char *name, const weft_window_keys *keys,
                              int values) WEFT_NODISCARD;
weft_status weft_windows_divide(weft_source *source, double share) WEFT_NODISCARD;
/* The place of the first token of sample i in the array. */
int64_t weft_windows_first(const weft_windows *windows, weft_split split, int64_t i);
void weft_windows_features(const weft_source *source, weft_split split, int64_t i, int input,
                           void *to);
void weft_windows_label(const weft_source *source, weft_split split, int64_t i, int32_t *label);

#endif
