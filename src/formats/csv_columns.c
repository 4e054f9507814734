/* Determines which columns of a table are the label, the sample weights and the features. The
 * features are matched with those of training, by name or else by position, and ordered likewise.
 */
#include <stdio.h>

#include "formats/formats.h"

/* A name and its place. Names are sorted, so that finding one of thousands takes a binary
 * search. */
typedef struct placed_name {
    const char *name;
    int place;
} placed_name;

/* The first row, the known columns, and the result so far. */
typedef struct table {
    const char *file;
    char *const *fields;
    placed_name *sorted; /* [count]: the fields in order of name, then of place */
    int count;
    const weft_csv_known *known;
    const placed_name *sorted_known; /* [known->features]; NULL: no names are known */
    bool bare;      /* the label may be missing, and the columns are as many as the features */
    bool said;      /* label= gives an existing column, by name or number */
    const char *no; /* the name that label= gives if no column has it; else NULL */
    int label;      /* label column, from 0; -1: none */
    int left_out;   /* column of the weights, which `fields` lacks; -1: none */
} table;

/* The number of a field's column in the file, from 1. */
static int column_of(const table *t, int i)
{
    return i + 1 + (t->left_out >= 0 && i >= t->left_out);
}

/* The word for the column to be learned, which is also the key of its option. */
static const char *role(const table *t)
{
    return t->known->measured ? "target" : "label";
}

static int compare_placed(const void *a, const void *b)
{
    const placed_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

static weft_status sort_names(char *const *names, int count, placed_name **out)
{
    WEFT_TRY(WEFT_NEW(out, count));
    for (int i = 0; i < count; i++) (*out)[i] = (placed_name){names[i], i};
    qsort(*out, (size_t)count, sizeof(**out), compare_placed);
    return WEFT_OK;
}

/* The first place of a name; -1: there is none. */
static int find(const placed_name *sorted, int count, const char *name)
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

static bool is_known(const table *t, const char *name)
{
    return find(t->sorted_known, t->known->features, name) >= 0;
}

/* Number of feature names of training among the fields. */
static int names_found(const table *t)
{
    int found = 0;
    for (int i = 0; t->known->names && i < t->known->features; i++)
        found += find(t->sorted, t->count, t->known->names[i]) >= 0;
    return found;
}

static const char *candidate(const void *user, int i)
{
    const table *t = user;
    return i < t->count ? t->fields[i] : NULL;
}

static weft_status no_column(const table *t)
{
    char near[1024];
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: no column is named '%s'%s", t->file, t->no,
                     weft_suggest(near, sizeof(near), t->no, candidate, t));
}

static weft_status only_features(const table *t, const char *label)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has the %d columns of the features alone, so none is the %s '%s'; leave "
                     "out %s=",
                     t->file, t->count, role(t), label, role(t));
}

/* Sets t->label to the column that label= gives, a name or a number from 0. If label= is not given
 * (NULL), the label column is that of training, or else the last one; a bare table has none. */
static weft_status find_label(table *t, const char *label)
{
    int64_t index;
    bool place = t->known->features > 0 && t->known->place >= 0 && t->known->place < t->count;
    t->label = t->bare ? -1 : place ? t->known->place : t->count - 1;
    if (!label) return WEFT_OK;
    if (t->bare && weft_parse_int(label, &index)) {
        if (index != t->known->place) return only_features(t, label);
        return WEFT_OK;
    }
    if (!weft_parse_int(label, &index)) {
        int at = find(t->sorted, t->count, label);
        t->said = at >= 0;
        if (t->said) t->label = at;
        if (!t->said) t->no = label;
        return WEFT_OK;
    }
    if (index < 0 || index >= t->count)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: %s column %lld does not exist, columns are 0 to %d", t->file, role(t),
                         (long long)index, t->count - 1);
    t->said = true;
    t->label = (int)index;
    return WEFT_OK;
}

/* Finds out whether the first row is a header. This is so if label= names one of its fields, if it
 * has all feature names of training, or if no field of a feature or numeric target is a number.
 * FORMAT: some are numbers, so the row may also be one in which a value is missing. */
static weft_status find_header(const table *t, const char *label, bool *header)
{
    int64_t index;
    double ignored;
    int word = -1, number = -1;
    *header = (t->said && !weft_parse_int(label, &index)) ||
              (t->known->names && names_found(t) == t->known->features);
    if (*header) return WEFT_OK;
    for (int i = 0; i < t->count; i++) {
        if (i == t->label && !t->known->measured) continue;
        int *first = weft_parse_real(t->fields[i], &ignored) ? &number : &word;
        if (*first < 0) *first = i;
    }
    *header = word >= 0;
    if (word < 0 || number < 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:1: column %d holds '%.40s', but column %d holds a number; if row 1 is a "
                     "header, give %s=NAME, else a finite number must stand there",
                     t->file, column_of(t, word), t->fields[word], column_of(t, number), role(t));
}

