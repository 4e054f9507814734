/* weft eval: evaluates a checkpoint and prints its metrics, as text or JSON. */
#include <stdio.h>

#include "cli.h"
#include "weft/output.h"

/* Prints the metrics of each target. */
static void print_fits(const weft_report *r)
{
    weft_figure f;
    char number[32];
    printf(",\"targets\":[");
    for (int t = 0; t < r->targets; t++) {
        printf(t ? ",{" : "{");
        if (r->class_names) {
            printf("\"name\":");
            print_json_string(r->class_names[t]);
        }
        for (int i = 0; weft_fit_figure(&r->fits[t], i, &f); i++)
            printf("%s\"%s\":%s", i || r->class_names ? "," : "", f.name,
                   weft_json_real(f.value, 9, number, sizeof(number)));
        printf("}");
    }
    printf("]");
}

static void print_json(const weft_report *r, bool by_class)
{
    weft_figure f;
    char number[32];
    printf("{\"split\":\"%s\",\"samples\":%lld", r->part, (long long)r->samples);
    for (int i = 0; weft_report_figure(r, i, &f); i++)
        printf(",\"%s\":%s", f.name, weft_json_real(f.value, 9, number, sizeof(number)));
    if (r->by_label)
        print_labels_json(r);
    else if (r->targets)
        print_fits(r);
    else
        print_confusion_json(r);
    if (by_class && !r->by_label) print_by_class_json(r);
    printf("}\n");
}

const char *figure_text(const weft_figure *f, char *out, size_t size)
{
    if (f->why)
        (void)snprintf(out, size, "%s", f->why);
    else if (f->in_units)
        (void)snprintf(out, size, "%.6g", f->value);
    else
        (void)score_text(f->value, out, size);
    return out;
}

static void print_figures(const weft_report *r)
{
    enum { LISTED = 32 };
    weft_figure f;
    char number[64];
    printf("%s: %lld sample%s", r->part, (long long)r->samples, weft_plural(r->samples));
    for (int i = 0; weft_report_figure(r, i, &f); i++)
        printf(", %s %s", f.title, figure_text(&f, number, sizeof(number)));
    printf("\n");
    for (int t = 0; t < r->targets && r->targets > 1 && r->fits; t++) {
        if (t == LISTED) {
            printf("  and %d more targets, which --json has\n", r->targets - t);
            break;
        }
        if (r->class_names)
            printf("  %s:", r->class_names[t]);
        else
            printf("  target %d:", t);
        for (int i = 0; weft_fit_figure(&r->fits[t], i, &f); i++)
            printf("%s %s %s", i ? "," : "", f.title, figure_text(&f, number, sizeof(number)));
        printf("\n");
    }
}

static weft_status evaluate(weft_context *context, const weft_eval_options *options)
{
    weft_report report = {0};
    print_log(context, options->quiet);
    weft_status status = weft_evaluate(context, options, &report);
    if (status == WEFT_OK && options->json) {
        print_json(&report, options->by_class);
    } else if (status == WEFT_OK && !options->quiet) {
        print_figures(&report);
        if (options->by_class) print_by_class(&report);
        if (options->confusion) print_confusion(&report);
    }
    weft_report_free(&report);
    return status;
}

weft_status read_checkpoint_options(const weft_option *table, int argc, char **argv, void *out,
                                    char *const *checkpoint)
{
    const char *words[1];
    int count = 0;
    weft_status status = weft_options_init_size(table, out, 0);
    if (status == WEFT_OK) status = weft_options_parse(table, out, argc, argv, 1, words, &count);
    if (status != WEFT_OK || count == 0) return status;
    if (*checkpoint) /* --checkpoint is given, so the word is one too many */
        return weft_options_parse(table, out, 1, (char *[]){(char *)(uintptr_t)words[0]}, 0, words,
                                  &count);
    return weft_options_set(table, out, "checkpoint", words[0]);
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_eval_options options = {0};
    weft_status status =
        read_checkpoint_options(weft_eval_table(), argc, argv, &options, &options.checkpoint);
    int code = status == WEFT_OK ? load_plugins(context, weft_eval_table(), &options)
                                 : usage_failure("eval");
    if (code == 0) code = report_failure(evaluate(context, &options));
    weft_options_free(weft_eval_table(), &options);
    return code;
}

static const weft_option *table(const weft_context *context)
{
    (void)context;
    return weft_eval_table();
}

const command command_eval = {
    .name = "eval",
    .usage = "--checkpoint DIR [options]",
    .summary = "evaluate a checkpoint on data",
    .text =
        "For classes, prints loss, accuracy and macro F1 (the mean over the classes that occur as\n"
        "a label or as a prediction). For numbers, prints loss (in units of the training\n"
        "deviation), R2 (the share of variance that is explained), MAE and RMSE (mean absolute\n"
        "error and root mean squared error, in the units of the target). For several labels,\n"
        "prints loss, accuracy (the share of labels that are right), macro and micro F1, and\n"
        "subset accuracy (the share of samples with all labels right). Data are normalised with\n"
        "the statistics of the training data, which the checkpoint holds. If the data have\n"
        "weights, all metrics use them; the confusion matrix counts samples whose weight is not\n"
        "0. More than 1024 classes have none (with --json, null). A matrix that is wider than the\n"
        "terminal, or elsewhere than 80 columns, is printed as a list of the classes most\n"
        "confused; --json has the whole matrix, and the names of the classes in its order.\n"
        "--by-class prints precision, recall, F1 and support (the weight of its samples) of each\n"
        "class, or of each of several labels with its accuracy and, with --metric auc, its AUC;\n"
        "--metric adds metrics that weft help metrics lists. Of the training data the test part\n"
        "is taken, of another file all, unless --split or test= asks for a part.",
    .examples = "  weft eval --checkpoint runs/a/latest\n"
                "  weft eval --checkpoint runs/a/latest --data idx:mnist --json\n",
    .table = table,
    .run = run,
    .tasks = TASKS_ALONE,
    .computes = true,
};
