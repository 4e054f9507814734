/* The data source of tables in CSV files, plain or gzip. csv_open reads the whole file. Its form is
 * csv:FILE[,label=COLUMN|target=COLUMN,weight=COLUMN,id=COLUMN,test=0.2]. */
#include <stdio.h>

#include "data/csv_notes.h"
#include "data/data.h"

typedef struct csv_keys {
    char *label, *target, *weight, *id;
    double test; /* below 0: not given */
} csv_keys;

typedef struct csv_source {
    weft_source head;
    weft_csv csv;
    int64_t
        *rows;    /* row numbers of the file: those of the training split, then of the test split */
    char **names; /* [features], names of the columns; NULL: the table has no header */
    char found_in[160], as_target[160], *path;
} csv_source;

static void csv_close(weft_source *source)
{
    csv_source *s = (csv_source *)source;
    weft_csv_free(&s->csv);
    free(s->names);
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
    return s->csv.values[row_of(source, split, i) * s->csv.features + j];
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

/* Sets numbers and names of the columns (features, label or target, weights) in the head of the
 * source. The parsed table owns the names. */
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
    WEFT_TRY(WEFT_NEW(&s->names, csv->features));
    for (int j = 0; j < csv->features; j++) s->names[j] = csv->header[csv->order[j]];
    s->head.column_names = s->names;
    if (csv->label >= 0) s->head.label_name = csv->header[csv->label];
    if (csv->weight >= 0) s->head.weight_name = csv->header[csv->weight];
    if (csv->id >= 0) s->head.id_name = csv->header[csv->id];
    return WEFT_OK;
}

/* Reads the table and splits its rows. test: share of the test split; < 0: the default, which is
 * all rows if the table has no label column. */
static weft_status load(csv_source *s, const char *path, const csv_keys *keys, bool measured,
                        const weft_source_request *request)
{
    double test = keys->test;
    const char *column = keys->target ? keys->target : keys->label;
    int64_t number;
    weft_csv_known known = {.place = -1,
                            .weight_place = -1,
                            .id_place = -1,
                            .id_given = keys->id,
                            .unlabelled = request->unlabelled,
                            .measured = measured};
    weft_bytes bytes;
    if (request->stats) {
        known.features = (int)weft_shape_elements(&request->stats->input[0].shape);
        known.names = request->stats->column_names;
        known.label = request->stats->label_name;
        known.place = request->stats->label_column - 1;
        known.weight = request->stats->weight_name;
        known.weight_place = request->stats->weight_column - 1;
        known.id = request->stats->id_name;
        known.id_place = request->stats->id_column - 1;
    }
    WEFT_TRY(weft_strdup(path, &s->path));
    s->head.file = s->path;
    WEFT_TRY(weft_gzip_open(path, &bytes));
    weft_status status =
        weft_csv_parse(path, bytes.data, bytes.size, column, keys->weight, &known, &s->csv);
    weft_gzip_close(&bytes);
    WEFT_TRY(status);
    weft_source_set_shape(&s->head, weft_shape_of(1, (int64_t[]){s->csv.features}));
    s->head.unlabelled = s->csv.label < 0;
    s->head.targets = measured;
    s->head.weighted = s->csv.weights != NULL;
    s->head.classes = s->csv.classes;
    s->head.class_names = s->csv.class_names;
    s->head.all = s->csv.rows;
    WEFT_TRY(name_columns(s));
    WEFT_TRY(weft_csv_note(&s->csv, path, column && !weft_parse_int(column, &number), request));
    s->head.divided = test >= 0;
    if (test < 0) test = s->head.unlabelled ? 1 : WEFT_USUAL_TEST;
    return csv_divide(&s->head, test);
}

static weft_status csv_open(const char *arguments, const weft_source_request *request,
                            weft_source **out)
{
    const char *comma = strchr(arguments, ',');
    char *path = NULL;
    csv_keys keys = {.test = -1};
    bool numbers = false;
    size_t size = comma ? (size_t)(comma - arguments) : strlen(arguments);
    if (size == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'csv': give the file, as in csv:FILE,label=NAME");
    weft_spec_key table[] = {{.name = "label", .text = &keys.label},
                             {.name = "target", .text = &keys.target},
                             {.name = "weight", .text = &keys.weight},
                             {.name = "id", .text = &keys.id},
                             {.name = "test", .number = &keys.test, .low = 0, .high = 1},
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
    free(keys.label);
    free(keys.target);
    free(keys.weight);
    free(keys.id);
    if (status != WEFT_OK) {
        csv_close(&s->head);
        return status;
    }
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_csv = {
    .kind = "csv",
    .form = "csv:FILE[,label=COLUMN|target=COLUMN,weight=COLUMN,id=COLUMN,test=0.2]",
    .help = "a table of numbers, plain or gzip, with or without a header; columns "
            "are given by name or by number from 0: label is a class (default: the "
            "last column), target is a number to predict, weight is the sample "
            "weight (at least 0), id names the row and is no feature; the other columns are "
            "standardized",
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
};
