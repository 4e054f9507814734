/* weft plan: prints what each rank of a run would hold, compute and send, without running it. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

typedef struct plan_options {
    int64_t rank; /* rank whose graph and program are printed; -1: none */
} plan_options;

static const weft_option dump_table[] = {
    {.name = "dump",
     .kind = WEFT_OPT_INT,
     .offset = offsetof(plan_options, rank),
     .low = 0,
     .high = INT_MAX},
    {.name = NULL},
};

/* Removes "--dump" and "--dump=K" from the arguments, which are options of weft train otherwise,
 * and sets out->rank. */
static weft_status take_dump(int *argc, char **argv, plan_options *out)
{
    weft_status status = WEFT_OK;
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        const char *rank = strncmp(argv[i], "--dump=", 7) == 0 ? argv[i] + 7 : NULL;
        if (strcmp(argv[i], "--dump") == 0) rank = "0";
        if (!rank)
            argv[kept++] = argv[i];
        else if (status == WEFT_OK)
            status = weft_options_set(dump_table, out, "dump", rank);
    }
    *argc = kept;
    return status;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_train_options options = {0};
    plan_options plan = {.rank = -1};
    char *text = NULL;
    weft_status status = take_dump(&argc, argv, &plan);
    if (status == WEFT_OK) status = read_train_options(context, &options, argc, argv);
    if (status != WEFT_OK) {
        weft_options_free(weft_train_table(context), &options);
        return usage_failure("plan");
    }
    print_log(context, options.show.quiet);
    int code = load_plugins(context, weft_train_table(context), &options);
    if (code == 0) {
        status = weft_train_plan_text(context, &options, (int)plan.rank, &text);
        if (status == WEFT_OK) printf("%s", text);
        weft_free(text);
        code = report_failure(status);
    }
    weft_options_free(weft_train_table(context), &options);
    return code;
}

const command command_plan = {
    .name = "plan",
    .usage = "[RUN.yaml] [--dump[=RANK]] [options of weft train]",
    .summary = "show what each rank of a run would hold, compute and send",
    .text =
        "Takes the options of weft train and runs nothing: prints for each rank its position in\n"
        "the mesh, the bytes of weights, optimizer state, gradients and activations, the\n"
        "floating point operations and the bytes sent to ranks of its learner per step; then\n"
        "every transfer in order, and the bubble of a pipeline. --dump adds the graph and the\n"
        "program of rank 0, --dump=K those of rank K.",
    .examples = "  weft plan -n 4 --mesh data=2,tensor=2\n"
                "  weft plan -n 2 --model vgg11 --mesh pipeline=2 --microbatches 10\n"
                "  weft plan -n 8 --zero 3 --dump=1\n",
    .table = weft_train_table,
    .run = run,
};
