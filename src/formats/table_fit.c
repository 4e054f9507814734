/* Describes how the columns of a table become features, by the rows of the training split. */
#include <math.h>

#include "formats/csv_cells.h"
#include "formats/csv_columns.h"

typedef struct fit {
    const weft_csv *csv;
    const char *path;
    const weft_csv_rules *rules;
    const int64_t *rows;
    int64_t count;
} fit;

static double value_at(const fit *f, int64_t i, int j)
{
    return f->csv->values[f->rows[i] * f->csv->features + j];
}

/* The column, for messages. */
static const char *column_name(const fit *f, int j, char *room, size_t size)
{
    const weft_csv *csv = f->csv;
    return weft_csv_option_name(csv, csv->order[j], room, size);
}

/* A row of weight 2 is two rows, and one of weight 0 counts nowhere. */
static double weight_at(const fit *f, int64_t i)
{
    return f->csv->weights ? f->csv->weights[f->rows[i]] : 1;
}

typedef struct weighted {
    double value, weight;
} weighted;

static int compare_values(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* The median of n values, at least one, whose weights have this sum. */
static double median_of(weighted *all, int64_t n, double sum)
{
    double below = 0;
    int64_t i = 0;
    qsort(all, (size_t)n, sizeof(*all), compare_values);
    while (i < n - 1 && below + all[i].weight < sum / 2) below += all[i++].weight;
    bool between = i < n - 1 && below + all[i].weight == sum / 2;
    return between ? all[i].value / 2 + all[i + 1].value / 2 : all[i].value;
}

/* Sets what stands for a missing number: mean or median of those that are known. */
static weft_status find_fill(const fit *f, int j, weft_table_column *c)
{
    weighted *known;
    double mean = 0, sum = 0;
    int64_t n = 0;
    char name[128];
    WEFT_TRY(WEFT_NEW(&known, f->count));
    for (int64_t i = 0; i < f->count; i++) {
        double value = value_at(f, i, j), weight = weight_at(f, i);
        if (weight == 0) continue;
        c->gaps = c->gaps || (isnan(value) && f->rules->flag);
        if (isnan(value)) continue;
        known[n++] = (weighted){value, weight};
        sum += weight;
        mean += (value - mean) / (sum / weight);
    }
    c->fill = f->rules->median && n > 0 ? median_of(known, n, sum) : mean;
    free(known);
    if (n > 0 || f->count == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: column %s has no value in the training rows; drop=%s leaves it out",
                     f->path, column_name(f, j, name, sizeof(name)), name);
}

static weft_status refuse_words(const fit *f, int j, int words, int most)
{
    char name[128];
    const char *first = f->csv->cells[j].words ? f->csv->cells[j].word[0] : "";
    (void)column_name(f, j, name, sizeof(name));
    if (words > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: column %s has %d categories, of which at most %d become features; "
                         "%s%s%srare=N takes those of fewer than N rows as one, drop=%s leaves it "
                         "out",
                         f->path, name, words, most, most < WEFT_TABLE_EMBEDDED ? "embedding=" : "",
                         most < WEFT_TABLE_EMBEDDED ? name : "",
                         most < WEFT_TABLE_EMBEDDED ? " takes up to 4096, " : "", name);
    char advice[256] = "";
    bool advised = weft_csv_advise(f->csv, j, advice, sizeof(advice));
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: column %s has no text, such as '%.40s', that stands in %d training rows, "
                     "so it says nothing of a row: drop=%s leaves it out, id=%s takes it as "
                     "identifier%s%s",
                     f->path, name, first, f->rules->rare, name, name, advised ? "; " : "", advice);
}

/* Counts the rows of each word; returns the number of missing ones. */
static double count_words(const fit *f, int j, double *times)
{
    double missing = 0;
    for (int64_t i = 0; i < f->count; i++) {
        double value = value_at(f, i, j);
        *(isnan(value) ? &missing : &times[(int)value]) += weight_at(f, i);
    }
    return missing;
}

/* Whether a list has the column, with its size (0: not given; -1: it is not one). */
static bool is_embedded(const char *list, const char *name, int column, int *size)
{
    char entry[WEFT_CSV_ENTRY];
    while (weft_csv_next_entry(&list, entry)) {
        int64_t given = 0;
        char *colon = strrchr(entry, ':');
        *size = 0;
        if (weft_csv_listed(entry, name, column) || strcmp(entry, "all") == 0) return true;
        if (!colon) continue;
        *size =
            weft_parse_int(colon + 1, &given) && given > 0 && given < INT32_MAX ? (int)given : -1;
        *colon = '\0';
        if (weft_csv_listed(entry, name, column) || strcmp(entry, "all") == 0) return true;
    }
    return false;
}

/* The rule of fastai (emb_sz_rule) for the size of an embedding of n categories. */
static int usual_size(int n)
{
    return WEFT_MIN(600, (int)lround(1.6 * pow(n, 0.56)));
}

static weft_status find_words(const fit *f, int j, weft_table_column *c)
{
    const weft_csv_cells *cells = &f->csv->cells[j];
    double *times;
    int32_t *place = NULL;
    int words = 0;
    WEFT_TRY(WEFT_NEW(&times, cells->words));
    c->gaps = count_words(f, j, times) > 0;
    for (int k = 0; k < cells->words; k++) {
        words += times[k] > 0 && times[k] >= f->rules->rare;
        c->rare = c->rare || (times[k] > 0 && times[k] < f->rules->rare);
    }
    int size = 0, most = WEFT_TABLE_WORDS;
    if (is_embedded(f->rules->embedding, c->name, f->csv->order[j], &size))
        most = WEFT_TABLE_EMBEDDED;
    bool usable = words <= most && (words > 0 || f->count == 0);
    weft_status status = usable ? WEFT_NEW(&c->word, words) : refuse_words(f, j, words, most);
    for (int k = 0; k < cells->words && status == WEFT_OK; k++)
        if (times[k] > 0 && times[k] >= f->rules->rare)
            status = weft_strdup(cells->word[k], &c->word[c->words++]);
    if (status == WEFT_OK) status = WEFT_NEW(&place, c->words);
    if (status == WEFT_OK) status = weft_csv_sort_words(c->word, c->words, place);
    free(place);
    free(times);
    int features = c->words + c->rare + c->gaps;
    if (most == WEFT_TABLE_EMBEDDED) c->embedding = size ? size : usual_size(features);
    return status;
}

