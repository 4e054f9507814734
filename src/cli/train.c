/* weft train: trains in this process, or as the supervisor of a job's processes, and turns signals
 * into stops. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#include "cli.h"
#include "weft/plan.h"
#include "weft/plugin.h"

/* The running trainer, for the signal handler, and the signal that stopped it. */
static weft_trainer *_Atomic running;
static volatile sig_atomic_t stopped_by;
weft_stop wanted_stop;

static void on_signal(int number)
{
    weft_trainer *trainer = running;
    stopped_by = number;
    wanted_stop.wanted++;
    if (trainer) weft_trainer_stop(trainer);
    /* A second signal ends the process at once, but the limit of processor time sends one each
     * second. */
    signal(number, number == SIGXCPU ? SIG_IGN : end_at_once);
}

/* An ignored SIGHUP stays ignored, as nohup demands. SIGINT is handled even if it was ignored:
 * shells start background jobs so, and such a job must react to a SIGINT that a user sends to it.
 * SIGXCPU announces the end of the processor time that a batch system grants. A reader of standard
 * output that ends, such as head, must not end a run without a checkpoint: writes fail instead. */
void catch_signals(void)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART; /* system calls are restarted */
    sigemptyset(&action.sa_mask);
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &caught,
                NULL); /* a launcher may have started this rank with them blocked */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    sigaction(SIGXCPU, &action, NULL); /* the last, by which others see that all are there */
}

int interrupted_code(void)
{
    /* While processes of a job measure, its supervisor takes the signals. */
    const int by = stopped_by ? stopped_by : weft_job_stopped_by();
    return by ? 128 + by : EXIT_INTERRUPTED;
}

void print_status_line(const char *what, const char *message)
{
    char line[2400];
    weft_job_status_line(what, message, line, sizeof(line));
    flush_stdout();
    fprintf(stderr, "%s\n", line);
}

/* Tells the supervisor, if there is one, that the run has finished, and displays all events. */
static void on_event(void *user, const weft_event *event)
{
    weft_trainer *trainer = running;
    bool goes_on = trainer && weft_trainer_goes_on(trainer);
    if (weft_job_supervised() && event->kind == WEFT_EVENT_SUMMARY && !goes_on)
        print_status_line("finished", "");
    if (user) progress_event(user, event);
}

/* Seconds after which SIGALRM ends a rank that has not started. SIGCONT starts the count anew, so
 * that a rank that was stopped (SIGSTOP) has the full time again. */
static volatile sig_atomic_t start_limit;

static void on_continue(int number)
{
    (void)number;
    alarm((unsigned)start_limit);
}

static void limit_coming(int seconds)
{
    struct sigaction action = {.sa_handler = seconds ? on_continue : SIG_DFL,
                               .sa_flags = SA_RESTART};
    start_limit = seconds;
    sigaction(SIGCONT, &action, NULL);
    alarm((unsigned)seconds);
}

weft_status run_until_stopped(weft_trainer *trainer, weft_event_fn fn, void *user)
{
    running = trainer;
    catch_signals();
    if (wanted_stop.wanted) weft_trainer_stop(trainer); /* a signal came before `running` was set */
    weft_status status = weft_trainer_run(trainer, fn, user);
    running = NULL;
    return status;
}

weft_status run_trainer(weft_trainer *trainer, const weft_train_options *options)
{
    progress *p = progress_new(options, false);
    if (weft_job_supervised()) print_status_line("built", "");
    weft_status status = run_until_stopped(trainer, on_event, p);
    progress_end(p);
    return status;
}

/* Prints where the time of the traced steps went, unless standard output is the trace itself. */
static weft_status print_trace(const weft_trainer *trainer, const weft_train_options *o)
{
    char *text = NULL;
    if (!o->output.trace || o->show.quiet || strcmp(o->output.trace, "-") == 0 ||
        weft_job_rank() > 0)
        return WEFT_OK;
    weft_status status = weft_trainer_trace_text(trainer, &text);
    if (status == WEFT_OK) fputs(text, stdout);
    weft_free(text);
    return status;
}

