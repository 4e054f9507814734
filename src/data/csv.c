/* csv:FILE[,label=NAME|INDEX,test=0.2] */
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

typedef struct csv_source {
    weft_source head;
    weft_csv csv;
    int64_t *rows; /* training rows, then test rows */
    char label_name[160];
} csv_source;

static void csv_close(weft_source *source)
{
    csv_source *s = (csv_source *)source;
    weft_csv_free(&s->csv);
    free(s->rows);
    free(s);
}

static weft_status csv_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* the file was read when it was opened */
    return WEFT_OK;
}

static void csv_read(const weft_source *source, weft_split split, int64_t i, float *x,
                     int32_t *label)
{
    const csv_source *s = (const csv_source *)source;
    int64_t row = s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
    int64_t features = s->csv.columns - 1;
    *label = s->csv.labels[row];
    for (int64_t j = 0; x && j < features; j++) x[j] = (float)s->csv.values[row * features + j];
}

static double csv_number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const csv_source *s = (const csv_source *)source;
    int64_t row = s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
    return s->csv.values[row * (s->csv.columns - 1) + j];
}

static weft_status load(csv_source *s, const char *path, const char *label, double test)
{
    weft_bytes bytes;
    WEFT_TRY(weft_gzip_open(path, &bytes));
    weft_status status = weft_csv_parse(path, bytes.data, bytes.size, label, &s->csv);
    weft_gzip_close(&bytes);
    WEFT_TRY(status);
    s->head.shape = weft_shape_of(1, (int64_t[]){s->csv.columns - 1});
    s->head.classes = s->csv.classes;
    s->head.class_names = s->csv.class_names;
    s->head.all = s->csv.rows;
    s->head.label_name = s->label_name;
    if (s->csv.header)
        (void)snprintf(s->label_name, sizeof(s->label_name), "column %d (%.100s)", s->csv.label + 1,
                       s->csv.header[s->csv.label]);
    else
        (void)snprintf(s->label_name, sizeof(s->label_name), "column %d", s->csv.label + 1);
    return weft_split_rows(s->csv.rows, test, s->head.count, &s->rows);
}

static weft_status csv_open(const char *arguments, weft_context *context, weft_source **out)
{
    (void)context;
    const char *comma = strchr(arguments, ',');
    char path[4096], *label = NULL;
    double test = 0.2;
    size_t size = comma ? (size_t)(comma - arguments) : strlen(arguments);
    if (size == 0 || size >= sizeof(path))
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'csv': give the file, as in csv:FILE,label=NAME");
    (void)snprintf(path, sizeof(path), "%.*s", (int)size, arguments);
    weft_spec_key keys[] = {{.name = "label", .text = &label},
                            {.name = "test", .number = &test, .low = 0, .high = 1},
                            {.name = NULL}};
    csv_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head.ops = &weft_source_csv;
    s->head.tabular = true;
    weft_status status = comma ? weft_spec_parse("data 'csv'", comma + 1, keys) : WEFT_OK;
    if (status == WEFT_OK) status = load(s, path, label, test);
    free(label);
    if (status != WEFT_OK) {
        csv_close(&s->head);
        return status;
    }
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_csv = {
    .kind = "csv",
    .form = "csv:FILE[,label=NAME|INDEX,test=0.2]",
    .help = "a table of numbers, plain or gzip, with or without a header; the label is the last "
            "column unless said; columns are standardised",
    .open = csv_open,
    .close = csv_close,
    .prepare = csv_prepare,
    .read = csv_read,
    .number = csv_number,
};
