/* weft plan --verify: estimates the steps of runs, makes these runs for some seconds each, and
 * prints both. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "machine_use.h"
#include "plan.h"
#include "plan_verify.h"
#include "weft/plan.h"

enum { MOST_RUNS = 256 };

typedef struct verification {
    weft_context *context;
    int argc;
    char **argv; /* options of all runs */
    char *cluster, *processor;
    char own[200]; /* the cluster file that was measured here; "": the user's */
    bool quick, json;
    double others; /* share of the cores that other programs took while all was measured */
    double spread; /* per cent by which two runs of a kernel differ; 0: not known */
    long cores;
    verified rows[MOST_RUNS];
    int count, known;
    double median, greatest, correlation; /* NaN: not known */
} verification;

/* --- measuring --- */

/* Notes how far two runs of a kernel differ, which weft measure tells at its end. */
static void on_measured(void *user, const char *line)
{
    static const char words[] = "two runs of a kernel differ by ";
    verification *v = user;
    const char *at = strstr(line, words);
    if (at) v->spread = strtod(at + strlen(words), NULL);
}

/* Measures this machine, unless the user gives a cluster; returns an exit code. */
static int measure(verification *v)
{
    char seconds[24], output[240], error[VERIFY_REASON];
    const char *root = getenv("TMPDIR");
    if (v->cluster) return 0;
    (void)snprintf(v->own, sizeof(v->own), "%.100s/weft-verify-%ld-%.0f.yaml", root ? root : "/tmp",
                   (long)getpid(), 1e6 * clock_seconds());
    (void)snprintf(output, sizeof(output), "--output=%s", v->own);
    (void)snprintf(seconds, sizeof(seconds), "--seconds=%d", v->quick ? 10 : 60);
    char *const words[] = {"weft", "measure", output, seconds, NULL};
    if (!v->json) printf("Measuring this machine, for up to %s s\n", strchr(seconds, '=') + 1);
    flush_stdout();
    machine_use before = machine_use_now();
    int code = verify_run(words, on_measured, v, error);
    machine_use after = machine_use_now();
    v->others = machine_use_by_others(&before, &after);
    v->cluster = v->own;
    if (code != 0) fprintf(stderr, "weft: the machine cannot be measured: %s\n", error);
    return code < 0 ? 1 : code;
}

static void remove_own(const verification *v)
{
    char times[240];
    if (!*v->own) return;
    (void)snprintf(times, sizeof(times), "%s.times", v->own);
    unlink(v->own);
    unlink(times);
}

/* --- one run --- */

static weft_status estimate(const verification *v, verified *row, double *batch)
{
    weft_train_options options = {0};
    const weft_option *table = weft_train_table(v->context);
    weft_status status = read_train_options(v->context, &options, v->argc, v->argv);
    if (status == WEFT_OK) status = set_strategy(table, &options, row->words);
    if (status == WEFT_OK)
        status = weft_estimate_step(v->context, &options, v->cluster, &row->step);
    *batch = (double)options.length.batch;
    weft_options_free(table, &options);
    return status;
}

/* Whether any of the runs can be planned at all, which is known before anything is measured; prints
 * the last failure if not. */
static int check_runs(const verification *v)
{
    const weft_option *table = weft_train_table(v->context);
    weft_status status = WEFT_ERR_ARGUMENT;
    for (int i = 0; i < v->count && status != WEFT_OK; i++) {
        char *text = NULL;
        weft_train_options options = {0};
        status = read_train_options(v->context, &options, v->argc, v->argv);
        if (status == WEFT_OK) status = set_strategy(table, &options, v->rows[i].words);
        if (status == WEFT_OK) status = weft_train_plan_text(v->context, &options, -1, &text);
        weft_free(text);
        weft_options_free(table, &options);
    }
    return report_failure(status);
}

/* Makes the run once more and takes the shorter one: what disturbs a run makes it longer. Each
 * strategy has its turn before any has its second, so that one disturbance meets one of both. */
