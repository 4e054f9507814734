/* The data source of tables in CSV files, plain or gzip. csv_read.c reads the whole table.
 * Categories become features when a sample is read, so that the table keeps one number for each
 * field. */
#include <math.h>
#include <stdio.h>

#include "data/csv_notes.h"
#include "data/csv_source.h"

static void csv_close(weft_source *source)
{
    weft_csv_source *s = (weft_csv_source *)source;
    weft_strings_free(&s->names, weft_shape_elements(weft_source_shape(source)));
    free(s->answer_names);
    free(s->label_name);
    weft_csv_free(&s->csv);
    weft_table_free(s->table);
    if (s->row) weft_csv_row_free(s->row);
    for (int64_t k = 0; s->text && k < s->file_count; k++) weft_gzip_close(&s->text[k]);
    weft_strings_free(&s->files, s->file_count);
    free(s->text);
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

/* The row of the table that holds sample i of a split. */
static int64_t row_of(const weft_source *source, weft_split split, int64_t i)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    return s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
}

/* The row of its file. */
static int64_t csv_row(const weft_source *source, weft_split split, int64_t i)
{
    int64_t row = row_of(source, split, i);
    return row - weft_csv_file_of(&((const weft_csv_source *)source)->csv, row)->first;
}

static const char *csv_file(const weft_source *source, weft_split split, int64_t i)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    if (s->file_count < 2) return NULL;
    return weft_csv_file_of(&s->csv, row_of(source, split, i))->name;
}

static weft_status csv_divide(weft_source *source, double share)
{
    weft_csv_source *s = (weft_csv_source *)source;
    return weft_split_rows(s->csv.rows, share, s->head.count, &s->rows);
}

static double csv_number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    const double *row = s->csv.values + row_of(source, split, i) * s->csv.features;
    return s->table ? weft_table_feature(s->table, row, (int)j) : row[j];
}

/* Words have the numbers of the description, so the numbers of a row say what it has. */
static uint64_t csv_hash(const weft_source *source, weft_split split, int64_t i)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    const double *row = s->csv.values + row_of(source, split, i) * s->csv.features;
    uint64_t hash = 0, bits;
    for (int j = 0; j < s->csv.features; j++) {
        double number = row[j] + 0; /* -0 becomes 0 */
        memcpy(&bits, &number, sizeof(bits));
        hash = weft_mix(hash, isnan(number) ? UINT64_MAX : bits);
    }
    return hash;
}

static void csv_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    *label = s->csv.labels[row_of(source, split, i)];
}

static double csv_target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    return s->csv.targets[row_of(source, split, i) * s->csv.answers + j];
}

static double csv_weight(const weft_source *source, weft_split split, int64_t i, int64_t position)
{
    (void)position;
    const weft_csv_source *s = (const weft_csv_source *)source;
    return s->csv.weights[row_of(source, split, i)];
}

static const char *csv_id(const weft_source *source, weft_split split, int64_t i)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    return s->csv.ids ? s->csv.ids[row_of(source, split, i)] : NULL;
}

/* The fields of a row are read again, since the table does not keep its texts. */
static weft_status csv_fields(const weft_source *source, weft_split split, int64_t i,
                              weft_table_row *out)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    if (!s->row) return WEFT_OK;
    weft_csv_row_free(s->row);
    WEFT_TRY(weft_csv_fields(&s->csv, s->text, row_of(source, split, i), s->row));
    *out = (weft_table_row){(int)s->row->count, s->row->fields, s->csv.header};
    return WEFT_OK;
}

static weft_status csv_summary(const weft_source *source, weft_text *text)
{
    const weft_csv_source *s = (const weft_csv_source *)source;
    return weft_csv_summary(&s->csv, s->table, s->head.binary, text);
}

static weft_status csv_open(const char *arguments, const weft_source_request *request,
                            weft_source **out)
{
    const char *comma = strchr(arguments, ',');
    char *path = NULL;
    weft_csv_keys keys = {.rare = 2};
    bool numbers = false;
    size_t size = comma ? (size_t)(comma - arguments) : strlen(arguments);
    if (size == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'csv': give the file, as in csv:FILE,label=NAME");
    weft_spec_key table[] = {
        {.name = "label", .text = &keys.label},
        {.name = "target", .text = &keys.target},
        {.name = "weight", .text = &keys.weight},
        {.name = "id", .text = &keys.id},
        {.name = "test", .text = &keys.test},
        {.name = "missing", .text = &keys.missing},
        {.name = "na", .text = &keys.na},
        {.name = "categorical", .text = &keys.categorical},
        {.name = "embedding", .text = &keys.embedding},
        {.name = "rare", .number = &keys.rare, .low = 1, .high = 1e9, .integer = true},
        {.name = "dates", .text = &keys.dates},
        {.name = "parts", .flag = &keys.parts},
        {.name = "drop", .text = &keys.drop},
        {.name = "only", .text = &keys.only},
        {.name = "skip", .number = &keys.skip, .low = 0, .high = 1e6, .integer = true},
        {.name = NULL}};
    weft_csv_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head.ops = &weft_source_csv;
    s->head.tabular = true;
    weft_status status = weft_format(&path, "%.*s", (int)size, arguments);
    if (status == WEFT_OK && comma) status = weft_spec_parse("data 'csv'", comma + 1, table);
    if (status == WEFT_OK)
        status = weft_check_target("data 'csv'", keys.label, keys.target,
                                   request->mirrored ? NULL : request->stats, &numbers);
    if (status == WEFT_OK) status = weft_csv_source_read(s, &path, &keys, numbers, request);
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

#define TABLE                                                                                      \
    .kind = "csv", .ends = ".csv,.tsv,.csv.gz,.tsv.gz,.data",                                      \
    .form = "csv:FILES[,label=COLUMN|target=COLUMN,weight=COLUMN,id=COLUMN,test=0.2|FILES,"        \
            "missing=refuse,na=MARKS,categorical=COLUMNS,embedding=COLUMNS,rare=2,dates=COLUMNS,"  \
            "parts,"                                                                               \
            "drop=COLUMNS|only=COLUMNS,skip=0]",                                                   \
    .help = "a table, plain or gzip, with or without a header, of one file or several with the "   \
            "same columns, by a pattern or FILE+FILE; columns "                                    \
            "are given by name or by number from 0: label is a class (default: the last column), " \
            "or several of 0 and 1 as A+B, target is a number to predict, or several as A+B, "     \
            "weight is the sample "                                                                \
            "weight (at least 0), id names the row and is no feature; columns of numbers are "     \
            "standardized, each text of another column becomes a feature of 0 and 1; those of "    \
            "dates=COLUMN[:dmy|:mdy|:epoch] are days; skip is a number of lines before the "       \
            "table; test is a "                                                                    \
            "share, or the files of the test part",                                                \
    .open = csv_open, .close = csv_close, .prepare = csv_prepare, .number = csv_number,            \
    .hash = csv_hash, .label = csv_label, .target = csv_target, .weight = csv_weight,              \
    .row = csv_row, .file = csv_file, .id = csv_id, .fields = csv_fields, .summary = csv_summary

const weft_source_ops weft_source_csv = {TABLE, .divide = csv_divide};
const weft_source_ops weft_source_csv_parts = {TABLE};
