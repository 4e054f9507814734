/* weft inspect: lists available names, describes a checkpoint, or shows the parameters, graph and
 * program of a training run. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "sheet.h"
#include "summary.h"
#include "weft/plugin.h"
#include "weft/registry.h"

typedef struct inspect_options {
    bool list, graph, dot, program, summary, json;
    char *plot, *input;
    int64_t classes;
} inspect_options;

static const weft_option inspect_table[] = {
    {.name = "list",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(inspect_options, list),
     .group = "What to print",
     .help = "models, layers, losses, data kinds, optimizers, devices, operators"},
    {.name = "graph",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(inspect_options, graph),
     .help = "the training graph as text"},
    {.name = "dot",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(inspect_options, dot),
     .help = "the training graph for Graphviz"},
    {.name = "program",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(inspect_options, program),
     .help = "the lowered program: instructions, layouts, buffers, bytes"},
    {.name = "summary",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(inspect_options, summary),
     .help = "each layer of the model, or of a checkpoint's: its output of a sample, parameters, "
             "operations of a forward pass, and bytes of activations"},
    {.name = "input",
     .argument = "SHAPE",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(inspect_options, input),
     .help = "for --summary without data: the shape of a sample, as in 3x224x224"},
    {.name = "classes",
     .argument = "N",
     .kind = WEFT_OPT_INT,
     .offset = offsetof(inspect_options, classes),
     .low = 0,
     .high = 1e9,
     .help = "with --input: how many classes there are; 0: the target is a number [1000]"},
    {.name = "json",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(inspect_options, json),
     .help = "print --summary as a JSON object"},
    {.name = "plot",
     .argument = "FILE",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(inspect_options, plot),
     .help = "write an SVG picture of samples, as the model gets them, and print how many each "
             "class has"},
    {.name = NULL},
};

/* Prints the names of a kind. Below a long form its summary has a line of its own. */
static void print_kind(const weft_context *context, weft_kind kind)
{
    const weft_entry *e;
    printf("%s:\n", weft_kind_title(kind));
    for (int i = 0; (e = weft_context_entry(context, kind, i)); i++) {
        if (e->implied) continue; /* no option takes its name */
        const char *form = e->form ? e->form : e->name;
        printf(strlen(form) > 20 ? "  %s\n                       %s\n" : "  %-20s %s\n", form,
               e->summary ? e->summary : "");
    }
    printf("\n");
}

static int print_lists(weft_context *context, bool alone)
{
    if (!alone) {
        fprintf(stderr, "weft: --list names what any run may have, so it stands alone; leave the "
                        "other options out\nTry 'weft help inspect'.\n");
        return 2;
    }
    weft_plugin_load_installed(context);
    for (int kind = WEFT_KIND_NONE + 1; kind < WEFT_KIND_COUNT; kind++)
        print_kind(context, (weft_kind)kind);
    return 0;
}

/* Prints and frees *text, which is set only if status is OK. */
static weft_status print_text(weft_status status, char **text)
{
    if (status == WEFT_OK) fputs(*text, stdout);
    weft_free(*text);
    *text = NULL;
    return status;
}

static char *shape_text(const weft_shape *s, char *text, size_t room)
{
    size_t used = 0;
    *text = '\0';
    for (int d = 0; d < s->rank && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? "x" : "",
                                 (long long)s->dim[d]);
    return text;
}

/* Prints the outputs of a model that has several. */
static void print_outputs(const weft_trainer *t)
{
    weft_model_output o;
    char shape[80];
    if (!weft_trainer_output(t, 1, &o)) return;
    printf("\n%-32s %-14s %s\n", "output of a sample", "shape", "type");
    for (int i = 0; weft_trainer_output(t, i, &o); i++)
        printf("%-32s %-14s %s%s\n", o.name, shape_text(&o.shape, shape, sizeof(shape)),
               weft_dtype_name(o.dtype), i == 0 ? ", the prediction" : "");
}

