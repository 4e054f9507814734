/* Reads the fields of tables that may have texts, dates and gaps. The first value of a column
 * decides whether it has numbers or categories, and a field of the other kind is refused: it is
 * mistyped more often than meant. */
#include "formats/csv_cells.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "formats/csv_columns.h"

/* Different texts of a column, at most. */
enum { MOST_WORDS = 65536 };

bool weft_csv_next_entry(const char **list, char entry[WEFT_CSV_ENTRY])
{
    const char *at = *list;
    if (!at || !*at) return false;
    size_t size = strcspn(at, "+");
    (void)snprintf(entry, WEFT_CSV_ENTRY, "%.*s", (int)WEFT_MIN(size, WEFT_CSV_ENTRY - 1), at);
    *list = at + size + (at[size] == '+');
    return true;
}

/* Whether `list`, A+B, has an entry for which `is` holds. */
static bool has_entry(const char *list, bool (*is)(const char *entry, const void *user),
                      const void *user)
{
    char entry[WEFT_CSV_ENTRY];
    while (weft_csv_next_entry(&list, entry))
        if (is(entry, user)) return true;
    return false;
}

typedef struct place {
    const char *name;
    int column;
} place;

static bool is_place(const char *entry, const void *user)
{
    const place *p = user;
    int64_t number;
    if (weft_parse_int(entry, &number)) return number == p->column;
    return p->name && strcmp(entry, p->name) == 0;
}

bool weft_csv_listed(const char *list, const char *name, int column)
{
    return has_entry(list, is_place, &(place){name, column});
}

static bool is_mark(const char *entry, const void *user)
{
    return weft_csv_same_class(entry, user);
}

bool weft_csv_is_gap(const char *text, const char *more)
{
    return weft_csv_is_missing(text, true) || has_entry(more, is_mark, text);
}

/* --- kinds --- */

/* Refuses an entry that is no feature. */
static weft_status check_list(const char *file, const char *key, const char *list, bool dates,
                              const weft_csv *csv)
{
    char entry[WEFT_CSV_ENTRY];
    while (weft_csv_next_entry(&list, entry)) {
        bool found = false;
        int form = 0;
        for (int j = 0; j < csv->features && !found; j++) {
            const char *name = csv->header ? csv->header[csv->order[j]] : NULL;
            found = dates ? weft_csv_date_listed(entry, name, csv->order[j], &form)
                          : weft_csv_listed(entry, name, csv->order[j]);
        }
        if (form < 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: %s=%s: the form of the dates must be iso, dmy, mdy or epoch",
                             file, key, entry);
        if (!found)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s=%s is the name or number of no feature",
                             file, key, entry);
    }
    return WEFT_OK;
}

static weft_status know_words(const weft_table_column *column, weft_csv_cells *cells)
{
    cells->kind = column->kind;
    cells->form = column->form;
    cells->words = column->words;
    for (int k = 0; k < column->words; k++)
        WEFT_TRY(weft_csv_classes_add(&cells->found, column->word[k], k));
    return WEFT_OK;
}

weft_status weft_csv_cells_open(const char *file, const weft_csv_known *known, weft_csv *csv)
{
    const weft_csv_rules *rules = known ? known->rules : NULL;
    const weft_table *table = known ? known->table : NULL;
    if (!rules && !table) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&csv->cells, csv->features));
    for (int j = 0; table && j < csv->features; j++)
        WEFT_TRY(know_words(&table->column[j], &csv->cells[j]));
    if (!rules) return WEFT_OK;
    WEFT_TRY(check_list(file, "categorical", rules->categorical, false, csv));
    WEFT_TRY(check_list(file, "dates", rules->dates, true, csv));
    for (int j = 0; j < csv->features; j++) {
        const char *name = csv->header ? csv->header[csv->order[j]] : NULL;
        weft_csv_cells *cells = &csv->cells[j];
        cells->forced = weft_csv_listed(rules->categorical, name, csv->order[j]);
        int form;
        if (weft_csv_date_listed(rules->dates, name, csv->order[j], &form)) {
            cells->kind = WEFT_CSV_DATES;
            cells->form = (weft_csv_date_form)form;
        }
        if (cells->forced && cells->kind == WEFT_CSV_DATES)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: column %d is given as dates and as categories",
                             file, csv->order[j]);
        if (cells->forced) cells->kind = WEFT_CSV_CATEGORIES;
    }
    return WEFT_OK;
}

