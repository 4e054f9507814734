/* weft selftest: trains small networks with parallel strategies, in configurations where each must
 * equal a simpler strategy, and compares weights or losses. */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "selftest.h"

enum { MOST_LOSSES = 16 };
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = number;
}

/* The result of a run: the losses of its steps, and the loss of its last evaluation. */
typedef struct outcome {
    double losses[MOST_LOSSES], test;
    int steps;
} outcome;

static void on_event(void *user, const weft_event *e)
{
    outcome *o = user;
    if (e->kind == WEFT_EVENT_STEP && o->steps < MOST_LOSSES) o->losses[o->steps++] = e->loss;
    if (e->kind == WEFT_EVENT_EVAL) o->test = e->report->loss;
}

/* --- one run --- */

static weft_status set_words(const weft_option *table, void *options, const char *words)
{
    char copy[512], *save = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        if (strcmp(w, "simulate") == 0) continue; /* no option */
        if (equals) *equals = '\0';
        weft_status status = weft_options_set(table, options, w, equals ? equals + 1 : "");
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status train(weft_context *context, const weft_train_options *options, outcome *out)
{
    weft_trainer *trainer = NULL;
    weft_status status = weft_trainer_create(context, options, &trainer);
    if (status == WEFT_OK) status = weft_trainer_run(trainer, on_event, out);
    weft_trainer_destroy(&trainer);
    return status;
}

/* Trains or simulates one run, with checkpoints in `folder`, and exports its parameters to
 * FOLDER.weights. */
static weft_status run_words(weft_context *context, const selftest_row *r, const char *words,
                             const char *folder, outcome *out)
{
    weft_simulate_options options = {.cluster = NULL};
    const weft_option *table = weft_simulate_table(context);
    char path[64], file[64];
    (void)snprintf(path, sizeof(path), "%s/latest", folder);
    (void)snprintf(file, sizeof(file), "%s.weights", folder);
    *out = (outcome){.test = NAN};
    weft_status status = weft_simulate_options_init(context, &options);
    if (status == WEFT_OK) status = set_words(table, &options, r->words);
    if (status == WEFT_OK) status = set_words(table, &options, words);
    if (status == WEFT_OK) status = weft_options_set(table, &options, "checkpoint", folder);
    if (status == WEFT_OK)
        status = strncmp(words, "simulate", 8) == 0
                     ? weft_simulate(context, &options, NULL, on_event, out)
                     : train(context, &options.train, out);
    if (status == WEFT_OK) status = weft_checkpoint_export(context, path, file);
    weft_options_free(table, &options);
    return status;
}

/* --- comparing --- */

static bool same_files(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    bool same = x && y;
    for (int c = 0; same && c != EOF;) {
        c = getc(x);
        same = c == getc(y);
    }
    if (x) fclose(x);
    if (y) fclose(y);
    return same;
}

static bool near(double a, double b, double close)
{
    return fabs(a - b) <= close * fmax(1, fabs(b));
}

/* Compares two runs as the row demands; false: they differ, and `why` gets a description. */
static bool compare(const selftest_row *r, const outcome *a, const outcome *b, char *why,
                    size_t size)
{
    *why = '\0';
    if (r->close == 0 && same_files("one.weights", "other.weights")) return true;
    if (r->close > 0 && !near(a->test, b->test, r->close)) {
        (void)snprintf(why, size, "test loss %.12g, should be %.12g", b->test, a->test);
        return false;
    }
    for (int i = 0; r->steps && i < a->steps; i++)
        if (a->steps != b->steps || !near(a->losses[i], b->losses[i], r->close)) {
            (void)snprintf(why, size, "step %d: loss %.12g, should be %.12g", i + 1, b->losses[i],
                           a->losses[i]);
            return false;
        }
    if (r->close > 0) return true;
    (void)snprintf(why, size, "weights have other bits (test loss %.12g, should be %.12g)", b->test,
                   a->test);
    return false;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_all(const char *path)
{
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static bool check_row(weft_context *context, const selftest_row *r)
{
    outcome a, b;
    char why[1024];
    weft_status status = run_words(context, r, r->one, "one", &a);
    if (status == WEFT_OK) status = run_words(context, r, r->other, "other", &b);
    bool same = status == WEFT_OK && compare(r, &a, &b, why, sizeof(why));
    if (status != WEFT_OK) (void)snprintf(why, sizeof(why), "%s", weft_last_message());
    printf("%-6s %-50s %s\n", same ? "ok" : "FAILED", r->name,
           !same             ? why
           : r->close == 0   ? "the same bits"
           : r->close < 1e-6 ? "to rounding"
                             : "nearly");
    flush_stdout();
    remove_all("one");
    remove_all("other");
    return same;
}

/* --- all rows --- */

static bool check_rows(weft_context *context)
{
    int failed = 0, done = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (; done < selftest_row_count && !stopped; done++)
        failed += !check_row(context, &selftest_rows[done]);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%d of %d settings are what they must be, %.1f s\n", done - failed, selftest_row_count,
           (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    return failed == 0 && done == selftest_row_count;
}

/* Runs all rows in a temporary folder, which is removed afterwards. */
static int run(weft_context *context, int argc, char **argv)
{
    char folder[4096], shown[256];
    const char *root = getenv("TMPDIR");
    if (argc > 0) {
        fprintf(stderr,
                "weft: selftest takes no arguments, but is given '%s'\nTry 'weft help selftest'.\n",
                weft_printable(argv[0], shown, sizeof(shown)));
        return 2;
    }
    int size =
        snprintf(folder, sizeof(folder), "%s/weft-selftest-XXXXXX", root && *root ? root : "/tmp");
    if (size >= (int)sizeof(folder) || !mkdtemp(folder) || chdir(folder) != 0) {
        fprintf(stderr,
                "weft: %s: cannot be made: %s; let TMPDIR name a folder that can be written\n",
                folder, strerror(errno));
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (signal(SIGHUP, on_signal) == SIG_IGN) signal(SIGHUP, SIG_IGN); /* as nohup wants it */
    bool whole = selftest_write(), good = whole && check_rows(context);
    if (!whole) fprintf(stderr, "weft: %s: cannot be written: %s\n", folder, strerror(errno));
    if (chdir("/") == 0) remove_all(folder);
    return stopped ? 128 + (int)stopped : good ? 0 : 1;
}

const command command_selftest = {
    .name = "selftest",
    .usage = "",
    .summary = "check on this machine that each parallel strategy gives the expected result",
    .text =
        "Each parallel strategy has a setting in which it must equal a simpler one: synchronous\n"
        "servers equal one batch on one rank, a pipeline its micro-batches, any mesh one rank.\n"
        "Small networks are trained both ways and compared: bit for bit where the guide\n"
        "promises equal bits, to rounding elsewhere. It takes less than a minute, prints a line\n"
        "per strategy, and needs no data. The exit code is 0 if all are equal, else 1.",
    .examples = "  weft selftest\n",
    .run = run,
    .computes = true,
};