static weft_status summary(const weft_trainer *t)
{
    const weft_graph *g = weft_trainer_graph(t);
    weft_program_info info = weft_program_describe(weft_trainer_program(t));
    double bytes = 0;
    int64_t parameters = 0;
    printf("%-32s %-14s %s\n", "parameter", "shape", "numbers");
    for (weft_value v = 0; v < weft_graph_value_count(g); v++) {
        if (weft_graph_value_kind(g, v) != WEFT_VALUE_PARAM) continue;
        weft_type type = weft_graph_value_type(g, v);
        char shape[80];
        parameters += weft_shape_elements(&type.shape);
        printf("%-32s %-14s %lld\n", weft_graph_value_name(g, v),
               shape_text(&type.shape, shape, sizeof(shape)),
               (long long)weft_shape_elements(&type.shape));
    }
    for (int n = 0; n < weft_graph_node_count(g); n++) bytes += weft_graph_node_cost(g, n).bytes;
    printf(
        "\n%lld parameters; a training step has %d instructions (%d reorders, %d on the reference\n"
        "device), %.1f MFLOP and moves at least %.1f MB; memory: parameters %.1f MB, gradients "
        "%.1f "
        "MB,\noptimizer state %.1f MB, activations %.1f MB\n",
        (long long)parameters, info.instructions, info.reorders, info.fallbacks, info.flops / 1e6,
        bytes / 1e6, (double)info.parameter_bytes / 1e6, (double)info.gradient_bytes / 1e6,
        (double)info.state_bytes / 1e6,
        (double)(info.arena_bytes + info.slot_bytes + info.input_bytes) / 1e6);
    print_outputs(t);
    return WEFT_OK;
}

/* Prints the columns of a table, which the run then need not read again. */
static weft_status print_columns(weft_context *context, const weft_train_options *options)
{
    weft_dataset *data = NULL;
    char *text = NULL;
    WEFT_TRY(weft_dataset_keep(context));
    WEFT_TRY(weft_dataset_open(context, options->task.data, options->task.normalize, NULL, &data));
    weft_status status = weft_dataset_summary(data, &text);
    if (status == WEFT_OK && text) printf("%s\n", text);
    weft_free(text);
    weft_dataset_close(&data);
    return status;
}

/* Returns the exit code. */
static int inspect_run(weft_context *context, const weft_train_options *options,
                       const inspect_options *what)
{
    weft_trainer *t = NULL;
    char *text = NULL;
    print_log(context, options->show.quiet);
    bool model = what->graph || what->dot || what->program, all = !model && !what->plot;
    if (what->summary)
        return summary_print(context, options, NULL, what->input, (int)what->classes, what->json);
    weft_status status = all ? print_columns(context, options) : WEFT_OK;
    if (status == WEFT_OK && (all || model)) status = weft_trainer_create_dry(context, options, &t);
    if (status == WEFT_OK && what->graph)
        status = print_text(weft_graph_text(weft_trainer_graph(t), &text), &text);
    if (status == WEFT_OK && what->dot)
        status = print_text(weft_graph_dot(weft_trainer_graph(t), &text), &text);
    if (status == WEFT_OK && what->program)
        status = print_text(weft_program_text(weft_trainer_program(t), &text), &text);
    if (status == WEFT_OK && all) status = summary(t);
    int code = report_failure(status);
    if (code == 0 && what->plot) code = sheet_write(context, options, what->plot);
    weft_trainer_destroy(&t);
    return code;
}

static weft_status inspect_checkpoint(weft_context *context, const char *path)
{
    char *text = NULL;
    weft_status status = weft_checkpoint_text(context, path, &text);
    return print_text(status, &text);
}

/* Whether the path is a regular file: then it is a run file, since a checkpoint is a folder. */
static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Options of a run that goes on, or writes something. */
static const char *const useless[] = {"checkpoint", "resume",  "drop-state", "without",
                                      "keep",       "metrics", "trace",      NULL};
/* Whether the own options go together; prints an error if not. */
static bool fit(const inspect_options *what)
{
    if (what->summary && (what->graph || what->dot || what->program || what->plot))
        fprintf(stderr, "weft: --summary stands alone, without --graph, --dot, --program and "
                        "--plot\nTry 'weft help inspect'.\n");
    else if ((what->json || what->input) && !what->summary)
        fprintf(stderr,
                "weft: --%s is an option of --summary, which is not given\nTry 'weft help "
                "inspect'.\n",
                what->json ? "json" : "input");
    else
        return true;
    return false;
}

