/* weft generate: continues a prompt with the model of a checkpoint, and prints each token as it is
 * drawn. */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "weft/generate.h"

/* Prints text. A terminal gets no control characters but ends of lines and tabs, since a model of
 * bytes may draw any. */
static bool on_text(void *user, const char *text, size_t size)
{
    const bool *terminal = user;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x20 ? c != 0x7F : c == '\n' || c == '\t';
        putchar(plain || !*terminal ? c : '?');
    }
    if (size > 0) flush_stdout();
    return !wanted_stop.wanted && stdout_error() == 0;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_generate_options options = {0};
    bool terminal = isatty(STDOUT_FILENO);
    weft_status status =
        read_checkpoint_options(weft_generate_table(), argc, argv, &options, &options.checkpoint);
    int code = status == WEFT_OK ? load_plugins(context, weft_generate_table(), &options)
                                 : usage_failure("generate");
    if (code == 0) {
        print_log(context, false);
        catch_signals();
        status = weft_generate(context, &options, on_text, &terminal);
        if (status == WEFT_OK) printf("\n");
        code = report_failure(status);
        if (code == 0 && wanted_stop.wanted) code = interrupted_code();
    }
    weft_options_free(weft_generate_table(), &options);
    return code;
}

static const weft_option *table(const weft_context *context)
{
    (void)context;
    return weft_generate_table();
}

const command command_generate = {
    .name = "generate",
    .usage = "--checkpoint DIR [options]",
    .summary = "continue a text with a checkpoint's model",
    .text =
        "Prints the prompt and the tokens that the model draws after it, each as soon as it is\n"
        "drawn. The model must have been trained to predict the next token, on data such as\n"
        "text:FILE or tokens:FILE, and no layer may read later positions. The same seed, options\n"
        "and build give the same text, whatever the mesh of training; with another mesh or device\n"
        "here, rounding may change a draw. A model with attention or learned positions has as\n"
        "many positions as a sample of its data; when they are used up, it goes on from the\n"
        "later half of them.",
    .examples = "  weft generate runs/book/latest --prompt 'To be' --tokens 500 --temperature 0.8\n"
                "  weft generate runs/book/latest --mesh tensor=2\n"
                "  weft generate runs/book/latest --prompt 'O ' --top-k 20 --top-p 0.9 --seed 7\n"
                "  weft generate runs/book/latest --prompt 'To be' --stop '?' --stop $'\\n\\n'\n",
    .table = table,
    .run = run,
    .tasks = TASKS_ALONE,
    .computes = true,
};
