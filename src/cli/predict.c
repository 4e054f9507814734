/* weft predict: writes a checkpoint's prediction for each sample as CSV or JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/output.h"

/* Digits that distinguish all numbers in single (SINGLE) and double precision (EXACT). USUAL digits
 * suffice for most doubles that people write. */
enum { SINGLE = 9, USUAL = 15, EXACT = 17 };

/* Suffixes of tables that are neither CSV nor JSON. */
#define OTHER_TABLES "tsv xls xlsx ods parquet npy npz"

typedef struct sink {
    weft_output *to;
    bool json, started;
    int64_t columns;    /* of further outputs in CSV */
    weft_status status; /* of the first write that failed */
    char clash[1024];   /* column of the table that has the name of one of ours; "": none */
} sink;

static void put(sink *s, weft_status status)
{
    if (s->status == WEFT_OK) s->status = status;
}

/* Writes a name as CSV, in quotes if necessary. */
static void csv_name(sink *s, const char *name)
{
    if (!strpbrk(name, ",\"\r\n")) {
        put(s, weft_output_print(s->to, "%s", name));
        return;
    }
    put(s, weft_output_write(s->to, "\"", 1));
    for (; *name; name++) {
        if (*name == '"') put(s, weft_output_write(s->to, "\"", 1));
        put(s, weft_output_write(s->to, name, 1));
    }
    put(s, weft_output_write(s->to, "\"", 1));
}

static void csv_class(sink *s, int32_t class_index, char *const *names)
{
    if (names)
        csv_name(s, names[class_index]);
    else
        put(s, weft_output_print(s->to, "%d", class_index));
}

static void json_text(sink *s, const char *text)
{
    char *json = NULL;
    put(s, weft_json_string(text, &json));
    if (json) put(s, weft_output_print(s->to, "%s", json));
    weft_free(json);
}

/* Writes a class as JSON: its name or, if classes are numbers, its number. */
static void json_class(sink *s, int32_t class_index, char *const *names)
{
    if (names)
        json_text(s, names[class_index]);
    else
        put(s, weft_output_print(s->to, "%d", class_index));
}

/* Writes a number that is not finite: null in JSON, nan or inf in CSV. false: the number is finite.
 */
static bool put_other(sink *s, double value)
{
    if (isfinite(value)) return false;
    const char *text = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    put(s, weft_output_print(s->to, "%s", s->json ? "null" : text));
    return true;
}

static void put_number(sink *s, double value, int digits)
{
    char number[32];
    if (put_other(s, value)) return;
    int usual = digits == EXACT ? USUAL : digits;
    if (usual != digits &&
        strtod(weft_json_real(value, usual, number, sizeof(number)), NULL) == value)
        digits = usual;
    put(s, weft_output_print(s->to, "%s", weft_json_real(value, digits, number, sizeof(number))));
}

/* Writes numbers with commas between them; numbers NULL: only the commas. */
static void put_numbers(sink *s, const double *numbers, int count, int digits)
{
    for (int j = 0; j < count; j++) {
        if (j) put(s, weft_output_print(s->to, ","));
        if (numbers) put_number(s, numbers[j], digits);
    }
}

/* Writes the probabilities of all classes: an object with their names or, if classes are numbers,
 * an array. */
static void json_probabilities(sink *s, const weft_prediction *p)
{
    put(s, weft_output_print(s->to, p->class_names ? "{" : "["));
    for (int c = 0; c < p->classes; c++) {
        if (c) put(s, weft_output_print(s->to, ","));
        if (p->class_names) json_class(s, c, p->class_names);
        if (p->class_names) put(s, weft_output_print(s->to, ":"));
        put_number(s, (double)p->probabilities[c], SINGLE);
    }
    put(s, weft_output_print(s->to, p->class_names ? "}" : "]"));
}

