/* Finds the columns that are no features: identifiers, then the sample weights. The other columns
 * are counted without them, and csv_columns.c shares these out. */
#include <stdio.h>

#include "formats/csv_columns.h"

/* Finds the field that the option `key` gives, a name (*named) or a number from 0. */
static weft_status find_field(const weft_csv_table *t, const char *key, const char *given,
                              bool *named, int *out)
{
    char near[1024];
    int64_t index;
    *named = !weft_parse_int(given, &index);
    *out = *named ? weft_csv_find(t->sorted, t->count, given) : weft_csv_place(t, index);
    if (*named && *out < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: no column is named '%s', for %s%s", t->file, given,
                         strcmp(key, "weight") == 0 ? "weights" : "identifiers",
                         weft_suggest(near, sizeof(near), given, weft_csv_field, t));
    if (!*named && (index < 0 || index >= t->total))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: %s column %lld does not exist, columns are 0 to %d", t->file, key,
                         (long long)index, t->total - 1);
    if (!*named && (*out >= t->count || t->column[*out] != index))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: column %lld is given as the id and as the %s",
                         t->file, (long long)index, key);
    return WEFT_OK;
}

static weft_status given_twice(const weft_csv_table *t, const char *as, const char *label)
{
    int64_t index;
    const char *quote = weft_parse_int(label, &index) ? "" : "'";
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: column %s%s%s is given as the %s, and as the label or target", t->file,
                     quote, label, quote, as);
}

/* Sets *out to the table without the field `at`. */
static weft_status leave_out(const weft_csv_table *all, int at, weft_csv_table *out)
{
    bool *gone;
    WEFT_TRY(WEFT_NEW(&gone, all->count));
    gone[at] = true;
    weft_status status = weft_csv_leave_out(all, gone, out);
    free(gone);
    return status;
}

/* --- weights --- */

/* The field that had the weights in training, for a table without weight=; -1: none. The field is
 * found by name, or by position if the table has none of training's feature names. */
static int known_weight(const weft_csv_table *t, const char *label)
{
    const weft_csv_known *k = t->known;
    int at = -1, found = weft_csv_names_found(t);
    if (k->weight && found == k->features)
        at = weft_csv_find(t->sorted, t->count, k->weight);
    else if (k->features > 0 && found == 0 && t->count == k->features + 2)
        at = k->weight_place;
    return at >= 0 && weft_csv_is_option(t, label, at, true) ? -1 : at;
}

/* Assigns label and features of a table whose field `at` has the weights; named: that field was
 * found by name, so the first row is a header. */
static weft_status without_weight(const weft_csv_table *all, const char *label, int at, bool named,
                                  weft_csv *csv)
{
    weft_csv_table t;
    if (weft_csv_is_option(all, label, at, named)) return given_twice(all, "weight", label);
    weft_status status = leave_out(all, at, &t);
    if (status == WEFT_OK) status = weft_csv_share_out(&t, label, named, csv);
    weft_csv_part_free(&t);
    return status;
}

/* header: the first row is known to be a header. */
static weft_status assign(const weft_csv_table *t, const char *label, const char *weight,
                          bool header, weft_csv *csv)
{
    bool named = false;
    int at;
    if (weight) {
        WEFT_TRY(find_field(t, "weight", weight, &named, &at));
    } else {
        at = known_weight(t, label);
        named = at >= 0 && weft_csv_names_found(t) > 0;
    }
    if (at < 0) {
        weft_csv_table all = *t;
        WEFT_TRY(weft_csv_share_out(&all, label, header, csv));
        return WEFT_OK;
    }
    WEFT_TRY(without_weight(t, label, at, named || header, csv));
    csv->weight_place = at;
    if (weight || !t->known->unlabelled) csv->weight = t->column[at];
    return WEFT_OK;
}

/* --- identifiers --- */

/* The field that had the identifiers in training, for a table without id=; -1: none. The field is
 * found by name, or by position in a table without training's feature names that has all columns.
 */
static int known_id(const weft_csv_table *t)
{
    const weft_csv_known *k = t->known;
    int found = weft_csv_names_found(t), columns = k->features + 2 + (k->weight_place >= 0);
    if (k->id && k->names && found > 0) return weft_csv_find(t->sorted, t->count, k->id);
    bool places = k->id_place >= 0 && k->features > 0 && found == 0 && t->count == columns;
    return places ? weft_csv_place(t, k->id_place) : -1;
}

