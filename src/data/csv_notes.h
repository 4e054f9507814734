/* Warnings about tables. */
#ifndef WEFT_DATA_CSV_NOTES_H
#define WEFT_DATA_CSV_NOTES_H

#include "data/data.h"
#include "formats/formats.h"

/* Logs what may not be meant so: a feature that counts the rows, a first row that counts the
 * columns, a class in several columns; of a later table, that names of columns do not decide.
 * later: the files of the `count` rows that the table was not described by, which may lack or have
 * other categories. given: the label is, and named: by its name. MEMORY: there is none left. */
weft_status weft_csv_note(const weft_csv *csv, const weft_table *table, const char *path,
                          const char *later, const int64_t *rows, int64_t count, bool given,
                          bool named, const weft_source_request *request) WEFT_NODISCARD;

/* csv_summary.c: adds a line or two for each column: what it has, and what became of it. table:
 * NULL: each column is a feature. binary: the targets are labels of 0 and 1. */
weft_status weft_csv_summary(const weft_csv *csv, const weft_table *table, bool binary,
                             weft_text *text) WEFT_NODISCARD;

#endif
