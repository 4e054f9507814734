/* The values of options: their types, bounds and texts. */
#include "base/option_values.h"

#include <math.h>
#include <stdio.h>

#include "base/registry.h"
#include "base/settings.h"

static void *field(const weft_option *o, void *target)
{
    return (char *)target + o->offset;
}

static weft_status out_of_range(const weft_option *o, const char *text, const char *what)
{
    char bounds[96] = "", low[32], high[32];
    (void)weft_real_text(o->low, low, sizeof(low));
    (void)weft_real_text(o->high, high, sizeof(high));
    if (isinf(o->high))
        (void)snprintf(bounds, sizeof(bounds), ", at least %s", low);
    else if (o->low != 0 || o->high != 0)
        (void)snprintf(bounds, sizeof(bounds), " from %s to %s", low, high);
    return weft_fail(WEFT_ERR_ARGUMENT, "option '%s' is '%s', must be %s%s", o->name, text, what,
                     bounds);
}

static bool in_bounds(const weft_option *o, double value)
{
    return (o->low == 0 && o->high == 0) || (value >= o->low && value <= o->high);
}

size_t weft_option_width(const weft_option *o)
{
    static const size_t of[] = {
        [WEFT_OPT_STRING] = sizeof(char *),     [WEFT_OPT_INT] = sizeof(int64_t),
        [WEFT_OPT_REAL] = sizeof(double),       [WEFT_OPT_FLAG] = sizeof(bool),
        [WEFT_OPT_INTS] = sizeof(weft_numbers), [WEFT_OPT_STRINGS] = sizeof(weft_texts)};
    return of[o->kind];
}

static weft_status check_texts(const weft_option *o, const weft_texts *texts)
{
    bool fine = texts->count >= 0 && texts->count <= WEFT_MOST_TEXTS;
    for (int i = 0; fine && i < texts->count; i++) fine = texts->at[i] && *texts->at[i];
    return fine ? WEFT_OK
                : weft_fail(WEFT_ERR_ARGUMENT,
                            "option '%s' has %d texts, must be 0 to %d, none of them empty",
                            o->name, texts->count, WEFT_MOST_TEXTS);
}

weft_status weft_option_check_value(const weft_option *o, const void *options)
{
    const void *at = (const char *)options + o->offset;
    char text[32];
    double number;
    if (o->kind == WEFT_OPT_STRING) {
        const char *value = *(char *const *)at;
        return !value || *value
                   ? WEFT_OK
                   : weft_fail(WEFT_ERR_ARGUMENT, "option '%s' is empty; give %s, or leave it NULL",
                               o->name, o->argument ? o->argument : "a text");
    }
    if (o->kind == WEFT_OPT_STRINGS) return check_texts(o, at);
    if (o->kind != WEFT_OPT_INT && o->kind != WEFT_OPT_REAL) return WEFT_OK;
    number = o->kind == WEFT_OPT_INT ? (double)*(const int64_t *)at : *(const double *)at;
    double usual = o->initial ? strtod(o->initial, NULL) : 0;
    if (isfinite(number) && (number == usual || in_bounds(o, number))) return WEFT_OK;
    return out_of_range(o, weft_real_text(number, text, sizeof(text)),
                        o->kind == WEFT_OPT_INT ? "a whole number" : "a finite number");
}

static weft_status check_choice(const weft_option *o, const char *text)
{
    char *choices, *name = NULL, *what = NULL, hint[WEFT_PLUGIN_HINT];
    size_t size = o->names && o->forms ? strcspn(text, ":") : strlen(text);
    int chosen;
    if (o->names && weft_plugin_is_path(text, size)) return WEFT_OK;
    WEFT_TRY(weft_option_choices(o, &choices));
    if (!choices) return WEFT_OK;
    weft_status status = weft_format(&name, "%.*s", (int)size, text);
    if (status == WEFT_OK) status = weft_format(&what, "option '%s'", o->name);
    if (status == WEFT_OK)
        status = weft_choose(
            what, name, choices,
            o->context ? weft_plugin_hint(o->context, o->names, name, size, hint, sizeof(hint))
                       : NULL,
            &chosen);
    free(what);
    free(name);
    free(choices);
    return status;
}

static weft_status add_number(void *user, char *piece)
{
    weft_numbers *n = user;
    char *text = piece + strspn(piece, " ");
    for (size_t size = strlen(text); size > 0 && text[size - 1] == ' '; size--)
        text[size - 1] = '\0';
    if (n->count < WEFT_MOST_NUMBERS && weft_parse_int(text, &n->at[n->count])) {
        n->count++;
        return WEFT_OK;
    }
    return WEFT_ERR_ARGUMENT;
}

