/* Declares the contents of columns that may have texts, dates and gaps. */
#ifndef WEFT_FORMATS_CSV_CELLS_H
#define WEFT_FORMATS_CSV_CELLS_H

#include "formats/csv_reader.h"
#include "formats/table.h"

/* Bytes of an entry of a list, which is cut to fewer. */
enum { WEFT_CSV_ENTRY = 256 };
/* Takes the first entry of a list A+B (NULL: none) off it. false: the list is at its end. */
bool weft_csv_next_entry(const char **list, char entry[WEFT_CSV_ENTRY]);
/* Whether one of COLUMN+COLUMN (NULL: none) is a column, by its name (NULL: it has none) or number.
 */
bool weft_csv_listed(const char *list, const char *name, int column);
/* Whether a text marks a missing value; more: marks beside the usual ones, as MARK+MARK, or NULL.
 */
bool weft_csv_is_gap(const char *text, const char *more);
/* Makes a blank of each line break and tab in a text, which are as good as one in a category or
 * class. */
void weft_csv_join_lines(char *text);
/* Converts a field without blanks of feature j in a table that has cells, whose text may be changed
 * so (weft_csv_join_lines). FORMAT: it does not fit
 * its column; the message names line and column. */
weft_status weft_csv_cell(const weft_csv_reader *reader, weft_csv *csv, const weft_csv_known *known,
                          int j, char *text, double *out) WEFT_NODISCARD;
void weft_csv_cells_free(weft_csv_cells *cells, int count);
/* Days since 1970 of a date of some form, or of a date and time, hh:mm[:ss[.f]][Z|+hh:mm], with a
 * blank or T between; of other forms than ISO's the hour may have one digit, and AM or PM. */
bool weft_csv_date(const char *text, weft_csv_date_form form, double *days);
/* Whether `list`, COLUMN[:FORM]+..., has a column, and the form; -1: no form is named so. */
bool weft_csv_date_listed(const char *list, const char *name, int column, int *form);
/* Whether a text is a number with signs of currency, per cent or thousands, as "$1,250". */
bool weft_csv_signed_number(const char *text);
/* The day that begins so many days after that of 1970. */
void weft_csv_day(double days, int *year, int *month, int *day);

/* Fails: a number must stand in column i of the file, and `text` does. more: how to mend it. */
weft_status weft_csv_not_a_number(const weft_csv *csv, const char *file, int64_t line, int i,
                                  const char *text, const char *more) WEFT_NODISCARD;

#endif
