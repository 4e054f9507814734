/* The options of a run as a struct: groups, defaults, and copies. */
#include <stddef.h>

#include "base/settings.h"
#include "base/registry.h"
#include "train/train.h"

const weft_option *weft_train_table(const weft_context *context)
{
    WEFT_NEED_ELSE(NULL, context);
    return weft_context_table(context, weft_train_rows);
}

/* Name, offset and size of a group. Each group begins with its own size, by which the library
 * detects a caller that was compiled with another version of the struct. */
#define GROUP(field_)                                                                              \
    {                                                                                              \
#field_, offsetof(weft_train_options, field_), sizeof(((weft_train_options *)0)->field_)   \
    }
static const struct {
    const char *name;
    size_t offset, bytes;
} groups[] = {
    {"", 0, sizeof(weft_train_options)},
    GROUP(task),
    GROUP(length),
    GROUP(update),
    GROUP(where),
    GROUP(parallel),
    GROUP(job),
    GROUP(output),
    GROUP(show),
};

static void set_sizes(weft_train_options *o)
{
    for (size_t g = 0; g < WEFT_COUNT(groups); g++)
        memcpy((char *)o + groups[g].offset, &groups[g].bytes, sizeof(size_t));
}

weft_status weft_train_options_check(const weft_context *context, const weft_train_options *o)
{
    for (size_t g = 0; g < WEFT_COUNT(groups); g++) {
        size_t bytes;
        memcpy(&bytes, (const char *)o + groups[g].offset, sizeof(bytes));
        if (bytes != groups[g].bytes)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "weft_train_options%s%s has %zu bytes, this library's %zu; "
                             "weft_train_options_init sets them",
                             *groups[g].name ? "." : "", groups[g].name, bytes, groups[g].bytes);
    }
    return weft_options_valid(weft_train_table(context), o);
}

weft_status weft_train_options_init(const weft_context *context, weft_train_options *o)
{
    WEFT_NEED_AS("context, options", context, o);
    set_sizes(o);
    return weft_options_init(weft_train_table(context), o);
}

weft_status weft_train_options_copy(const weft_context *context, const weft_train_options *from,
                                    weft_train_options *to)
{
    const weft_option *table = weft_train_table(context);
    WEFT_TRY(weft_train_options_check(context, from));
    *to = (weft_train_options){0};
    set_sizes(to);
    for (const weft_option *o = table; o->name; o++) {
        char *text;
        weft_status status = weft_options_get(table, from, o->name, &text);
        if (status == WEFT_OK && text) status = weft_options_set(table, to, o->name, text);
        free(text);
        if (status != WEFT_OK) {
            weft_options_free(table, to);
            return status;
        }
    }
    return WEFT_OK;
}