static weft_status check_names(const table *t)
{
    for (int i = 0; i < t->count; i++) {
        int first = find(t->sorted, t->count, t->fields[i]);
        if (!weft_is_printable(t->fields[i]))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s:1: the name of column %d, '%.60s', must be UTF-8 without control "
                             "characters",
                             t->file, column_of(t, i), t->fields[i]);
        if (first < i)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: columns %d and %d are both named '%s'; each needs a name of its "
                             "own",
                             t->file, column_of(t, first), column_of(t, i), t->fields[i]);
    }
    return WEFT_OK;
}

/* Assigns the features by position, since the table or training has no column names: all columns
 * but the label, in the order of the file. */
static weft_status by_place(table *t, bool header, int *order)
{
    const weft_csv_known *k = t->known;
    bool usual = k->label && t->no && strcmp(t->no, k->label) == 0;
    if (t->no && t->bare && !usual) return only_features(t, t->no);
    if (t->no && !t->bare && !usual && !header)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no header, so no column is named '%s'; give its number, counted "
                         "from 0, as in %s=0",
                         t->file, t->no, role(t));
    if (t->no && !t->bare && header) return no_column(t);
    if (k->features > 0 && t->count != k->features + (t->label >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has %d column%s, training had %d features and the %s%s", t->file,
                         t->count, weft_plural(t->count), k->features, role(t),
                         k->unlabelled ? ", which may be missing" : "");
    for (int i = 0, j = 0; i < t->count; i++)
        if (i != t->label) order[j++] = i;
    return WEFT_OK;
}

/* Finds the label column by the name that it had in training, unless label= gives a column. */
static weft_status label_by_name(table *t)
{
    const weft_csv_known *k = t->known;
    if (t->no && !(k->unlabelled && strcmp(t->no, k->label) == 0)) return no_column(t);
    if (!t->said) t->label = find(t->sorted, t->count, k->label);
    bool feature = t->label >= 0 && is_known(t, t->fields[t->label]);
    if (feature)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: column '%s' is given as the %s, but was a feature in training; the %s was '%s'",
            t->file, t->fields[t->label], role(t), role(t), k->label);
    if (t->label >= 0 || k->unlabelled) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has no column '%s', which was the %s in training; if it has another name "
                     "now, give %s=NAME",
                     t->file, k->label, role(t), role(t));
}

/* Assigns the features by their names of training. ARGUMENT: one is missing, or the table has a
 * further column. */
static weft_status by_name(table *t, int *order)
{
    const weft_csv_known *k = t->known;
    const char *missing = NULL, *unexpected = NULL;
    WEFT_TRY(label_by_name(t));
    for (int j = 0; j < k->features; j++) {
        order[j] = find(t->sorted, t->count, k->names[j]);
        if (order[j] < 0 && !missing) missing = k->names[j];
    }
    for (int i = 0; i < t->count && !unexpected; i++) {
        bool weight = k->weight && strcmp(t->fields[i], k->weight) == 0;
        if (i == t->label || is_known(t, t->fields[i])) continue;
        if (weight && !missing)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: column '%s' was the weight in training; give weight=%s, or leave "
                             "it out",
                             t->file, k->weight, k->weight);
        if (!weight) unexpected = t->fields[i];
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
    if (unexpected)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the model was not trained with a column '%s'; leave it out", t->file,
                         unexpected);
    return WEFT_OK;
}

/* Assigns label and features. `t` has all columns of the table except that of the weights. */
static weft_status share_out(table *t, const char *label, bool named, weft_csv *csv)
{
    t->bare = t->known->unlabelled && t->count == t->known->features;
    if (t->count < (t->bare ? 1 : 2))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: needs rows of at least one feature and a %s, separated by commas",
                         t->file, role(t));
    WEFT_TRY(find_label(t, label));
    csv->has_header = named;
    if (!named) WEFT_TRY(find_header(t, label, &csv->has_header));
    if (csv->has_header) WEFT_TRY(check_names(t));
    WEFT_TRY(WEFT_NEW(&csv->order, WEFT_MAX(t->count, t->known->features)));
    WEFT_TRY(csv->has_header && t->known->names ? by_name(t, csv->order)
                                                : by_place(t, csv->has_header, csv->order));
    csv->label = csv->place = t->label;
    csv->features = t->count - (t->label >= 0);
    return WEFT_OK;
}

