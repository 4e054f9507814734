#include "fuzz.h"

#include <math.h>

#include "formats/table.h"

/* Describes a table by all of its rows, and reads it again as a later one: each feature of each row
 * is a number, and the same. */
static void read_again(const uint8_t *data, size_t size, const weft_csv_rules *rules, weft_csv *csv)
{
    weft_table *table = NULL;
    char **names = NULL;
    weft_csv later;
    int64_t *rows = calloc((size_t)csv->rows, sizeof(*rows));
    for (int64_t i = 0; rows && i < csv->rows; i++) rows[i] = i;
    bool fits = rows && weft_table_fit(csv, "fuzz", rules, rows, csv->rows, &table) == WEFT_OK;
    free(rows);
    if (!fits || !table) return;
    if (weft_table_number_words(table, NULL, 0, 0, csv) != WEFT_OK ||
        weft_table_column_names(table, &names) != WEFT_OK)
        abort();
    const weft_csv_known known = {.features = table->columns,
                                  .names = csv->header ? names : NULL,
                                  .label = csv->header && csv->label >= 0 ? csv->header[csv->label]
                                                                          : NULL,
                                  .place = csv->place,
                                  .weight_place = -1,
                                  .id_place = -1,
                                  .table = table};
    bool same = csv->label >= 0 && csv->weight < 0 && csv->id < 0;
    if (same && weft_csv_parse("fuzz", data, size, NULL, NULL, &known, &later) == WEFT_OK) {
        if (later.rows == csv->rows && later.has_header == csv->has_header)
            for (int64_t i = 0; i < csv->rows; i++)
                for (int f = 0; f < table->features; f++) {
                    double x = weft_table_feature(table, csv->values + i * csv->features, f);
                    if (!isfinite(x) ||
                        x != weft_table_feature(table, later.values + i * later.features, f))
                        abort();
                }
        weft_csv_free(&later);
    }
    free(names);
    weft_table_free(table);
}

/* Parses the text as two files of one table, which has its rows twice. */
static void parse_twice(const uint8_t *data, size_t size, const char *label, const char *weight,
                        const weft_csv_known *known, const weft_csv *once)
{
    weft_csv_parser *parser;
    weft_csv both;
    if (weft_csv_begin(label, weight, known, &parser) != WEFT_OK) return;
    weft_status status = WEFT_OK;
    for (int k = 0; k < 2 && status == WEFT_OK; k++)
        status = weft_csv_add(parser, "fuzz", data, size);
    if (weft_csv_end(&parser, status == WEFT_OK ? &both : NULL) != WEFT_OK || status != WEFT_OK)
        return;
    if (both.rows != 2 * once->rows || both.answers != once->answers) abort();
    for (int64_t i = 0; i < both.rows * both.features; i++) {
        double x = both.values[i], y = once->values[i % (once->rows * once->features)];
        if (x != y && !(isnan(x) && isnan(y))) abort();
    }
    for (int64_t i = 0; both.targets && i < both.rows * both.answers; i++)
        if (both.targets[i] != once->targets[i % (once->rows * once->answers)]) abort();
    weft_csv_free(&both);
}

/* Fuzzes the CSV parser. The first byte chooses how the label column is named, which columns are
 * already known, and which column has the sample weights. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {NULL, "0", "y", "17"};
    static const char *const weights[] = {NULL, NULL, "w", "1"};
    static const char *const several[] = {"0+1", "y+a", "1", "2+0"};
    static char a[] = "a", b[] = "b", *const names[] = {a, b};
    static const weft_csv_rules rules[] = {
        {.gaps = true, .text_gaps = true, .flag = true, .rare = 2},
        {.gaps = true,
         .text_gaps = true,
         .median = true,
         .rare = 1,
         .drop = "3",
         .dates = "0",
         .parts = true,
         .na = "x+-9",
         .categorical = "1"}};
    static const weft_csv_known known[] = {
        {.place = -1, .id_place = -1},
        {.features = 2, .place = 1, .id_place = 0},
        {.features = 2, .names = names, .label = "y", .id = "i"},
        {.features = 2, .names = names, .label = "y", .place = 2, .unlabelled = true},
        {.place = -1, .measured = true, .id_given = "2"},
        {.features = 2,
         .names = names,
         .label = "y",
         .place = 1,
         .unlabelled = true,
         .measured = true},
        {.place = -1, .id_place = -1, .rules = &rules[0]},
        {.place = -1, .id_place = -1, .rules = &rules[1]}};
    weft_csv csv;
    if (size == 0) return 0;
    weft_csv_known how = known[data[0] / 4 % WEFT_COUNT(known)];
    const char *label = labels[data[0] % 4], *weight = weights[data[0] / 32 % 4];
    if (data[0] & 128) { /* several labels or targets */
        label = several[data[0] % 4];
        how.measured = how.several = true;
        how.binary = data[0] & 4;
    }
    if (weft_csv_parse("fuzz", data + 1, size - 1, label, weight, &how, &csv) != WEFT_OK) return 0;
    parse_twice(data + 1, size - 1, label, weight, &how, &csv);
    if (how.rules && !how.several) read_again(data + 1, size - 1, how.rules, &csv);
    weft_csv_free(&csv);
    return 0;
}
