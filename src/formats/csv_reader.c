/* Reads the rows of a table (RFC 4180) from a copy of its text, in place. */
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
static char *skip_blanks(const weft_csv_reader *r, char *at)
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

/* Reads a field in quotes, from the first one on, and writes what is between them to *to, which
 * moves to its end. Blanks behind the field are skipped. */
static weft_status quoted_field(weft_csv_reader *r, char **to)
{
    for (r->next++;; r->next++) {
        if (r->next >= r->end)
            return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: a quoted field does not end", r->name,
                             (long long)r->line);
        bool line = *r->next == '\r' && !(r->next + 1 < r->end && r->next[1] == '\n');
        if (*r->next == '\n' || line) r->next_line++;
        if (*r->next == '"' && !(r->next + 1 < r->end && r->next[1] == '"')) break;
        if (*r->next == '"') r->next++;
        *(*to)++ = *r->next;
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
    WEFT_TRY(WEFT_GROW(&r->fields, &r->capacity, r->count));
    char *to = r->next, *begin = skip_blanks(r, r->next);
    bool quoted = begin < r->end && *begin == '"';
    r->fields[r->count++] = to;
    if (quoted) {
        r->next = begin;
        WEFT_TRY(quoted_field(r, &to));
    } else {
        while (!ends_field(r)) *to++ = *r->next++;
    }
    *last = ends_line(r);
    if (*last)
        skip_line_end(r);
    else
        r->next++;
    *to = '\0';
    return WEFT_OK;
}

weft_status weft_csv_read_row(weft_csv_reader *r)
{
    do {
        r->count = 0;
        r->line = r->next_line;
        r->begin = r->next;
        if (r->next >= r->end) return WEFT_OK;
        for (bool last = false; !last;) WEFT_TRY(field(r, &last));
    } while (r->count == 1 && r->fields[0][0] == '\0');
    return WEFT_OK;
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
    char *line = r->next;
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

weft_status weft_csv_fields(const weft_csv *csv, const void *data, int64_t row, weft_csv_row *out)
{
    size_t size = (size_t)(csv->begin[row + 1] - csv->begin[row]);
    *out = (weft_csv_row){0};
    WEFT_TRY(WEFT_NEW(&out->text, size + 1));
    memcpy(out->text, (const char *)data + csv->begin[row], size);
    weft_csv_reader r = {
        .name = "row", .next = out->text, .end = out->text + size, .separator = csv->separator};
    weft_status status = weft_csv_read_row(&r);
    out->fields = r.fields;
    out->count = r.count;
    return status;
}

void weft_csv_row_free(weft_csv_row *row)
{
    free(row->text);
    free(row->fields);
    *row = (weft_csv_row){0};
}
