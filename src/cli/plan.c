/* weft plan: prints what each rank of a run would hold, compute and send, without running it. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "cli.h"

/* The ranks whose graph and program, or whose graphs after each pass, are printed; -1: none. */
typedef struct plan_options {
    int64_t dump, passes;
} plan_options;

static const weft_option own_table[] = {
    {.name = "dump",
     .argument = "[=RANK]",
     .group = "What to print",
     .initial = "0",
     .help = "also the graph and the program of a rank",
     .kind = WEFT_OPT_INT,
     .offset = offsetof(plan_options, dump),
     .low = 0,
     .high = INT_MAX},
    {.name = "passes",
     .argument = "[=RANK]",
     .initial = "0",
     .help = "in place of the plan, the graph after each pass, up to the part of a rank",
     .kind = WEFT_OPT_INT,
     .offset = offsetof(plan_options, passes),
     .low = 0,
     .high = INT_MAX},
    {.name = NULL},
};

static int run(weft_context *context, int argc, char **argv)
{
    weft_train_options options = {0};
    plan_options plan = {.dump = -1, .passes = -1};
    char *text = NULL;
    weft_status status = take_own_options(own_table, &plan, &argc, argv);
    if (status == WEFT_OK && plan.dump >= 0 && plan.passes >= 0) {
        fprintf(stderr, "weft: --dump adds to the plan, and --passes prints graphs in its place; "
                        "give one of them\nTry 'weft help plan'.\n");
        return 2;
    }
    if (status == WEFT_OK) status = read_train_options(context, &options, argc, argv);
    if (status != WEFT_OK) {
        weft_options_free(weft_train_table(context), &options);
        return usage_failure("plan");
    }
    print_log(context, options.show.quiet);
    int code = load_plugins(context, weft_train_table(context), &options);
    if (code == 0) {
        if (plan.passes >= 0)
            status = weft_train_passes_text(context, &options, (int)plan.passes, &text);
        else
            status = weft_train_plan_text(context, &options, (int)plan.dump, &text);
        if (status == WEFT_OK) printf("%s", text);
        weft_free(text);
        code = report_failure(status);
    }
    weft_options_free(weft_train_table(context), &options);
    return code;
}

const command command_plan = {
    .name = "plan",
    .usage = "[RUN.yaml] [--dump[=RANK] | --passes[=RANK]] [options of weft train]",
    .summary = "show what each rank of a run would hold, compute and send",
    .text =
        "Takes the options of weft train and runs nothing: prints for each rank its position in\n"
        "the mesh, the bytes of weights, optimizer state, gradients and activations, the\n"
        "floating point operations and the bytes sent to ranks of its learner per step; then\n"
        "every transfer in order, and the bubble of a pipeline. --dump adds the graph and the\n"
        "program of rank 0, --dump=K those of rank K. --passes prints in place of all this the\n"
        "graph after each pass: the model, its gradients, the optimizer, recomputation, the part\n"
        "of rank 0 (--passes=K: of rank K), and the graphs that predict.",
    .examples = "  weft plan -n 4 --mesh data=2,tensor=2\n"
                "  weft plan -n 2 --model vgg11 --mesh pipeline=2 --microbatches 10\n"
                "  weft plan -n 8 --zero 3 --dump=1\n"
                "  weft plan -n 2 --mesh tensor=2 --passes\n",
    .table = weft_train_table,
    .own = own_table,
    .run = run,
};
