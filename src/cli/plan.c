/* weft plan */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Takes "--dump" and "--dump=K" out of the arguments; -1 if it is not there. */
static int take_dump(int *argc, char **argv)
{
    int rank = -1, kept = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--dump") == 0)
            rank = 0;
        else if (strncmp(argv[i], "--dump=", 7) == 0)
            rank = atoi(argv[i] + 7);
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return rank;
}

static int run(int argc, char **argv)
{
    weft_train_options options = {0};
    weft_context *context = NULL;
    char *text = NULL;
    int dump = take_dump(&argc, argv);
    weft_status status = read_train_options(&options, argc, argv);
    if (status != WEFT_OK) {
        weft_options_free(weft_train_table(), &options);
        return usage_failure("plan");
    }
    status = open_context(options.quiet, &context);
    if (status == WEFT_OK) status = weft_train_plan_text(context, &options, dump, &text);
    if (status == WEFT_OK) printf("%s", text);
    weft_free(text);
    int code = report_failure(status);
    weft_context_destroy(&context);
    weft_options_free(weft_train_table(), &options);
    return code;
}

const command command_plan = {
    .name = "plan",
    .usage = "[RUN.yaml] [--dump[=RANK]] [options of weft train]",
    .summary = "show what each rank of a run would hold, compute and send",
    .text =
        "Takes the options of weft train and runs nothing: prints for each rank its place in the\n"
        "mesh, the bytes of weights, optimizer state, gradients and activations, the floating\n"
        "point operations and the bytes it sends in a step; then every transfer in order, and\n"
        "for a pipeline how long its stages would wait. --dump adds the graph and the program\n"
        "of rank 0, --dump=K those of rank K.",
    .examples = "  weft plan -n 4 --mesh data=2,tensor=2\n"
                "  weft plan -n 2 --model vgg11 --mesh pipeline=2 --microbatches 10\n"
                "  weft plan -n 8 --zero 3 --dump=1\n",
    .table = weft_train_table,
    .run = run,
};
