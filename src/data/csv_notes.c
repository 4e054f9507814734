/* Warns of tables that are read as they say and may not mean it. */
#include "data/csv_notes.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "formats/table.h"

/* Whether a feature has the numbers of the rows, from 0 or from 1 on, or from any number on. */
static bool counts_rows(const weft_csv *csv, int j, bool any)
{
    double first = csv->values[j];
    bool counts = any || first == 0 || first == 1;
    for (int64_t i = 1; i < csv->rows && counts; i++)
        counts = csv->values[i * csv->features + j] == first + (double)i;
    return counts;
}

/* Whether a column of this name, which counts the rows, is there for nothing else. Other columns
 * may count the rows by chance, such as days. */
static bool names_rows(const char *name)
{
    static const char *const names[] = {"", "id", "index", "row", "unnamed: 0"};
    for (size_t i = 0; i < WEFT_COUNT(names); i++)
        if (strcasecmp(name, names[i]) == 0) return true;
    return false;
}

/* Warns of a first column that other programs write to count the rows: from such a feature a model
 * learns the order of the file. */
static void note_count(const weft_csv *csv, const char *path, weft_context *context)
{
    enum { FEW = 20 }; /* rows among which numbers in order may be chance */
    const char *name = csv->header ? csv->header[0] : "";
    int j = 0;
    while (j < csv->features && csv->order[j] != 0) j++;
    if (j == csv->features || csv->rows < FEW || !names_rows(name) ||
        !counts_rows(csv, j, *name != '\0'))
        return;
    weft_log(context, WEFT_LOG_WARNING,
             "%s: column 0 (%s) counts the rows, so a model learns the order of the file from it; "
             "id=0 makes it an identifier and no feature",
             path, *name ? name : "without a name");
}

/* Whether the first row has the label in a class of its own. */
static bool first_alone(const weft_csv *csv)
{
    bool alone = csv->labels && csv->rows > 1;
    for (int64_t i = 1; i < csv->rows && alone; i++) alone = csv->labels[i] != csv->labels[0];
    return alone;
}

/* Warns of a first row that counts the columns, 0, 1, 2 and so on, which may be a header and may be
 * a row of numbers. */
static void note_header(const weft_csv *csv, const char *path, bool named, weft_context *context)
{
    bool counts = !named && csv->features > 1;
    for (int j = 0; j < csv->features && counts; j++) {
        double value = csv->values[j];
        if (csv->header) counts = weft_parse_real(csv->header[csv->order[j]], &value);
        counts = counts && value == csv->order[j];
    }
    if (counts && csv->header)
        weft_log(context, WEFT_LOG_WARNING,
                 "%s: line 1 has the numbers of the columns, so it is taken as the header; if it "
                 "is a sample, put another one first",
                 path);
    else if (counts && first_alone(csv))
        weft_log(context, WEFT_LOG_WARNING,
                 "%s: line 1 has the numbers of the columns and a label that no other row has, and "
                 "is taken as a sample; if it is a header, give label=NAME",
                 path);
}

/* Warns that columns go by their places, as only one of the tables has names. */
static void note_places(const weft_csv *csv, const char *path, const weft_source_request *request)
{
    bool table = request->stats->label_column > 0; /* the training was on one */
    if (!table || !csv->header == !request->stats->column_names) return;
    weft_log(request->context, WEFT_LOG_WARNING,
             "%s has %s header and the table of the training had %s, so columns are taken by their "
             "places and not by their names",
             path, csv->header ? "a" : "no", csv->header ? "none" : "one");
}

/* Whether column i of the file has 0 and 1 alone; the label has them by its names. */
static bool is_flag(const weft_csv *csv, const int *feature, int i, int64_t row, double *value)
{
    if (i == csv->label) return weft_parse_real(csv->class_names[csv->labels[row]], value);
    *value = feature[i] < 0 ? -1 : csv->values[row * csv->features + feature[i]];
    return *value == 0 || *value == 1;
}

/* Whether the columns from `first` to `last` have a single 1 in each row. */
static bool are_one_hot(const weft_csv *csv, const int *feature, int first, int last)
{
    for (int64_t row = 0; row < csv->rows; row++) {
        double sum = 0, value = 0;
        for (int i = first; i <= last; i++) {
            if (!is_flag(csv, feature, i, row, &value)) return false;
            sum += value;
        }
        if (sum != 1) return false;
    }
    return true;
}

/* Warns of a label that is one of several columns for one class (one-hot): the others are features
 * that give it away. They begin or end with the label. */
static weft_status note_one_hot(const weft_csv *csv, const char *path, weft_context *context)
{
    int *feature; /* of a column of the file; -1: it is none */
    int first = csv->label, last = csv->label;
    double value;
    if (!csv->labels || csv->classes > 2) return WEFT_OK;
    for (int i = 0; i < csv->classes; i++)
        if (!weft_parse_real(csv->class_names[i], &value) || (value != 0 && value != 1))
            return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&feature, csv->columns));
    for (int i = 0; i < csv->columns; i++) feature[i] = -1;
    for (int j = 0; j < csv->features; j++) feature[csv->order[j]] = j;
    bool found = false;
    while (!found && first > 0 && is_flag(csv, feature, first - 1, 0, &value))
        found = are_one_hot(csv, feature, --first, last);
    if (!found) first = csv->label;
    while (!found && last + 1 < csv->columns && is_flag(csv, feature, last + 1, 0, &value))
        found = are_one_hot(csv, feature, first, ++last);
    free(feature);
    if (!found) return WEFT_OK;
    weft_log(context, WEFT_LOG_WARNING,
             "%s: columns %d to %d have a single 1 in each row, as one class in several columns "
             "(one-hot), of which %d is the label, so a model reads it off the others; put the "
             "class into one column",
             path, first, last, csv->label);
    return WEFT_OK;
}

