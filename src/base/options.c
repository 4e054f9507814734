#include "weft/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "base/option_values.h"
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

/* --- structs with a size --- */

/* Most bytes by which the struct of a newer version may be longer. */
enum { MOST_NEWER = 4096 };

/* Whether a struct of the caller, which may be one of an older version, has the field of an
 * option. */
static bool has(const weft_option *o, const void *target)
{
    return o->size == 0 || o->offset + weft_option_width(o) <= *(const size_t *)target;
}

static weft_status check_size(const weft_option *table, const void *target)
{
    size_t theirs, size = table->size;
    if (!table->name || size == 0) return WEFT_OK;
    memcpy(&theirs, target, sizeof(theirs));
    if (theirs >= table->offset + weft_option_width(table) && theirs <= size + MOST_NEWER)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the struct_size of the options is %zu, must be about %zu; "
                     "weft_options_init sets it",
                     theirs, size);
}

weft_status weft_options_valid(const weft_option *table, const void *options)
{
    WEFT_TRY(check_size(table, options));
    for (const weft_option *o = table; o->name; o++)
        if (has(o, options)) WEFT_TRY(weft_option_check_value(o, options));
    return WEFT_OK;
}

/* Appends the names of the registered entries of a kind, or their forms, in the order of
 * registration. Implied entries are left out. */
static void add_names(weft_text *text, const weft_option *o, weft_kind kind, bool forms)
{
    const char *between = forms ? " or " : ",";
    const weft_entry *e;
    for (int i = 0; (e = weft_context_entry(o->context, kind, i)); i++)
        if (!e->implied)
            weft_text_add(text, "%s%s", text->size ? between : "",
                          forms && e->form ? e->form : e->name);
}

weft_kind weft_option_names(const weft_option *o)
{
    WEFT_NEED_ELSE_AS(WEFT_KIND_NONE, "option", o);
    return o->names ? o->names : o->forms ? o->forms : weft_kind_of_option(o->name);
}

weft_status weft_option_choices(const weft_option *o, char **out)
{
    WEFT_NEED_AS("option, out", o, out);
    weft_text text = {0};
    *out = NULL;
    if (!o->choices && !o->names) return WEFT_OK;
    if (o->choices) weft_text_add(&text, "%s", o->choices);
    if (o->names) add_names(&text, o, o->names, false);
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
        add_names(&forms, o, o->forms, true);
        weft_status status = weft_text_take(&forms, &looks);
        text.failed = text.failed || status != WEFT_OK;
        if (looks) weft_text_add(&text, "%s", looks);
    }
    if (choices && !(o->names && o->forms)) weft_text_add(&text, " (one of %s)", choices);
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

/* Stores an option, if the struct of the caller has it. */
static weft_status store_given(const weft_option *o, void *target, const char *text)
{
    if (has(o, target)) return weft_option_store(o, target, text);
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
    WEFT_TRY(weft_take_struct("the options", given, table->offset + weft_option_width(table), size,
                              own));
    for (const weft_option *o = table; o->name; o++) {
        if (has(o, given) || !o->initial) continue;
        if (o->kind == WEFT_OPT_STRING)
            *(char **)((char *)own + o->offset) =
                (char *)(uintptr_t)o->initial; /* borrowed, as the others */
        else
            WEFT_TRY(weft_option_store(o, own, o->initial));
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
            weft_status status = weft_option_store(o, target, o->initial);
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
        if (has(o, target)) weft_option_clear(o, target);
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
 * or 2. *flag: the option, if it is a flag without a value. */
static weft_status parse_one(const weft_option *table, void *target, int left, char **argv,
                             int *used, const weft_option **flag)
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
    if (o->kind == WEFT_OPT_FLAG && !value) *flag = o;
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

/* Fails if the word behind a flag is the value of one, or a number, and no file. */
static weft_status refuse_value(const weft_option *flag, const char *word)
{
    double number;
    if ((!weft_is_listed("true,false,yes,no,on,off", word) && !weft_parse_real(word, &number)) ||
        weft_file_exists(word))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--%s takes no value, but '%s' follows it; leave '%s' out, or give --%s=false "
                     "for the contrary",
                     flag->name, word, word, flag->name);
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
    const weft_option *flag = NULL, *before;
    for (int i = 0, used; i < argc; i += used) {
        used = 1;
        before = flag; /* the flag that the previous word is */
        flag = NULL;
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (!ended && argv[i][0] == '-' && argv[i][1]) {
            WEFT_TRY(parse_one(table, target, argc - i, argv + i, &used, &flag));
        } else if (!argv[i][0]) {
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "an argument is empty; give what is meant, or leave it out");
        } else if (count == max_words) {
            return weft_fail(WEFT_ERR_ARGUMENT, "unexpected argument '%s'%s%s%s", argv[i],
                             before      ? "; --"
                             : max_words ? ""
                                         : "; options begin with --",
                             before ? before->name : "", before ? " takes no value" : "");
        } else {
            if (before) WEFT_TRY(refuse_value(before, argv[i]));
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
    *out = NULL;
    if (!has(o, target)) return o->initial ? weft_strdup(o->initial, out) : WEFT_OK;
    return weft_option_text(o, target, out);
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
        (void)snprintf(head + used, sizeof(head) - (size_t)used, "%s%s",
                       o->argument[0] == '[' ? "" : " ", o->argument);
    weft_text_add(text, "%-25s ", head);
    if (strlen(head) > 24) weft_text_add(text, "\n%26s", "");
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
