/* Determines which columns of a table are the label and the features. The features are matched with
 * those of training, by name or else by position, and ordered likewise. */
#include "formats/csv_columns.h"

#include <stdio.h>
#include <strings.h>

#include "formats/csv_cells.h"

/* The number of a field's column in the file, from 0. */
static int column_of(const weft_csv_table *t, int i)
{
    return t->column[i];
}

int weft_csv_place(const weft_csv_table *t, int64_t index)
{
    int at = 0;
    while (at < t->count && t->column[at] < index) at++;
    return index > t->total ? at + (int)WEFT_MIN(index - t->total, (int64_t)t->total) : at;
}

/* Whether the target is numbers that are none of labels, which may be words. */
static bool of_numbers(const weft_csv_table *t)
{
    return t->known->measured && !t->known->binary;
}

const char *weft_csv_role(const weft_csv_table *t)
{
    return of_numbers(t) ? "target" : "label";
}

static int compare_placed(const void *a, const void *b)
{
    const weft_csv_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

weft_status weft_csv_sort_names(char *const *names, int count, weft_csv_name **out)
{
    WEFT_TRY(WEFT_NEW(out, count));
    for (int i = 0; i < count; i++) (*out)[i] = (weft_csv_name){names[i], i};
    qsort(*out, (size_t)count, sizeof(**out), compare_placed);
    return WEFT_OK;
}

int weft_csv_find(const weft_csv_name *sorted, int count, const char *name)
{
    int low = 0;
    for (int high = count; low < high;) {
        int middle = low + (high - low) / 2;
        if (strcmp(sorted[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && strcmp(sorted[low].name, name) == 0 ? sorted[low].place : -1;
}

static bool is_known(const weft_csv_table *t, const char *name)
{
    return weft_csv_find(t->sorted_known, t->known->features, name) >= 0;
}

int weft_csv_names_found(const weft_csv_table *t)
{
    int found = 0;
    for (int i = 0; t->known->names && i < t->known->features; i++)
        found += weft_csv_find(t->sorted, t->count, t->known->names[i]) >= 0;
    return found;
}

const char *weft_csv_field(const void *user, int i)
{
    const weft_csv_table *t = user;
    return i < t->count ? t->fields[i] : NULL;
}

static weft_status no_column(const weft_csv_table *t)
{
    char near[1024];
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: no column is named '%s'%s", t->file, t->no,
                     weft_suggest(near, sizeof(near), t->no, weft_csv_field, t));
}

static weft_status only_features(const weft_csv_table *t, const char *label)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has the %d columns of the features alone, so none is the %s '%s'; leave "
                     "out %s=",
                     t->file, t->count, weft_csv_role(t), label, weft_csv_role(t));
}

/* Sets t->label to the column that label= gives, a name or a number from 0. If label= is not given
 * (NULL), the label column is that of training, or else the last one; a bare table has none. */
static weft_status find_label(weft_csv_table *t, const char *label)
{
    int64_t index;
    bool place = t->known->features > 0 && t->known->place >= 0 && t->known->place < t->count;
    t->label = t->bare ? -1 : place ? t->known->place : t->count - 1;
    if (!label) return WEFT_OK;
    if (t->bare && weft_parse_int(label, &index)) {
        if (weft_csv_place(t, index) != t->known->place) return only_features(t, label);
        return WEFT_OK;
    }
    if (!weft_parse_int(label, &index)) {
        int at = weft_csv_find(t->sorted, t->count, label);
        t->said = at >= 0;
        if (t->said) t->label = at;
        if (!t->said) t->no = label;
        return WEFT_OK;
    }
    if (index < 0 || index >= t->total)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: %s column %lld does not exist, columns are 0 to %d", t->file,
                         weft_csv_role(t), (long long)index, t->total - 1);
    t->said = true;
    t->label = weft_csv_place(t, index);
    return WEFT_OK;
}

bool weft_csv_is_missing(const char *word, bool sure)
{
    /* The marks behind the first SURE may be names of classes. */
    static const char *const marks[] = {"",     "NA", "N/A",  "#N/A", "<NA>", "nan",
                                        "null", "?",  "none", "-",    "."};
    enum { SURE = 8 };
    for (size_t i = 0; i < (sure ? SURE : WEFT_COUNT(marks)); i++)
        if (strcasecmp(word, marks[i]) == 0) return true;
    return false;
}

/* Whether a first row that has numbers and words among its features is a header nevertheless, since
 * names may be numbers: it has a name of training or, if training had none, a word that marks no
 * missing value. In training label=NAME has to say so. */
static bool has_name(const weft_csv_table *t)
{
    double ignored;
    if (t->known->names) return weft_csv_names_found(t) > 0;
    for (int i = 0; i < t->count && t->known->features > 0; i++)
        if (i != t->label && !weft_csv_number(t->fields[i], t->comma, &ignored) &&
            !weft_csv_is_missing(t->fields[i], false))
            return true;
    return false;
}

/* Whether the first row of a training table counts its columns, 0, 1, 2 and so on, as programs name
 * columns that have no names. */
static bool counts_columns(const weft_csv_table *t)
{
    enum { LEAST = 3 }; /* columns; a row of fewer numbers may be one by chance */
    bool counts = t->known->features == 0 && t->total >= LEAST;
    for (int i = 0; i < t->count && counts; i++) {
        char place[16];
        (void)snprintf(place, sizeof(place), "%d", t->column[i]);
        counts = strcmp(t->fields[i], place) == 0;
    }
    return counts;
}

/* Whether values of the table may be missing. */
static bool may_lack(const weft_csv_table *t)
{
    const weft_csv_known *k = t->known;
    return k->rules ? k->rules->text_gaps : k->table != NULL;
}

/* Whether training had texts or dates in the column of field i, if columns go by their places, so
 * that a word there says nothing. */
static bool is_text(const weft_csv_table *t, int i)
{
    const weft_table *table = t->known->table;
    int j = i - (t->label >= 0 && i > t->label);
    return table && j < table->columns && table->column[j].kind != WEFT_CSV_NUMBERS;
}

/* Finds out whether the first row is a header. This is so if label= names one of its fields, if it
 * has all feature names of training or counts the columns, or if no field of a feature or numeric
 * target is a number. FORMAT: some are numbers and no name shows that it is a header, so a value
 * may be missing. */
static weft_status find_header(const weft_csv_table *t, const char *label, bool *header)
{
    int64_t index;
    double ignored;
    int word = -1, number = -1;
    bool texts = true; /* the words may be those of columns with texts */
    *header = (t->said && !weft_parse_int(label, &index)) ||
              (t->known->names && weft_csv_names_found(t) == t->known->features) ||
              (t->known->table && weft_csv_names_found(t) > 0) || counts_columns(t);
    if (*header) return WEFT_OK;
    for (int i = 0; i < t->count; i++) {
        bool target = i == t->label, gap = weft_csv_is_missing(t->fields[i], true);
        if (target ? !of_numbers(t) : is_text(t, i) || (gap && may_lack(t))) continue;
        int *first = weft_csv_number(t->fields[i], t->comma, &ignored) ? &number : &word;
        if (*first < 0 || (gap && first == &word)) *first = i;
        texts = texts && (first == &number || (!gap && !target));
    }
    *header = word >= 0;
    if (word < 0 || number < 0 || has_name(t)) return WEFT_OK;
    *header = false;
    if (t->known->rules && texts) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_FORMAT,
        "%s:%lld: column %d holds '%.40s', but column %d holds a number; if row 1 is a "
        "header, give %s=NAME, else a finite number must stand there",
        t->file, (long long)t->line, column_of(t, word), t->fields[word], column_of(t, number),
        weft_csv_role(t));
}