static weft_status store_numbers(const weft_option *o, void *target, const char *text)
{
    weft_numbers n = {0};
    bool fine = *text && weft_each_piece(o->name, text, add_number, &n) == WEFT_OK;
    for (int i = 0; i < n.count; i++) fine = fine && in_bounds(o, (double)n.at[i]);
    if (!fine) return out_of_range(o, text, "one whole number or several, each");
    *(weft_numbers *)field(o, target) = n;
    return WEFT_OK;
}

static weft_status numbers_text(const weft_numbers *n, char **out)
{
    weft_text text = {0};
    for (int i = 0; i < n->count; i++)
        weft_text_add(&text, "%s%lld", i ? ", " : "", (long long)n->at[i]);
    return n->count ? weft_text_take(&text, out) : WEFT_OK;
}

/* Any bytes may be such a text, ends of lines too. */
static weft_status add_text(const weft_option *o, void *target, const char *text)
{
    weft_texts *texts = field(o, target);
    if (!*text)
        return weft_fail(WEFT_ERR_ARGUMENT, "option '%s' is empty; give %s, or leave it out",
                         o->name, o->argument);
    if (texts->count == WEFT_MOST_TEXTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "option '%s' is given more than %d times", o->name,
                         WEFT_MOST_TEXTS);
    WEFT_TRY(weft_strdup(text, &texts->at[texts->count]));
    texts->count++;
    return WEFT_OK;
}

static weft_status texts_text(const weft_texts *texts, char **out)
{
    weft_text text = {0};
    for (int i = 0; i < texts->count; i++)
        weft_text_add(&text, "%s%s", i ? ", " : "", texts->at[i]);
    return texts->count ? weft_text_take(&text, out) : WEFT_OK;
}

weft_status weft_option_store(const weft_option *o, void *target, const char *text)
{
    int64_t whole;
    double real;
    switch (o->kind) {
    case WEFT_OPT_STRING: {
        char *copy;
        if (!*text)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "option '%s' is empty; give %s, or leave the option out", o->name,
                             o->argument);
        if (!weft_is_printable(text))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "option '%s' is '%s', must be UTF-8 without control characters",
                             o->name, text);
        WEFT_TRY(check_choice(o, text));
        WEFT_TRY(weft_strdup(text, &copy));
        free(*(char **)field(o, target));
        *(char **)field(o, target) = copy;
        return WEFT_OK;
    }
    case WEFT_OPT_INT:
        if (!weft_parse_int(text, &whole) || !in_bounds(o, (double)whole))
            return out_of_range(o, text, "a whole number");
        *(int64_t *)field(o, target) = whole;
        return WEFT_OK;
    case WEFT_OPT_REAL:
        if (!weft_parse_real(text, &real) || !isfinite(real) || !in_bounds(o, real))
            return out_of_range(o, text, "a finite number");
        *(double *)field(o, target) = real;
        return WEFT_OK;
    case WEFT_OPT_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return weft_fail(WEFT_ERR_ARGUMENT, "option '%s' is '%s', must be true or false",
                             o->name, text);
        *(bool *)field(o, target) = text[0] == 't';
        return WEFT_OK;
    case WEFT_OPT_INTS: return store_numbers(o, target, text);
    case WEFT_OPT_STRINGS: return add_text(o, target, text);
    }
    return WEFT_ERR_INTERNAL;
}

weft_status weft_option_text(const weft_option *o, const void *target, char **out)
{
    const void *at = (const char *)target + o->offset;
    char number[32];
    switch (o->kind) {
    case WEFT_OPT_STRING:
        return *(char *const *)at ? weft_strdup(*(char *const *)at, out) : WEFT_OK;
    case WEFT_OPT_INT: return weft_format(out, "%lld", (long long)*(const int64_t *)at);
    case WEFT_OPT_REAL:
        return weft_strdup(weft_real_text(*(const double *)at, number, sizeof(number)), out);
    case WEFT_OPT_FLAG: return weft_format(out, "%s", *(const bool *)at ? "true" : "false");
    case WEFT_OPT_INTS: return numbers_text((const weft_numbers *)at, out);
    case WEFT_OPT_STRINGS: return texts_text((const weft_texts *)at, out);
    }
    return WEFT_ERR_INTERNAL;
}

void weft_option_clear(const weft_option *o, void *target)
{
    weft_texts *texts = field(o, target);
    if (o->kind == WEFT_OPT_STRING) {
        free(*(char **)field(o, target));
        *(char **)field(o, target) = NULL;
    } else if (o->kind == WEFT_OPT_STRINGS) {
        while (texts->count > 0) free(texts->at[--texts->count]);
    }
}
