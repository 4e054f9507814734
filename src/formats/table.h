/* How columns of a table become features: numbers as they are, categories as one feature each,
 * which is 1 in the rows that have it (one-hot), and dates as days. Training makes the description
 * from its split, and a checkpoint keeps it for later tables. */
#ifndef WEFT_FORMATS_TABLE_H
#define WEFT_FORMATS_TABLE_H

#include "formats/formats.h"

typedef struct weft_table_column {
    char *name; /* NULL: the table has no header */
    weft_csv_kind kind;
    weft_csv_date_form form; /* of dates */
    int words;
    char **word;   /* [words]: the categories; numbers by value, then others by name */
    bool rare;     /* categories that are rare in training, or not in it, have a feature */
    bool gaps;     /* missing values have a feature */
    bool parts;    /* of a date: year, month, day of the month and of the week are features, too */
    int embedding; /* numbers that a model has in place of the features of categories; 0: none */
    double fill; /* stands for a missing value, of categories 0; NAN: missing values are refused */
    int first, features; /* its features */
} weft_table_column;

struct weft_table {
    int columns, features;
    weft_table_column *column; /* [columns] */
    int *owner;                /* [features]: their columns */
    char *dropped;             /* columns that are left out, as COLUMN+COLUMN; NULL: none */
    char *marks;               /* marks of missing values beside the usual ones, MARK+MARK; NULL */
};

/* Categories of a column that are features of their own, at most, and of one that is embedded; and
 * the most numbers of an embedding. */
enum { WEFT_TABLE_WORDS = 256, WEFT_TABLE_EMBEDDED = 4096, WEFT_TABLE_NUMBERS = 4096 };

/* Describes a table that was parsed with rules, by those of its rows that are listed, and sets *out
 * to NULL if all features are the numbers of the columns. ARGUMENT: a column has too many
 * categories for features of their own, or none; or no value. path: of the file, for messages. */
weft_status weft_table_fit(const weft_csv *csv, const char *path, const weft_csv_rules *rules,
                           const int64_t *rows, int64_t count, weft_table **out) WEFT_NODISCARD;
/* Sets first, features and owner by the columns. */
weft_status weft_table_place(weft_table *table) WEFT_NODISCARD;
weft_status weft_table_copy(const weft_table *from, weft_table **out) WEFT_NODISCARD;
void weft_table_free(weft_table *table);
/* Replaces the numbers of words among the values of a table that was parsed with rules by those of
 * the description; tables that were parsed with the description have them. Words that the first
 * `trained` of `rows` lack and the others have, up to `count`, count as unknown. */
weft_status weft_table_number_words(const weft_table *table, const int64_t *rows, int64_t trained,
                                    int64_t count, weft_csv *csv) WEFT_NODISCARD;
/* A feature of a row, of which the values of all columns are given. */
WEFT_PRIVATE_API double weft_table_feature(const weft_table *table, const double *row, int feature);
/* The name of a form of dates (NULL: there is none of this number), and an example for messages. */
const char *weft_csv_date_name(int form, const char **example);
/* Writes how the texts of feature j of a table of training could be read as numbers, if all of them
 * are alike, as a clause for messages; false: they are texts. */
bool weft_csv_advise(const weft_csv *csv, int j, char *out, size_t size);
/* Whether a feature is 0 or 1 by its nature. */
bool weft_table_is_flag(const weft_table *table, int feature);
/* The names of the columns, which the table owns; the caller frees the array. */
WEFT_PRIVATE_API weft_status weft_table_column_names(const weft_table *table,
                                                     char ***out) WEFT_NODISCARD;
/* The names of the features, "age", "sex=male", "sex (other)", "age (missing)"; the caller frees
 * them with weft_strings_free. */
weft_status weft_table_names(const weft_table *table, char ***out) WEFT_NODISCARD;

#endif
