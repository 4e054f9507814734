#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "formats/csv_cells.h"
#include "formats/csv_parse.h"

/* Converts the fields of the rows of a table to numbers and class labels. csv_parse.c goes through
 * its files, csv_weight.c and csv_columns.c decide which column is which. */

char *weft_csv_trimmed(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) text[--size] = '\0';
    return text;
}

static bool number(const weft_csv *csv, char *text, double *out)
{
    return weft_csv_number(weft_csv_trimmed(text), csv->comma, out);
}

/* As many as an npy file may have (data/npy_check.c). */
enum { MOST_CLASSES = 65536 };

static weft_status intern(const weft_csv_reader *r, weft_csv_parser *t, const char *text,
                          int32_t *out)
{
    weft_csv *csv = &t->csv;
    *out = weft_csv_classes_find(&t->classes, text);
    if (*out >= 0) return WEFT_OK;
    if (csv->classes >= MOST_CLASSES)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%lld: more than %d different labels in column %d; is it the label? If "
                         "it holds numbers to predict, give it as target=COLUMN",
                         r->name, (long long)r->line, MOST_CLASSES,
                         weft_csv_shown(csv, csv->label));
    WEFT_TRY(WEFT_GROW(&csv->class_names, &t->class_capacity, csv->classes));
    WEFT_TRY(weft_strdup(text, &csv->class_names[csv->classes]));
    *out = csv->classes++;
    return weft_csv_classes_add(&t->classes, csv->class_names[*out], *out);
}

/* Refuses a label that is a mark of a missing value. */
static weft_status missing_label(const char *name, int64_t line, const weft_csv_parser *t,
                                 const char *label)
{
    const weft_csv *csv = &t->csv;
    char column[WEFT_CSV_COLUMN];
    (void)weft_csv_column(csv, csv->label, column);
    bool chosen = !t->label && !t->unlabelled && csv->header &&
                  weft_csv_shown(csv, csv->label) == csv->columns - 1 && *csv->header[csv->label] &&
                  !(t->known && t->known->features > 0);
    if (!*label)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: %s%s: the label is empty; leave the %s out%s",
                         name, (long long)line, column,
                         chosen ? ", the last one, since no label= is given" : "",
                         t->unlabelled ? "column" : "row",
                         chosen ? ", or give label=NAME if another column is the label" : "");
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: %s: the label '%s' marks a missing value; leave the row out, "
                     "or, if a class is meant, give it another name",
                     name, (long long)line, column, label);
}

static weft_status add_label(weft_csv_reader *r, weft_csv_parser *t)
{
    weft_csv *csv = &t->csv;
    char column[WEFT_CSV_COLUMN], *label = weft_csv_trimmed(r->fields[csv->label]);
    weft_csv_join_lines(label);
    if (weft_csv_is_missing(label, true)) return missing_label(r->name, r->line, t, label);
    if (!weft_is_printable(label))
        return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: %s: the label '%.60s' %s", r->name,
                         (long long)r->line, weft_csv_column(csv, csv->label, column), label,
                         weft_csv_unprintable(label));
    WEFT_TRY(WEFT_GROW(&csv->labels, &t->label_capacity, csv->rows));
    return intern(r, t, label, &csv->labels[csv->rows]);
}

/* Refuses a target that is missing or not finite, or, of several labels, not 0 or 1. */
static weft_status refuse_target(const weft_csv_reader *r, const weft_csv_parser *t, int column,
                                 const char *text)
{
    const weft_csv *csv = &t->csv;
    const char *name = csv->header ? csv->header[column] : NULL;
    bool binary = t->known->binary;
    char more[256], where[WEFT_CSV_COLUMN];
    (void)snprintf(more, sizeof(more), ", or, if the column holds classes, give it as label=%.100s",
                   name ? name : "COLUMN");
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: %s, %s, %s%.40s%s; %s must stand in every row: %sleave "
                     "the row out%s",
                     r->name, (long long)r->line, weft_csv_column(csv, column, where),
                     binary             ? "one of the labels"
                     : csv->answers > 1 ? "one of the targets"
                                        : "the target",
                     *text ? "holds '" : "is empty", text, *text ? "'" : "",
                     binary ? "0 or 1 (also false or true)" : "a finite number",
                     weft_csv_signed_number(text) ? "write it without signs such as $ and %, and "
                                                    "without those that group its digits, or "
                                                  : "",
                     binary || csv->answers > 1 ? "" : more);
}

/* Sets *value to the number of a target; false: there is none. */
static bool read_target(const weft_csv_parser *t, char *text, double *value)
{
    if (!t->known->binary) return number(&t->csv, text, value) && isfinite(*value);
    bool is_true = strcasecmp(text, "true") == 0;
    *value = is_true;
    if (is_true || strcasecmp(text, "false") == 0) return true;
    return number(&t->csv, text, value) && (*value == 0 || *value == 1);
}

/* Adds the numeric targets of a row. */
static weft_status add_target(weft_csv_reader *r, weft_csv_parser *t)
{
    weft_csv *csv = &t->csv;
    for (int j = 0; j < csv->answers; j++) {
        size_t at = (size_t)csv->rows * (size_t)csv->answers + (size_t)j;
        char *text = weft_csv_trimmed(r->fields[csv->answer[j]]);
        WEFT_TRY(WEFT_GROW(&csv->targets, &t->label_capacity, at));
        if (!read_target(t, text, &csv->targets[at]))
            return refuse_target(r, t, csv->answer[j], text);
    }
    return WEFT_OK;
}

