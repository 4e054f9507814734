/* Declares the reader of the rows of a table. */
#ifndef WEFT_FORMATS_CSV_READER_H
#define WEFT_FORMATS_CSV_READER_H

#include "formats/formats.h"

/* Reads rows from a copy of the text and changes the copy in place: quotes are removed, and each
 * field of the current row ends with a zero byte. */
typedef struct weft_csv_reader {
    const char *name;
    char *next, *end;
    const char *begin; /* of the current row */
    int64_t line;      /* of the current row, from 1 */
    int64_t next_line;
    char **fields;
    size_t count, capacity;
    size_t most;    /* fields of a row; 0: any number */
    char separator; /* between fields */
} weft_csv_reader;

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
