/* Reads the rows of a table (RFC 4180). */
#include "formats/csv_reader.h"

#include <strings.h>

static bool ends_line(const weft_csv_reader *r)
{
    return r->next >= r->end || *r->next == '\n' || *r->next == '\r';
}

static bool ends_field(const weft_csv_reader *r)
{
    return ends_line(r) || *r->next == r->separator;
}

/* The first character from `at` on that is no blank. */
static const char *skip_blanks(const weft_csv_reader *r, const char *at)
{
    while (at < r->end && (*at == ' ' || *at == '\t') && *at != r->separator) at++;
    return at;
}

/* Skips the end of a line: LF, CRLF or CR. */
static void skip_line_end(weft_csv_reader *r)
{
    bool both = r->end - r->next >= 2 && r->next[0] == '\r' && r->next[1] == '\n';
    r->next += both ? 2 : 1;
    r->next_line++;
}

/* Adds bytes to the copy of the row. */
static weft_status take(weft_csv_reader *r, const char *bytes, size_t size)
{
    if (r->size + size > r->room) WEFT_TRY(WEFT_GROW(&r->row, &r->room, r->size + size));
    if (size > 0) memcpy(r->row + r->size, bytes, size);
    r->size += size;
    return WEFT_OK;
}

/* Reads a field in quotes, from the first one on. Blanks behind the field are skipped. */
static weft_status quoted_field(weft_csv_reader *r)
{
    const char *from = ++r->next; /* what is not taken yet */
    for (;; r->next++) {
        if (r->next >= r->end)
            return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: a quoted field does not end", r->name,
                             (long long)r->line);
        bool line = *r->next == '\r' && !(r->next + 1 < r->end && r->next[1] == '\n');
        if (*r->next == '\n' || line) r->next_line++;
        if (*r->next != '"') continue;
        bool doubled = r->next + 1 < r->end && r->next[1] == '"';
        WEFT_TRY(take(r, from, (size_t)(r->next + doubled - from)));
        if (!doubled) break;
        from = ++r->next + 1;
    }
    r->next = skip_blanks(r, r->next + 1);
    if (ends_field(r)) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: column %zu: text after the closing quote", r->name,
                     (long long)r->line, r->count);
}

static weft_status field(weft_csv_reader *r, bool *last)
{
    if (r->most > 0 && r->count == r->most)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: has more than %zu columns", r->name,
                         (long long)r->line, r->most);
    WEFT_TRY(WEFT_GROW(&r->offsets, &r->offset_capacity, r->count));
    r->offsets[r->count++] = r->size;
    const char *from = r->next, *begin = skip_blanks(r, from);
    if (begin < r->end && *begin == '"') {
        r->next = begin;
        WEFT_TRY(quoted_field(r));
    } else {
        while (!ends_field(r)) r->next++;
        WEFT_TRY(take(r, from, (size_t)(r->next - from)));
    }
    *last = ends_line(r);
    if (*last)
        skip_line_end(r);
    else
        r->next++;
    return take(r, "", 1);
}

weft_status weft_csv_read_row(weft_csv_reader *r)
{
    do {
        r->count = r->size = 0;
        r->line = r->next_line;
        r->begin = r->next;
        if (r->next >= r->end) return WEFT_OK;
        for (bool last = false; !last;) WEFT_TRY(field(r, &last));
    } while (r->count == 1 && r->row[0] == '\0');
    WEFT_TRY(WEFT_GROW(&r->fields, &r->capacity, r->count));
    const int *field = r->field && r->count == r->fields_known ? r->field : NULL;
    for (size_t i = 0; i < r->count; i++)
        r->fields[i] = r->row + r->offsets[field ? (size_t)field[i] : i];
    return WEFT_OK;
}

void weft_csv_reader_free(weft_csv_reader *r)
{
    free(r->row);
    free(r->fields);
    free(r->offsets);
    *r = (weft_csv_reader){0};
}

/* The characters that may separate fields; in doubt the first. Tabs may also be blanks. */
static const char SEPARATORS[] = ",;|\t";
enum { KINDS = sizeof(SEPARATORS) - 1, LINES = 16 };