/* Finds the column that weight= gives, a name (*named) or a number from 0. */
static weft_status find_weight(const table *t, const char *weight, bool *named, int *out)
{
    char near[1024];
    int64_t index;
    *named = !weft_parse_int(weight, &index);
    *out = *named ? find(t->sorted, t->count, weight) : (int)index;
    if (*named && *out < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: no column is named '%s', for weights%s", t->file,
                         weight, weft_suggest(near, sizeof(near), weight, candidate, t));
    if (!*named && (index < 0 || index >= t->count))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: weight column %lld does not exist, columns are 0 to %d", t->file,
                         (long long)index, t->count - 1);
    return WEFT_OK;
}

/* The column that had the weights in training, for a table without weight=; -1: none. The column is
 * found by name, or by position if the table has none of training's feature names. */
static int known_weight(const table *t, const char *label)
{
    const weft_csv_known *k = t->known;
    int at = -1, found = names_found(t);
    int64_t index;
    if (k->weight && found == k->features)
        at = find(t->sorted, t->count, k->weight);
    else if (k->features > 0 && found == 0 && t->count == k->features + 2)
        at = k->weight_place;
    bool learned = at >= 0 && label &&
                   (weft_parse_int(label, &index) ? index == at : !strcmp(label, t->fields[at]));
    return learned ? -1 : at;
}

/* Converts a number of label=, which counts all columns, to one that does not count the column of
 * the weights: *out is one less behind that column. A name is returned unchanged. */
static weft_status left_number(const char *file, const char *label, int weight, char *text,
                               size_t room, const char **out)
{
    int64_t index;
    *out = label;
    if (!label || !weft_parse_int(label, &index)) return WEFT_OK;
    if (index == weight)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: column %d is given as the weight, and as the label or target", file,
                         weight);
    (void)snprintf(text, room, "%lld", (long long)(index - (index > weight)));
    *out = text;
    return WEFT_OK;
}

/* Assigns label and features of a table whose column `at` has the weights; named: that column was
 * found by name, so the first row is a header. */
static weft_status without_weight(const table *all, const char *label, int at, bool named,
                                  weft_csv *csv)
{
    char text[32], **left;
    int j = 0;
    if (label && strcmp(label, all->fields[at]) == 0 && named)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: column '%s' is given as the weight, and as the label or target",
                         all->file, label);
    WEFT_TRY(left_number(all->file, label, at, text, sizeof(text), &label));
    WEFT_TRY(WEFT_NEW(&left, all->count));
    for (int i = 0; i < all->count; i++)
        if (i != at) left[j++] = all->fields[i];
    table t = *all;
    t.fields = left;
    t.sorted = NULL;
    t.left_out = at;
    t.count--;
    weft_status status = sort_names(left, t.count, &t.sorted);
    if (status == WEFT_OK) status = share_out(&t, label, named, csv);
    free(t.sorted);
    free(left);
    if (status != WEFT_OK) return status;
    for (int i = 0; i < csv->features; i++) csv->order[i] += csv->order[i] >= at;
    if (csv->label >= at) csv->label++;
    return WEFT_OK;
}

/* Refuses a table without names, label= and weight= that has one column more than the features, if
 * training had weights and the label may be missing. */
static weft_status refuse_ambiguous(const table *t, const weft_csv *csv)
{
    const weft_csv_known *k = t->known;
    if (csv->has_header || !k->unlabelled || k->weight_place < 0 || t->count != k->features + 1)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has no names and one column more than the %d features, which may be the "
                     "%s or the weight; give %s=N or weight=N, counted from 0, or leave it out",
                     t->file, k->features, role(t), role(t));
}

static weft_status assign(table *t, const char *label, const char *weight, weft_csv *csv)
{
    bool named = false;
    int at;
    if (weight) {
        WEFT_TRY(find_weight(t, weight, &named, &at));
    } else {
        at = known_weight(t, label);
        named = at >= 0 && names_found(t) > 0;
    }
    if (at < 0) {
        WEFT_TRY(share_out(t, label, false, csv));
        return label ? WEFT_OK : refuse_ambiguous(t, csv);
    }
    WEFT_TRY(without_weight(t, label, at, named, csv));
    if (weight || !t->known->unlabelled) csv->weight = at;
    return WEFT_OK;
}

weft_status weft_csv_columns(const char *file, char *const *fields, int count, const char *label,
                             const char *weight, const weft_csv_known *known, weft_csv *csv)
{
    static const weft_csv_known nothing = {.place = -1, .weight_place = -1};
    table t = {.file = file,
               .fields = fields,
               .count = count,
               .known = known ? known : &nothing,
               .left_out = -1};
    placed_name *sorted_known = NULL;
    csv->columns = count;
    csv->weight = -1;
    weft_status status = sort_names(fields, count, &t.sorted);
    if (status == WEFT_OK && t.known->names)
        status = sort_names(t.known->names, t.known->features, &sorted_known);
    t.sorted_known = sorted_known;
    if (status == WEFT_OK) status = assign(&t, label, weight, csv);
    free(sorted_known);
    free(t.sorted);
    return status;
}
