/* Leaves out the columns that a table of training is not to have as features. */
#include "formats/csv_cells.h"
#include "formats/csv_columns.h"

bool weft_csv_is_option(const weft_csv_table *t, const char *given, int at, bool named)
{
    int64_t index;
    if (!given) return false;
    if (weft_parse_int(given, &index)) return index == t->column[at];
    if (named && strcmp(given, t->fields[at]) == 0) return true;
    return t->known->several && strchr(given, '+') &&
           weft_csv_listed(given, named ? t->fields[at] : NULL, t->column[at]);
}

weft_status weft_csv_leave_out(const weft_csv_table *all, const bool *gone, weft_csv_table *out)
{
    int count = 0;
    *out = *all;
    out->fields = NULL;
    out->column = NULL;
    out->sorted = NULL;
    weft_status status = WEFT_NEW(&out->fields, all->count);
    if (status == WEFT_OK) status = WEFT_NEW(&out->column, all->count);
    for (int i = 0; i < all->count && status == WEFT_OK; i++) {
        if (gone[i]) continue;
        out->fields[count] = all->fields[i];
        out->column[count++] = all->column[i];
    }
    out->count = count;
    if (status == WEFT_OK) status = weft_csv_sort_names(out->fields, count, &out->sorted);
    if (status != WEFT_OK) weft_csv_part_free(out);
    return status;
}

void weft_csv_part_free(weft_csv_table *part)
{
    free(part->fields);
    free(part->column);
    free(part->sorted);
    *part = (weft_csv_table){0};
}

/* Marks the fields that a list has. strict: each entry must be the name or number of one. */
static weft_status mark_listed(const weft_csv_table *t, const char *key, const char *list,
                               bool strict, bool *named, bool *marked)
{
    char entry[WEFT_CSV_ENTRY], near[1024];
    while (weft_csv_next_entry(&list, entry)) {
        int64_t number;
        bool name = !weft_parse_int(entry, &number);
        int at = name                               ? weft_csv_find(t->sorted, t->count, entry)
                 : number >= 0 && number < t->count ? (int)number
                                                    : -1;
        *named = *named || (name && at >= 0);
        if (at < 0 && strict)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s: no column is named '%s'%s", t->file, key,
                             entry, weft_suggest(near, sizeof(near), entry, weft_csv_field, t));
        if (at >= 0) marked[at] = true;
    }
    return WEFT_OK;
}

/* Refuses a column that drop= leaves out and another option gives. */
static weft_status check_given(const weft_csv_table *t, const char *as, const char *given,
                               const bool *gone)
{
    for (int i = 0; given && i < t->count; i++)
        if (gone[i] && weft_csv_is_option(t, given, i, true))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: %s=%s gives a column that drop=%s leaves out; take it off one of "
                             "the two",
                             t->file, as, given, t->known->rules->drop);
    return WEFT_OK;
}

/* Marks what goes: drop=, or all but only=, and the columns of other options. */
static weft_status mark_gone(const weft_csv_table *t, const char *label, const char *weight,
                             bool *named, bool *gone)
{
    const weft_csv_rules *rules = t->known->rules;
    WEFT_TRY(mark_listed(t, "drop", rules->drop, true, named, gone));
    WEFT_TRY(check_given(t, weft_csv_role(t), label, gone));
    WEFT_TRY(check_given(t, "weight", weight, gone));
    WEFT_TRY(check_given(t, "id", t->known->id_given, gone));
    if (!rules->only) return WEFT_OK;
    WEFT_TRY(mark_listed(t, "only", rules->only, true, named, gone));
    for (int i = 0; i < t->count; i++) {
        bool other =
            weft_csv_is_option(t, label, i, true) || weft_csv_is_option(t, weight, i, true) ||
            weft_csv_is_option(t, t->known->id_given, i, true) || (!label && i == t->count - 1);
        gone[i] = !gone[i] && !other;
    }
    return WEFT_OK;
}

/* Keeps the list of what has gone, by number. */
static weft_status keep_list(const weft_csv_table *t, const bool *gone, weft_csv *csv)
{
    weft_text text = {0};
    for (int i = 0; i < t->count; i++)
        if (gone[i]) weft_text_add(&text, "%s%d", text.size ? "+" : "", i);
    csv->dropped = text.data;
    return text.failed ? weft_fail(WEFT_ERR_MEMORY, "out of memory") : WEFT_OK;
}

weft_status weft_csv_drop(const weft_csv_table *all, const char *label, const char *weight,
                          bool *named, weft_csv *csv, weft_csv_table *out)
{
    const weft_csv_known *k = all->known;
    const char *before = k->table && !k->names ? k->table->dropped : NULL;
    bool *gone, ignored = false;
    int count = 0;
    WEFT_TRY(WEFT_NEW(&gone, all->count));
    weft_status status = WEFT_OK;
    if (k->rules) status = mark_gone(all, label, weight, named, gone);
    if (before) status = mark_listed(all, "drop", before, false, &ignored, gone);
    for (int i = 0; i < all->count; i++) count += gone[i];
    /* A later table may lack the columns as well. */
    if (before && all->count - count < k->features) memset(gone, 0, (size_t)all->count);
    if (status == WEFT_OK && k->rules && count > 0) status = keep_list(all, gone, csv);
    if (status == WEFT_OK) status = weft_csv_leave_out(all, gone, out);
    free(gone);
    return status;
}
