/* Run files that weft plan writes (--output). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "plan.h"
#include "weft/output.h"

static bool run_file_fits(const char *path)
{
    if (strcmp(path, "-") == 0)
        fprintf(stderr,
                "weft: output '-': the table is printed there; give the name of a file\nTry "
                "'weft help plan'.\n");
    else if (access(path, F_OK) == 0 || errno != ENOENT)
        fprintf(
            stderr,
            "weft: %s: %s; a run file is not written over another file\nTry 'weft help plan'.\n",
            path, errno == ENOENT || access(path, F_OK) == 0 ? "exists" : strerror(errno));
    else
        return suffix_fits("plan", "output", path, OTHER_PICTURES " json", "a run file", ".yaml");
    return false;
}

/* Whether a file can be written there: it is opened, and left as it is. A pipe or device is not
 * opened, since its reader would see the end. */
static bool is_writable(const char *path)
{
    struct stat there;
    weft_output *to = NULL;
    if (weft_output_is_standard(path)) return true;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) return true;
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &to);
    if (status == WEFT_OK) status = weft_output_close(&to, false);
    return report_failure(status) == 0;
}

bool plan_outputs_fit(const plan_options *plan, int *code)
{
    const char *const paths[] = {plan->output, plan->plot, plan->trace};
    *code = 2;
    if (plan->output && !run_file_fits(plan->output)) return false;
    *code = 1;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i] && !is_writable(paths[i])) return false;
    *code = 0;
    return true;
}

/* A line of the file for an option that has another value than its default. */
static weft_status write_option(const weft_option *table, const weft_option *o,
                                const weft_train_options *options, const weft_train_options *usual,
                                weft_output *to)
{
    char *text = NULL, *initial = NULL, *quoted = NULL;
    weft_status status = weft_options_get(table, options, o->name, &text);
    if (status == WEFT_OK) status = weft_options_get(table, usual, o->name, &initial);
    bool differs = status == WEFT_OK && text && (!initial || strcmp(text, initial) != 0);
    if (differs && o->kind == WEFT_OPT_STRING) status = weft_json_string(text, &quoted);
    if (differs && status == WEFT_OK)
        status = weft_output_print(to, "%s: %s\n", o->name, quoted ? quoted : text);
    weft_free(text);
    weft_free(initial);
    weft_free(quoted);
    return status;
}

weft_status write_run_file(const weft_context *context, const weft_train_options *options,
                           const char *about, const char *path)
{
    weft_output *to = NULL;
    weft_train_options usual = {0};
    const weft_option *table = weft_train_table(context);
    weft_status status = weft_train_options_init(context, &usual);
    if (status == WEFT_OK) status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &to);
    if (status == WEFT_OK) status = weft_output_print(to, "%s", about);
    for (const weft_option *o = table; o->name && status == WEFT_OK; o++)
        status = write_option(table, o, options, &usual, to);
    weft_status closed = weft_output_close(&to, status == WEFT_OK);
    weft_options_free(table, &usual);
    return status == WEFT_OK ? closed : status;
}

int save_found(weft_context *context, const plan_options *plan, const weft_train_options *options,
               const char *words, const char *found)
{
    if (access(plan->output, F_OK) == 0) {
        fprintf(stderr, "weft: %s: another command has written it meanwhile; nothing is written\n",
                plan->output);
        return 1;
    }
    return report_failure(write_found(context, plan, options, words, found));
}