/* Evidence of the first lines on each of the separators. */
typedef struct shown {
    int count[KINDS]; /* in the first line */
    bool same[KINDS]; /* in the others as well */
    bool decimal;     /* each comma is between digits */
} shown;

/* Counts the separators of a line, outside quotes; returns its end. */
static const char *count_line(const char *at, const char *end, int *count, bool *decimal)
{
    bool quoted = false;
    for (; at < end && (quoted || (*at != '\n' && *at != '\r')); at++) {
        const char *kind = *at ? strchr(SEPARATORS, *at) : NULL;
        quoted = quoted != (*at == '"');
        if (quoted || !kind) continue;
        count[kind - SEPARATORS]++;
        if (kind > SEPARATORS) continue;
        *decimal = *decimal && at[-1] >= '0' && at[-1] <= '9' && at + 1 < end && at[1] >= '0' &&
                   at[1] <= '9';
    }
    return at;
}

static shown look(const char *at, const char *end)
{
    shown s = {.decimal = true};
    for (int line = 0; line < LINES; line++) {
        int count[KINDS] = {0};
        while (at < end && (*at == '\n' || *at == '\r')) at++;
        if (at == end) break;
        /* A comma at the beginning of a line follows no digit. */
        s.decimal = s.decimal && *at != ',';
        at = count_line(at, end, count, &s.decimal);
        for (int k = 0; k < KINDS; k++) {
            if (line == 0) s.count[k] = count[k];
            s.same[k] = (line == 0 || s.same[k]) && count[k] == s.count[k];
        }
    }
    return s;
}

/* The separator of which each line has as many as the first one. Commas between digits are decimal
 * ones if another separator is possible. */
static char guess_separator(const weft_csv_reader *r)
{
    shown s = look(r->next, r->end);
    bool commas = s.count[0] > 0 && s.same[0];
    for (int k = 1; k < KINDS; k++)
        if ((!commas || s.decimal) && s.count[k] > 0 && s.same[k]) return SEPARATORS[k];
    return SEPARATORS[0];
}

void weft_csv_read_separator(weft_csv_reader *r)
{
    const char *line = r->next;
    bool said = r->end - line >= 5 && strncasecmp(line, "sep=", 4) == 0 && line[4] &&
                strchr(SEPARATORS, line[4]);
    r->separator = SEPARATORS[0];
    if (said) r->next = line + 5;
    if (said && ends_line(r)) {
        r->separator = line[4];
        skip_line_end(r);
        return;
    }
    r->next = line;
    r->separator = guess_separator(r);
}

bool weft_csv_number(const char *text, bool comma, double *out)
{
    enum { LONGEST = 64 }; /* characters of a number with a decimal comma */
    char copy[LONGEST];
    const char *at = comma ? strchr(text, ',') : NULL;
    size_t size = strlen(text);
    if (!at || strchr(text, '.') || size >= sizeof(copy)) return weft_parse_real(text, out);
    memcpy(copy, text, size + 1);
    copy[at - text] = '.'; /* a second comma is no part of a number */
    return weft_parse_real(copy, out);
}

weft_status weft_csv_fields(const weft_csv *csv, const weft_bytes *text, int64_t row,
                            weft_csv_row *out)
{
    const weft_csv_file *f = weft_csv_file_of(csv, row);
    const weft_bytes *of = &text[f - csv->file];
    const char *begin = (const char *)of->data;
    weft_csv_reader r = {.name = "row",
                         .next = begin + csv->begin[row],
                         .end = begin + of->size,
                         .field = f->field,
                         .fields_known = (size_t)csv->columns,
                         .separator = f->separator};
    weft_status status = weft_csv_read_row(&r);
    *out = (weft_csv_row){r.row, r.fields, r.count};
    free(r.offsets);
    return status;
}

void weft_csv_row_free(weft_csv_row *row)
{
    free(row->text);
    free(row->fields);
    *row = (weft_csv_row){0};
}
