/* Options as text, for those who keep them without knowing what they mean. */
#ifndef WEFT_BASE_SETTINGS_H
#define WEFT_BASE_SETTINGS_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_setting {
    char *name, *text;
} weft_setting;

/* In the order of a table (weft/options.h), without those that are unset. */
typedef struct weft_settings {
    weft_setting *all;
    int count;
    size_t capacity;
} weft_settings;

/* Of an option struct, and back into one, whose others are what they are without being given. */
weft_status weft_settings_take(const weft_option *table, const void *options,
                               weft_settings *out) WEFT_NODISCARD;
weft_status weft_settings_give(const weft_settings *settings, const weft_option *table,
                               void *options) WEFT_NODISCARD;
/* Adds one, in the form that weft_options_get gives. ARGUMENT: as weft_options_set. */
weft_status weft_settings_add(weft_settings *settings, const weft_option *option,
                              const char *text) WEFT_NODISCARD;
/* NULL: it is unset. */
const char *weft_settings_find(const weft_settings *settings, const char *name);
void weft_settings_free(weft_settings *settings);

#endif
