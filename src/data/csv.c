/* The data source of tables in CSV files, plain or gzip. csv_open reads the whole file. Categories
 * become features when a sample is read, so that the table keeps one number for each field. */
#include <stdio.h>

#include "data/csv_notes.h"
#include "data/data.h"
#include "formats/table.h"

typedef struct csv_keys {
    char *label, *target, *weight, *id;
    double test; /* below 0: not given */
    char *missing, *na, *categorical, *dates, *drop, *only;
    bool parts;
    double rare;
} csv_keys;

typedef struct csv_source {
    weft_source head;
    weft_csv csv;
    int64_t
        *rows;    /* row numbers of the file: those of the training split, then of the test split */
    char **names; /* [features], NULL: the table has no header */
    weft_bytes text;   /* of the file, if fields are wanted */
    weft_csv_row *row; /* of which fields were asked for last; NULL: they are not wanted */
    weft_table *table; /* how columns become features; NULL: they are the features */
    char found_in[160], as_target[160], *path;
} csv_source;

static void csv_close(weft_source *source)
{
    csv_source *s = (csv_source *)source;
    weft_strings_free(&s->names, weft_shape_elements(weft_source_shape(source)));
    weft_csv_free(&s->csv);
    weft_table_free(s->table);
    if (s->row) {
        weft_csv_row_free(s->row);
        weft_gzip_close(&s->text);
    }
    free(s->row);
    free(s->rows);
    free(s->path);
    free(s);
}

static weft_status csv_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* csv_open has read the whole file */
    return WEFT_OK;
}

/* The row of the file that holds sample i of a split. */
static int64_t row_of(const weft_source *source, weft_split split, int64_t i)
{
    const csv_source *s = (const csv_source *)source;
    return s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
}

static weft_status csv_divide(weft_source *source, double share)
{
    csv_source *s = (csv_source *)source;
    return weft_split_rows(s->csv.rows, share, s->head.count, &s->rows);
}

static double csv_number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const csv_source *s = (const csv_source *)source;
    const double *row = s->csv.values + row_of(source, split, i) * s->csv.features;
    return s->table ? weft_table_feature(s->table, row, (int)j) : row[j];
}

static void csv_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    const csv_source *s = (const csv_source *)source;
    *label = s->csv.labels[row_of(source, split, i)];
}

static double csv_target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const csv_source *s = (const csv_source *)source;
    (void)j; /* a table has one target column */
    return s->csv.targets[row_of(source, split, i)];
}

static double csv_weight(const weft_source *source, weft_split split, int64_t i, int64_t position)
{
    (void)position;
    const csv_source *s = (const csv_source *)source;
    return s->csv.weights[row_of(source, split, i)];
}

static const char *csv_id(const weft_source *source, weft_split split, int64_t i)
{
    const csv_source *s = (const csv_source *)source;
    return s->csv.ids ? s->csv.ids[row_of(source, split, i)] : NULL;
}

static weft_status name_features(csv_source *s)
{
    const weft_csv *csv = &s->csv;
    if (!csv->header) return WEFT_OK;
    if (s->table) return weft_table_names(s->table, &s->names);
    WEFT_TRY(WEFT_NEW(&s->names, csv->features));
    for (int j = 0; j < csv->features; j++)
        WEFT_TRY(weft_strdup(csv->header[csv->order[j]], &s->names[j]));
    return WEFT_OK;
}

/* The fields of a row are read again, since the table does not keep its texts. */
static weft_status csv_fields(const weft_source *source, weft_split split, int64_t i,
                              weft_table_row *out)
{
    const csv_source *s = (const csv_source *)source;
    if (!s->row) return WEFT_OK;
    weft_csv_row_free(s->row);
    WEFT_TRY(weft_csv_fields(&s->csv, s->text.data, row_of(source, split, i), s->row));
    *out = (weft_table_row){(int)s->row->count, s->row->fields, s->csv.header};
    return WEFT_OK;
}

static weft_status csv_summary(const weft_source *source, weft_text *text)
{
    const csv_source *s = (const csv_source *)source;
    return weft_csv_summary(&s->csv, s->table, text);
}

/* Sets numbers and names of the columns (features, label or target, weights) in the head of the
 * source. The parsed table owns the names of the latter. */
