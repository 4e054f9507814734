/* Declares the data source of tables, for the files that make it. */
#ifndef WEFT_DATA_CSV_SOURCE_H
#define WEFT_DATA_CSV_SOURCE_H

#include "data/data.h"
#include "formats/table.h"

typedef struct weft_csv_keys {
    char *label, *target, *weight, *id;
    char *test; /* a share, or files */
    char *missing, *na, *categorical, *embedding, *dates, *drop, *only;
    bool parts;
    double rare, skip;
} weft_csv_keys;

typedef struct weft_csv_source {
    weft_source head;
    weft_csv csv;
    int64_t
        *rows; /* row numbers of the file: those of the training split, then of the test split */
    char **answer_names, *label_name; /* of several labels or targets; NULL: there are none */
    char **names;                     /* [features], NULL: the table has no header */
    char **files;                     /* [count]: first those of the training */
    int64_t file_count, of_training;
    weft_bytes *text;  /* [file_count]: their texts, if fields are wanted */
    weft_csv_row *row; /* of which fields were asked for last; NULL: they are not wanted */
    weft_table *table; /* how columns become features; NULL: they are the features */
    char found_in[160], as_target[160], *path;
} weft_csv_source;

/* csv_read.c: reads the table and splits its rows. *path: of the specification; it is replaced by
 * the files in the folder of the request, if they are there. */
weft_status weft_csv_source_read(weft_csv_source *source, char **path, weft_csv_keys *keys,
                                 bool measured, const weft_source_request *request) WEFT_NODISCARD;

#endif
