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

/* The memory of the run that was made; some exchanges keep more, the more steps there are. */
static weft_status estimate_memory(const verification *v, verified *row)
{
    weft_train_options options = {0};
    weft_memory_estimate m = {0};
    const weft_option *table = weft_train_table(v->context);
    weft_status status = read_train_options(v->context, &options, v->argc, v->argv);
    if (status == WEFT_OK) status = set_strategy(table, &options, row->words);
    options.length.steps = row->steps;
    if (status == WEFT_OK) status = weft_estimate_memory(v->context, &options, v->cluster, &m);
    row->process = m.first_process; /* of which the run tells its peak */
    weft_memory_estimate_free(&m);
    weft_options_free(table, &options);
    return status;
}

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

/* By how much the second shortest turn of a row took longer, as a share. */
static double turns_apart(const verified *row)
{
    double sorted[MOST_TURNS];
    int count = 0;
    for (int i = 0; i < MOST_TURNS; i++)
        if (row->turns[i] > 0) sorted[count++] = row->turns[i];
    sort_numbers(sorted, (size_t)count);
    return count > 1 ? sorted[1] / sorted[0] - 1 : 0;
}

/* Makes the run, or makes it once more and keeps the shorter one: a disturbance makes a run longer.
 * Each strategy has its turn before any has its second, so that one disturbance meets one of both.
 * The last turn is for those that were disturbed in those before. */
static void verify_row(verification *v, verified *row, int turn)
{
    verified first = *row;
    double batch;
    bool again = turn > 0;
    if (again && *row->reason) return;
    if (turn == MOST_TURNS - 1 && !verify_disturbed(row)) return;
    if (estimate(v, row, &batch) != WEFT_OK) {
        (void)snprintf(row->reason, VERIFY_REASON, "%s", weft_last_message());
        return;
    }
    machine_use before = machine_use_now();
    verify_train(row, again ? &first : NULL, v->quick ? 0.5 : 2, batch, v->argc, v->argv);
    machine_use after = machine_use_now();
    row->others = machine_use_by_others(&before, &after);
    if (*row->reason) return;
    first.turns[turn] = row->turns[turn] = row->seconds;
    if (!again) return;
    first.sent = row->sent;
    if (first.seconds < row->seconds) *row = first;
    row->apart = turns_apart(row);
    if (estimate_memory(v, row) != WEFT_OK)
        (void)snprintf(row->reason, VERIFY_REASON, "%s", weft_last_message());
}

/* --- figures of all runs --- */

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

/* Expectations of bytes have no error. */
static void sum_up(verification *v)
{
    double errors[MOST_RUNS];
    v->known = 0;
    for (int i = 0; i < v->count; i++) v->known += !*v->rows[i].reason;
    for (int k = 0; k < FIGURES; k++) {
        int count = 0;
        for (int i = 0; i < v->count; i++) {
            const verified *row = &v->rows[i];
            bool expected = k == BYTES && row->step.sent_by_chance;
            if (!*row->reason && !expected) errors[count++] = fabs(verify_error(row, k));
        }
        sort_numbers(errors, (size_t)count);
        v->median[k] = count > 0 ? errors[count / 2] : NAN;
        v->greatest[k] = count > 0 ? errors[count - 1] : NAN;
    }
    v->correlation = correlation(v);
}

/* --- the command --- */

/* Whether the file has several machines, which is printed: runs are verified on this one. */
static bool refuse_machines(const char *cluster)
{
    int64_t machines = 1;
    if (weft_cluster_machines(cluster, &machines) != WEFT_OK || machines == 1) return false;
    fprintf(stderr,
            "weft: %s: there are %lld machines, and runs are verified on this one; give the file "
            "of this machine, which weft measure writes\n",
            cluster, (long long)machines);
    return true;
}

static int verify(verification *v)
{
    catch_signals();
    int code = check_runs(v);
    if (code == 0) code = measure(v);
    if (code != 0) return code;
    if (refuse_machines(v->cluster)) return 2;
    if (weft_measured_here(v->cluster, &v->processor) != WEFT_OK)
        return report_failure(WEFT_ERR_ARGUMENT);
    if (!v->json) verify_print_head(v);
    flush_stdout();
    bool shows = !v->json && isatty(STDERR_FILENO);
    for (int i = 0; i < MOST_TURNS * v->count && !wanted_stop.wanted; i++) {
        verified *row = &v->rows[i % v->count];
        if (shows)
            fprintf(stderr, CLEAR_LINE "%d of %d: %.60s", i + 1, MOST_TURNS * v->count,
                    verify_label(row));
        verify_row(v, row, i / v->count);
    }
    if (shows) fprintf(stderr, CLEAR_LINE);
    for (int i = 0; i < v->count; i++)
        if (v->rows[i].seconds <= 0 && !*v->rows[i].reason)
            (void)snprintf(v->rows[i].reason, VERIFY_REASON, "stopped before it had run");
    sum_up(v);
    if (v->json) {
        verify_print_json(v);
    } else {
        verify_print_rows(v);
    }
    if (wanted_stop.wanted) return interrupted_code();
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
