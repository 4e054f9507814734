/*
 * Option tables. One table defines the command line, the run file, the help text, the man page and
 * the JSON of an option struct, so that they cannot differ.
 *
 * A table describes a plain struct: each row has a name, the offset of a field in the struct, its
 * kind, a default and a sentence of help. The struct owns its strings.
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

/* Kinds of options, with the type of the field. */
typedef enum weft_option_kind {
    WEFT_OPT_STRING, /* char *; NULL when unset */
    WEFT_OPT_INT,    /* int64_t */
    WEFT_OPT_REAL,   /* double */
    WEFT_OPT_FLAG,   /* bool; on the command line it needs no value */
    WEFT_OPT_INTS,   /* weft_numbers */
    WEFT_OPT_STRINGS /* weft_texts; the option may be given several times, each adds a text */
} weft_option_kind;

/* A list of integers: as text "3" or "3, 5"; in the items of YAML files also [3, 5]. */
#define WEFT_MOST_NUMBERS 8
typedef struct weft_numbers {
    int count; /* 0 when unset */
    int64_t at[WEFT_MOST_NUMBERS];
} weft_numbers;

/* A list of texts. */
#define WEFT_MOST_TEXTS 16
typedef struct weft_texts {
    int count; /* 0 when unset */
    char *at[WEFT_MOST_TEXTS];
} weft_texts;

/* A row of an option table. */
typedef struct weft_option {
    const char *name;     /* long name without leading dashes; NULL ends the table */
    char letter;          /* one-letter form; 0: none */
    const char *argument; /* name of the value in the help, such as "N"; NULL for a flag */
    const char *initial;  /* default as text; NULL: unset (strings) or zero */
    const char *help;     /* one sentence */
    size_t offset;        /* of the field in the struct */
    weft_option_kind kind;
    double low, high;    /* inclusive bounds of a number; both 0: unbounded */
    const char *group;   /* heading in the help, from this row on; NULL: as before */
    const char *choices; /* legal values, separated by commas; NULL: not limited by a list */
    /* For strings. names: legal values are the names of this kind and paths of plug-ins. forms: the
     * help ends with the syntax of the specifications of this kind. Both: legal values are
     * specifications that begin with such a name. */
    weft_kind names, forms;
    /* The option that this one depends on. If that option's value is a name or a specification,
     * this option has an effect only if the named entry reads it (weft_entry.reads); otherwise only
     * if that option is given. NULL: it always has an effect. */
    const char *with;
    /* The reason why the option has no effect in this table; NULL: it has one. An option with a
     * reason is not in the help, and only its default may be given. */
    const char *unused;
    /* The context that knows these names and forms; the library sets it in the tables that it
     * returns. */
    const weft_context *context;
    /* The former name of the option, or NULL. The former name is still accepted, with one warning
     * in the log that gives the present name. Help, suggestions and saved options have the present
     * name only. */
    const char *formerly;
    /* The bytes of the struct, which begins with its struct_size; 0: it has none. The struct of a
     * program that was compiled with an older version is shorter, and lacks the last options. */
    size_t size;
} weft_option;

/* Fills the struct `target`, which must be zeroed or freed, with the defaults of the table, and
 * sets its struct_size if the table has one. size: bytes of the struct; 0: as the table says. */
WEFT_API WEFT_NODISCARD weft_status weft_options_init_size(const weft_option *table, void *target,
                                                           size_t size);
#define weft_options_init(table, target) weft_options_init_size(table, target, sizeof(*(target)))

/* Frees the strings of the struct `target` and sets them to NULL. */
WEFT_API void weft_options_free(const weft_option *table, void *target);

/* Sets one option from text. ARGUMENT: there is no such option (the message suggests the nearest
 * name), or the text is empty, not a number, out of bounds, or not one of the choices; the old
 * value stays. */
WEFT_API WEFT_NODISCARD weft_status weft_options_set(const weft_option *table, void *target,
                                                     const char *name, const char *text);

/* Checks that every option whose value differs from its default has an effect. ARGUMENT: an option
 * is `unused`, or the option that it depends on (`with`) does not use it; the message says what
 * would use it. An option set to its default counts as not given. */
WEFT_API WEFT_NODISCARD weft_status weft_options_check(const weft_option *table,
                                                       const void *target);

/* ARGUMENT: an option that names a file to be written (metrics, trace, plot) names the input file
 * `path`, which `what` describes in the message. */
WEFT_API WEFT_NODISCARD weft_status weft_options_refuse_overwrite(const weft_option *table,
                                                                  const void *target,
                                                                  const char *what,
                                                                  const char *path);

/* Parses argv, which begins after the program's name: options may be "--name value",
 * "--name=value", "-x value", "-xvalue" or "--flag"; "--" ends them. Up to max_words other words
 * are stored in words[]. ARGUMENT: as weft_options_set, a further word, or an empty one. */
WEFT_API WEFT_NODISCARD weft_status weft_options_parse(const weft_option *table, void *target,
                                                       int argc, char **argv, int max_words,
                                                       const char **words, int *word_count);

/* Reads a YAML run file, which maps option names to values, into the struct `target`. FORMAT: the
 * message names the file and the line. */
WEFT_API WEFT_NODISCARD weft_status weft_options_load(const weft_option *table, void *target,
                                                      const char *path);

/* As weft_options_load, from `size` bytes of memory; messages use `name` as the file's name. */
WEFT_API WEFT_NODISCARD weft_status weft_options_load_text(const weft_option *table, void *target,
                                                           const char *name, const void *data,
                                                           size_t size);

/* Sets *out to the value of an option as text, in the form that weft_options_set reads, or to NULL
 * for an unset string; texts of WEFT_OPT_STRINGS are joined by ", ". The caller frees it with
 * weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_options_get(const weft_option *table, const void *target,
                                                     const char *name, char **out);

/* Sets *out to the help of an option with its legal values and its default, or to the legal values
 * alone (NULL: all are legal). The caller frees the text with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_option_help(const weft_option *option, char **out);
WEFT_API WEFT_NODISCARD weft_status weft_option_choices(const weft_option *option, char **out);

/* The kind of entries with whose names the value of an option may begin, as that of --device;
 * WEFT_KIND_NONE: its values are no names. */
WEFT_API weft_kind weft_option_names(const weft_option *option);

/* Sets *out to the help of all options of a table, without those that are `unused`. The caller
 * frees the text with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_options_help(const weft_option *table, char **out);

#ifdef __cplusplus
}
#endif
#endif
