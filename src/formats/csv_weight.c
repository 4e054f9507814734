/* Finds the column of the sample weights, which the other columns are counted without, and lets
 * csv_columns.c share out the rest. */
#include <stdio.h>

#include "formats/csv_columns.h"

/* Finds the column that weight= gives, a name (*named) or a number from 0. */
static weft_status find_weight(const weft_csv_table *t, const char *weight, bool *named, int *out)
{
    char near[1024];
    int64_t index;
    *named = !weft_parse_int(weight, &index);
    *out = *named ? weft_csv_find(t->sorted, t->count, weight) : (int)index;
    if (*named && *out < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: no column is named '%s', for weights%s", t->file,
                         weight, weft_suggest(near, sizeof(near), weight, weft_csv_field, t));
    if (!*named && (index < 0 || index >= t->count))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: weight column %lld does not exist, columns are 0 to %d", t->file,
                         (long long)index, t->count - 1);
    return WEFT_OK;
}

/* The column that had the weights in training, for a table without weight=; -1: none. The column is
 * found by name, or by position if the table has none of training's feature names. */
static int known_weight(const weft_csv_table *t, const char *label)
{
    const weft_csv_known *k = t->known;
    int at = -1, found = weft_csv_names_found(t);
    int64_t index;
    if (k->weight && found == k->features)
        at = weft_csv_find(t->sorted, t->count, k->weight);
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
static weft_status without_weight(const weft_csv_table *all, const char *label, int at, bool named,
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
    weft_csv_table t = *all;
    t.fields = left;
    t.sorted = NULL;
    t.left_out = at;
    t.count--;
    weft_status status = weft_csv_sort_names(left, t.count, &t.sorted);
    if (status == WEFT_OK) status = weft_csv_share_out(&t, label, named, csv);
    free(t.sorted);
    free(left);
    if (status != WEFT_OK) return status;
    for (int i = 0; i < csv->features; i++) csv->order[i] += csv->order[i] >= at;
    if (csv->label >= at) csv->label++;
    return WEFT_OK;
}

/* Refuses a table without names, label= and weight= that has one column more than the features, if
 * training had weights and the label may be missing. */
static weft_status refuse_ambiguous(const weft_csv_table *t, const weft_csv *csv)
{
    const weft_csv_known *k = t->known;
    if (csv->has_header || !k->unlabelled || k->weight_place < 0 || t->count != k->features + 1)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has no names and one column more than the %d features, which may be the "
                     "%s or the weight; give %s=N or weight=N, counted from 0, or leave it out",
                     t->file, k->features, weft_csv_role(t), weft_csv_role(t));
}

static weft_status assign(weft_csv_table *t, const char *label, const char *weight, weft_csv *csv)
{
    bool named = false;
    int at;
    if (weight) {
        WEFT_TRY(find_weight(t, weight, &named, &at));
    } else {
        at = known_weight(t, label);
        named = at >= 0 && weft_csv_names_found(t) > 0;
    }
    if (at < 0) {
        WEFT_TRY(weft_csv_share_out(t, label, false, csv));
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
    weft_csv_table t = {.file = file,
                        .fields = fields,
                        .count = count,
                        .known = known ? known : &nothing,
                        .left_out = -1};
    weft_csv_name *sorted_known = NULL;
    csv->columns = count;
    csv->weight = -1;
    weft_status status = weft_csv_sort_names(fields, count, &t.sorted);
    if (status == WEFT_OK && t.known->names)
        status = weft_csv_sort_names(t.known->names, t.known->features, &sorted_known);
    t.sorted_known = sorted_known;
    if (status == WEFT_OK) status = assign(&t, label, weight, csv);
    free(sorted_known);
    free(t.sorted);
    return status;
}
