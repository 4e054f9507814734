/* Tells what became of the columns of a table. */
#include <math.h>
#include <stdio.h>

#include "data/csv_notes.h"
#include "formats/table.h"

enum { SHOWN = 5 }; /* categories of a column, or classes of the label */

/* Orders the numbers of words by how often they stand, then by their order. */
static int most_frequent(const int64_t *times, int count, const bool *taken)
{
    int best = -1;
    for (int k = 0; k < count; k++)
        if (!taken[k] && (best < 0 || times[k] > times[best])) best = k;
    return best;
}

/* Lists words with their numbers of rows, the most frequent ones first. */
static weft_status list_words(char *const *words, const int64_t *times, int count, weft_text *text)
{
    bool *taken;
    WEFT_TRY(WEFT_NEW(&taken, count));
    for (int n = 0; n < WEFT_MIN(count, (int)SHOWN); n++) {
        int k = most_frequent(times, count, taken);
        taken[k] = true;
        weft_text_add(text, "%s%s %lld", n ? ", " : "", words[k], (long long)times[k]);
    }
    if (count > SHOWN) weft_text_add(text, ", %d more", count - SHOWN);
    free(taken);
    return WEFT_OK;
}

static weft_status tell_words(const weft_csv *csv, int j, const weft_table_column *c,
                              weft_text *text)
{
    int64_t *times, others = 0;
    WEFT_TRY(WEFT_NEW(&times, c->words));
    for (int64_t i = 0; i < csv->rows; i++) {
        double value = csv->values[i * csv->features + j];
        if (isnan(value)) continue;
        if (value < c->words)
            times[(int)value]++;
        else
            others++;
    }
    weft_text_add(text, "%d: ", c->words);
    weft_status status = list_words(c->word, times, c->words, text);
    if (others) weft_text_add(text, ", other %lld", (long long)others);
    free(times);
    return status;
}

static void tell_numbers(const weft_csv *csv, int j, bool dates, weft_text *text)
{
    double mean = 0, squares = 0, low = INFINITY, high = -INFINITY;
    int64_t n = 0;
    for (int64_t i = 0; i < csv->rows; i++) {
        double value = csv->values[i * csv->features + j];
        if (isnan(value)) continue;
        double delta = value - mean;
        mean += delta / (double)++n;
        squares += delta * (value - mean);
        low = fmin(low, value);
        high = fmax(high, value);
    }
    if (n == 0) return;
    weft_text_add(text, "%g to %g, mean %.5g, deviation %.5g%s", low, high, mean,
                  sqrt(squares / (double)n), dates ? " (days since 1970)" : "");
}

/* Tells what a column has become. */
static void tell_features(const weft_table_column *c, weft_text *text)
{
    weft_text_add(text, "%d", c->features);
    if (c->kind == WEFT_CSV_CATEGORIES)
        weft_text_add(text, " of 0 and 1%s%s", c->rare ? ", one for others" : "",
                      c->gaps ? ", one for missing ones" : "");
    if (c->embedding)
        weft_text_add(text, ", embedded in %d number%s", c->embedding, weft_plural(c->embedding));
    else if (!isnan(c->fill) && c->kind != WEFT_CSV_CATEGORIES)
        weft_text_add(text, ", %.5g for missing ones%s", c->fill,
                      c->gaps ? ", which have one of their own" : "");
}

/* The bytes of a text beside the first one of each character, by which a field is wider. */
static int following_bytes(const char *text)
{
    int bytes = 0;
    for (; *text; text++) bytes += ((unsigned char)*text & 0xC0) == 0x80;
    return bytes;
}

static weft_status tell_column(const weft_csv *csv, int j, const weft_table_column *c,
                               weft_text *text)
{
    static const char *const kinds[] = {[WEFT_CSV_NUMBERS] = "numbers",
                                        [WEFT_CSV_CATEGORIES] = "categories",
                                        [WEFT_CSV_DATES] = "dates"};
    char name[128];
    const weft_table_column plain = {.kind = WEFT_CSV_NUMBERS, .fill = NAN, .features = 1};
    if (!c) c = &plain;
    (void)weft_csv_option_name(csv, csv->order[j], name, sizeof(name));
    weft_text_add(text, "%-*s %-10s %8lld  ", 20 + following_bytes(name), name, kinds[c->kind],
                  (long long)(csv->cells ? csv->cells[j].missing : 0));
    tell_features(c, text);
    weft_text_add(text, "\n%-40s  ", "");
    if (c->kind == WEFT_CSV_CATEGORIES)
        WEFT_TRY(tell_words(csv, j, c, text));
    else
        tell_numbers(csv, j, c->kind == WEFT_CSV_DATES, text);
    weft_text_add(text, "\n");
    return WEFT_OK;
}

static void tell_targets(const weft_csv *csv, bool binary, weft_text *text)
{
    char name[128];
    for (int j = 0; j < csv->answers; j++) {
        double low = INFINITY, high = -INFINITY, mean = 0;
        (void)weft_csv_option_name(csv, csv->answer[j], name, sizeof(name));
        for (int64_t i = 0; i < csv->rows; i++) {
            double value = csv->targets[i * csv->answers + j];
            mean += (value - mean) / (double)(i + 1);
            low = fmin(low, value);
            high = fmax(high, value);
        }
        weft_text_add(text, "%s%s %s: ", j ? "" : "\n", binary ? "label" : "target", name);
        if (binary)
            weft_text_add(text, "1 in %.10g of %lld rows\n", round(mean * (double)csv->rows),
                          (long long)csv->rows);
        else
            weft_text_add(text, "%g to %g, mean %.5g\n", low, high, mean);
    }
}

static weft_status tell_label(const weft_csv *csv, bool binary, weft_text *text)
{
    char name[128];
    int64_t *times;
    if (csv->label < 0) return WEFT_OK;
    if (csv->targets) {
        tell_targets(csv, binary, text);
        return WEFT_OK;
    }
    (void)weft_csv_option_name(csv, csv->label, name, sizeof(name));
    WEFT_TRY(WEFT_NEW(&times, csv->classes));
    for (int64_t i = 0; i < csv->rows; i++) times[csv->labels[i]]++;
    weft_text_add(text, "\nlabel %s: %d class%s: ", name, csv->classes,
                  csv->classes == 1 ? "" : "es");
    weft_status status = list_words(csv->class_names, times, csv->classes, text);
    weft_text_add(text, "\n");
    free(times);
    return status;
}

weft_status weft_csv_summary(const weft_csv *csv, const weft_table *table, bool binary,
                             weft_text *text)
{
    weft_text_add(text, "%-20s %-10s %8s  %s\n", "column", "type", "missing", "features");
    for (int j = 0; j < csv->features; j++)
        WEFT_TRY(tell_column(csv, j, table ? &table->column[j] : NULL, text));
    if (table && table->dropped) weft_text_add(text, "left out: %s\n", table->dropped);
    WEFT_TRY(tell_label(csv, binary, text));
    weft_text_add(text, "%lld row%s, %d feature%s\n", (long long)csv->rows, weft_plural(csv->rows),
                  table ? table->features : csv->features,
                  weft_plural(table ? table->features : csv->features));
    return WEFT_OK;
}
