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

/* A group: its name, its size, with which it begins, and its room for fields of later versions. */
#define ROOM(from_, struct_)                                                                       \
    (from_) + offsetof(struct_, room), sizeof(((struct_ *)0)->room) / sizeof(uint64_t)
#define GROUP(field_, struct_)                                                                     \
    {                                                                                              \
        "weft_train_options." #field_, offsetof(weft_train_options, field_), sizeof(struct_),      \
            ROOM(offsetof(weft_train_options, field_), struct_)                                    \
    }
static const struct {
    const char *name;
    size_t offset, bytes, room, words;
} groups[] = {
    {"weft_train_options", 0, sizeof(weft_train_options), ROOM(0, weft_train_options)},
    GROUP(task, weft_task_choice),
    GROUP(length, weft_length_choice),
    GROUP(update, weft_update_choice),
    GROUP(where, weft_where_choice),
    GROUP(parallel, weft_parallel_choice),
    GROUP(job, weft_job_choice),
    GROUP(output, weft_output_choice),
    GROUP(show, weft_show_choice),
    GROUP(samples, weft_samples_choice),
    GROUP(weights, weft_weights_choice),
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
                             "%s has %zu bytes, this library's %zu; weft_train_options_init sets "
                             "them",
                             groups[g].name, bytes, groups[g].bytes);
        WEFT_TRY(weft_check_room(groups[g].name,
                                 (const uint64_t *)(const void *)((const char *)o + groups[g].room),
                                 groups[g].words));
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
    WEFT_NEED(context, from, to);
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
    to->show.best = from->show.best; /* no option */
    return WEFT_OK;
}