/* Writes a number of a further output. */
static void put_value(sink *s, weft_dtype dtype, const void *array, int64_t i)
{
    if (weft_dtype_is_float(dtype))
        put_number(s, weft_number_get(dtype, array, i), dtype == WEFT_F64 ? EXACT : SINGLE);
    else if (dtype == WEFT_BOOL && s->json)
        put(s, weft_output_print(s->to, "%s", ((const uint8_t *)array)[i] ? "true" : "false"));
    else if (dtype == WEFT_I64)
        put(s, weft_output_print(s->to, "%lld", (long long)((const int64_t *)array)[i]));
    else
        put(s, weft_output_print(s->to, "%.0f", weft_number_get(dtype, array, i)));
}

/* Writes the elements of an output from dimension d on as nested arrays. */
static void json_value(sink *s, const weft_model_output *o, const void *array, int d, int64_t *at)
{
    if (d == o->shape.rank) {
        put_value(s, o->dtype, array, (*at)++);
        return;
    }
    for (int64_t i = 0; i < o->shape.dim[d]; i++) {
        put(s, weft_output_print(s->to, i ? "," : "["));
        json_value(s, o, array, d + 1, at);
    }
    put(s, weft_output_print(s->to, "]"));
}

static void json_outputs(sink *s, const weft_prediction *p)
{
    for (int k = 0; k < p->outputs; k++) {
        int64_t at = 0;
        put(s, weft_output_print(s->to, k ? "," : ",\"outputs\":{"));
        json_text(s, p->output[k].name);
        put(s, weft_output_print(s->to, ":"));
        json_value(s, &p->output[k], p->value[k], 0, &at);
    }
    if (p->outputs) put(s, weft_output_print(s->to, "}"));
}

/* Writes the row of the table as an object of its columns. */
static void json_row(sink *s, const weft_prediction *p)
{
    for (int i = 0; i < p->fields; i++) {
        put(s, weft_output_print(s->to, i ? "," : p->field_name ? ",\"row\":{" : ",\"row\":["));
        if (p->field_name) json_text(s, p->field_name[i]);
        if (p->field_name) put(s, weft_output_write(s->to, ":", 1));
        json_text(s, p->field[i]);
    }
    if (p->fields) put(s, weft_output_print(s->to, p->field_name ? "}" : "]"));
}

static void json_prediction(sink *s, const weft_prediction *p)
{
    put(s, weft_output_print(s->to, "{\"sample\":%lld,", (long long)p->sample));
    if (p->id) {
        put(s, weft_output_print(s->to, "\"id\":"));
        json_text(s, p->id);
        put(s, weft_output_print(s->to, ","));
    }
    if (p->position >= 0)
        put(s, weft_output_print(s->to, "\"position\":%lld,", (long long)p->position));
    if (p->targets > 0) {
        put(s, weft_output_print(s->to, "\"target\":%s", p->target ? "[" : "null"));
        if (p->target) put_numbers(s, p->target, p->targets, EXACT);
        put(s, weft_output_print(s->to, "%s,\"predicted\":[", p->target ? "]" : ""));
        put_numbers(s, p->numbers, p->targets, EXACT);
        put(s, weft_output_print(s->to, "]"));
    } else {
        put(s, weft_output_print(s->to, "\"label\":%s", p->label < 0 ? "null" : ""));
        if (p->label >= 0) json_class(s, p->label, p->class_names);
        put(s, weft_output_print(s->to, ",\"predicted\":"));
        json_class(s, p->predicted, p->class_names);
        put(s, weft_output_print(s->to, ",\"probabilities\":"));
        json_probabilities(s, p);
    }
    json_outputs(s, p);
    json_row(s, p);
    put(s, weft_output_print(s->to, "}\n"));
}

/* The name of column i of further outputs, "name", or "name_0,name_1" of several numbers; false:
 * past the end. */
static bool output_name(const weft_prediction *p, int64_t i, char *name, size_t size)
{
    for (int k = 0; k < p->outputs; k++) {
        int64_t count = weft_shape_elements(&p->output[k].shape);
        (void)snprintf(name, size, count > 1 ? "%s_%lld" : "%s", p->output[k].name, (long long)i);
        if (i < count) return true;
        i -= count;
    }
    return false;
}