/* Trains, in several phases if frozen parameters are trained later. */
static weft_status train(weft_context *context, weft_train_options *options)
{
    weft_trainer *trainer = NULL;
    print_log(context, options->show.quiet);
    /* MPI_Init waits for all ranks without a timeout. The supervisor ends the job after a timeout,
     * but may be unable to reach ranks on --hosts, so such a rank ends itself some seconds later.
     */
    enum { GRACE = 10 };
    bool of_mpi = weft_job_supervised() && weft_job_rank() >= 0;
    bool limited = of_mpi && options->job.hosts;
    if (of_mpi) print_status_line("started", "");
    if (limited) limit_coming((int)options->job.timeout + GRACE);
    weft_status status;
    bool goes_on;
    do {
        status = weft_trainer_create(context, options, &trainer);
        if (limited) limit_coming(0);
        if (status == WEFT_OK) status = run_trainer(trainer, options);
        if (status == WEFT_OK) status = print_trace(trainer, options);
        goes_on = status == WEFT_OK && weft_trainer_goes_on(trainer);
        weft_trainer_destroy(&trainer);
        options->output.resume = options->output.resume || goes_on;
        if (goes_on) { /* the trace is that of the first steps */
            weft_free(options->output.trace);
            options->output.trace = NULL;
        }
    } while (goes_on);
    return status;
}

void print_line(void *user, const char *line)
{
    char shown[4096]; /* the line may be text of a launcher, with control characters */
    (void)user;
    flush_stdout();
    fprintf(stderr, "%s\n", weft_printable(line, shown, sizeof(shown)));
}

/* Clears the bar, or the line of print_starting, on a terminal. */
static void clear_line(bool bar)
{
    if (bar && isatty(STDERR_FILENO)) fputs(CLEAR_LINE, stderr);
}

static void print_over_bar(void *user, const char *line)
{
    const bool *bar = user;
    clear_line(*bar);
    print_line(NULL, line);
}

/* Prints which processes the supervisor starts. On a terminal the line is replaced as soon as a
 * process prints. */
static weft_status print_starting(const weft_train_options *o, bool bar)
{
    char *processes;
    weft_status status = weft_job_text(o, &processes);
    if (status == WEFT_OK && processes) printf("starting %s…%s", processes, bar ? "" : "\n");
    weft_free(processes);
    flush_stdout();
    return status;
}

static void free_words(char **words)
{
    for (int i = 0; words && words[i]; i++) weft_free(words[i]);
    free(words);
}

static bool add_word(char ***next, const char *name, const char *value)
{
    char *word;
    if (asprintf(&word, "--%s=%s", name, value) < 0) return false;
    *(*next)++ = word;
    return true;
}

/* Makes the command line of the ranks from all options as parsed. The run file is not passed on,
 * since it may have changed when the job is restarted. */
static char **rank_words(const weft_context *context, const weft_train_options *options)
{
    const weft_option *table = weft_train_table(context);
    size_t count = 0;
    while (table[count].name) count++;
    char **words = calloc(count + 2, sizeof(*words)), **next = words;
    bool whole = words && (*next++ = strdup("train"));
    for (const weft_option *o = table; whole && o->name; o++) {
        char *value = NULL;
        whole = weft_options_get(table, options, o->name, &value) == WEFT_OK;
        if (whole && value) whole = add_word(&next, o->name, value);
        weft_free(value);
    }
    if (whole) return words;
    free_words(words);
    return NULL;
}

