/* weft eval */
#include <stdio.h>

#include "cli.h"
#include "weft/output.h"

void print_confusion(const weft_report *r)
{
    printf("\nconfusion (rows: true class, columns: predicted)\n      ");
    for (int c = 0; c < r->classes; c++) printf("%6d", c);
    printf("\n");
    for (int t = 0; t < r->classes; t++) {
        printf("%6d", t);
        for (int c = 0; c < r->classes; c++)
            printf("%6lld", (long long)r->confusion[(size_t)t * (size_t)r->classes + (size_t)c]);
        printf("\n");
    }
}

static void print_json(const weft_report *r, const char *split)
{
    char loss[32];
    printf("{\"split\":\"%s\",\"samples\":%lld,\"loss\":%s,\"accuracy\":%.9g,\"f1_macro\":%.9g,"
           "\"confusion\":[",
           split, (long long)r->samples, weft_json_real(r->loss, 9, loss, sizeof(loss)),
           r->accuracy, r->f1_macro);
    for (int t = 0; t < r->classes; t++) {
        printf("%s[", t ? "," : "");
        for (int c = 0; c < r->classes; c++)
            printf("%s%lld", c ? "," : "",
                   (long long)r->confusion[(size_t)t * (size_t)r->classes + (size_t)c]);
        printf("]");
    }
    printf("]}\n");
}

static weft_status evaluate(const weft_eval_options *options)
{
    weft_context *context = NULL;
    weft_report report = {0};
    weft_status status = open_context(options->quiet, &context);
    if (status == WEFT_OK) status = weft_evaluate(context, options, &report);
    if (status == WEFT_OK && options->json) {
        print_json(&report, options->split);
    } else if (status == WEFT_OK && !options->quiet) {
        printf("%s: %lld sample%s, loss %.4f, accuracy %.4f, macro F1 %.4f\n", options->split,
               (long long)report.samples, weft_plural(report.samples), report.loss, report.accuracy,
               report.f1_macro);
        if (options->confusion) print_confusion(&report);
    }
    weft_report_free(&report);
    weft_context_destroy(&context);
    return status;
}

weft_status read_eval_options(const weft_option *table, int argc, char **argv,
                              weft_eval_options *out)
{
    const char *words[1];
    int count = 0;
    weft_status status = weft_options_init(table, out);
    if (status == WEFT_OK) status = weft_options_parse(table, out, argc, argv, 1, words, &count);
    if (status != WEFT_OK || count == 0) return status;
    if (out->checkpoint) /* a word beside it is one too many */
        return weft_options_parse(table, out, 1, (char *[]){(char *)(uintptr_t)words[0]}, 0, words,
                                  &count);
    return weft_options_set(table, out, "checkpoint", words[0]);
}

static int run(int argc, char **argv)
{
    weft_eval_options options = {0};
    weft_status status = read_eval_options(weft_eval_table(), argc, argv, &options);
    int code = status == WEFT_OK ? report_failure(evaluate(&options)) : usage_failure("eval");
    weft_options_free(weft_eval_table(), &options);
    return code;
}

const command command_eval = {
    .name = "eval",
    .usage = "--checkpoint DIR [options]",
    .summary = "measure a checkpoint on data",
    .text = "Prints loss, accuracy and macro F1 (the mean over the classes that occur). Data are\n"
            "normalised with what the training data taught, which the checkpoint holds.",
    .examples = "  weft eval --checkpoint runs/a/latest\n"
                "  weft eval --checkpoint runs/a/latest --data idx:mnist --json\n",
    .table = weft_eval_table,
    .run = run,
};