static weft_status check_names(const weft_csv_table *t)
{
    for (int i = 0; i < t->count; i++) {
        int first = weft_csv_find(t->sorted, t->count, t->fields[i]);
        if (!weft_is_printable(t->fields[i]))
            return weft_fail(WEFT_ERR_FORMAT, "%s:%lld: the name of column %d, '%.60s', %s",
                             t->file, (long long)t->line, column_of(t, i), t->fields[i],
                             weft_csv_unprintable(t->fields[i]));
        if (first < i)
            return weft_fail(
                WEFT_ERR_FORMAT,
                "%s:%lld: columns %d and %d are both named '%s'; each needs a name of "
                "its own%s",
                t->file, (long long)t->line, column_of(t, first), column_of(t, i), t->fields[i],
                *t->fields[i] ? "" : ", and skip=N passes over lines before the header");
    }
    return WEFT_OK;
}

/* Assigns the features by position, since the table or training has no column names: all columns
 * but the label, in the order of the file. */
static weft_status by_place(weft_csv_table *t, bool header, int *order)
{
    const weft_csv_known *k = t->known;
    bool usual = k->label && t->no && strcmp(t->no, k->label) == 0;
    if (t->no && t->bare && !usual) return only_features(t, t->no);
    if (t->no && !t->bare && !usual && !header)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no header, so no column is named '%s'; give its number, counted "
                         "from 0, as in %s=0",
                         t->file, t->no, weft_csv_role(t));
    if (t->no && !t->bare && header) return no_column(t);
    bool fits = k->features == 0 || t->count == k->features + (t->label >= 0);
    if (!fits && !header && k->answers > 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no header and %d column%s, and training had %d feature%s and %d "
                         "%ss; give these by their numbers, counted from 0, as in %s=3+4%s",
                         t->file, t->count, weft_plural(t->count), k->features,
                         weft_plural(k->features), k->answers, weft_csv_role(t), weft_csv_role(t),
                         k->unlabelled ? ", or a table of the features alone" : "");
    if (!fits)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has %d column%s, training had %d features and the %s%s", t->file,
                         t->count, weft_plural(t->count), k->features, weft_csv_role(t),
                         k->unlabelled ? ", which may be missing" : "");
    for (int i = 0, j = 0; i < t->count; i++)
        if (i != t->label) order[j++] = i;
    return WEFT_OK;
}

