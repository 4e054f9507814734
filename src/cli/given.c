/* Options of weft train on the command line that have no effect in another command. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* The value of an option as text, or "". */
static const char *text_of(const weft_option *table, const weft_train_options *o, const char *name,
                           char **out)
{
    *out = NULL;
    return weft_options_get(table, o, name, out) == WEFT_OK && *out ? *out : "";
}

static bool differs(const weft_option *table, const weft_train_options *a,
                    const weft_train_options *b, const char *name)
{
    char *x, *y;
    bool differ = strcmp(text_of(table, a, name, &x), text_of(table, b, name, &y)) != 0;
    weft_free(x);
    weft_free(y);
    return differ;
}

bool refuse_given(weft_context *context, const char *command_name, const char *const *names,
                  const char *why, int argc, char **argv)
{
    enum { PLAIN, GIVEN };
    static weft_train_options o[2]; /* too large for a stack */
    const weft_option *table = weft_train_table(context);
    const char *file, *found = NULL;
    int words;
    weft_status status = weft_train_options_init(context, &o[PLAIN]);
    if (status == WEFT_OK) status = weft_train_options_init(context, &o[GIVEN]);
    if (status == WEFT_OK)
        status = weft_options_parse(table, &o[GIVEN], argc, argv, 1, &file, &words);
    for (; status == WEFT_OK && *names && !found; names++)
        if (differs(table, &o[PLAIN], &o[GIVEN], *names)) found = *names;
    if (found)
        fprintf(stderr, "weft: --%s has no effect in weft %s: %s\nTry 'weft help %s'.\n", found,
                command_name, why, command_name);
    weft_options_free(table, &o[PLAIN]);
    weft_options_free(table, &o[GIVEN]);
    return found == NULL;
}
