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
        if (r->next >= r->end) return WEFT_OK;
        for (bool last = false; !last;) WEFT_TRY(field(r, &last));
    } while (r->count == 1 && r->fields[0][0] == '\0');
    return WEFT_OK;
}

void weft_csv_read_separator(weft_csv_reader *r)
{
    char *line = r->next;
    bool said = r->end - line >= 5 && strncasecmp(line, "sep=", 4) == 0;
    if (!said || !strchr(",;\t|", line[4])) return;
    r->next = line + 5;
    if (ends_line(r)) {
        r->separator = line[4];
        skip_line_end(r);
    } else {
        r->next = line;
    }
}