/* Tells of categories that are missing in later rows, if each row of the training had one. */
static void note_gaps(const weft_csv *csv, const weft_table *table, const int64_t *rows,
                      int64_t count, const char *path, weft_context *context)
{
    for (int j = 0; table && csv->cells && j < csv->features; j++) {
        const weft_table_column *c = &table->column[j];
        long long missing = 0;
        char name[128];
        if (c->gaps || c->kind != WEFT_CSV_CATEGORIES) continue;
        for (int64_t i = 0; i < count; i++)
            missing += isnan(csv->values[rows[i] * csv->features + j]);
        if (missing == 0) continue;
        weft_log(context, WEFT_LOG_NOTE,
                 "%s: column %s has no value in %lld row%s, and had one in each row of the "
                 "training; such a row has none of its categories",
                 path, weft_csv_option_name(csv, csv->order[j], name, sizeof(name)), missing,
                 weft_plural(missing));
    }
}

/* Tells of columns and texts that the training had not. */
static void note_news(const weft_csv *csv, const char *path, weft_context *context)
{
    char more[32] = "";
    if (csv->ignored > 1)
        (void)snprintf(more, sizeof(more), " and %d other%s", csv->ignored - 1,
                       weft_plural(csv->ignored - 1));
    if (csv->ignored)
        weft_log(context, WEFT_LOG_NOTE,
                 "%s: the column '%s'%s, with which the model was not trained, is ignored", path,
                 csv->header[csv->first_ignored], more);
    for (int j = 0; csv->cells && j < csv->features; j++) {
        const weft_csv_cells *c = &csv->cells[j];
        char name[128];
        if (c->unknown == 0) continue;
        weft_log(context, WEFT_LOG_NOTE,
                 "%s: column %s has texts that are no categories of the training, in %lld row%s, "
                 "such as "
                 "'%.60s'; they count as other",
                 path, weft_csv_option_name(csv, csv->order[j], name, sizeof(name)),
                 (long long)c->unknown, weft_plural(c->unknown), c->stranger);
    }
}

/* Warns of texts that may be meant as numbers, and of numbers whose last digits are lost. */
static void note_forms(const weft_csv *csv, const char *path, weft_context *context)
{
    static const double exact = 9007199254740992.0; /* 2^53 */
    char name[128], advice[256];
    for (int j = 0; j < csv->features; j++) {
        bool large = false, numbers = !csv->cells || csv->cells[j].kind <= WEFT_CSV_NUMBERS;
        (void)weft_csv_option_name(csv, csv->order[j], name, sizeof(name));
        if (weft_csv_advise(csv, j, advice, sizeof(advice)))
            weft_log(context, WEFT_LOG_WARNING, "%s: column %s is read as categories: %s", path,
                     name, advice);
        for (int64_t i = 0; i < csv->rows && numbers && !large; i++) {
            double value = csv->values[i * csv->features + j];
            large = fabs(value) >= exact && value == floor(value) && fabs(value) < 1e20;
        }
        if (large)
            weft_log(
                context, WEFT_LOG_WARNING,
                "%s: column %s has whole numbers of 2^53 and more, whose last digits are lost; "
                "categorical=%s keeps them apart, drop=%s leaves them out",
                path, name, name, name);
    }
}

/* Warns that a column which is named as a label is a feature, since the last one is the label. */
static void note_label(const weft_csv *csv, const char *path, weft_context *context)
{
    static const char *const names[] = {"label", "class", "target", "y"};
    for (int j = 0; j < csv->features && csv->header; j++)
        for (size_t i = 0; i < WEFT_COUNT(names); i++) {
            const char *name = csv->header[csv->order[j]];
            if (csv->label != csv->columns - 1 || strcasecmp(name, names[i]) != 0) continue;
            weft_log(context, WEFT_LOG_WARNING,
                     "%s: the label is the last column, %s, and column %s is a feature; give "
                     "label=%s if that is to be learned",
                     path, csv->header[csv->label], name, name);
        }
}

weft_status weft_csv_note(const weft_csv *csv, const weft_table *table, const char *path,
                          const char *later, const int64_t *rows, int64_t count, bool given,
                          bool named, const weft_source_request *request)
{
    if (request->stats) note_places(csv, path, request);
    note_news(csv, later, request->context);
    note_gaps(csv, table, rows, count, later, request->context);
    if (request->stats) return WEFT_OK;
    note_count(csv, path, request->context);
    note_header(csv, path, named, request->context);
    note_forms(csv, path, request->context);
    if (!given) note_label(csv, path, request->context);
    return note_one_hot(csv, path, request->context);
}
