/* Finds the columns of several labels or targets: label=A+B+C. The first of them stays among the
 * columns that csv_columns.c shares out, and stands for all. */
#include <stdio.h>

#include "formats/csv_cells.h"
#include "formats/csv_columns.h"

/* The fields of the answers, in their order. */
typedef struct found {
    const weft_csv_table *t;
    int *at; /* [t->count] */
    int count;
} found;

static weft_status take(found *f, int at, const char *entry)
{
    const weft_csv_table *t = f->t;
    char near[1024];
    double number;
    int numbers = 0; /* of most fields: row 1 is hardly one of names */
    for (int i = 0; i < t->count; i++) numbers += weft_csv_number(t->fields[i], t->comma, &number);
    if (at < 0 && 2 * numbers > t->count && !weft_parse_real(entry, &number))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: %s: no column is named '%s', and row 1 has numbers; if it is no "
                         "header, give the numbers of the columns, counted from 0, as in %s=3+4",
                         t->file, weft_csv_role(t), entry, weft_csv_role(t));
    if (at < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s: no column is named '%s'%s", t->file,
                         weft_csv_role(t), entry,
                         weft_suggest(near, sizeof(near), entry, weft_csv_field, t));
    for (int k = 0; k < f->count; k++)
        if (f->at[k] == at)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s has column '%s' twice", t->file,
                             weft_csv_role(t), entry);
    f->at[f->count++] = at;
    return WEFT_OK;
}

/* Finds the columns of the list that label= or target= gives. */
static weft_status find_given(found *f, const char *list, bool *named)
{
    const weft_csv_table *t = f->t;
    char entry[WEFT_CSV_ENTRY];
    while (weft_csv_next_entry(&list, entry)) {
        int64_t number;
        bool name = !weft_parse_int(entry, &number);
        int at = name ? weft_csv_find(t->sorted, t->count, entry) : weft_csv_place(t, number);
        if (!name && (at >= t->count || t->column[at] != number)) at = -1;
        *named = *named || (name && at >= 0);
        WEFT_TRY(take(f, at, entry));
    }
    return WEFT_OK;
}

/* Finds the columns by the names that they had in training. A table without one of them has no
 * labels; then *gone marks those that it has. */
static weft_status find_known(found *f, bool *gone)
{
    const weft_csv_table *t = f->t;
    const weft_csv_known *k = t->known;
    const char *missing = NULL;
    for (int j = 0; j < k->answers; j++) {
        int at = weft_csv_find(t->sorted, t->count, k->answer_names[j]);
        if (at >= 0)
            f->at[f->count++] = at;
        else if (!missing)
            missing = k->answer_names[j];
    }
    if (!missing) return WEFT_OK;
    if (!k->unlabelled && weft_csv_names_found(t) > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no column '%s', which was one of the %ss in training; if it has "
                         "another name now, give %s=COLUMN+COLUMN",
                         t->file, missing, weft_csv_role(t), weft_csv_role(t));
    for (int i = 0; i < f->count; i++) gone[f->at[i]] = true;
    f->count = 0;
    return WEFT_OK;
}

/* Refuses a column that another option gives as well. */
static weft_status check_others(const found *f, const char *label, const char *weight)
{
    const weft_csv_table *t = f->t;
    for (int k = 0; k < f->count; k++) {
        bool is_weight = weft_csv_is_option(t, weight, f->at[k], true);
        if (is_weight || weft_csv_is_option(t, t->known->id_given, f->at[k], true))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: column %d is given as the %s, and is one of %s=%s", t->file,
                             t->column[f->at[k]], is_weight ? "weight" : "id", weft_csv_role(t),
                             label ? label : t->known->label);
    }
    return WEFT_OK;
}

/* Keeps the columns, and marks all but the first, which becomes the label of the other columns. */
static weft_status keep(const found *f, weft_csv *csv, bool *gone, char *label, size_t size)
{
    if (f->count == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&csv->answer, f->count));
    for (int k = 0; k < f->count; k++) {
        csv->answer[k] = f->t->column[f->at[k]];
        gone[f->at[k]] = k > 0;
    }
    csv->answers = f->count;
    (void)snprintf(label, size, "%d", csv->answer[0]);
    return WEFT_OK;
}

weft_status weft_csv_take_answers(const weft_csv_table *all, const char *given, const char *weight,
                                  bool *named, weft_csv *csv, weft_csv_table *out, char *label,
                                  size_t size)
{
    const weft_csv_known *k = all->known;
    found f = {.t = all};
    bool *gone;
    WEFT_TRY(WEFT_NEW(&gone, all->count));
    weft_status status = WEFT_NEW(&f.at, all->count);
    bool usual = !given || (k->unlabelled && k->label && strcmp(given, k->label) == 0);
    if (status == WEFT_OK && usual && k->answer_names)
        status = find_known(&f, gone);
    else if (status == WEFT_OK && given && k->several)
        status = find_given(&f, given, named);
    if (status == WEFT_OK) status = check_others(&f, given, weight);
    if (status == WEFT_OK) status = keep(&f, csv, gone, label, size);
    if (status == WEFT_OK) status = weft_csv_leave_out(all, gone, out);
    free(f.at);
    free(gone);
    return status;
}

weft_status weft_csv_one_answer(weft_csv *csv)
{
    if (csv->answers > 0 || csv->label < 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&csv->answer, 1));
    csv->answer[0] = csv->label;
    csv->answers = 1;
    return WEFT_OK;
}
