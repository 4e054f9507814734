/* Internals of the columns of tables: csv_weight.c takes the columns of identifiers and of weights
 * out, csv_columns.c shares out the others. */
#ifndef WEFT_FORMATS_CSV_COLUMNS_H
#define WEFT_FORMATS_CSV_COLUMNS_H

#include "formats/formats.h"

/* A name and its place. Names are sorted, so that finding one of thousands takes a binary
 * search. */
typedef struct weft_csv_name {
    const char *name;
    int place;
} weft_csv_name;

/* The first row, the known columns, and the result so far. */
typedef struct weft_csv_table {
    const char *file;
    int64_t line; /* of the first row */
    char **fields;
    int *column;           /* [count]: the columns of the fields in the file, from 0, ascending */
    weft_csv_name *sorted; /* [count]: the fields in order of name, then of place */
    int count, total;      /* total: columns in the file */
    const weft_csv_known *known;
    const weft_csv_name *sorted_known; /* [known->features]; NULL: no names are known */
    bool comma;                        /* of decimal numbers (weft_csv_number) */
    bool bare;      /* the label may be missing, and the columns are as many as the features */
    bool said;      /* label= gives an existing column, by name or number */
    const char *no; /* the name that label= gives if no column has it; else NULL */
    int label;      /* the field of the label; -1: none */
} weft_csv_table;

/* Sorts names; *out, [count], belongs to the caller. */
weft_status weft_csv_sort_names(char *const *names, int count, weft_csv_name **out) WEFT_NODISCARD;
/* The first place of a name; -1: there is none. */
int weft_csv_find(const weft_csv_name *sorted, int count, const char *name);
/* Number of feature names of training among the fields. */
int weft_csv_names_found(const weft_csv_table *t);
/* Field i of the table `user`, or NULL, as weft_suggest calls it. */
const char *weft_csv_field(const void *user, int i);
/* The word for the column to be learned, which is also the key of its option. */
const char *weft_csv_role(const weft_csv_table *t);

/* Whether a word is one of the usual marks of a missing value. sure: of those alone that are no
 * usual name of a class. */
bool weft_csv_is_missing(const char *word, bool sure);
/* The field that stands for column `index` of the file, or before which it would stand if it had
 * not been taken out. */
int weft_csv_place(const weft_csv_table *t, int64_t index);

/* csv_drop.c: leaves out what the rules do not want, or, of a later table without names, what they
 * did not want in training. *named is set to true if a name says that the first row is a header.
 * label, weight: as the options give them. The caller frees *out with weft_csv_part_free. */
weft_status weft_csv_drop(const weft_csv_table *all, const char *label, const char *weight,
                          bool *named, weft_csv *csv, weft_csv_table *out) WEFT_NODISCARD;
/* Sets *out to the table without the fields that are gone. */
weft_status weft_csv_leave_out(const weft_csv_table *all, const bool *gone,
                               weft_csv_table *out) WEFT_NODISCARD;
void weft_csv_part_free(weft_csv_table *part);
/* Whether an option (NULL: not given) gives the field `at`. named: the first row is a header. */
bool weft_csv_is_option(const weft_csv_table *t, const char *given, int at, bool named);
/* Sorts the names of classes: numbers by value, then others by name; place[i] becomes the new place
 * of what was name i. */
weft_status weft_csv_sort_words(char **names, int count, int32_t *place) WEFT_NODISCARD;

/* csv_answers.c: takes the columns of several labels or targets out, all but the first, which
 * becomes `label`, of `size` bytes; otherwise that stays as it is. given: label= or target=; NULL:
 * the columns are those of the training, of which the table may lack all. The caller frees *out
 * with weft_csv_part_free. */
weft_status weft_csv_take_answers(const weft_csv_table *all, const char *given, const char *weight,
                                  bool *named, weft_csv *csv, weft_csv_table *out, char *label,
                                  size_t size) WEFT_NODISCARD;
/* Makes the label the only answer, unless there are some. */
weft_status weft_csv_one_answer(weft_csv *csv) WEFT_NODISCARD;

/* Assigns label and features. `t` has all columns of the table except those of identifiers and
 * weights; named: the first row is known to be a header. */
weft_status weft_csv_share_out(weft_csv_table *t, const char *label, bool named,
                               weft_csv *csv) WEFT_NODISCARD;

#endif
