/* The options of a run, from its run file, the words of the command line, and the checkpoint from
 * which it resumes. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

weft_status read_run_options(const weft_context *context, const weft_option *table,
                             weft_status (*init)(const weft_context *context, void *options),
                             void *scratch, void *options, int argc, char **argv)
{
    const char *file = NULL;
    int words = 0;
    weft_status status = init(context, scratch);
    if (status == WEFT_OK)
        status = weft_options_parse(table, scratch, argc, argv, 1, &file, &words);
    weft_options_free(table, scratch);
    if (status == WEFT_OK) status = init(context, options);
    if (status == WEFT_OK && words) status = weft_options_load(table, options, file);
    if (status == WEFT_OK)
        status = weft_options_parse(table, options, argc, argv, 1, &file, &words);
    if (status == WEFT_OK && words)
        status = weft_options_refuse_overwrite(table, options, "the run file", file);
    return status;
}

static weft_status init(const weft_context *context, void *options)
{
    return weft_train_options_init(context, options);
}

weft_status read_train_options(const weft_context *context, weft_train_options *o, int argc,
                               char **argv)
{
    weft_train_options scratch = {0};
    return read_run_options(context, weft_train_table(context), init, &scratch, o, argc, argv);
}

/* Reads the words over the options of a checkpoint. */
static weft_status read_over(const weft_option *table, weft_train_options *o, int argc, char **argv)
{
    const char *file = NULL;
    int words = 0;
    weft_status status = weft_options_parse(table, o, argc, argv, 1, &file, &words);
    if (status != WEFT_OK || !words) return status;
    status = weft_options_load(table, o, file);
    return status == WEFT_OK ? weft_options_parse(table, o, argc, argv, 1, &file, &words) : status;
}

weft_status take_resumed_options(weft_context *context, weft_train_options *o, int argc,
                                 char **argv)
{
    enum { THEN, BOTH };
    static weft_train_options of[2]; /* too large for a stack */
    const weft_option *table = weft_train_table(context);
    const char *folder = o->output.checkpoint;
    bool found = false, says = weft_job_rank() <= 0 && !weft_job_supervised();
    if (!o->output.resume || !folder) return WEFT_OK;
    print_log(context, o->show.quiet);
    weft_status status =
        weft_train_options_of_checkpoint(context, folder, false, &of[THEN], &found);
    if (status == WEFT_OK && found)
        status = weft_train_options_of_checkpoint(context, folder, says, &of[BOTH], &found);
    if (status == WEFT_OK && found) status = read_over(table, &of[BOTH], argc, argv);
    if (status == WEFT_OK && found)
        status = weft_train_options_merge(context, &of[THEN], o, &of[BOTH]);
    if (status == WEFT_OK && found) {
        weft_train_options words = *o;
        *o = of[BOTH];
        of[BOTH] = words;
    }
    for (int i = THEN; i <= BOTH; i++) weft_options_free(table, &of[i]);
    return status;
}

bool resumes_nothing(weft_context *context, const weft_train_options *o)
{
    static weft_train_options plain; /* too large for a stack */
    const weft_option *table = weft_train_table(context);
    bool found = true;
    if (!o->output.resume || !o->output.checkpoint || weft_job_rank() > 0 || weft_job_supervised())
        return false;
    weft_status status = weft_train_options_init(context, &plain);
    bool named = status != WEFT_OK || strcmp(o->task.model, plain.task.model) != 0 ||
                 strcmp(o->task.data, plain.task.data) != 0;
    weft_options_free(table, &plain);
    if (!named)
        status =
            weft_train_options_of_checkpoint(context, o->output.checkpoint, false, &plain, &found);
    weft_options_free(table, &plain);
    if (named || status != WEFT_OK || found) return false;
    fprintf(stderr,
            "weft: %s holds no checkpoint to go on from; give the folder that has it, or --model "
            "and --data, with which --resume starts a new run\nTry 'weft help train'.\n",
            o->output.checkpoint);
    return true;
}
