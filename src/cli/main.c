#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#include "weft/version.h"

/* The command `weft`: the table of subcommands, main, and the messages and exit codes of failures.
 */

const command *const commands[] = {
    &command_train,
    &command_simulate,
    &command_compare,
    &command_find_lr,
    &command_plan,
    &command_measure,
    &command_eval,
    &command_predict,
    &command_generate,
    &command_serve,
    &command_load,
    &command_inspect,
    &command_export,
    &command_coordinator,
    &command_server,
    &command_join,
    &command_leave,
    &command_status,
    &command_fetch,
    &command_keygen,
    &command_selftest,
    &command_help,
    NULL,
};

static void on_log(void *user, weft_log_level level, const char *text)
{
    (void)user;
    if (level == WEFT_LOG_INFO) return;
    flush_stdout();
    fprintf(stderr, "weft: %s\n", text);
}

void print_log(weft_context *context, bool quiet)
{
    weft_context_set_log(context, !quiet && weft_job_rank() <= 0 ? on_log : NULL, NULL);
}

int report_failure(weft_status status)
{
    if (status == WEFT_OK) return 0;
    print_status_line(weft_status_name(status), weft_last_message());
    return status == WEFT_ERR_INTERRUPTED ? EXIT_INTERRUPTED : status == WEFT_ERR_ARGUMENT ? 2 : 1;
}

int usage_failure(const char *command_name)
{
    flush_stdout();
    fprintf(stderr, "weft: %s\nTry 'weft help%s%s'.\n", weft_last_message(),
            command_name ? " " : "", command_name ? command_name : "");
    return 2;
}

/* Opens /dev/null for each closed standard stream, so that no other file gets its descriptor. The
 * open is read-only, so that writing to it still fails. */
static void fill_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_numbers(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof(*numbers), compare_numbers);
}

/* Flushes standard output; returns the exit code, 1 in place of 0 if a write to it has failed. */
static int end(int code)
{
    flush_stdout();
    if (stdout_error() == 0) return code;
    fprintf(stderr, "weft: standard output: cannot write: %s\n", strerror(stdout_error()));
    return code ? code : 1;
}

static const command *command_of(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static bool asks_help(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

/* Refuses a command of which a launcher has started several processes that do not share its work;
 * the first of them says so. Returns the exit code; 0: the command runs. */
static int refuse_tasks(const command *c)
{
    bool ranked = c->tasks == TASKS_RANKS && weft_job_rank() >= 0;
    weft_status status = c->tasks == TASKS_ANY || ranked ? WEFT_OK : weft_job_check_alone();
    if (status == WEFT_OK || weft_job_task() == 0) return report_failure(status);
    /* A launcher may end the others when the first process has failed. */
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return 2;
}

static int run_command(weft_context *context, int argc, char **argv)
{
    if (argc < 2) return command_help.run(context, 0, NULL);
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("weft %s\n", weft_version());
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return command_help.run(context, 0, NULL);
    const command *named = command_of(name);
    if (named && asks_help(argc, argv)) return command_help.run(context, 1, argv + 1);
    if (named) {
        int refused = refuse_tasks(named);
        if (!refused) refused = take_plugin_options(&argc, argv);
        if (!refused) refused = load_plugins_of_environment(context);
        return refused ? refused : named->run(context, argc - 2, argv + 2);
    }
    return no_command(context, name);
}

int main(int argc, char **argv)
{
    weft_context *context;
    const command *named = argc > 1 ? command_of(argv[1]) : NULL;
    if (named && named->computes && !asks_help(argc, argv)) limit_spinning(argv);
    fill_streams();
    catch_faults();
    weft_status status = weft_context_create(&context);
    if (status == WEFT_OK) status = weft_serve_register(context);
    if (status != WEFT_OK) return end(report_failure(status));
    print_log(context,
              false); /* log messages about options; commands with --quiet switch the log off */
    int code = run_command(context, argc, argv);
    weft_context_destroy(&context);
    return end(code);
}
