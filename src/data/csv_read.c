/* Reads a table of one file or several: which rows are for what, and how columns become features.
 */
#include <stdio.h>

#include "data/csv_notes.h"
#include "data/csv_source.h"

static weft_status name_features(weft_csv_source *s)
{
    const weft_csv *csv = &s->csv;
    if (!csv->header) return WEFT_OK;
    if (s->table) return weft_table_names(s->table, &s->names);
    WEFT_TRY(WEFT_NEW(&s->names, csv->features));
    for (int j = 0; j < csv->features; j++)
        WEFT_TRY(weft_strdup(csv->header[csv->order[j]], &s->names[j]));
    return WEFT_OK;
}

/* Sets the name of the label, and of several labels or targets those of each. */
static weft_status name_answers(weft_csv_source *s)
{
    const weft_csv *csv = &s->csv;
    weft_text all = {0};
    s->head.label_name = csv->header[csv->label];
    if (csv->answers < 2) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&s->answer_names, csv->answers));
    for (int j = 0; j < csv->answers; j++) {
        s->answer_names[j] = csv->header[csv->answer[j]];
        weft_text_add(&all, "%s%s", j ? "+" : "", s->answer_names[j]);
    }
    s->label_name = all.data;
    s->head.label_name = all.data;
    s->head.target_names = s->answer_names;
    return all.failed ? weft_fail(WEFT_ERR_MEMORY, "out of memory") : WEFT_OK;
}

/* Sets numbers and names of the columns (features, label or target, weights) in the head of the
 * source. The parsed table owns the names of the latter. */
static weft_status name_columns(weft_csv_source *s)
{
    const weft_csv *csv = &s->csv;
    s->head.label_column = csv->place + 1;
    s->head.weight_column = csv->weight_place + 1;
    s->head.id_column = csv->id + 1;
    if (csv->label >= 0 && csv->header)
        (void)snprintf(s->found_in, sizeof(s->found_in), "column %d (%.100s)", csv->label,
                       csv->header[csv->label]);
    else
        (void)snprintf(s->found_in, sizeof(s->found_in), "column %d", csv->label);
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
    if (csv->label >= 0) WEFT_TRY(name_answers(s));
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

/* Adds the files of a list to those of the table. *pattern is replaced by that in the folder of the
 * request, if they are there. */
static weft_status add_files(weft_csv_source *s, const weft_source_request *request, char **pattern)
{
    char **found = NULL;
    int64_t count = 0;
    WEFT_TRY(weft_spec_locate(request, pattern));
    WEFT_TRY(weft_spec_files(*pattern, &found, &count));
    weft_status status = WEFT_OK;
    if (count == 0) status = weft_spec_no_file(*pattern);
    char **all = realloc(s->files, (size_t)(s->file_count + count + 1) * sizeof(*all));
    if (!all && status == WEFT_OK) status = weft_fail_memory((size_t)count);
    if (all) s->files = all;
    if (status == WEFT_OK) {
        if (count > 0) memcpy(all + s->file_count, found, (size_t)count * sizeof(*all));
        s->file_count += count;
        free(found);
    } else {
        weft_strings_free(&found, count);
    }
    return status;
}

/* Finds out whether an option gives several columns, since the name of one may have a +, too. */
static void find_several(const weft_csv_keys *keys, const weft_bytes *text, bool later,
                         weft_csv_known *known)
{
    const char *given = keys->target ? keys->target : keys->label;
    known->several = given && strchr(given, '+') &&
                     !weft_csv_has_name(text->data, text->size, known->skip, given);
    if (!later) known->binary = known->several && keys->label;
    known->measured = known->measured || known->binary;
}

/* Parses one file after the other. */
static weft_status parse_files(weft_csv_source *s, const weft_csv_keys *keys, bool later,
                               weft_csv_known *known)
{
    weft_csv_parser *parser = NULL;
    weft_status status = WEFT_OK;
    WEFT_TRY(WEFT_NEW(&s->text, s->file_count));
    for (int64_t k = 0; k < s->file_count && status == WEFT_OK; k++) {
        weft_bytes *text = &s->text[k];
        status = weft_gzip_open(s->files[k], text);
        if (status == WEFT_OK && k == 0) {
            find_several(keys, text, later, known);
            status = weft_csv_begin(keys->target ? keys->target : keys->label, keys->weight, known,
                                    &parser);
        }
        if (status == WEFT_OK) status = weft_csv_add(parser, s->files[k], text->data, text->size);
        if (!known->begins) weft_gzip_close(text);
    }
    weft_status ended = parser ? weft_csv_end(&parser, status == WEFT_OK ? &s->csv : NULL) : status;
    return status == WEFT_OK ? ended : status;
}

/* Parses the table. rules: of a table of training. */
static weft_status parse(weft_csv_source *s, const weft_csv_keys *keys, bool measured,
                         const weft_csv_rules *rules, const weft_source_request *request)
{
    const weft_data_stats *stats = request->stats;
    const weft_table *table = stats ? stats->table : NULL;
    weft_csv_known known = {.place = -1,
                            .weight_place = -1,
                            .id_place = -1,
                            .id_given = keys->id,
                            .unlabelled = request->unlabelled,
                            .skip = (int)keys->skip,
                            .measured = measured,
                            .rules = stats ? NULL : rules,
                            .begins = request->fields};
    char **names = NULL;
    if (stats) {
        known.features = table ? table->columns : (int)weft_shape_elements(&stats->input[0].shape);
        known.names = stats->column_names;
        known.table = table;
        known.label = stats->label_name;
        known.answers = stats->targets;
        known.answer_names = stats->target_names;
        known.binary = stats->binary;
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
    weft_status status = parse_files(s, keys, stats != NULL, &known);
    s->head.binary = known.binary;
    if (known.measured)
        s->head.targets = s->csv.answers ? s->csv.answers : stats ? stats->targets : 1;
    if (status == WEFT_OK && request->fields) status = WEFT_NEW(&s->row, 1);
    free(names);
    return status;
}

/* The first row of the files of the test part; the number of rows: there are none. */
static int64_t first_later(const weft_csv_source *s)
{
    return s->of_training < s->file_count ? s->csv.file[s->of_training].first : s->csv.rows;
}

/* Refuses a class that only files of the test part have. */
static weft_status check_classes(const weft_csv_source *s, const char *test)
{
    const weft_csv *csv = &s->csv;
    bool *trained;
    int64_t first = first_later(s), i = first;
    if (!csv->labels || first == csv->rows) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&trained, csv->classes));
    for (int64_t k = 0; k < first; k++) trained[csv->labels[k]] = true;
    while (i < csv->rows && trained[csv->labels[i]]) i++;
    free(trained);
    if (i == csv->rows) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: no file of the training has the class '%s'", test,
                     csv->class_names[csv->labels[i]]);
}