static weft_status name_columns(csv_source *s)
{
    const weft_csv *csv = &s->csv;
    s->head.label_column = csv->place + 1;
    s->head.weight_column = csv->weight_place + 1;
    s->head.id_column = csv->id + 1;
    if (csv->label >= 0 && csv->header)
        (void)snprintf(s->found_in, sizeof(s->found_in), "column %d (%.100s)", csv->label + 1,
                       csv->header[csv->label]);
    else
        (void)snprintf(s->found_in, sizeof(s->found_in), "column %d", csv->label + 1);
    s->head.found_in = s->found_in;
    if (csv->label >= 0 && csv->header)
        (void)snprintf(s->as_target, sizeof(s->as_target), "target=%.100s",
                       csv->header[csv->label]);
    else
        (void)snprintf(s->as_target, sizeof(s->as_target), "target=%d", csv->label);
    s->head.as_target = s->as_target;
    if (!csv->header) return WEFT_OK;
    WEFT_TRY(name_features(s));
    s->head.column_names = s->names;
    if (csv->label >= 0) s->head.label_name = csv->header[csv->label];
    if (csv->weight >= 0) s->head.weight_name = csv->header[csv->weight];
    if (csv->id >= 0) s->head.id_name = csv->header[csv->id];
    return WEFT_OK;
}

/* Reads missing=. */
static weft_status read_missing(const char *missing, weft_csv_rules *rules)
{
    static const struct {
        const char *name;
        bool texts, numbers, median, flag;
    } ways[] = {{"refuse", false, false, false, false}, {"category", true, false, false, false},
                {"mean", true, true, false, false},     {"median", true, true, true, false},
                {"mean+flag", true, true, false, true}, {"median+flag", true, true, true, true}};
    for (size_t i = 0; i < WEFT_COUNT(ways); i++) {
        if (strcmp(missing ? missing : "refuse", ways[i].name) != 0) continue;
        rules->text_gaps = ways[i].texts;
        rules->gaps = ways[i].numbers;
        rules->median = ways[i].median;
        rules->flag = ways[i].flag;
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "data 'csv': missing is '%s', must be refuse, category (texts alone), mean, "
                     "median, mean+flag or median+flag",
                     missing);
}

/* Parses the file. rules: of a table of training. */
static weft_status parse(csv_source *s, const csv_keys *keys, bool measured,
                         const weft_csv_rules *rules, const weft_source_request *request)
{
    const weft_data_stats *stats = request->stats;
    const weft_table *table = stats ? stats->table : NULL;
    const char *column = keys->target ? keys->target : keys->label;
    weft_csv_known known = {.place = -1,
                            .weight_place = -1,
                            .id_place = -1,
                            .id_given = keys->id,
                            .unlabelled = request->unlabelled,
                            .measured = measured,
                            .rules = stats ? NULL : rules,
                            .begins = request->fields};
    weft_bytes bytes;
    char **names = NULL;
    if (stats) {
        known.features = table ? table->columns : (int)weft_shape_elements(&stats->input[0].shape);
        known.names = stats->column_names;
        known.table = table;
        known.label = stats->label_name;
        known.place = stats->label_column - 1;
        known.weight = stats->weight_name;
        known.weight_place = stats->weight_column - 1;
        known.id = stats->id_name;
        known.id_place = stats->id_column - 1;
    }
    if (table && stats->column_names) {
        WEFT_TRY(weft_table_column_names(table, &names));
        known.names = names;
    }
    weft_status status = weft_gzip_open(s->path, &bytes);
    bool opened = status == WEFT_OK;
    if (status == WEFT_OK)
        status =
            weft_csv_parse(s->path, bytes.data, bytes.size, column, keys->weight, &known, &s->csv);
    if (status == WEFT_OK && request->fields) status = WEFT_NEW(&s->row, 1);
    if (s->row)
        s->text = bytes;
    else if (opened)
        weft_gzip_close(&bytes);
    free(names);
    return status;
}

/* Sets the table that says how columns become features. */
static weft_status describe(csv_source *s, const weft_csv_rules *rules,
                            const weft_source_request *request)
{
    if (request->stats) return weft_table_copy(request->stats->table, &s->table);
    WEFT_TRY(
        weft_table_fit(&s->csv, s->path, rules, s->rows, s->head.count[WEFT_TRAIN], &s->table));
    return s->table ? weft_table_number_words(s->table, &s->csv) : WEFT_OK;
}

/* Reads the table and splits its rows. test: share of the test split; < 0: the default, which is
 * all rows if the table has no label column. */
