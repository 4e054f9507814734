/* weft predict */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

typedef struct output {
    FILE *file;
    bool json, started;
} output;

/* Quotes a name for CSV if it needs it. */
static void csv_name(FILE *f, const char *name)
{
    if (!strpbrk(name, ",\"\n")) {
        fputs(name, f);
        return;
    }
    putc('"', f);
    for (; *name; name++) {
        if (*name == '"') putc('"', f);
        putc(*name, f);
    }
    putc('"', f);
}

static void csv_class(FILE *f, int32_t class_index, char *const *names)
{
    if (names)
        csv_name(f, names[class_index]);
    else
        fprintf(f, "%d", class_index);
}

static void on_prediction(void *user, int64_t sample, int32_t label, int32_t predicted,
                          const float *p, int classes, char *const *names)
{
    output *o = user;
    (void)classes;
    if (o->json) {
        fprintf(o->file, "{\"sample\":%lld,\"label\":%d,\"predicted\":%d,\"probabilities\":[",
                (long long)sample, label, predicted);
        for (int c = 0; c < classes; c++) fprintf(o->file, "%s%.6g", c ? "," : "", (double)p[c]);
        fprintf(o->file, "]}\n");
        return;
    }
    if (!o->started) fprintf(o->file, "sample,label,predicted,probability\n");
    o->started = true;
    fprintf(o->file, "%lld,", (long long)sample);
    csv_class(o->file, label, names);
    putc(',', o->file);
    csv_class(o->file, predicted, names);
    fprintf(o->file, ",%.6f\n", (double)p[predicted]);
}

static int file_failure(const char *path)
{
    fprintf(stderr, "weft: %s: cannot write: %s\n", path, strerror(errno));
    return 1;
}

static int predict(const weft_eval_options *options)
{
    weft_context *context = NULL;
    output o = {.file = stdout, .json = options->json};
    char temporary[4096];
    if (options->output) {
        (void)snprintf(temporary, sizeof(temporary), "%s.tmp", options->output);
        o.file = fopen(temporary, "we");
        if (!o.file) return file_failure(options->output);
    }
    weft_status status = open_context(false, &context);
    if (status == WEFT_OK) status = weft_predict(context, options, on_prediction, &o);
    int code = report_failure(status);
    weft_context_destroy(&context);
    bool bad = fflush(o.file) != 0 || ferror(o.file);
    if (options->output) {
        bad = fclose(o.file) != 0 || bad;
        if (code == 0 && (bad || rename(temporary, options->output) != 0))
            code = file_failure(options->output);
        if (code != 0) (void)remove(temporary);
    } else if (bad && code == 0) {
        code = file_failure("standard output");
    }
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
        "object a line with the probabilities of all classes.",
    .examples = "  weft predict --checkpoint runs/a/latest --output predictions.csv\n"
                "  weft predict --checkpoint runs/iris/latest --data csv:new.csv,test=1\n",
    .table = weft_predict_table,
    .run = run,
};
