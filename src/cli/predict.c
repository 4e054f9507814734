/* weft predict */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "weft/output.h"

typedef struct sink {
    weft_output *to;
    bool json, started;
    weft_status status; /* of the first call that failed */
} sink;

static void put(sink *s, weft_status status)
{
    if (s->status == WEFT_OK) s->status = status;
}

/* Quotes a name for CSV if it needs it. */
static void csv_name(sink *s, const char *name)
{
    if (!strpbrk(name, ",\"\n")) {
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

static void on_prediction(void *user, int64_t sample, int32_t label, int32_t predicted,
                          const float *p, int classes, char *const *names)
{
    sink *s = user;
    char number[32];
    if (s->json) {
        put(s, weft_output_print(s->to, "{\"sample\":%lld,\"label\":", (long long)sample));
        put(s,
            label < 0 ? weft_output_print(s->to, "null") : weft_output_print(s->to, "%d", label));
        put(s, weft_output_print(s->to, ",\"predicted\":%d,\"probabilities\":[", predicted));
        for (int c = 0; c < classes; c++)
            put(s, weft_output_print(s->to, "%s%s", c ? "," : "",
                                     weft_json_real((double)p[c], 6, number, sizeof(number))));
        put(s, weft_output_print(s->to, "]}\n"));
        return;
    }
    if (!s->started) put(s, weft_output_print(s->to, "sample,label,predicted,probability\n"));
    s->started = true;
    put(s, weft_output_print(s->to, "%lld,", (long long)sample));
    if (label >= 0) csv_class(s, label, names);
    put(s, weft_output_write(s->to, ",", 1));
    csv_class(s, predicted, names);
    put(s, weft_output_print(s->to, ",%.6f\n", (double)p[predicted]));
}

static int predict(const weft_eval_options *options)
{
    weft_context *context = NULL;
    sink s = {.json = options->json};
    const char *path = options->output ? options->output : "-";
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &s.to);
    if (status == WEFT_OK) status = open_context(false, &context);
    if (status == WEFT_OK) status = weft_predict(context, options, on_prediction, &s);
    int code = report_failure(status);
    weft_status end = weft_output_close(&s.to, code == 0);
    if (code == 0) code = report_failure(end); /* which repeats what could not be written */
    weft_context_destroy(&context);
    return code;
}

static int run(int argc, char **argv)
{
    weft_eval_options options = {0};
    weft_status status = read_eval_options(weft_predict_table(), argc, argv, &options);
    int code = status == WEFT_OK ? predict(&options) : usage_failure("predict");
    weft_options_free(weft_predict_table(), &options);
    return code;
}

const command command_predict = {
    .name = "predict",
    .usage = "--checkpoint DIR [options]",
    .summary = "print what a checkpoint says about each sample",
    .text =
        "Prints CSV with the columns sample, label, predicted and probability, or with --json one\n"
        "object a line with the probabilities of all classes. Data may lack labels (csv: the "
        "column,\n"
        "npy: the second file, idx: the files of labels); a label is empty then, or null. All "
        "rows\n"
        "of a table without labels are taken. Samples are counted from 0 within the part of the\n"
        "data; where that is all of a file, they are its rows.",
    .examples = "  weft predict --checkpoint runs/a/latest --output predictions.csv\n"
                "  weft predict --checkpoint runs/iris/latest --data csv:new.csv\n"
                "  weft predict --checkpoint runs/iris/latest --data csv:labelled.csv,test=1\n",
    .table = weft_predict_table,
    .run = run,
};