void weft_csv_cells_free(weft_csv_cells *cells, int count)
{
    for (int j = 0; cells && j < count; j++) {
        weft_csv_classes_free(&cells[j].found);
        weft_strings_free(&cells[j].word, cells[j].word ? cells[j].words : 0);
        free(cells[j].stranger);
    }
    free(cells);
}

/* --- messages --- */

weft_status weft_csv_not_a_number(const weft_csv *csv, const char *file, int64_t line, int i,
                                  const char *text, const char *more)
{
    char column[WEFT_CSV_COLUMN];
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: %s holds '%.40s', a finite number must stand there%s", file,
                     (long long)line, weft_csv_column(csv, i, column), text, more);
}

const char *weft_csv_option_name(const weft_csv *csv, int i, char *room, size_t size)
{
    (void)snprintf(room, size, csv->header && *csv->header[i] ? "%.100s" : "%.0s%d",
                   csv->header ? csv->header[i] : "", i);
    return room;
}

static weft_status refuse_gap(const weft_csv_reader *r, const weft_csv *csv, bool later, int j,
                              const char *text)
{
    char more[400], name[128], column[WEFT_CSV_COLUMN];
    int i = csv->order[j];
    bool number = csv->cells[j].kind == WEFT_CSV_NUMBERS;
    (void)weft_csv_option_name(csv, i, name, sizeof(name));
    if (later)
        (void)snprintf(more, sizeof(more),
                       "; the model was trained without missing=, so leave the row out");
    else
        (void)snprintf(more, sizeof(more),
                       "; missing=%s fills such gaps, drop=%s leaves the column out",
                       csv->cells[j].kind == WEFT_CSV_CATEGORIES ? "category" : "mean", name);
    if (number) return weft_csv_not_a_number(csv, r->name, r->line, i, text, more);
    return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: %s holds '%.40s', a missing value%s", r->name,
                     (long long)r->line, weft_csv_column(csv, i, column), text, more);
}

/* Refuses numbers and texts in one column: `text` is a text in column i of that line. */
static weft_status refuse_text(const char *file, const weft_csv *csv, bool later, int i,
                               int64_t line, const char *text)
{
    char more[600] = "", name[128];
    (void)weft_csv_option_name(csv, i, name, sizeof(name));
    if (!later)
        (void)snprintf(more, sizeof(more),
                       ", as in other rows; categorical=%s makes all of them categories, na=%.40s "
                       "says that this marks a missing value, drop=%s leaves the column out%s",
                       name, text, name,
                       !csv->header && line == 1 ? ", and if row 1 is a header, give label=NAME"
                                                 : "");
    return weft_csv_not_a_number(csv, file, line, i, text, more);
}

/* --- fields --- */

void weft_csv_join_lines(char *text)
{
    char *to = text + strcspn(text, "\n\r\t");
    for (const char *at = to; *at; at++)
        if (at[0] != '\r' || at[1] != '\n') *to++ = strchr("\n\r\t", *at) ? ' ' : *at;
    *to = '\0';
}