static weft_status load(csv_source *s, const char *path, const csv_keys *keys, bool measured,
                        const weft_source_request *request)
{
    double test = keys->test;
    const char *column = keys->target ? keys->target : keys->label;
    int64_t number;
    weft_csv_rules rules = {.drop = keys->drop,
                            .only = keys->only,
                            .categorical = keys->categorical,
                            .dates = keys->dates,
                            .na = keys->na,
                            .parts = keys->parts,
                            .rare = (int)keys->rare};
    WEFT_TRY(read_missing(keys->missing, &rules));
    WEFT_TRY(weft_strdup(path, &s->path));
    s->head.file = s->path;
    WEFT_TRY(parse(s, keys, measured, &rules, request));
    s->head.unlabelled = s->csv.label < 0;
    s->head.divided = test >= 0;
    if (test < 0) test = s->head.unlabelled ? 1 : WEFT_USUAL_TEST;
    WEFT_TRY(csv_divide(&s->head, test));
    WEFT_TRY(describe(s, &rules, request));
    weft_source_set_shape(
        &s->head, weft_shape_of(1, (int64_t[]){s->table ? s->table->features : s->csv.features}));
    s->head.table = s->table;
    s->head.targets = measured;
    s->head.weighted = s->csv.weights != NULL;
    s->head.classes = s->csv.classes;
    s->head.class_names = s->csv.class_names;
    s->head.all = s->csv.rows;
    WEFT_TRY(name_columns(s));
    return weft_csv_note(&s->csv, path, column && !weft_parse_int(column, &number), request);
}

static weft_status csv_open(const char *arguments, const weft_source_request *request,
                            weft_source **out)
{
    const char *comma = strchr(arguments, ',');
    char *path = NULL;
    csv_keys keys = {.test = -1, .rare = 2};
    bool numbers = false;
    size_t size = comma ? (size_t)(comma - arguments) : strlen(arguments);
    if (size == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'csv': give the file, as in csv:FILE,label=NAME");
    weft_spec_key table[] = {
        {.name = "label", .text = &keys.label},
        {.name = "target", .text = &keys.target},
        {.name = "weight", .text = &keys.weight},
        {.name = "id", .text = &keys.id},
        {.name = "test", .number = &keys.test, .low = 0, .high = 1},
        {.name = "missing", .text = &keys.missing},
        {.name = "na", .text = &keys.na},
        {.name = "categorical", .text = &keys.categorical},
        {.name = "rare", .number = &keys.rare, .low = 1, .high = 1e9, .integer = true},
        {.name = "dates", .text = &keys.dates},
        {.name = "parts", .flag = &keys.parts},
        {.name = "drop", .text = &keys.drop},
        {.name = "only", .text = &keys.only},
        {.name = NULL}};
    csv_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head.ops = &weft_source_csv;
    s->head.tabular = true;
    weft_status status = weft_format(&path, "%.*s", (int)size, arguments);
    if (status == WEFT_OK) status = weft_spec_locate(request, &path);
    if (status == WEFT_OK && comma) status = weft_spec_parse("data 'csv'", comma + 1, table);
    if (status == WEFT_OK)
        status = weft_check_target("data 'csv'", keys.label, keys.target, request->stats, &numbers);
    if (status == WEFT_OK) status = load(s, path, &keys, numbers, request);
    free(path);
    for (weft_spec_key *key = table; key->name; key++)
        if (key->text) free(*key->text);
    if (status != WEFT_OK) {
        csv_close(&s->head);
        return status;
    }
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_csv = {
    .kind = "csv",
    .form = "csv:FILE[,label=COLUMN|target=COLUMN,weight=COLUMN,id=COLUMN,test=0.2,missing=refuse,"
            "na=MARKS,categorical=COLUMNS,rare=2,dates=COLUMNS,parts,drop=COLUMNS|only=COLUMNS]",
    .help = "a table, plain or gzip, with or without a header; columns "
            "are given by name or by number from 0: label is a class (default: the "
            "last column), target is a number to predict, weight is the sample "
            "weight (at least 0), id names the row and is no feature; columns of numbers are "
            "standardized, each text of another column becomes a feature of 0 and 1",
    .open = csv_open,
    .close = csv_close,
    .divide = csv_divide,
    .prepare = csv_prepare,
    .number = csv_number,
    .label = csv_label,
    .target = csv_target,
    .weight = csv_weight,
    .row = row_of,
    .id = csv_id,
    .fields = csv_fields,
    .summary = csv_summary,
};
