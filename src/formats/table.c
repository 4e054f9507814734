/* Features of a table, as its description has them. */
#include "formats/table.h"

#include <math.h>
#include <stdio.h>

#include "formats/csv_cells.h"

/* Parts of a date: days since 1970, then those that repeat. */
enum { DAYS, YEAR, MONTH, DAY, WEEKDAY, DATE_PARTS };
static const char *const date_parts[] = {"", "year", "month", "day", "weekday"};

void weft_table_free(weft_table *t)
{
    if (!t) return;
    for (int i = 0; t->column && i < t->columns; i++) {
        free(t->column[i].name);
        weft_strings_free(&t->column[i].word, t->column[i].words);
    }
    free(t->column);
    free(t->owner);
    free(t->dropped);
    free(t->marks);
    free(t);
}

weft_status weft_table_place(weft_table *t)
{
    free(t->owner);
    t->owner = NULL;
    t->features = 0;
    for (int i = 0; i < t->columns; i++) {
        weft_table_column *c = &t->column[i];
        c->first = t->features;
        c->features = c->kind == WEFT_CSV_CATEGORIES          ? c->words + c->rare + c->gaps
                      : c->kind == WEFT_CSV_DATES && c->parts ? DATE_PARTS + c->gaps
                                                              : 1 + c->gaps;
        t->features += c->features;
    }
    WEFT_TRY(WEFT_NEW(&t->owner, t->features));
    for (int i = 0; i < t->columns; i++)
        for (int k = 0; k < t->column[i].features; k++) t->owner[t->column[i].first + k] = i;
    return WEFT_OK;
}

static weft_status copy_contents(const weft_table *from, weft_table *to)
{
    WEFT_TRY(WEFT_NEW(&to->column, from->columns));
    to->columns = from->columns;
    for (int i = 0; i < from->columns; i++) {
        const weft_table_column *c = &from->column[i];
        weft_table_column *d = &to->column[i];
        *d = *c;
        d->name = NULL;
        d->word = NULL;
        if (c->name) WEFT_TRY(weft_strdup(c->name, &d->name));
        WEFT_TRY(weft_strings_copy(c->word, c->words, &d->word));
    }
    if (from->dropped) WEFT_TRY(weft_strdup(from->dropped, &to->dropped));
    if (from->marks) WEFT_TRY(weft_strdup(from->marks, &to->marks));
    return weft_table_place(to);
}

weft_status weft_table_copy(const weft_table *from, weft_table **out)
{
    weft_table *t;
    *out = NULL;
    if (!from) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&t, 1));
    weft_status status = copy_contents(from, t);
    if (status == WEFT_OK)
        *out = t;
    else
        weft_table_free(t);
    return status;
}

static double date_part(double days, int part)
{
    int year, month, day;
    if (part == DAYS) return days;
    if (part == WEEKDAY)
        return fmod(fmod(floor(days) + 3, 7) + 7, 7); /* 1970 began on a Thursday */
    weft_csv_day(days, &year, &month, &day);
    return part == YEAR ? year : part == MONTH ? month : day;
}

double weft_table_feature(const weft_table *t, const double *row, int feature)
{
    const weft_table_column *c = &t->column[t->owner[feature]];
    double value = row[t->owner[feature]];
    int part = feature - c->first;
    bool missing = isnan(value);
    if (c->gaps && part == c->features - 1) return missing;
    if (c->kind == WEFT_CSV_CATEGORIES) return !missing && value == part;
    if (missing) value = c->fill;
    return c->kind == WEFT_CSV_DATES ? date_part(value, part) : value;
}

bool weft_table_is_flag(const weft_table *t, int feature)
{
    const weft_table_column *c = &t->column[t->owner[feature]];
    return c->kind == WEFT_CSV_CATEGORIES || (c->gaps && feature - c->first == c->features - 1);
}

static weft_status name_feature(const weft_table_column *c, int part, char **out)
{
    if (c->gaps && part == c->features - 1) return weft_format(out, "%s (missing)", c->name);
    if (c->kind == WEFT_CSV_CATEGORIES)
        return part < c->words ? weft_format(out, "%s=%s", c->name, c->word[part])
                               : weft_format(out, "%s (other)", c->name);
    return part ? weft_format(out, "%s (%s)", c->name, date_parts[part])
                : weft_strdup(c->name, out);
}

weft_status weft_table_column_names(const weft_table *t, char ***out)
{
    WEFT_TRY(WEFT_NEW(out, t->columns));
    for (int i = 0; i < t->columns; i++) (*out)[i] = t->column[i].name;
    return WEFT_OK;
}

weft_status weft_table_names(const weft_table *t, char ***out)
{
    WEFT_TRY(WEFT_NEW(out, t->features));
    for (int f = 0; f < t->features; f++) {
        const weft_table_column *c = &t->column[t->owner[f]];
        WEFT_TRY(name_feature(c, f - c->first, &(*out)[f]));
    }
    return WEFT_OK;
}

/* Sets place[k] to the number of word k of the file in the description. */
static void match_words(const weft_table_column *c, const weft_csv_cells *cells, double *place)
{
    for (int k = 0; k < cells->words; k++) place[k] = c->words;
    for (int w = 0; w < c->words; w++) {
        int k = weft_csv_classes_find(&cells->found, c->word[w]);
        if (k >= 0) place[k] = w;
    }
}

/* Counts texts that the first `trained` of the rows lack. */
static weft_status count_unknown(const weft_csv *csv, int j, const int64_t *rows, int64_t trained,
                                 int64_t count)
{
    weft_csv_cells *c = &csv->cells[j];
    bool *seen;
    weft_status status = WEFT_NEW(&seen, c->words);
    for (int64_t i = 0; i < count && status == WEFT_OK; i++) {
        double word = csv->values[rows[i] * csv->features + j];
        if (isnan(word)) continue;
        if (i < trained)
            seen[(int)word] = true;
        else if (!seen[(int)word] && c->unknown++ == 0)
            status = weft_strdup(c->word[(int)word], &c->stranger);
    }
    free(seen);
    return status;
}

weft_status weft_table_number_words(const weft_table *t, const int64_t *rows, int64_t trained,
                                    int64_t count, weft_csv *csv)
{
    for (int j = 0; j < csv->features; j++) {
        double *place;
        if (t->column[j].kind != WEFT_CSV_CATEGORIES) continue;
        WEFT_TRY(WEFT_NEW(&place, csv->cells[j].words));
        match_words(&t->column[j], &csv->cells[j], place);
        weft_status status = trained > 0 ? count_unknown(csv, j, rows, trained, count) : WEFT_OK;
        for (int64_t i = 0; i < csv->rows; i++) {
            double *value = &csv->values[i * csv->features + j];
            if (!isnan(*value)) *value = place[(int)*value];
        }
        free(place);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}
