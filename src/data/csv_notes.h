/* Warnings about tables. */
#ifndef WEFT_DATA_CSV_NOTES_H
#define WEFT_DATA_CSV_NOTES_H

#include "data/data.h"
#include "formats/formats.h"

/* Logs what may not be meant so: a feature that counts the rows, a first row that counts the
 * columns, a class in several columns; of a later table, that names of columns do not decide.
 * later: the files of the rows from `first` on, which may lack or have other categories than those
 * that the table describes. named: the label is given by its name. MEMORY: there is none left. */
weft_status weft_csv_note(const weft_csv *csv, const weft_table *table, const char *path,
                          const char *later, int64_t first, bool named,
                          const weft_source_request *request) WEFT_NODISCARD;

/* csv_summary.c: adds a line or two for each column: what it has, and what became of it. table:
 * NULL: each column is a feature. binary: the targets are labels of 0 and 1. */
weft_status weft_csv_summary(const weft_csv *csv, const weft_table *table, bool binary,
                             weft_text *text) WEFT_NODISCARD;

#endif
