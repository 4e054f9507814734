/* Internals of the parser of tables: csv_parse.c goes through the files, csv.c takes their rows. */
#ifndef WEFT_FORMATS_CSV_PARSE_H
#define WEFT_FORMATS_CSV_PARSE_H

#include "formats/csv_columns.h"
#include "formats/csv_reader.h"

/* The table that is being filled. A class label is text; its class number is its index among the
 * distinct labels, in order of appearance (weft_csv_sort_classes renumbers them at the end). */
struct weft_csv_parser {
    weft_csv csv;
    const weft_csv_known *known; /* may be NULL */
    const char *label, *weight;  /* as the options give them */
    const char *text;            /* of the file that is parsed */
    int64_t line;                /* of the first row of the first file */
    size_t file_capacity, begin_capacity;
    size_t value_capacity, label_capacity, weight_capacity, id_capacity, class_capacity;
    weft_csv_classes classes; /* of class_names */
    bool measured;            /* the label column holds a numeric target */
    bool ignored;             /* labels are not read */
    bool unlabelled;          /* the table may lack a label column */
    bool vacant;              /* it has one without labels */
};

/* A field without the blanks around it. */
char *weft_csv_trimmed(char *text);
/* Adds the row that the reader has read to the table. */
weft_status weft_csv_add_row(weft_csv_reader *reader, weft_csv_parser *table) WEFT_NODISCARD;
/* Numbers the classes in the order of their names. */
weft_status weft_csv_sort_classes(weft_csv *csv) WEFT_NODISCARD;

#endif