static int run(weft_context *context, int argc, char **argv)
{
    inspect_options what = {.classes = 1000};
    weft_train_options options = {0};
    const char *words[1];
    int count, code;
    weft_status status = take_own_options(inspect_table, &what, &argc, argv);
    bool shows = what.graph || what.dot || what.program || what.plot || what.input;
    if (status == WEFT_OK && !fit(&what)) {
        weft_options_free(inspect_table, &what);
        return 2;
    }
    if (status == WEFT_OK && what.list) {
        code = print_lists(context, argc == 0 && !shows && !what.summary);
        weft_options_free(inspect_table, &what);
        return code;
    }
    if (status == WEFT_OK) status = weft_train_options_init(context, &options);
    if (status == WEFT_OK)
        status =
            weft_options_parse(weft_train_table(context), &options, argc, argv, 1, words, &count);
    if (status == WEFT_OK && count && is_file(words[0])) {
        weft_options_free(weft_train_table(context), &options);
        status = read_train_options(context, &options, argc, argv);
        count = 0;
    }
    if (status != WEFT_OK) {
        code = usage_failure("inspect");
    } else if (count && (argc > 1 || shows)) {
        fprintf(stderr,
                "weft: the checkpoint %s is shown as it is; options are for a run that has none, "
                "so leave one of the two out\nTry 'weft help inspect'.\n",
                words[0]);
        code = 2;
    } else if (count && what.summary) {
        code = summary_print(context, NULL, words[0], NULL, 0, what.json);
    } else if (count) {
        code = report_failure(inspect_checkpoint(context, words[0]));
    } else if (!refuse_given(
                   context, "inspect", useless,
                   "nothing runs; weft inspect DIR shows a checkpoint, so give its folder "
                   "alone, or leave this out",
                   argc, argv)) {
        code = 2;
    } else if ((code = load_plugins(context, weft_train_table(context), &options)) == 0) {
        if (!suffix_fits("inspect", "plot", what.plot ? what.plot : "", OTHER_PICTURES,
                         "an SVG picture", ".svg"))
            code = 2;
        else if (weft_train_refuse_overwrite(&options, "plot", what.plot) != WEFT_OK)
            code = usage_failure("inspect");
        else
            code = inspect_run(context, &options, &what);
    }
    weft_options_free(inspect_table, &what);
    weft_options_free(weft_train_table(context), &options);
    return code;
}

const command command_inspect = {
    .name = "inspect",
    .usage =
        "[CHECKPOINT | [RUN.yaml] options of weft train] [--graph] [--dot] [--program] "
        "[--plot FILE]\n       weft inspect --summary [CHECKPOINT | --input SHAPE | options of "
        "weft train]",
    .summary = "show a checkpoint, or the graph and program of a training run",
    .text =
        "With a checkpoint: prints its options and tensors. Otherwise takes the options of weft\n"
        "train and prints the columns of a table, the model's parameters and costs, its graph, or\n"
        "its program, without training. With --plot it draws samples of pictures with their\n"
        "classes, after --augment; that needs no model.\n\n"
        "--summary prints the layers of the model: the shape of what each makes of a sample, its\n"
        "parameters, the floating point operations of a forward pass (a multiplication and an\n"
        "addition are two) and the bytes of its output. It takes samples of the data, of the\n"
        "checkpoint, or of the shape that --input gives.",
    .examples =
        "  weft inspect runs/a/latest\n"
        "  weft inspect --model mlp --data csv:passengers.csv,drop=name,missing=mean\n"
        "  weft inspect --summary --model resnet --input 3x224x224\n"
        "  weft inspect --model vgg11 --data glyphs:size=32 --program\n"
        "  weft inspect --data glyphs:size=16 --augment crop:pad=2,rotate --plot sheet.svg\n"
        "  weft inspect --dot | dot -Tsvg > lenet.svg\n",
    .own = inspect_table,
    .run = run,
};