/* Finds the label column by the name that it had in training, unless label= gives a column. */
static weft_status label_by_name(weft_csv_table *t)
{
    const weft_csv_known *k = t->known;
    if (t->no && !(k->unlabelled && strcmp(t->no, k->label) == 0)) return no_column(t);
    if (!t->said) t->label = weft_csv_find(t->sorted, t->count, k->label);
    bool feature = t->label >= 0 && is_known(t, t->fields[t->label]);
    if (feature)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: column '%s' is given as the %s, but was a feature in training; the %s was '%s'",
            t->file, t->fields[t->label], weft_csv_role(t), weft_csv_role(t), k->label);
    if (t->label >= 0 || k->unlabelled) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has no column '%s', which was the %s in training; if it has another name "
                     "now, give %s=NAME",
                     t->file, k->label, weft_csv_role(t), weft_csv_role(t));
}

/* Whether training left the column of field i out. */
static bool is_dropped(const weft_csv_table *t, int i)
{
    const weft_table *table = t->known->table;
    return table && weft_csv_listed(table->dropped, t->fields[i], -1);
}

/* Assigns the features by their names of training. Further columns are ignored. ARGUMENT: one is
 * missing. */
static weft_status by_name(weft_csv_table *t, weft_csv *csv, int *order)
{
    const weft_csv_known *k = t->known;
    const char *missing = NULL, *unexpected = NULL;
    WEFT_TRY(label_by_name(t));
    for (int j = 0; j < k->features; j++) {
        order[j] = weft_csv_find(t->sorted, t->count, k->names[j]);
        if (order[j] < 0 && !missing) missing = k->names[j];
    }
    for (int i = 0; i < t->count; i++) {
        bool weight = k->weight && strcmp(t->fields[i], k->weight) == 0;
        if (i == t->label || is_known(t, t->fields[i])) continue;
        if (weight && !missing)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: column '%s' was the weight in training; give weight=%s, or leave "
                             "it out",
                             t->file, k->weight, k->weight);
        if (weight || is_dropped(t, i)) continue;
        if (!unexpected) unexpected = t->fields[i];
        if (csv->ignored++ == 0) csv->first_ignored = t->column[i];
    }
    if (missing && unexpected)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no column '%s', which the model was trained with, but one named "
                         "'%s', which it was not",
                         t->file, missing, unexpected);
    if (missing)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no column '%s', which the model was trained with", t->file,
                         missing);
    return WEFT_OK;
}

weft_status weft_csv_share_out(weft_csv_table *t, const char *label, bool named, weft_csv *csv)
{
    t->bare = t->known->unlabelled && t->count == t->known->features;
    if (t->count < (t->bare ? 1 : 2) && csv->dropped)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: no feature remains of %d columns; drop= or only= leaves too many out",
                         t->file, t->total);
    if (t->count < (t->bare ? 1 : 2))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%lld: needs rows of at least one feature and a %s, separated by "
                         "commas; skip=N passes over lines before the table",
                         t->file, (long long)t->line, weft_csv_role(t));
    WEFT_TRY(find_label(t, label));
    csv->has_header = named;
    if (!named) WEFT_TRY(find_header(t, label, &csv->has_header));
    if (csv->has_header) WEFT_TRY(check_names(t));
    WEFT_TRY(WEFT_NEW(&csv->order, WEFT_MAX(t->count, t->known->features)));
    WEFT_TRY(csv->has_header && t->known->names ? by_name(t, csv, csv->order)
                                                : by_place(t, csv->has_header, csv->order));
    bool names = csv->has_header && t->known->names;
    csv->features = names ? t->known->features : t->count - (t->label >= 0);
    csv->place = t->label;
    csv->label = t->label < 0 ? -1 : t->column[t->label];
    for (int i = 0; i < csv->features; i++) csv->order[i] = t->column[csv->order[i]];
    return WEFT_OK;
}
