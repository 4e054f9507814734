/* Declares settings: option names with values as text, for code that stores or sends them without
 * interpreting them. */
#ifndef WEFT_BASE_SETTINGS_H
#define WEFT_BASE_SETTINGS_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_setting {
    char *name, *text;
} weft_setting;

/* In the order of a table (weft/options.h), without unset options. */
typedef struct weft_settings {
    weft_setting *all;
    int count;
    size_t capacity;
} weft_settings;

/* The name of a setting that is no option: the plug-ins that a context had loaded
 * (weft_plugin_names in base/registry.h). */
#define WEFT_SETTING_PLUGINS "plugins"
/* weft_settings_take converts an option struct to settings; an entry that the path of its plug-in
 * names has its own name there. weft_settings_give converts settings to an option struct; options
 * that the settings do not have get their defaults. Settings come from files: a name of the
 * registry in them need not be known, since not all that read a file need its entry; who does looks
 * it up. */
weft_status weft_settings_take(const weft_option *table, const void *options,
                               weft_settings *out) WEFT_NODISCARD;
WEFT_PRIVATE_API weft_status weft_settings_give(const weft_settings *settings,
                                                const weft_option *table,
                                                void *options) WEFT_NODISCARD;
/* Checks the struct_size of options, that each number is within the bounds of its row, and that no
 * text is empty, for options that a program has set without weft_options_set. */
WEFT_PRIVATE_API weft_status weft_options_valid(const weft_option *table,
                                                const void *options) WEFT_NODISCARD;
/* Copies options of a table with a size, of this version or an older one, to `own`, which borrows
 * their texts; checks them first. */
WEFT_PRIVATE_API weft_status weft_options_take(const weft_option *table, const void *given,
                                               void *own) WEFT_NODISCARD;
/* Adds a value in the canonical form of weft_options_get. ARGUMENT: see weft_options_set. */
weft_status weft_settings_add(weft_settings *settings, const weft_option *option,
                              const char *text) WEFT_NODISCARD;
/* The value of an option, or NULL if the settings do not have it. */
const char *weft_settings_find(const weft_settings *settings, const char *name);
void weft_settings_free(weft_settings *settings);

#endif