static weft_status without_id(const weft_csv_table *all, const char *label, const char *weight,
                              int at, bool named, weft_csv *csv)
{
    weft_csv_table t;
    if (weft_csv_is_option(all, label, at, named)) return given_twice(all, "id", label);
    weft_status status = leave_out(all, at, &t);
    if (status == WEFT_OK) status = assign(&t, label, weight, named, csv);
    weft_csv_part_free(&t);
    csv->id = all->column[at];
    return status;
}

/* Refuses a table without names that has some of the columns that it may lack, but not all, since
 * any of them may be the missing one: the identifiers and weights of training, and the label if the
 * table may lack it. A column that an option gives is known. */
static weft_status refuse_ambiguous(const weft_csv_table *t, const char *label, const char *weight,
                                    const weft_csv *csv)
{
    const weft_csv_known *k = t->known;
    const char *open[3] = {0};
    int count = 0, others = t->count - k->features;
    if (label || !k->unlabelled)
        others--;
    else
        open[count++] = weft_csv_role(t);
    if (weight)
        others--;
    else if (k->weight_place >= 0)
        open[count++] = "weight";
    if (k->id_given)
        others--;
    else if (k->id_place >= 0)
        open[count++] = "id";
    if (k->features == 0 || csv->has_header || others <= 0 || others >= count) return WEFT_OK;
    const char *last = open[count - 1], *middle = count > 2 ? open[1] : NULL;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has no names, and of its %d columns, %d beside the features may be the "
                     "%s%s%s or the %s; give %s=N%s%s%s or %s=N, counted from 0, or a header, or "
                     "leave them out",
                     t->file, t->count, others, open[0], middle ? ", the " : "",
                     middle ? middle : "", last, open[0], middle ? ", " : "", middle ? middle : "",
                     middle ? "=N" : "", last);
}

/* Assigns the columns of a table without those that are dropped; named: its first row is known to
 * be a header. */
static weft_status assign_all(const weft_csv_table *t, const char *label, const char *weight,
                              bool header, weft_csv *csv)
{
    bool named = false;
    int id = -1;
    if (t->known->id_given)
        WEFT_TRY(find_field(t, "id", t->known->id_given, &named, &id));
    else
        id = known_id(t);
    WEFT_TRY(id < 0 ? assign(t, label, weight, header, csv)
                    : without_id(t, label, weight, id, named || header, csv));
    return refuse_ambiguous(t, label, weight, csv);
}

static weft_status share(weft_csv_table *all, const char *label, const char *weight, weft_csv *csv)
{
    weft_csv_table wanted, t;
    char first[24] = "";
    bool named = false;
    WEFT_TRY(weft_csv_sort_names(all->fields, all->count, &all->sorted));
    WEFT_TRY(weft_csv_drop(all, label, weight, &named, csv, &wanted));
    weft_status status =
        weft_csv_take_answers(&wanted, label, weight, &named, csv, &t, first, sizeof(first));
    if (status == WEFT_OK) {
        status = assign_all(&t, *first ? first : label, weight, named, csv);
        if (status == WEFT_OK) status = weft_csv_one_answer(csv);
        weft_csv_part_free(&t);
    }
    weft_csv_part_free(&wanted);
    return status;
}

weft_status weft_csv_columns(const char *file, int64_t line, char **fields, int count,
                             const char *label, const char *weight, const weft_csv_known *known,
                             weft_csv *csv)
{
    static const weft_csv_known nothing = {.place = -1, .weight_place = -1, .id_place = -1};
    weft_csv_table t = {.file = file,
                        .line = line,
                        .fields = fields,
                        .count = count,
                        .total = count,
                        .comma = csv->comma,
                        .known = known ? known : &nothing};
    weft_csv_name *sorted_known = NULL;
    csv->columns = count;
    csv->weight = csv->weight_place = csv->id = -1;
    WEFT_TRY(WEFT_NEW(&t.column, count));
    for (int i = 0; i < count; i++) t.column[i] = i;
    weft_status status = WEFT_OK;
    if (t.known->names)
        status = weft_csv_sort_names(t.known->names, t.known->features, &sorted_known);
    t.sorted_known = sorted_known;
    if (status == WEFT_OK) status = share(&t, label, weight, csv);
    free(sorted_known);
    free(t.sorted);
    free(t.column);
    return status;
}