static void verify_row(verification *v, verified *row, bool again)
{
    verified first = *row;
    double batch;
    if (again && *row->reason) return;
    if (estimate(v, row, &batch) != WEFT_OK) {
        (void)snprintf(row->reason, VERIFY_REASON, "%s", weft_last_message());
        return;
    }
    machine_use before = machine_use_now();
    verify_train(row, v->quick ? 0.5 : 2, batch, v->argc, v->argv);
    machine_use after = machine_use_now();
    row->others = machine_use_by_others(&before, &after);
    if (!again || *row->reason) return;
    double apart = fabs(row->seconds - first.seconds);
    if (first.seconds < row->seconds) *row = first;
    row->apart = apart / row->seconds;
}

/* --- figures of all runs --- */

static double error_of(const verified *row)
{
    return row->step.seconds / row->seconds - 1;
}

/* The rank of a row among the known ones by one of its times; rows with equal times have the mean
 * of their ranks. */
static double rank_of(const verification *v, int row, bool measured)
{
    double own = measured ? v->rows[row].seconds : v->rows[row].step.seconds, rank = 0;
    for (int i = 0; i < v->count; i++) {
        if (*v->rows[i].reason) continue;
        double other = measured ? v->rows[i].seconds : v->rows[i].step.seconds;
        rank += other < own ? 1 : other == own ? 0.5 : 0;
    }
    return rank;
}

/* Spearman's correlation of ranks. */
static double correlation(const verification *v)
{
    double mean = (double)v->known / 2, product = 0, squares[2] = {0, 0};
    for (int i = 0; i < v->count; i++) {
        if (*v->rows[i].reason) continue;
        double a = rank_of(v, i, false) - mean, b = rank_of(v, i, true) - mean;
        product += a * b;
        squares[0] += a * a;
        squares[1] += b * b;
    }
    return v->known > 2 && squares[0] > 0 && squares[1] > 0
               ? product / sqrt(squares[0] * squares[1])
               : NAN;
}

static void sum_up(verification *v)
{
    double errors[MOST_RUNS];
    v->known = 0;
    for (int i = 0; i < v->count; i++)
        if (!*v->rows[i].reason) errors[v->known++] = fabs(error_of(&v->rows[i]));
    sort_numbers(errors, (size_t)v->known);
    v->median = v->known > 0 ? errors[v->known / 2] : NAN;
    v->greatest = v->known > 0 ? errors[v->known - 1] : NAN;
    v->correlation = correlation(v);
}

/* Beyond these times say nothing: the share of the cores that others take, of which the system's
 * own work is one or two per cent, per cent by which kernels differ, and how far two runs do. */
static const double MOST_OTHERS = 0.05, MOST_SPREAD = 15, MOST_APART = 0.1;

static bool disturbed(const verified *row)
{
    return !*row->reason && (row->others > MOST_OTHERS || row->apart > MOST_APART);
}

static int count_disturbed(const verification *v)
{
    int count = 0;
    for (int i = 0; i < v->count; i++) count += disturbed(&v->rows[i]);
    return count;
}

static bool busy(const verification *v)
{
    return v->others > MOST_OTHERS || v->spread > MOST_SPREAD || 2 * count_disturbed(v) > v->count;
}

/* --- output --- */

static const char *label_of(const verified *row)
{
    return *row->words ? strategy_label(row->words) : "this run";
}

static void print_row(const verified *row, int width)
{
    const weft_step_estimate *s = &row->step;
    printf("%-*s  ", width, label_of(row));
    if (*row->reason) {
        printf("%s\n", row->reason);
        return;
    }
    printf("%10.4g %10.4g %+7.1f %%  %8.1f %8.1f %8.1f  %12.0f %12.0f", 1e3 * s->seconds,
           1e3 * row->seconds, 100 * error_of(row), s->programs / 1e6, row->planned / 1e6,
           row->peak / 1e6, s->sent_bytes, row->sent);
    if (row->others > MOST_OTHERS) printf("  others took %.0f %% of the cores", 100 * row->others);
    if (row->apart > MOST_APART) printf("  its two runs differ by %.0f %%", 100 * row->apart);
    printf("\n");
}

static void print_head(const verification *v, int width)
{
    printf("Estimated steps beside measured ones on %s, %ld cores\n", v->processor, v->cores);
    if (v->spread > 0) printf("Two runs of a kernel differ by %.1f %%\n", v->spread);
    if (busy(v))
        printf("Other programs took %.0f %% of the cores, or the machine changed its speed: times "
               "are wrong, measure again when it is idle\n",
               100 * v->others);
    printf("\n%-*s  %10s %10s %9s  %8s %8s %8s  %12s %12s\n", width, "", "ms a step", "", "", "MB",
           "", "MB of", "bytes sent", "");
    printf("%-*s  %10s %10s %9s  %8s %8s %8s  %12s %12s\n", width, "strategy", "estimated",
           "measured", "error", "planned", "in run", "process", "planned", "in run");
}