/* Supervises a job, whose ranks run this same command; `show` tells them how to show progress. */
static int supervise(const weft_context *context, weft_train_options *options, const char *show)
{
    char program[4096], columns[16];
    bool set = weft_options_set(weft_train_table(context), options, "progress", show) == WEFT_OK;
    char **words = set ? rank_words(context, options) : NULL;
    int code = 1;
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (!words || size < 0) {
        fprintf(stderr, "weft: the ranks cannot be started: %s\n", strerror(errno));
        free_words(words);
        return 1;
    }
    program[size] = '\0';
    (void)snprintf(columns, sizeof(columns), "%d", progress_columns());
    setenv("COLUMNS", columns, 1);
    signal(SIGPIPE, SIG_IGN); /* as in catch_signals, which the ranks call */
    bool bar = strcmp(show, "bar") == 0 && !options->show.quiet;
    weft_status status = weft_job_check(context, options);
    relay *through = relay_begin();
    if (status == WEFT_OK && !options->show.quiet) status = print_starting(options, bar);
    if (status == WEFT_OK)
        status = weft_job_run(context, options, program, words, print_over_bar, &bar, &code);
    free_words(words);
    if (status != WEFT_OK) {
        clear_line(bar);
        code = report_failure(status);
    }
    return relay_end(through, code);
}

/* Waits before the exit of a rank that has no message of its own. A launcher ends the job when its
 * first rank exits with an error, so the rank with the message must exit first. */
static void let_others_speak(void)
{
    nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
}

/* Prints a rank's failure and returns its exit code. Errors that all ranks have in common, and
 * stops, are printed by rank 0 alone. */
static int report_rank(weft_status status)
{
    bool common = status == WEFT_ERR_ARGUMENT || status == WEFT_ERR_INTERRUPTED ||
                  weft_job_failed_elsewhere(status);
    if (status == WEFT_OK) return 0;
    /* Another rank has the message, unless it died before it could print it. */
    if (weft_job_rank() == 0 && weft_job_failed_elsewhere(status)) let_others_speak();
    if (weft_job_rank() <= 0 || !common) {
        print_status_line(weft_status_name(status), weft_last_message());
        if (status != WEFT_ERR_INTERRUPTED) return status == WEFT_ERR_ARGUMENT ? 2 : 1;
    }
    if (status == WEFT_ERR_INTERRUPTED) return interrupted_code();
    let_others_speak();
    return status == WEFT_ERR_ARGUMENT ? 2 : 1;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_train_options options = {0};
    map_arrays();
    weft_status status = read_train_options(context, &options, argc, argv);
    int code = 2;
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = weft_job_fit_launcher(context, &options);
    if (status == WEFT_OK && sends_messages(context, options.parallel.exchange)) keep_arrays();
    if (status != WEFT_OK && weft_job_rank() > 0)
        let_others_speak();
    else if (status != WEFT_OK)
        code = usage_failure("train");
    else if (resumes_nothing(context, &options))
        code = 2;
    else if ((status = load_option_plugins(context, weft_train_table(context), &options)) !=
             WEFT_OK)
        code = report_rank(status);
    else if (options.job.ranks > 0 && weft_job_needs_supervisor(&options))
        code = supervise(context, &options, progress_kind(&options.show));
    else
        code = report_rank(train(context, &options));
    weft_options_free(weft_train_table(context), &options);
    return code;
}

const command command_train = {
    .name = "train",
    .usage = "[RUN.yaml] [options]",
    .summary = "train a model and report its accuracy",
    .text = "Without options: trains lenet on the built-in drawn digits. A run file is YAML with\n"
            "the long names of the options as keys; the command line overrides it. Ctrl-C stops\n"
            "after the current step (with several learners: at their next exchange, or at the end\n"
            "of the epoch), writes a checkpoint and exits with 130; likewise SIGTERM (143),\n"
            "SIGHUP (129) and SIGXCPU (152). A second signal ends at once.",
    .examples =
        "  weft train\n"
        "  weft train --data idx:mnist --epochs 5 --checkpoint runs/a --metrics a.jsonl\n"
        "  weft train --checkpoint runs/a --resume --epochs 9\n"
        "  weft train --model net.yaml --data csv:iris.csv,label=species --epochs 50 --batch 30\n"
        "  weft train --model mlp --data csv:houses.csv,target=price --epochs 50 --batch 32\n"
        "  weft train --optimizer sgd --lr 0.1 --momentum 0.9 --lr-schedule cosine --warmup 100\n",
    .table = weft_train_table,
    .run = run,
    .tasks = TASKS_RANKS,
    .computes = true,
};
