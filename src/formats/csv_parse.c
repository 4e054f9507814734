/* Parses a table of one file or several (RFC 4180): one pass over each text. The first file decides
 * which column is which, and the others have the same columns. */
#include "formats/csv_parse.h"

#include <stdio.h>

#include "formats/csv_cells.h"

int weft_csv_shown(const weft_csv *csv, int i)
{
    const weft_csv_file *f = csv->files ? &csv->file[csv->files - 1] : NULL;
    return f && f->field ? f->field[i] : i;
}

const char *weft_csv_column(const weft_csv *csv, int i, char room[WEFT_CSV_COLUMN])
{
    bool named = csv->header && *csv->header[i];
    (void)snprintf(room, WEFT_CSV_COLUMN, "column %d%s%.100s%s", weft_csv_shown(csv, i),
                   named ? " (" : "", named ? csv->header[i] : "", named ? ")" : "");
    return room;
}

const weft_csv_file *weft_csv_file_of(const weft_csv *csv, int64_t row)
{
    int k = 0;
    for (int end = csv->files; end - k > 1;) {
        int middle = k + (end - k) / 2;
        *(csv->file[middle].first <= row ? &k : &end) = middle;
    }
    return &csv->file[k];
}

/* --- the names of columns --- */

static weft_status take_header(weft_csv_reader *r, weft_csv *csv)
{
    WEFT_TRY(WEFT_NEW(&csv->header, r->count));
    for (size_t i = 0; i < r->count; i++) WEFT_TRY(weft_strdup(r->fields[i], &csv->header[i]));
    return weft_csv_read_row(r);
}

/* Refuses the header of a further file; how: a clause on the column of this name. */
static weft_status other_columns(const weft_csv_reader *r, const weft_csv *csv, const char *has,
                                 const char *name, const char *had)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: has %s column '%.60s', which %s has%s; the files of one table have "
                     "the same columns, in any order",
                     r->name, (long long)r->line, has, name, csv->file[0].name, had);
}

/* Sets field[i] to the field of column i of the first file. */
static weft_status match_fields(const weft_csv_reader *r, const weft_csv *csv,
                                const weft_csv_name *sorted, int *field)
{
    for (int i = 0; i < csv->columns; i++) field[i] = -1;
    for (int k = 0; k < (int)r->count; k++) {
        int i = weft_csv_find(sorted, csv->columns, r->fields[k]);
        if (i < 0) return other_columns(r, csv, "a", r->fields[k], " not");
        if (field[i] >= 0)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: columns %d and %d are both named '%s'; each needs a name of its "
                             "own",
                             r->name, field[i], k, r->fields[k]);
        field[i] = k;
    }
    for (int i = 0; i < csv->columns; i++)
        if (field[i] < 0) return other_columns(r, csv, "no", csv->header[i], "");
    return WEFT_OK;
}

/* Reads the header of a further file, whose columns may have another order. */
static weft_status match_header(weft_csv_reader *r, weft_csv *csv)
{
    weft_csv_file *f = &csv->file[csv->files - 1];
    weft_csv_name *sorted = NULL;
    int *field = NULL;
    weft_status status = weft_csv_sort_names(csv->header, csv->columns, &sorted);
    if (status == WEFT_OK) status = WEFT_NEW(&field, csv->columns);
    if (status == WEFT_OK) status = match_fields(r, csv, sorted, field);
    free(sorted);
    if (status != WEFT_OK) {
        free(field);
        return status;
    }
    r->field = f->field = field;
    r->fields_known = (size_t)csv->columns;
    return weft_csv_read_row(r);
}

/* Passes over lines before the table. */
static weft_status skip_lines(weft_csv_reader *r, int lines)
{
    for (int i = 0; i < lines; i++) {
        const char *end = memchr(r->next, '\n', (size_t)(r->end - r->next));
        if (!end || end + 1 == r->end)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: has %d line%s, and skip=%d passes over all",
                             r->name, i + 1, weft_plural(i + 1), lines);
        r->next = end + 1;
        r->next_line++;
    }
    return WEFT_OK;
}

bool weft_csv_has_name(const void *data, size_t size, int skip, const char *name)
{
    const char *text = data;
    weft_csv_reader r = {.name = "", .next = text, .end = text + size, .next_line = 1};
    bool has = false, begins = skip_lines(&r, skip) == WEFT_OK;
    weft_csv_read_separator(&r);
    if (begins && weft_csv_read_row(&r) == WEFT_OK)
        for (size_t i = 0; i < r.count && !has; i++)
            has = strcmp(weft_csv_trimmed(r.fields[i]), name) == 0;
    weft_csv_reader_free(&r);
    return has;
}

/* --- files --- */

/* Reads the first row of a file, and decides by that of the first one which column is which. */
static weft_status parse_head(weft_csv_reader *r, weft_csv_parser *p)
{
    weft_csv *csv = &p->csv;
    WEFT_TRY(weft_csv_read_row(r));
    for (size_t i = 0; i < r->count; i++) r->fields[i] = weft_csv_trimmed(r->fields[i]);
    if (csv->files > 1) return csv->has_header && r->count > 0 ? match_header(r, csv) : WEFT_OK;
    p->line = r->line;
    WEFT_TRY(weft_csv_columns(r->name, r->line, r->fields, (int)r->count, p->label, p->weight,
                              p->known, csv));
    if (csv->has_header) WEFT_TRY(take_header(r, csv));
    return weft_csv_cells_open(r->name, p->known, csv);
}

