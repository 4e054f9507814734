#include "weft/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "base/registry.h"
#include "base/settings.h"

static const char *candidate(const void *user, int i)
{
    const weft_option *table = user;
    return table[i].name;
}

static const weft_option *find(const weft_option *table, const char *name)
{
    for (const weft_option *o = table; o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    for (const weft_option *o = table; o->name; o++)
        if (o->formerly && strcmp(o->formerly, name) == 0) {
            weft_log(o->context, WEFT_LOG_WARNING,
                     "option '%s' is now called '%s'; the next release refuses the former name",
                     name, o->name);
            return o;
        }
    return NULL;
}

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

/* --- structs with a size --- */

/* Most bytes by which the struct of a newer version may be longer. */
enum { MOST_NEWER = 4096 };

static size_t width(const weft_option *o)
{
    static const size_t of[] = {[WEFT_OPT_STRING] = sizeof(char *),
                                [WEFT_OPT_INT] = sizeof(int64_t),
                                [WEFT_OPT_REAL] = sizeof(double),
                                [WEFT_OPT_FLAG] = sizeof(bool),
                                [WEFT_OPT_INTS] = sizeof(weft_numbers)};
    return of[o->kind];
}

/* Whether a struct of the caller, which may be one of an older version, has the field of an
 * option. */
static bool has(const weft_option *o, const void *target)
{
    return o->size == 0 || o->offset + width(o) <= *(const size_t *)target;
}

static weft_status check_size(const weft_option *table, const void *target)
{
    size_t theirs, size = table->size;
    if (!table->name || size == 0) return WEFT_OK;
    memcpy(&theirs, target, sizeof(theirs));
    if (theirs >= table->offset + width(table) && theirs <= size + MOST_NEWER) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the struct_size of the options is %zu, must be about %zu; "
                     "weft_options_init sets it",
                     theirs, size);
}

/* Refuses a number that is out of bounds, unless it is the default, and an empty text. */
static weft_status check_value(const weft_option *o, const void *options)
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
    if (o->kind != WEFT_OPT_INT && o->kind != WEFT_OPT_REAL) return WEFT_OK;
    number = o->kind == WEFT_OPT_INT ? (double)*(const int64_t *)at : *(const double *)at;
    double usual = o->initial ? strtod(o->initial, NULL) : 0;
    if (isfinite(number) && (number == usual || in_bounds(o, number))) return WEFT_OK;
    return out_of_range(o, weft_real_text(number, text, sizeof(text)),
                        o->kind == WEFT_OPT_INT ? "a whole number" : "a finite number");
}

weft_status weft_options_valid(const weft_option *table, const void *options)
{
    WEFT_TRY(check_size(table, options));
    for (const weft_option *o = table; o->name; o++)
        if (has(o, options)) WEFT_TRY(check_value(o, options));
    return WEFT_OK;
}

/* Appends the names of the registered entries of a kind, or their forms if the option lists forms,
 * in the order of registration. Implied entries are left out. */
static void add_names(weft_text *text, const weft_option *o, weft_kind kind, const char *between)
{
    const weft_entry *e;
    for (int i = 0; (e = weft_context_entry(o->context, kind, i)); i++)
        if (!e->implied)
            weft_text_add(text, "%s%s", text->size ? between : "",
                          kind == o->forms && e->form ? e->form : e->name);
}

weft_status weft_option_choices(const weft_option *o, char **out)
{
    WEFT_NEED_AS("option, out", o, out);
    weft_text text = {0};
    *out = NULL;
    if (!o->choices && !o->names) return WEFT_OK;
    if (o->choices) weft_text_add(&text, "%s", o->choices);
    if (o->names) add_names(&text, o, o->names, ",");
    return weft_text_take(&text, out);
}

weft_status weft_option_help(const weft_option *o, char **out)
{
    WEFT_NEED_AS("option, out", o, out);
    weft_text text = {0}, forms = {0};
    char *choices, *looks = NULL;
    WEFT_TRY(weft_option_choices(o, &choices));
    weft_text_add(&text, "%s", o->help);
    if (o->forms) {
        add_names(&forms, o, o->forms, " or ");
        weft_status status = weft_text_take(&forms, &looks);
        text.failed = text.failed || status != WEFT_OK;
        if (looks) weft_text_add(&text, "%s", looks);
    }
    if (choices) weft_text_add(&text, " (one of %s)", choices);
    if (o->initial && o->kind != WEFT_OPT_FLAG) weft_text_add(&text, " [%s]", o->initial);
    free(looks);
    free(choices);
    return weft_text_take(&text, out);
}