/* Writes the header's columns of further outputs. */
static void csv_output_names(sink *s, const weft_prediction *p)
{
    char name[WEFT_INPUT_NAME + 24];
    for (; output_name(p, s->columns, name, sizeof(name)); s->columns++) {
        put(s, weft_output_print(s->to, ","));
        csv_name(s, name);
    }
    put(s, weft_output_print(s->to, "\n"));
}

/* Writes the further outputs, which stand in the row of a sample's first position. */
static void csv_outputs(sink *s, const weft_prediction *p)
{
    for (int k = 0; k < p->outputs; k++)
        for (int64_t i = 0; i < weft_shape_elements(&p->output[k].shape); i++) {
            put(s, weft_output_print(s->to, ","));
            put_value(s, p->output[k].dtype, p->value[k], i);
        }
    for (int64_t i = 0; i < s->columns && p->outputs == 0; i++)
        put(s, weft_output_print(s->to, ","));
    put(s, weft_output_print(s->to, "\n"));
}

/* Writes the header. The columns of numbers are "target,predicted", or with several targets
 * "target_0,target_1,predicted_0,predicted_1". */
static void csv_header(sink *s, const weft_prediction *p)
{
    static const char *const of_numbers[] = {"target", "predicted"};
    if (p->targets == 0) {
        put(s, weft_output_print(s->to, "sample,%s%slabel,predicted,probability",
                                 p->id ? "id," : "", p->position >= 0 ? "position," : ""));
        csv_output_names(s, p);
        return;
    }
    put(s, weft_output_print(s->to, "sample%s", p->id ? ",id" : ""));
    for (int what = 0; what < 2; what++)
        for (int j = 0; j < p->targets; j++) {
            put(s, weft_output_print(s->to, ",%s", of_numbers[what]));
            if (p->targets > 1) put(s, weft_output_print(s->to, "_%d", j));
        }
    csv_output_names(s, p);
}

static void csv_prediction(sink *s, const weft_prediction *p)
{
    if (!s->started) csv_header(s, p);
    s->started = true;
    put(s, weft_output_print(s->to, "%lld,", (long long)p->sample));
    if (p->id) {
        csv_name(s, p->id);
        put(s, weft_output_write(s->to, ",", 1));
    }
    if (p->position >= 0) put(s, weft_output_print(s->to, "%lld,", (long long)p->position));
    if (p->targets > 0) {
        put_numbers(s, p->target, p->targets, EXACT);
        put(s, weft_output_print(s->to, ","));
        put_numbers(s, p->numbers, p->targets, EXACT);
        csv_outputs(s, p);
        return;
    }
    if (p->label >= 0) csv_class(s, p->label, p->class_names);
    put(s, weft_output_write(s->to, ",", 1));
    csv_class(s, p->predicted, p->class_names);
    put(s, weft_output_write(s->to, ",", 1));
    double probability = (double)p->probabilities[p->predicted];
    if (!put_other(s, probability)) put(s, weft_output_print(s->to, "%.6f", probability));
    csv_outputs(s, p);
}

/* --- rows of a table with their predictions --- */

/* Columns of the prediction itself. */
static int64_t own_columns(const weft_prediction *p)
{
    return p->targets > 0 ? p->targets : 1 + p->classes;
}

/* The name of column i behind those of the table; false: past the end. */
static bool joined_name(const weft_prediction *p, int64_t i, char *name, size_t size)
{
    int64_t own = own_columns(p);
    if (i >= own) return output_name(p, i - own, name, size);
    if (i == 0)
        (void)snprintf(name, size, "predicted");
    else if (p->targets > 0)
        (void)snprintf(name, size, "predicted_%lld", (long long)i);
    else if (p->class_names)
        (void)snprintf(name, size, "probability_%s", p->class_names[i - 1]);
    else
        (void)snprintf(name, size, "probability_%lld", (long long)i - 1);
    return true;
}

/* Whether a column of the table has the name of one of ours. */
static bool clashes(sink *s, const weft_prediction *p)
{
    for (int64_t i = 0; p->field_name && joined_name(p, i, s->clash, sizeof(s->clash)); i++)
        for (int f = 0; f < p->fields; f++)
            if (strcmp(p->field_name[f], s->clash) == 0) return true;
    s->clash[0] = '\0';
    return false;
}