static weft_status find_word(const weft_csv_reader *r, const weft_csv *csv, bool later, int j,
                             char *text, double *out)
{
    weft_csv_cells *c = &csv->cells[j];
    char name[128], column[WEFT_CSV_COLUMN];
    weft_csv_join_lines(text);
    int number = weft_csv_classes_find(&c->found, text);
    if (number < 0 && later) {
        number = c->words;
        if (c->unknown++ == 0) WEFT_TRY(weft_strdup(text, &c->stranger));
    } else if (number < 0) {
        int i = csv->order[j];
        if (!weft_is_printable(text))
            return weft_fail(
                WEFT_ERR_FORMAT, "%s:%lld: %s: the text '%.60s' %s; drop=%s leaves the column out",
                r->name, (long long)r->line, weft_csv_column(csv, i, column), text,
                weft_csv_unprintable(text), weft_csv_option_name(csv, i, name, sizeof(name)));
        if (c->words >= MOST_WORDS)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s:%lld: more than %d different texts in %s, which are too many for "
                             "categories; drop=%s leaves it out",
                             r->name, (long long)r->line, MOST_WORDS,
                             weft_csv_column(csv, i, column),
                             weft_csv_option_name(csv, i, name, sizeof(name)));
        WEFT_TRY(WEFT_GROW(&c->word, &c->word_capacity, c->words));
        WEFT_TRY(weft_strdup(text, &c->word[c->words]));
        number = c->words++;
        WEFT_TRY(weft_csv_classes_add(&c->found, c->word[number], number));
    }
    *out = number;
    return WEFT_OK;
}

static weft_status read_date(const weft_csv_reader *r, const weft_csv *csv, int j, bool later,
                             const char *text, double *out)
{
    char column[WEFT_CSV_COLUMN], name[128], more[300] = "";
    const char *want, *have;
    int i = csv->order[j], form = 0;
    if (weft_csv_date(text, csv->cells[j].form, out)) return WEFT_OK;
    while (weft_csv_date_name(form, &have) && !weft_csv_date(text, (weft_csv_date_form)form, out))
        form++;
    const char *other = weft_csv_date_name(form, &have);
    (void)weft_csv_date_name((int)csv->cells[j].form, &want);
    if (other && !later)
        (void)snprintf(more, sizeof(more),
                       "; dates=%s:%s reads all dates of the column as %s, and a column that has "
                       "dates of several forms must be written in one",
                       weft_csv_option_name(csv, i, name, sizeof(name)), other, have);
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: %s holds '%.40s', a date must stand there, as %s%s%s", r->name,
                     (long long)r->line, weft_csv_column(csv, i, column), text, want,
                     later ? ", since the training had this form" : "", more);
}

weft_status weft_csv_cell(const weft_csv_reader *r, weft_csv *csv, const weft_csv_known *known,
                          int j, char *text, double *out)
{
    weft_csv_cells *c = &csv->cells[j];
    const weft_table *table = known->table;
    const char *marks = table ? table->marks : known->rules->na;
    bool later = table != NULL, usual = c->kind <= WEFT_CSV_NUMBERS;
    bool number = usual && weft_csv_number(text, csv->comma, out) && isfinite(*out);
    if (number && c->kind == WEFT_CSV_NUMBERS && !marks) return WEFT_OK;
    if (weft_csv_is_gap(text, marks)) {
        bool may = later                                ? !isnan(table->column[j].fill)
                   : usual || c->kind == WEFT_CSV_DATES ? known->rules->gaps
                                                        : known->rules->text_gaps;
        if (c->kind == WEFT_CSV_OPEN && !later) may = known->rules->text_gaps;
        if (c->missing++ == 0) {
            c->gap = r->line;
            c->gap_file = csv->files - 1;
        }
        *out = NAN;
        return may ? WEFT_OK : refuse_gap(r, csv, later, j, text);
    }
    if (c->kind == WEFT_CSV_DATES) return read_date(r, csv, j, later, text, out);
    if (c->kind == WEFT_CSV_OPEN) {
        double infinite;
        bool any = number || weft_csv_number(text, csv->comma, &infinite);
        c->kind = any ? WEFT_CSV_NUMBERS : WEFT_CSV_CATEGORIES;
        c->line = r->line;
        c->line_file = csv->files - 1;
    }
    if (c->kind == WEFT_CSV_NUMBERS && number) return WEFT_OK;
    if (c->kind == WEFT_CSV_NUMBERS)
        return refuse_text(r->name, csv, later, csv->order[j], r->line, text);
    if (!later && !c->forced && weft_csv_number(text, csv->comma, out))
        return refuse_text(csv->file[c->line_file].name, csv, later, csv->order[j], c->line,
                           c->word[0]);
    return find_word(r, csv, later, j, text, out);
}