static weft_status parse_rows(weft_csv_reader *r, weft_csv_parser *p)
{
    int64_t most = p->known && p->known->most_rows > 0 ? p->known->most_rows : INT64_MAX;
    WEFT_TRY(parse_head(r, p));
    while (r->count > 0 && p->csv.rows < most) {
        WEFT_TRY(weft_csv_add_row(r, p));
        WEFT_TRY(weft_csv_read_row(r));
    }
    return WEFT_OK;
}

static weft_status add_file(weft_csv *csv, const char *name, size_t *capacity)
{
    WEFT_TRY(WEFT_GROW(&csv->file, capacity, csv->files));
    weft_csv_file *f = &csv->file[csv->files];
    *f = (weft_csv_file){.first = csv->rows};
    WEFT_TRY(weft_strdup(name, &f->name));
    csv->files++;
    return WEFT_OK;
}

weft_status weft_csv_add(weft_csv_parser *p, const char *name, const void *data, size_t size)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* byte order mark */
    size_t marked = 0;
    if (size >= sizeof(mark) - 1 && memcmp(data, mark, sizeof(mark) - 1) == 0)
        marked = sizeof(mark) - 1;
    const char *text = data, *end = text + size, *begin = text + marked;
    if (begin == end) return weft_fail(WEFT_ERR_FORMAT, "%s: is empty", name);
    WEFT_TRY(weft_csv_check_text(name, begin, (size_t)(end - begin)));
    weft_csv_reader r = {.name = name,
                         .next = begin,
                         .end = end,
                         .line = 1,
                         .next_line = 1,
                         .most = p->known ? p->known->most_columns : 0};
    WEFT_TRY(skip_lines(&r, p->known ? p->known->skip : 0));
    WEFT_TRY(add_file(&p->csv, name, &p->file_capacity));
    weft_csv_read_separator(&r);
    p->text = text;
    p->csv.comma = r.separator != ',';
    p->csv.file[p->csv.files - 1].separator = r.separator;
    weft_status status = parse_rows(&r, p);
    weft_csv_reader_free(&r);
    return status;
}

/* --- the whole table --- */

weft_status weft_csv_begin(const char *label, const char *weight, const weft_csv_known *known,
                           weft_csv_parser **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    **out = (weft_csv_parser){.known = known,
                              .label = label,
                              .weight = weight,
                              .measured = known && known->measured,
                              .ignored = known && known->label_ignored,
                              .unlabelled = known && known->unlabelled};
    return WEFT_OK;
}

/* Refuses a single word among labels that are numbers: a mark of a missing value, such as none, or
 * the word of the first row alone, which may be a header whose other names are numbers. */
static weft_status check_only_word(const weft_csv_parser *p)
{
    const weft_csv *csv = &p->csv;
    double ignored;
    int word = -1, words = 0;
    int64_t row = -1, times = 0;
    for (int i = 0; i < csv->classes; i++) {
        if (weft_parse_real(csv->class_names[i], &ignored)) continue;
        word = i;
        words++;
    }
    if (words != 1 || csv->classes < 2) return WEFT_OK;
    for (int64_t i = csv->rows - 1; i >= 0; i--) {
        if (csv->labels[i] != word) continue;
        row = i;
        times++;
    }
    const char *name = csv->class_names[word];
    bool first = !csv->has_header && !(p->known && p->known->features > 0);
    const weft_csv_file *f = weft_csv_file_of(csv, row);
    int column = f->field ? f->field[csv->label] : csv->label;
    if (first && row == 0 && times == 1)
        return weft_fail(
            WEFT_ERR_FORMAT,
            "%s:%lld: column %d, the label, holds '%.40s', and a number in all other rows; if "
            "row 1 is a header, give label=NAME, else a number must stand there",
            f->name, (long long)p->line, column, name);
    if (!weft_csv_is_missing(name, false)) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: column %d, the label, holds '%s' in row %lld (counted from 0), and "
                     "numbers in others: that marks a missing value; leave the row out, or, if a "
                     "class is meant, give it another name",
                     f->name, column, name, (long long)(row - f->first));
}

static weft_status finish(weft_csv_parser *p)
{
    weft_csv *csv = &p->csv;
    if (csv->rows == 0)
        return weft_fail(WEFT_ERR_FORMAT, "%s: has a header but no rows", csv->file[0].name);
    if (p->vacant) {
        csv->label = -1;
        csv->answers = 0;
    }
    if (!csv->labels) return WEFT_OK;
    WEFT_TRY(check_only_word(p));
    return weft_csv_sort_classes(csv);
}

weft_status weft_csv_end(weft_csv_parser **parser, weft_csv *out)
{
    weft_csv_parser *p = *parser;
    weft_status status = out ? finish(p) : WEFT_OK;
    weft_csv_classes_free(&p->classes);
    if (out && status == WEFT_OK)
        *out = p->csv;
    else
        weft_csv_free(&p->csv);
    free(p);
    *parser = NULL;
    return status;
}

weft_status weft_csv_parse(const char *name, const void *data, size_t size, const char *label,
                           const char *weight, const weft_csv_known *known, weft_csv *out)
{
    weft_csv_parser *p;
    WEFT_TRY(weft_csv_begin(label, weight, known, &p));
    weft_status status = weft_csv_add(p, name, data, size);
    weft_status ended = weft_csv_end(&p, status == WEFT_OK ? out : NULL);
    return status == WEFT_OK ? ended : status;
}