static void joined_header(sink *s, const weft_prediction *p)
{
    char name[1024];
    for (int i = 0; i < p->fields; i++) {
        (void)snprintf(name, sizeof(name), "column_%d", i);
        csv_name(s, p->field_name ? p->field_name[i] : name);
        put(s, weft_output_write(s->to, ",", 1));
    }
    for (int64_t i = 0; i < own_columns(p); i++) {
        (void)joined_name(p, i, name, sizeof(name));
        if (i > 0) put(s, weft_output_write(s->to, ",", 1));
        csv_name(s, name);
    }
    csv_output_names(s, p);
}

/* Writes the row of the table, and behind it what is predicted. */
static void joined_prediction(sink *s, const weft_prediction *p)
{
    if (s->clash[0] || (!s->started && clashes(s, p))) return;
    if (!s->started) joined_header(s, p);
    s->started = true;
    for (int i = 0; i < p->fields; i++) {
        csv_name(s, p->field[i]);
        put(s, weft_output_write(s->to, ",", 1));
    }
    if (p->targets > 0) put_numbers(s, p->numbers, p->targets, EXACT);
    if (p->targets == 0) csv_class(s, p->predicted, p->class_names);
    for (int c = 0; p->targets == 0 && c < p->classes; c++) {
        put(s, weft_output_write(s->to, ",", 1));
        put_number(s, (double)p->probabilities[c], SINGLE);
    }
    csv_outputs(s, p);
}

static void on_prediction(void *user, const weft_prediction *p)
{
    sink *s = user;
    if (s->json)
        json_prediction(s, p);
    else if (p->fields > 0)
        joined_prediction(s, p);
    else
        csv_prediction(s, p);
}

static int predict(weft_context *context, const weft_eval_options *options)
{
    sink s = {.json = options->json};
    const char *path = options->output ? options->output : "-";
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &s.to);
    print_log(context, false);
    if (status == WEFT_OK) status = weft_predict(context, options, on_prediction, &s);
    int code = report_failure(status);
    if (code == 0 && s.clash[0]) {
        char shown[256];
        fprintf(stderr,
                "weft: the table has a column '%s', and --join would write another one of this "
                "name; rename that of the table, or use --json\n",
                weft_printable(s.clash, shown, sizeof(shown)));
        code = 2;
    }
    weft_status end = weft_output_close(&s.to, code == 0);
    if (code == 0) code = report_failure(end); /* also reports an earlier write that failed */
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
        "of single precision, so that they read back as the same numbers. For numbers,\n"
        "prints sample, target and predicted, in the units of the target; several targets have\n"
        "a column each. Data may lack the target (csv: the column, npy: the second file, idx:\n"
        "the files of labels); it is empty then, or null. All rows of a table without a target\n"
        "are used. Weights are not needed. Predictions of a diverged model are nan or inf, in\n"
        "JSON null. Of the training data the test part is taken, of another file all, unless\n"
        "--split or test= asks for a part. The numbers of samples of tables and arrays are those\n"
        "of their rows in the file, from 0, of other data those in the part; the column id has\n"
        "the identifiers of a table (id=). With --join a table's own columns stand in the place\n"
        "of these numbers, identifiers and targets, and behind them what is predicted and the\n"
        "probabilities of all classes; in JSON they are the object row. Further outputs of a\n"
        "model that names several follow as columns NAME or NAME_0, NAME_1, ..., in JSON as the\n"
        "object outputs. An output file whose name ends as another format, such as .json without\n"
        "--json, is refused.",
    .examples =
        "  weft predict --checkpoint runs/a/latest --output predictions.csv\n"
        "  weft predict --checkpoint runs/iris/latest --data csv:new.csv\n"
        "  weft predict --checkpoint runs/iris/latest --data csv:new.csv --join -o with.csv\n"
        "  weft predict --checkpoint runs/iris/latest --data csv:labelled.csv\n"
        "  weft predict --checkpoint runs/prices/latest --data csv:new_houses.csv --json\n",
    .table = table,
    .run = run,
    .tasks = TASKS_ALONE,
    .computes = true,
};