/* Sets the table that says how columns become features. */
static weft_status describe(weft_csv_source *s, const weft_csv_rules *rules,
                            const weft_source_request *request)
{
    if (request->stats) return weft_table_copy(request->stats->table, &s->table);
    WEFT_TRY(
        weft_table_fit(&s->csv, s->path, rules, s->rows, s->head.count[WEFT_TRAIN], &s->table));
    return s->table ? weft_table_number_words(s->table, s->rows, s->head.count[WEFT_TRAIN],
                                              s->csv.rows, &s->csv)
                    : WEFT_OK;
}

/* Splits the rows: those of test files are the test split, or a share is, which is by default all
 * of a table without a label. */
static weft_status split(weft_csv_source *s, double test)
{
    const weft_csv *csv = &s->csv;
    if (s->of_training < s->file_count) {
        s->head.ops = &weft_source_csv_parts;
        s->head.apart = true;
        s->head.count[WEFT_TRAIN] = first_later(s);
        s->head.count[WEFT_TEST] = csv->rows - s->head.count[WEFT_TRAIN];
        WEFT_TRY(WEFT_NEW(&s->rows, csv->rows));
        for (int64_t i = 0; i < csv->rows; i++) s->rows[i] = i;
        return WEFT_OK;
    }
    s->head.divided = test >= 0;
    if (test < 0) test = s->head.unlabelled ? 1 : WEFT_USUAL_TEST;
    return weft_split_rows(s->csv.rows, test, s->head.count, &s->rows);
}

/* Finds the files. *share: of the test split; < 0: not given. */
static weft_status find_files(weft_csv_source *s, char **path, weft_csv_keys *keys,
                              const weft_source_request *request, double *share)
{
    WEFT_TRY(add_files(s, request, path));
    WEFT_TRY(weft_strdup(*path, &s->path));
    s->of_training = s->file_count;
    *share = -1;
    if (!keys->test) return WEFT_OK;
    if (!weft_parse_real(keys->test, share)) return add_files(s, request, &keys->test);
    if (*share >= 0 && *share <= 1) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "data 'csv': test is '%s', must be a share from 0 to 1, or files", keys->test);
}

weft_status weft_csv_source_read(weft_csv_source *s, char **path, weft_csv_keys *keys,
                                 bool measured, const weft_source_request *request)
{
    double test;
    const char *column = keys->target ? keys->target : keys->label;
    int64_t number;
    weft_csv_rules rules = {.drop = keys->drop,
                            .only = keys->only,
                            .categorical = keys->categorical,
                            .embedding = keys->embedding,
                            .dates = keys->dates,
                            .na = keys->na,
                            .parts = keys->parts,
                            .rare = (int)keys->rare};
    WEFT_TRY(read_missing(keys->missing, &rules));
    WEFT_TRY(find_files(s, path, keys, request, &test));
    s->head.file = s->path;
    WEFT_TRY(parse(s, keys, measured, &rules, request));
    s->head.unlabelled = s->csv.label < 0;
    WEFT_TRY(split(s, test));
    if (!request->stats && !request->mirrored) WEFT_TRY(check_classes(s, keys->test));
    WEFT_TRY(describe(s, &rules, request));
    weft_source_set_shape(
        &s->head, weft_shape_of(1, (int64_t[]){s->table ? s->table->features : s->csv.features}));
    s->head.table = s->table;
    s->head.weighted = s->csv.weights != NULL;
    s->head.classes = s->csv.classes;
    s->head.class_names = s->csv.class_names;
    s->head.all = s->csv.rows;
    WEFT_TRY(name_columns(s));
    bool named = column && !weft_parse_int(column, &number), later = request->stats != NULL;
    int64_t trained = later ? 0 : s->head.count[WEFT_TRAIN];
    const char *news = s->of_training < s->file_count && !later ? keys->test : s->path;
    return weft_csv_note(&s->csv, s->table, s->path, news, s->rows + trained,
                         later || trained > 0 ? s->csv.rows - trained : 0, column != NULL, named,
                         request);
}