bool weft_is_listed(const char *choices, const char *text)
{
    size_t size = strlen(text);
    for (const char *c = choices; *c;) {
        const char *comma = strchr(c, ',');
        size_t each = comma ? (size_t)(comma - c) : strlen(c);
        if (each == size && strncmp(c, text, size) == 0) return true;
        c += each + (comma != NULL);
    }
    return false;
}

static weft_status check_choice(const weft_option *o, const char *text)
{
    char *choices;
    weft_status status = WEFT_OK;
    if (o->names && weft_plugin_is_path(text, strlen(text))) return WEFT_OK;
    WEFT_TRY(weft_option_choices(o, &choices));
    if (choices && !weft_is_listed(choices, text))
        status = weft_fail(WEFT_ERR_ARGUMENT, "option '%s' is '%s', must be one of %s", o->name,
                           text, choices);
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

static weft_status store_text(const weft_option *o, void *target, const char *text)
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
    }
    return WEFT_ERR_INTERNAL;
}

/* Stores an option, if the struct of the caller has it. */
static weft_status store_given(const weft_option *o, void *target, const char *text)
{
    if (has(o, target)) return store_text(o, target, text);
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "this program was compiled with an older version, whose options have no '%s'; "
                     "compile it again",
                     o->name);
}

weft_status weft_options_take(const weft_option *table, const void *given, void *own)
{
    WEFT_TRY(weft_options_valid(table, given));
    size_t size = table->size;
    memset(own, 0, size);
    WEFT_TRY(weft_take_struct("the options", given, table->offset + width(table), size, own));
    for (const weft_option *o = table; o->name; o++) {
        if (has(o, given) || !o->initial) continue;
        if (o->kind == WEFT_OPT_STRING)
            *(char **)field(o, own) = (char *)(uintptr_t)o->initial; /* borrowed, as the others */
        else
            WEFT_TRY(store_text(o, own, o->initial));
    }
    return WEFT_OK;
}

weft_status weft_options_init_size(const weft_option *table, void *target, size_t size)
{
    WEFT_NEED(table, target);
    if (table->name && table->size > 0) {
        if (size == 0) size = table->size;
        memcpy(target, &size, sizeof(size));
        WEFT_TRY(check_size(table, target));
    }
    for (const weft_option *o = table; o->name; o++)
        if (o->initial && has(o, target)) {
            weft_status status = store_text(o, target, o->initial);
            if (status != WEFT_OK) {
                weft_options_free(table, target);
                return status;
            }
        }
    return WEFT_OK;
}

void weft_options_free(const weft_option *table, void *target)
{
    WEFT_NEED_VOID(table, target);
    for (const weft_option *o = table; o->name; o++)
        if (o->kind == WEFT_OPT_STRING && has(o, target)) {
            free(*(char **)field(o, target));
            *(char **)field(o, target) = NULL;
        }
}

weft_status weft_options_set(const weft_option *table, void *target, const char *name,
                             const char *text)
{
    WEFT_NEED(table, target, name, text);
    WEFT_TRY(check_size(table, target));
    char near[1024];
    const weft_option *o = find(table, name);
    if (!o)
        return weft_fail(WEFT_ERR_ARGUMENT, "no option is named '%s'%s", name,
                         weft_suggest(near, sizeof(near), name, candidate, table));
    return store_given(o, target, text);
}

/* Parses an option at argv[0]; `left` words are left. *used: the number of words that it takes, 1
 * or 2. */
static weft_status parse_one(const weft_option *table, void *target, int left, char **argv,
                             int *used)
{
    char name[64];
    const char *word = argv[0], *value = NULL;
    const weft_option *o = NULL;
    *used = 1;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        size_t size = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
        (void)snprintf(name, sizeof(name), "%.*s", (int)WEFT_MIN(size, sizeof(name) - 1), word + 2);
        if (equals) value = equals + 1;
        o = find(table, name);
        if (!o) return weft_options_set(table, target, name, ""); /* reports the nearest name */
    } else {
        for (const weft_option *x = table; x->name && !o; x++)
            if (x->letter == word[1]) o = x;
        if (!o) return weft_fail(WEFT_ERR_ARGUMENT, "no option is named '-%c'", word[1]);
        if (word[2]) value = word + 2;
    }
    if (o->kind == WEFT_OPT_FLAG) return store_given(o, target, value ? value : "true");
    if (!value) {
        if (left < 2)
            return weft_fail(WEFT_ERR_ARGUMENT, "option '%s' needs a value (%s)", o->name,
                             o->argument);
        value = argv[1];
        *used = 2;
    }
    return store_given(o, target, value);
}

