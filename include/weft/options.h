/*
 * Option tables. One table defines the command line, the run file, the help text, the man page and
 * the JSON of an option struct, so that they cannot differ.
 *
 * A table describes a plain struct: each row has a name, the offset of its field, its kind, a
 * default and a sentence of help. Strings in such a struct are owned by it.
 */
#ifndef WEFT_OPTIONS_H
#define WEFT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "weft/registry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_option_kind {
    WEFT_OPT_STRING, /* char *; NULL when unset */
    WEFT_OPT_INT,    /* int64_t */
    WEFT_OPT_REAL,   /* double */
    WEFT_OPT_FLAG,   /* bool; takes no argument on the command line */
    WEFT_OPT_INTS    /* weft_numbers */
} weft_option_kind;

/* Integers: as text "3", or "3, 5"; in the items of YAML files also [3, 5]. */
#define WEFT_MOST_NUMBERS 8
typedef struct weft_numbers {
    int count; /* 0 when unset */
    int64_t at[WEFT_MOST_NUMBERS];
} weft_numbers;

typedef struct weft_option {
    const char *name;     /* long name without dashes; NULL ends the table */
    char letter;          /* one-letter form, or 0 */
    const char *argument; /* name of the argument in the help, such as "N"; NULL for a flag */
    const char *initial;  /* default as text; NULL: unset (strings) or zero */
    const char *help;     /* one sentence */
    size_t offset;
    weft_option_kind kind;
    double low, high;    /* inclusive bounds of numbers; ignored if both are zero */
    const char *group;   /* heading in the help */
    const char *choices; /* comma-separated legal values, or NULL */
    /* For strings: `names`: names of this kind and paths of plug-ins are legal; `forms`: the help
     * ends with the forms of specifications of this kind. */
    weft_kind names, forms;
    /* The option that this one depends on: it has an effect only if that is given or, if that is
     * a name or a specification, if the named entry reads this one (weft_entry.reads). NULL:
     * always. */
    const char *with;
    /* The reason why it has no effect in this table; NULL: it has one. Such an option is not in the
     * help, and only its default may be given. */
    const char *unused;
    const weft_context *context; /* context of names and forms, set when the table is handed out */
    /* Its former name, or NULL: still accepted everywhere, with one line to the log that gives the
     * present name. Help, suggestions and saved options have the present name only. */
    const char *formerly;
} weft_option;

/* Fills target with the defaults. target must be zeroed or freed. */
WEFT_API WEFT_NODISCARD weft_status weft_options_init(const weft_option *table, void *target);

/* Frees the strings of target. */
WEFT_API void weft_options_free(const weft_option *table, void *target);

/* Sets one option from text. ARGUMENT: no such option (the nearest name is suggested), empty, not
 * a number, out of bounds, or not one of the choices; the old value stays. */
WEFT_API WEFT_NODISCARD weft_status weft_options_set(const weft_option *table, void *target,
                                                     const char *name, const char *text);

/* Checks that every option that differs from its default has an effect. ARGUMENT: it is `unused`,
 * or the option that it depends on (`with`) does not use it; the message says what would. An option
 * set to its default counts as not given. */
WEFT_API WEFT_NODISCARD weft_status weft_options_check(const weft_option *table,
                                                       const void *target);

/* Parses argv (without the program's name): options may be "--name value", "--name=value", "-x
 * value" or "--flag"; "--" ends them. Up to max_words other words are stored in words; a further
 * word or an empty one is an error. */
WEFT_API WEFT_NODISCARD weft_status weft_options_parse(const weft_option *table, void *target,
                                                       int argc, char **argv, int max_words,
                                                       const char **words, int *word_count);

/* Reads a YAML run file, a mapping from option names to values, into target. FORMAT: the message
 * names the file and the line. */
WEFT_API WEFT_NODISCARD weft_status weft_options_load(const weft_option *table, void *target,
                                                      const char *path);

/* As weft_options_load, from size bytes of memory; name is used in messages. */
WEFT_API WEFT_NODISCARD weft_status weft_options_load_text(const weft_option *table, void *target,
                                                           const char *name, const void *data,
                                                           size_t size);

/* The option as text in the form that weft_options_set reads; the caller frees it with weft_free.
 * *out is NULL for an unset string. */
WEFT_API WEFT_NODISCARD weft_status weft_options_get(const weft_option *table, const void *target,
                                                     const char *name, char **out);

/* The help of an option with its legal values and its default, and the legal values alone (NULL:
 * any); the caller frees them with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_option_help(const weft_option *option, char **out);
WEFT_API WEFT_NODISCARD weft_status weft_option_choices(const weft_option *option, char **out);

/* The help lines of a table, without those that are `unused`; the caller frees them with weft_free.
 */
WEFT_API WEFT_NODISCARD weft_status weft_options_help(const weft_option *table, char **out);

#ifdef __cplusplus
}
#endif
#endif