static weft_status fit_column(const fit *f, int j, weft_table_column *c)
{
    const weft_csv *csv = f->csv;
    const weft_csv_rules *rules = f->rules;
    char name[128];
    c->kind = csv->cells[j].kind == WEFT_CSV_OPEN ? WEFT_CSV_NUMBERS : csv->cells[j].kind;
    c->form = csv->cells[j].form;
    c->fill = NAN;
    if (c->kind != WEFT_CSV_CATEGORIES && csv->cells[j].missing > 0 && !rules->gaps)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s:%lld: column %s has no number; missing=mean fills such gaps, drop=%s "
                         "leaves the column out",
                         csv->file[csv->cells[j].gap_file].name, (long long)csv->cells[j].gap,
                         column_name(f, j, name, sizeof(name)), name);
    c->parts = rules->parts && c->kind == WEFT_CSV_DATES;
    if (csv->header) WEFT_TRY(weft_strdup(csv->header[csv->order[j]], &c->name));
    if (c->kind == WEFT_CSV_CATEGORIES) {
        if (rules->text_gaps) c->fill = 0;
        return find_words(f, j, c);
    }
    return rules->gaps ? find_fill(f, j, c) : WEFT_OK;
}

/* The list of the columns that were left out, with their names in place of numbers, since a later
 * table may have another order. */
static weft_status name_dropped(const weft_csv *csv, char **out)
{
    weft_text text = {0};
    char entry[WEFT_CSV_ENTRY];
    for (const char *list = csv->dropped; weft_csv_next_entry(&list, entry);) {
        int64_t number = -1;
        bool named = csv->header && weft_parse_int(entry, &number) && number >= 0 &&
                     number < csv->columns && !strchr(csv->header[number], '+');
        weft_text_add(&text, "%s%s", text.size ? "+" : "", named ? csv->header[number] : entry);
    }
    *out = text.data;
    return text.failed ? weft_fail(WEFT_ERR_MEMORY, "out of memory") : WEFT_OK;
}

/* Refuses an entry of embedding= that is no column of categories, or whose columns earlier entries
 * have, or whose size is none. taken: [columns] those of earlier entries. */
static weft_status check_entry(const fit *f, const weft_table *t, const char *entry, bool *taken)
{
    bool found = false, fresh = false;
    int size = 0, of = 0;
    for (int j = 0; j < t->columns; j++) {
        if (t->column[j].kind != WEFT_CSV_CATEGORIES ||
            !is_embedded(entry, t->column[j].name, f->csv->order[j], &of))
            continue;
        found = true;
        size = of;
        fresh = fresh || !taken[j];
        taken[j] = true;
    }
    if (!found)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: embedding=%s is the name or number of no column of categories; give "
                         "COLUMN, COLUMN:SIZE, all or all:SIZE",
                         f->path, entry);
    if (!fresh)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: embedding=%s: entries before it have what it names; leave one of "
                         "them out",
                         f->path, entry);
    if (size >= 0 && size <= WEFT_TABLE_NUMBERS) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: embedding=%s: the size must be from 1 to %d", f->path,
                     entry, WEFT_TABLE_NUMBERS);
}

static weft_status check_embedding(const fit *f, const weft_table *t)
{
    char entry[WEFT_CSV_ENTRY];
    bool *taken;
    WEFT_TRY(WEFT_NEW(&taken, t->columns));
    weft_status status = WEFT_OK;
    for (const char *list = f->rules->embedding;
         status == WEFT_OK && weft_csv_next_entry(&list, entry);)
        status = check_entry(f, t, entry, taken);
    free(taken);
    return status;
}

static weft_status fit_all(const fit *f, weft_table *t, bool *plain)
{
    const weft_csv *csv = f->csv;
    WEFT_TRY(WEFT_NEW(&t->column, csv->features));
    t->columns = csv->features;
    *plain = csv->dropped == NULL;
    for (int j = 0; j < csv->features; j++) {
        weft_table_column *c = &t->column[j];
        WEFT_TRY(fit_column(f, j, c));
        *plain = *plain && c->kind == WEFT_CSV_NUMBERS && isnan(c->fill);
    }
    WEFT_TRY(check_embedding(f, t));
    if (csv->dropped) WEFT_TRY(name_dropped(csv, &t->dropped));
    if (f->rules->na) WEFT_TRY(weft_strdup(f->rules->na, &t->marks));
    return weft_table_place(t);
}

weft_status weft_table_fit(const weft_csv *csv, const char *path, const weft_csv_rules *rules,
                           const int64_t *rows, int64_t count, weft_table **out)
{
    const fit f = {csv, path, rules, rows, count};
    bool plain = false;
    weft_table *t;
    *out = NULL;
    WEFT_TRY(WEFT_NEW(&t, 1));
    weft_status status = fit_all(&f, t, &plain);
    if (status == WEFT_OK && t->features < 1)
        status = weft_fail(WEFT_ERR_ARGUMENT, "%s: no feature is left", path);
    if (status == WEFT_OK && !plain)
        *out = t;
    else
        weft_table_free(t);
    return status;
}
