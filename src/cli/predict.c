/* weft predict: writes a checkpoint's prediction for each sample as CSV or JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "predict.h"

/* Suffixes of tables that are neither CSV nor JSON. */
#define OTHER_TABLES "tsv xls xlsx ods parquet npy npz"

void sink_put(sink *s, weft_status status)
{
    if (s->status == WEFT_OK) s->status = status;
}

bool sink_not_finite(sink *s, double value)
{
    if (isfinite(value)) return false;
    const char *text = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    sink_put(s, weft_output_print(s->to, "%s", s->json ? "null" : text));
    return true;
}

void sink_number(sink *s, double value, int digits)
{
    char number[32];
    if (sink_not_finite(s, value)) return;
    enum { USUAL = 15 }; /* digits that suffice for most doubles that people write */
    int usual = digits == EXACT ? USUAL : digits;
    if (usual != digits &&
        strtod(weft_json_real(value, usual, number, sizeof(number)), NULL) == value)
        digits = usual;
    sink_put(s,
             weft_output_print(s->to, "%s", weft_json_real(value, digits, number, sizeof(number))));
}

void sink_numbers(sink *s, const double *numbers, int count, int digits)
{
    for (int j = 0; j < count; j++) {
        if (j) sink_put(s, weft_output_print(s->to, ","));
        if (numbers) sink_number(s, numbers[j], digits);
    }
}

void sink_value(sink *s, weft_dtype dtype, const void *array, int64_t i)
{
    if (weft_dtype_is_float(dtype))
        sink_number(s, weft_number_get(dtype, array, i), dtype == WEFT_F64 ? EXACT : SINGLE);
    else if (dtype == WEFT_BOOL && s->json)
        sink_put(s, weft_output_print(s->to, "%s", ((const uint8_t *)array)[i] ? "true" : "false"));
    else if (dtype == WEFT_I64)
        sink_put(s, weft_output_print(s->to, "%lld", (long long)((const int64_t *)array)[i]));
    else
        sink_put(s, weft_output_print(s->to, "%.0f", weft_number_get(dtype, array, i)));
}

static void on_prediction(void *user, const weft_prediction *p)
{
    sink *s = user;
    if (s->json)
        sink_json(s, p);
    else if (p->fields > 0)
        sink_joined(s, p);
    else
        sink_csv(s, p);
}

/* Counts samples. */
static void on_pixel(void *user, const weft_prediction *p)
{
    *(int64_t *)user += p->position == 0;
}

/* Writes pictures in place of a table. */
static int predict_masks(weft_context *context, const weft_eval_options *options)
{
    int64_t count = 0;
    print_log(context, false);
    int code = report_failure(weft_predict(context, options, on_pixel, &count));
    if (code == 0)
        printf("wrote %lld mask%s to %s\n", (long long)count, weft_plural(count), options->masks);
    return code;
}

static int predict(weft_context *context, const weft_eval_options *options)
{
    sink s = {.json = options->json};
    if (options->masks && !options->output && !options->json)
        return predict_masks(context, options);
    const char *path = options->output ? options->output : "-";
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &s.to);
    print_log(context, false);
    if (status == WEFT_OK) status = weft_predict(context, options, on_prediction, &s);
    int code = report_failure(status);
    if (code == 0 && s.status == WEFT_ERR_MEMORY) {
        fprintf(stderr, "weft: there is no memory for the text of a prediction\n");
        code = 1;
    }
    if (code == 0 && s.clash[0]) {
        char shown[256];
        fprintf(stderr,
                "weft: the table has a column '%s', and --join would write another one of this "
                "name; rename that of the table, or use --json\n",
                weft_printable(s.clash, shown, sizeof(shown)));
        code = 2;
    }
    weft_status end = weft_output_close(&s.to, code == 0 && s.status == WEFT_OK);
    if (code == 0) code = report_failure(end == WEFT_OK ? s.status : end);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_eval_options options = {0};
    weft_status status =
        read_checkpoint_options(weft_predict_table(), argc, argv, &options, &options.checkpoint);
    int code = status == WEFT_OK ? load_plugins(context, weft_predict_table(), &options)
                                 : usage_failure("predict");
    if (code == 0 &&
        !suffix_fits("predict", "output", options.output ? options.output : "",
                     options.json ? "csv " OTHER_TABLES : "json jsonl ndjson " OTHER_TABLES,
                     options.json ? "JSON" : "CSV, without --json,",
                     options.json ? ".jsonl" : ".csv"))
        code = 2;
    if (code == 0) code = predict(context, &options);
    weft_options_free(weft_predict_table(), &options);
    return code;
}

static const weft_option *table(const weft_context *context)
{
    (void)context;
    return weft_predict_table();
}

const command command_predict = {
    .name = "predict",
    .usage = "--checkpoint DIR [options]",
    .summary = "print a checkpoint's predictions for each sample",
    .text =
        "For classes, prints CSV with the columns sample, label, predicted and probability (with\n"
        "labels of positions also position), or with --json one object per line with the\n"
        "probabilities of all classes, by name if the classes have names. Their digits are those\n"
        "of single precision, so that they read back as the same numbers. For numbers, prints\n"
        "sample, target and predicted, in the units of the target; several targets have a column\n"
        "each. Several labels of a sample have columns label_NAME, predicted_NAME and\n"
        "probability_NAME, the former two 0 or 1. Data may lack the target (csv: the column, npy:\n"
        "the second file, idx: the files of labels); it is empty then, or null. All rows of a\n"
        "table without a target are used. Weights are not needed. Predictions of a diverged model\n"
        "are nan or inf, in JSON null. Of the training data the test part is taken, of another\n"
        "file all, unless --split or test= asks for a part. The numbers of samples of tables and\n"
        "arrays are those of their rows in the file, from 0, which the column file names if there\n"
        "are several, of other data those in the part; the column id has the identifiers of a\n"
        "table (id=). With --join a table's own columns stand in the place of these numbers,\n"
        "identifiers and targets, and behind them what is predicted and the probabilities of all\n"
        "classes; in JSON they are the object row. Further outputs of a model that names several\n"
        "follow as columns NAME or NAME_0, NAME_1, ..., in JSON as the object outputs. An output\n"
        "file whose name ends as another format, such as .json without --json, is refused.\n"
        "With --masks the classes of the pixels of each picture are written as a PNG of its name,\n"
        "of which each pixel is the number of its class and a palette has colours. A mask has the\n"
        "size of its picture; the edges that were cut off, as samples have other proportions, are\n"
        "255. With --mask-size sample it has the size of samples. Lines for each pixel are\n"
        "printed only with --output or --json.",
    .examples =
        "  weft predict --checkpoint runs/a/latest --output predictions.csv\n"
        "  weft predict --checkpoint runs/iris/latest --data csv:new.csv\n"
        "  weft predict --checkpoint runs/iris/latest --data csv:new.csv --join -o with.csv\n"
        "  weft predict --checkpoint runs/iris/latest --data csv:labelled.csv\n"
        "  weft predict --checkpoint runs/prices/latest --data csv:new_houses.csv --json\n"
        "  weft predict --checkpoint runs/roads --data images:new_pictures --masks predicted\n",
    .table = table,
    .run = run,
    .tasks = TASKS_ALONE,
    .computes = true,
};