static weft_status add_weight(weft_csv_reader *r, weft_csv_parser *t)
{
    weft_csv *csv = &t->csv;
    char column[WEFT_CSV_COLUMN], *text = weft_csv_trimmed(r->fields[csv->weight]);
    WEFT_TRY(WEFT_GROW(&csv->weights, &t->weight_capacity, csv->rows));
    double *value = &csv->weights[csv->rows];
    if (number(csv, text, value) && isfinite(*value) && *value >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: %s, the weight, holds '%.40s'; a number of at least 0 must "
                     "stand in every row (0: the row does not count)",
                     r->name, (long long)r->line, weft_csv_column(csv, csv->weight, column), text);
}

static weft_status add_id(weft_csv_reader *r, weft_csv_parser *t)
{
    weft_csv *csv = &t->csv;
    const char *id = weft_csv_trimmed(r->fields[csv->id]);
    char column[WEFT_CSV_COLUMN];
    WEFT_TRY(WEFT_GROW(&csv->ids, &t->id_capacity, csv->rows));
    csv->ids[csv->rows] = NULL;
    if (!weft_is_printable(id))
        return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: %s: the id '%.60s' %s", r->name,
                         (long long)r->line, weft_csv_column(csv, csv->id, column), id,
                         weft_csv_unprintable(id));
    return weft_strdup(id, &csv->ids[csv->rows]);
}

/* Adds the label or target of a row. A table that may lack the column may also have it without
 * contents, which the first row shows. */
static weft_status add_answer(weft_csv_reader *r, weft_csv_parser *t)
{
    const weft_csv *csv = &t->csv;
    const char *text = weft_csv_trimmed(r->fields[csv->label]);
    char column[WEFT_CSV_COLUMN];
    if (csv->rows == 0) t->vacant = t->unlabelled && !*text;
    if (!t->vacant) return t->measured ? add_target(r, t) : add_label(r, t);
    if (!*text) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%lld: %s: the label is '%.40s', and empty in the rows before; fill "
                     "in all of them, or leave the column out",
                     r->name, (long long)r->line, weft_csv_column(csv, csv->label, column), text);
}

weft_status weft_csv_add_row(weft_csv_reader *r, weft_csv_parser *t)
{
    weft_csv *csv = &t->csv;
    if (r->count != (size_t)csv->columns)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: has %zu columns, the rows before have %d",
                         r->name, (long long)r->line, r->count, csv->columns);
    for (int j = 0; j < csv->features; j++) {
        size_t at = (size_t)csv->rows * (size_t)csv->features + (size_t)j;
        int i = csv->order[j];
        WEFT_TRY(WEFT_GROW(&csv->values, &t->value_capacity, at));
        double *value = &csv->values[at];
        if (csv->cells) {
            WEFT_TRY(weft_csv_cell(r, csv, t->known, j, weft_csv_trimmed(r->fields[i]), value));
            continue;
        }
        bool known = number(csv, r->fields[i], value);
        if (!known || !isfinite(*value))
            return weft_csv_not_a_number(csv, r->name, r->line, i, r->fields[i], "");
    }
    if (csv->weight >= 0) WEFT_TRY(add_weight(r, t));
    if (csv->label >= 0 && !t->ignored) WEFT_TRY(add_answer(r, t));
    if (csv->id >= 0 && !t->ignored) WEFT_TRY(add_id(r, t));
    csv->rows++;
    if (!t->known || !t->known->begins) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&csv->begin, &t->begin_capacity, csv->rows));
    csv->begin[csv->rows - 1] = r->begin - t->text;
    return WEFT_OK;
}

typedef struct named_class {
    char *name;
    double value; /* if it is a number */
    bool is_number;
    int32_t before; /* its class number in order of appearance */
} named_class;

/* The order of class names: numbers come first, by value, then other names in alphabetical order.
 */
static int compare_names(const void *a, const void *b)
{
    const named_class *x = a, *y = b;
    if (x->is_number != y->is_number) return x->is_number ? -1 : 1;
    if (x->is_number && x->value != y->value) return x->value < y->value ? -1 : 1;
    return strcmp(x->name, y->name);
}

weft_status weft_csv_sort_words(char **names, int count, int32_t *place)
{
    named_class *all;
    WEFT_TRY(WEFT_NEW(&all, count));
    for (int i = 0; i < count; i++) {
        all[i] = (named_class){.name = names[i], .before = i};
        all[i].is_number = weft_parse_real(all[i].name, &all[i].value);
    }
    qsort(all, (size_t)count, sizeof(*all), compare_names);
    for (int32_t i = 0; i < count; i++) {
        names[i] = all[i].name;
        place[all[i].before] = i;
    }
    free(all);
    return WEFT_OK;
}

weft_status weft_csv_sort_classes(weft_csv *csv)
{
    int32_t *place;
    WEFT_TRY(WEFT_NEW(&place, csv->classes));
    weft_status status = weft_csv_sort_words(csv->class_names, csv->classes, place);
    for (int64_t r = 0; r < csv->rows && status == WEFT_OK; r++)
        csv->labels[r] = place[csv->labels[r]];
    free(place);
    return status;
}

void weft_csv_free(weft_csv *csv)
{
    for (int i = 0; csv->header && i < csv->columns; i++) free(csv->header[i]);
    for (int i = 0; i < csv->classes; i++) free(csv->class_names[i]);
    for (int64_t i = 0; csv->ids && i < csv->rows; i++) free(csv->ids[i]);
    weft_csv_cells_free(csv->cells, csv->features);
    for (int k = 0; k < csv->files; k++) {
        free(csv->file[k].name);
        free(csv->file[k].field);
    }
    free(csv->file);
    free(csv->dropped);
    free(csv->begin);
    free(csv->ids);
    free(csv->header);
    free(csv->order);
    free(csv->class_names);
    free(csv->values);
    free(csv->labels);
    free(csv->targets);
    free(csv->answer);
    free(csv->weights);
    *csv = (weft_csv){0};
}