static void print_sums(const verification *v)
{
    printf("\n%d of %d run%s: error %.1f %% in the median, %.1f %% at most", v->known, v->count,
           v->count == 1 ? "" : "s", 100 * v->median, 100 * v->greatest);
    if (isfinite(v->correlation)) printf("; rank correlation %.2f", v->correlation);
    printf("\n");
    if (count_disturbed(v) > 0)
        printf("%d of these runs were disturbed: their errors say little\n", count_disturbed(v));
}

static void print_number(const char *name, double number)
{
    if (isfinite(number)) printf(",\"%s\":%.9g", name, number);
}

static void print_object(const verified *row)
{
    printf("{\"strategy\":");
    print_json_string(row->words);
    if (*row->reason) {
        printf(",\"reason\":");
        print_json_string(row->reason);
    } else {
        print_number("step_seconds", row->step.seconds);
        print_number("low", row->step.low);
        print_number("high", row->step.high);
        print_number("measured_seconds", row->seconds);
        print_number("memory_bytes", row->step.programs);
        print_number("measured_memory_bytes", row->planned);
        print_number("process_bytes", row->peak);
        print_number("sent_bytes", row->step.sent_bytes);
        print_number("measured_sent_bytes", row->sent);
        print_number("others_share", row->others);
        print_number("runs_apart", row->apart);
    }
    printf("}");
}

static void print_json(const verification *v)
{
    printf("{\"processor\":");
    print_json_string(v->processor);
    printf(",\"cores\":%ld,\"busy\":%s", v->cores, busy(v) ? "true" : "false");
    print_number("others_share", v->others);
    if (v->spread > 0) print_number("kernel_spread_percent", v->spread);
    print_number("median_error", v->median);
    print_number("greatest_error", v->greatest);
    print_number("rank_correlation", v->correlation);
    printf(",\"runs\":[");
    for (int i = 0; i < v->count; i++) {
        printf(i ? ",\n " : "\n ");
        print_object(&v->rows[i]);
    }
    printf("]}\n");
}

/* --- the command --- */

static int verify(verification *v)
{
    int width = 8;
    catch_signals();
    int code = check_runs(v);
    if (code == 0) code = measure(v);
    if (code != 0) return code;
    if (weft_measured_here(v->cluster, &v->processor) != WEFT_OK)
        return report_failure(WEFT_ERR_ARGUMENT);
    for (int i = 0; i < v->count; i++)
        width = (int)fmax(width, (double)strlen(label_of(&v->rows[i])));
    if (!v->json) print_head(v, width);
    for (int i = 0; i < 2 * v->count && !wanted_stop.wanted; i++) {
        verified *row = &v->rows[i % v->count];
        verify_row(v, row, i >= v->count);
        if (i >= v->count && !v->json && !wanted_stop.wanted) print_row(row, width);
        flush_stdout();
    }
    if (wanted_stop.wanted) return interrupted_code();
    sum_up(v);
    if (v->json)
        print_json(v);
    else
        print_sums(v);
    return v->known > 0 ? 0 : 1;
}

int plan_verify(weft_context *context, const char *cluster, const char *list, bool quick, bool json,
                int argc, char **argv)
{
    char *words[MOST_RUNS];
    verification *v = calloc(1, sizeof(*v));
    if (!v) return 1;
    int count = list ? split_strategies(list, words, MOST_RUNS) : 1;
    if (!list) words[0] = strdup("");
    v->context = context;
    v->argc = argc;
    v->argv = argv;
    v->quick = quick;
    v->json = json;
    v->cluster = (char *)(uintptr_t)cluster;
    v->cores = sysconf(_SC_NPROCESSORS_ONLN);
    v->count = count;
    for (int i = 0; i < count; i++) v->rows[i].words = words[i];
    int code = count > 0 ? verify(v) : refuse_strategies(list, MOST_RUNS, "plan");
    remove_own(v);
    for (int i = 0; i < count; i++) free(words[i]);
    weft_free(v->processor);
    free(v);
    return code;
}