weft_status weft_options_parse(const weft_option *table, void *target, int argc, char **argv,
                               int max_words, const char **words, int *word_count)
{
    WEFT_NEED(table, target, word_count);
    WEFT_TRY(check_size(table, target));
    if (argc < 0 || max_words < 0 || (argc > 0 && !argv) || (max_words > 0 && !words))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%d words of a command line and room for %d others: both are from 0, and "
                         "argv and words have as many",
                         argc, max_words);
    bool ended = false;
    int count = 0;
    for (int i = 0, used; i < argc; i += used) {
        used = 1;
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (!ended && argv[i][0] == '-' && argv[i][1]) {
            WEFT_TRY(parse_one(table, target, argc - i, argv + i, &used));
        } else if (!argv[i][0]) {
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "an argument is empty; give what is meant, or leave it out");
        } else if (count == max_words) {
            return weft_fail(WEFT_ERR_ARGUMENT, "unexpected argument '%s'%s", argv[i],
                             max_words ? "" : "; options begin with --");
        } else {
            words[count++] = argv[i];
        }
    }
    *word_count = count;
    return WEFT_OK;
}

weft_status weft_options_get(const weft_option *table, const void *target, const char *name,
                             char **out)
{
    WEFT_NEED(table, target, name, out);
    WEFT_TRY(check_size(table, target));
    const weft_option *o = find(table, name);
    if (!o) return weft_fail(WEFT_ERR_ARGUMENT, "no option is named '%s'", name);
    const void *at = (const char *)target + o->offset;
    char number[32];
    *out = NULL;
    if (!has(o, target)) return o->initial ? weft_strdup(o->initial, out) : WEFT_OK;
    switch (o->kind) {
    case WEFT_OPT_STRING:
        return *(char *const *)at ? weft_strdup(*(char *const *)at, out) : WEFT_OK;
    case WEFT_OPT_INT: return weft_format(out, "%lld", (long long)*(const int64_t *)at);
    case WEFT_OPT_REAL:
        return weft_strdup(weft_real_text(*(const double *)at, number, sizeof(number)), out);
    case WEFT_OPT_FLAG: return weft_format(out, "%s", *(const bool *)at ? "true" : "false");
    case WEFT_OPT_INTS: return numbers_text((const weft_numbers *)at, out);
    }
    return WEFT_ERR_INTERNAL;
}

/* Appends a sentence in lines of at most 78 columns. */
static void add_wrapped(weft_text *text, const char *sentence, int indent)
{
    int column = indent;
    for (const char *c = sentence; *c;) {
        size_t word = strcspn(c, " ");
        if (column + (int)word > 78) {
            weft_text_add(text, "\n%*s", indent, "");
            column = indent;
        }
        weft_text_add(text, "%.*s", (int)word, c);
        column += (int)word + 1;
        c += word;
        if (*c == ' ') c++;
        if (*c) weft_text_add(text, " ");
    }
    weft_text_add(text, "\n");
}

static weft_status add_option(weft_text *text, const weft_option *o)
{
    char head[80], *help;
    WEFT_TRY(weft_option_help(o, &help));
    int used = o->letter ? snprintf(head, sizeof(head), "  -%c, --%s", o->letter, o->name)
                         : snprintf(head, sizeof(head), "  --%s", o->name);
    if (o->kind != WEFT_OPT_FLAG && used > 0 && (size_t)used < sizeof(head))
        (void)snprintf(head + used, sizeof(head) - (size_t)used, " %s", o->argument);
    weft_text_add(text, "%-25s ", head);
    if (strlen(head) > 25) weft_text_add(text, "\n%26s", "");
    add_wrapped(text, help, 26);
    free(help);
    return WEFT_OK;
}

weft_status weft_options_help(const weft_option *table, char **out)
{
    WEFT_NEED(table, out);
    weft_text text = {0};
    const char *group = NULL, *shown = "";
    weft_status status = WEFT_OK;
    for (const weft_option *o = table; o->name && status == WEFT_OK; o++) {
        if (o->group) group = o->group;
        if (o->unused) continue;
        if (group && strcmp(group, shown) != 0)
            weft_text_add(&text, "%s%s:\n", text.size ? "\n" : "", shown = group);
        status = add_option(&text, o);
    }
    if (status == WEFT_OK) return weft_text_take(&text, out);
    free(text.data);
    return status;
}
