/* Declares the reader of the rows of a table. */
#ifndef WEFT_FORMATS_CSV_READER_H
#define WEFT_FORMATS_CSV_READER_H

#include "formats/formats.h"

/* Reads rows from a text, which stays as it is: the fields of the current row are copied, without
 * their quotes, each with a zero byte behind it. */
typedef struct weft_csv_reader {
    const char *name;
    const char *next, *end;
    const char *begin; /* of the current row */
    int64_t line;      /* of the current row, from 1 */
    int64_t next_line;
    char *row;         /* the copy of its fields */
    size_t size, room; /* bytes in use, and all of them */
    char **fields;     /* [count], in `row` */
    size_t *offsets;   /* [count], of the fields in `row` */
    size_t count, capacity, offset_capacity;
    size_t most;      /* fields of a row; 0: any number */
    const int *field; /* [fields_known]: their order in rows of so many; NULL: as they stand */
    size_t fields_known;
    char separator; /* between fields */
} weft_csv_reader;

/* Frees what the rows needed. */
void weft_csv_reader_free(weft_csv_reader *reader);
/* Sets the separator: that of a first line such as "sep=;", by which spreadsheets say it and which
 * is skipped, or else the comma, semicolon, tab or bar of which the first lines have equal numbers
 * each. */
void weft_csv_read_separator(weft_csv_reader *reader);
/* Reads the next row; count is 0 at the end of the text. Empty lines are skipped. */
weft_status weft_csv_read_row(weft_csv_reader *reader) WEFT_NODISCARD;
/* Whether a field without blanks is a number; comma: its decimal sign may be a comma, as in tables
 * that separate their fields otherwise. */
bool weft_csv_number(const char *text, bool comma, double *out);

#endif
