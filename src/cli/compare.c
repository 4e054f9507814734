/* weft compare: checks several runs with different strategies, runs one after the other, on this
 * machine or simulated, and prints and plots their results. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare.h"
#include "weft/data.h"
#include "weft/plugin.h"

typedef struct comparison {
    weft_context *context;
    int argc;
    char **argv; /* options of all runs */
    compared_run all[MOST_RUNS];
    int count, measured, left_out;
    bool simulated, quiet, json;
    progress *bar; /* of the current run; NULL: quiet */
    /* The current run, its batch per learner, and the bytes sent in its steps so far. */
    compared_run *now;
    double batch, comm_bytes;
    const weft_output_choice *wanted; /* of the current run */
} comparison;

/* --- events of a run --- */

static void take_summary(comparison *k, const weft_event *e)
{
    compared_run *c = k->now;
    /* Messages of a simulated run may arrive after its last step, and their updates are part of the
     * result: the curve ends when they have arrived, and all its times are stretched by as much. */
    const course *training = &c->courses[TRAINING];
    double last = training->count > 0 ? training->points[training->count - 1].seconds : 0;
    for (int i = 0; k->simulated && last > 0 && i < COURSES; i++)
        for (size_t j = 0; j < c->courses[i].count; j++)
            c->courses[i].points[j].seconds =
                fmin(c->courses[i].points[j].seconds * e->seconds / last, e->seconds);
    c->seconds = e->seconds;
    c->samples_per_second = e->samples_per_second;
    c->staleness = mean_staleness(e);
    c->utilisation = find_series(e, "utilisation") ? series_number(e, "utilisation") : -1;
    /* A real run sends bytes between the ranks of each learner and between learners. In a
     * simulation a learner is one rank, so that only the bytes of the exchange count. */
    double exchanged = find_series(e, "exchange_bytes") ? series_number(e, "exchange_bytes") : 0;
    c->bytes = k->simulated ? exchanged : k->comm_bytes * e->learners + exchanged;
}

/* Samples that all learners have taken until a step; the last batch of an epoch may be smaller. */
static double samples_by(const comparison *k, const weft_event *e)
{
    double batch = k->batch * e->learners, all = (double)e->samples;
    double steps = ceil(all / batch), epochs = floor((double)e->step / steps);
    return epochs * all + fmin(((double)e->step - epochs * steps) * batch, all);
}

/* The figures of a report begin with the loss. */
static void take_evaluation(const comparison *k, const weft_event *e)
{
    weft_figure f;
    evaluation found = {.loss = e->report->loss, .best = e->best};
    for (int i = 1; weft_report_figure(e->report, i, &f); i++)
        add_metric(&found, k->wanted->metric, k->wanted->keep_best, &f);
    add_evaluation(k->now, e->report->part, &found, (point){e->seconds, samples_by(k, e), 0});
}

static void on_event(void *user, const weft_event *e)
{
    comparison *k = user;
    if (e->kind == WEFT_EVENT_START) k->now->learners = e->learners;
    if (e->kind == WEFT_EVENT_STEP) {
        k->comm_bytes += e->comm_bytes;
        if (!isnan(e->loss))
            add_point(&k->now->courses[TRAINING], (point){e->seconds, samples_by(k, e), e->loss});
        if (k->bar) progress_event(k->bar, e);
    }
    if (e->kind == WEFT_EVENT_EVAL) take_evaluation(k, e);
    if (e->kind == WEFT_EVENT_SUMMARY) take_summary(k, e);
}

/* --- running --- */

static weft_status init(const weft_context *context, void *options)
{
    return weft_compare_options_init(context, options);
}

/* Reads the options of all runs. */
static weft_status read_options(const comparison *k, weft_compare_options *out)
{
    const weft_option *table = weft_compare_table(k->context);
    weft_compare_options words = {.target = 0};
    const char *file;
    int files;
    weft_status status = read_run_options(k->context, table, init, &words, out, k->argc, k->argv);
    if (status == WEFT_OK) status = init(k->context, &words);
    if (status == WEFT_OK)
        status = weft_options_parse(table, &words, k->argc, k->argv, 1, &file, &files);
    if (status == WEFT_OK) compare_leave_outputs(out, &words);
    weft_options_free(table, &words);
    return status;
}

static weft_status train(comparison *k, const weft_train_options *options)
{
    weft_trainer *trainer = NULL;
    weft_status status = weft_trainer_create(k->context, options, &trainer);
    if (status == WEFT_OK) status = run_until_stopped(trainer, on_event, k);
    weft_trainer_destroy(&trainer);
    return status;
}

static weft_status run_one(comparison *k)
{
    weft_compare_options o = {.target = 0};
    const weft_option *table = weft_compare_table(k->context);
    weft_status status = read_options(k, &o);
    if (status == WEFT_OK) status = set_strategy(table, &o, k->now->words);
    /* Communication is counted only if metrics are written. */
    if (status == WEFT_OK && !k->simulated)
        status = weft_options_set(table, &o, "metrics", "/dev/null");
    k->wanted = &o.base.train.output;
    const weft_task_choice *task = &o.base.train.task;
    if (status == WEFT_OK && asprintf(&k->now->subject, "%s on %s", task->model, task->data) < 0)
        k->now->subject = NULL;
    k->batch = (double)o.base.train.length.batch;
    k->comm_bytes = 0;
    k->bar = status == WEFT_OK && !k->quiet ? progress_new(&o.base.train, k->simulated) : NULL;
    if (status == WEFT_OK)
        status = k->simulated ? weft_simulate(k->context, &o.base, &wanted_stop, on_event, k)
                              : train(k, &o.base.train);
    progress_end(k->bar);
    k->bar = NULL;
    weft_options_free(table, &o);
    return status;
}

/* --- the command --- */

/* Splits --strategies into runs. false: there are too few or too many, or one is empty; the error
 * was printed. */
static bool take_strategies(comparison *k, const char *given)
{
    const char *list = given ? given : "";
    char *words[MOST_RUNS];
    int count = split_strategies(list, words, MOST_RUNS);
    bool fits = count >= 0;
    for (; k->count < count; k->count++)
        k->all[k->count] = compared_run_of(words[k->count], strategy_label(words[k->count]));
    if (fits && k->count >= 2) return true;
    fprintf(stderr,
            "weft: strategies '%s' are %s; give from 2 to %d with semicolons between them, as in "
            "--strategies 'exchange=average; exchange=gossip'\nTry 'weft help compare'.\n",
            list, fits ? "fewer than two" : "too many, or one of them is empty", MOST_RUNS);
    return false;
}

/* Checks whether a run is possible: creates it, and destroys it before its first step. */
static weft_status check_one(comparison *k, const weft_compare_options *o)
{
    weft_trainer *trainer = NULL;
    weft_status inputs = weft_train_refuse_overwrite(&o->base.train, "plot", o->plot);
    if (inputs == WEFT_OK && k->simulated)
        inputs = weft_options_refuse_overwrite(weft_compare_table(k->context), o,
                                               "the file of --cluster", o->base.cluster);
    if (inputs != WEFT_OK) return inputs;
    if (k->simulated) return weft_simulate_check(k->context, &o->base);
    weft_status status = weft_trainer_create(k->context, &o->base.train, &trainer);
    weft_trainer_destroy(&trainer);
    return status;
}

/* Prints why a run is not possible; returns the exit code. Only a failure that is the options'
 * fault suggests the help. */
static int refuse_run(const compared_run *c, weft_status status)
{
    bool misfit = status == WEFT_ERR_ARGUMENT;
    fprintf(stderr, "weft: the run '%s' is not possible: %s\n%s", c->label, weft_last_message(),
            misfit ? "Try 'weft help compare'.\n" : "");
    return misfit ? 2 : 1;
}

/* Takes a run that does not fit into the machines out of the list. */
static void leave_out(comparison *k, int i, const char *lack)
{
    fprintf(stderr, "weft: the run '%s' is left out, since it does not fit: %s\n", k->all[i].label,
            lack);
    compared_run_free(&k->all[i]);
    memmove(&k->all[i], &k->all[i + 1], (size_t)(--k->count - i) * sizeof(*k->all));
    k->left_out++;
}

/* Checks all runs before the first one starts. Returns the exit code; 0: all are valid, or do not
 * fit into the machines, but for one or more. */
static int check_all(comparison *k)
{
    for (int i = 0; i < k->count && !wanted_stop.wanted; i++) {
        weft_compare_options o = {.target = 0};
        const weft_option *table = weft_compare_table(k->context);
        bool fits = compare_words_fit(k->all[i].words);
        weft_status status = fits ? read_options(k, &o) : WEFT_OK;
        if (fits && status == WEFT_OK) status = set_strategy(table, &o, k->all[i].words);
        if (fits && status == WEFT_OK) status = weft_plugin_load_options(k->context, table, &o);
        if (fits && status == WEFT_OK) status = weft_options_check(table, &o);
        weft_status checked = fits && status == WEFT_OK ? check_one(k, &o) : WEFT_OK;
        char *lack = fits && status == WEFT_OK && checked == WEFT_OK && k->simulated
                         ? memory_lack(k->context, &o.base.train, o.base.cluster)
                         : NULL;
        weft_options_free(table, &o);
        if (lack) leave_out(k, i--, lack);
        free(lack);
        if (status != WEFT_OK) return usage_failure("compare");
        if (!fits) return 2;
        if (checked != WEFT_OK) return refuse_run(&k->all[i], checked);
    }
    if (k->count > 0 || k->left_out == 0) return 0;
    fprintf(stderr, "weft: none of these runs fits into the memory of the machines\n");
    return 1;
}

static weft_status run_all(comparison *k)
{
    for (int i = 0; i < k->count; i++) {
        k->now = &k->all[i];
        if (wanted_stop.wanted) return WEFT_ERR_INTERRUPTED;
        if (!k->quiet) printf("%d of %d: %s\n", i + 1, k->count, k->now->label);
        flush_stdout();
        weft_status status = run_one(k);
        if (status == WEFT_ERR_INTERRUPTED) return status;
        k->now->failed = status == WEFT_ERR_NUMERIC;
        if (status != WEFT_OK && !k->now->failed) {
            flush_stdout();
            fprintf(stderr, "weft: in the run '%s':\n", k->now->label);
            return status;
        }
        smooth_course(&k->now->courses[TRAINING]);
        k->measured++;
    }
    return WEFT_OK;
}

static bool all_failed(const comparison *k)
{
    int failed = 0;
    for (int i = 0; i < k->count; i++) failed += k->all[i].failed;
    return failed == k->count;
}

static int compare(comparison *k, const weft_compare_options *o)
{
    if (weft_options_check(weft_compare_table(k->context), o) != WEFT_OK)
        return usage_failure("compare");
    char *swept = NULL;
    bool taken = compare_given_once(k->argc, k->argv) &&
                 (!o->sweep || sweep_runs(weft_compare_table(k->context), o->sweep,
                                          o->strategies ? o->strategies : "", "compare",
                                          o->base.train.show.quiet, &swept));
    taken = taken && take_strategies(k, o->sweep ? swept : o->strategies);
    free(swept);
    if (!taken) return 2;
    if (!suffix_fits("compare", "plot", o->plot ? o->plot : "", OTHER_PICTURES, "an SVG picture",
                     ".svg"))
        return 2;
    k->simulated = o->base.cluster != NULL;
    k->quiet = o->base.train.show.quiet || k->json;
    print_log(k->context, k->quiet);
    catch_signals();
    int wrong = check_all(k);
    if (wrong) return wrong;
    weft_output *plot = NULL;
    weft_status status = o->plot ? weft_output_open(o->plot, WEFT_OUTPUT_REPLACE, &plot) : WEFT_OK;
    if (status == WEFT_OK) status = run_all(k);
    bool interrupted = status == WEFT_ERR_INTERRUPTED;
    int code = interrupted ? interrupted_code() : report_failure(status);
    if (interrupted && k->measured > 0)
        fprintf(stderr, "weft: stopped in run %d of %d; the table has the %d that ended\n",
                k->measured + 1, k->count, k->measured);
    else if (interrupted)
        fprintf(stderr, "weft: stopped in run 1 of %d, so there is nothing to compare\n", k->count);
    /* Results are printed even if a later run has failed or was stopped. */
    if (k->measured > 0)
        (k->json ? print_comparison_json : print_comparison)(k->all, k->measured, o->target);
    bool drawn = plot && k->measured > 0 && (status == WEFT_OK || interrupted);
    if (drawn) {
        weft_status plotted = plot_runs(k->all, k->measured,
                                        k->simulated ? RUNS_SIMULATED : RUNS_MEASURED, NULL, plot);
        drawn = plotted == WEFT_OK;
        if (!drawn) code = report_failure(plotted);
    }
    weft_status closed = weft_output_close(&plot, drawn);
    if (code == 0) code = report_failure(closed);
    if (code == 0) note_processor(o->base.cluster, k->quiet);
    if (code || !all_failed(k)) return code;
    fprintf(stderr, "weft: the loss became NaN or infinite with every strategy. A smaller --lr, "
                    "--clip-norm or --warmup may help\n");
    return 1;
}

static const weft_option own_table[] = {
    {.name = "json",
     .initial = "false",
     .group = "Comparison",
     .help = "print the results as a JSON array",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(comparison, json)},
    {.name = NULL},
};

static int run_all_options(comparison *k, weft_context *context, int argc, char **argv)
{
    weft_compare_options options = {.target = 0};
    k->context = context;
    k->argc = argc;
    k->argv = argv;
    weft_status status = read_options(k, &options);
    if (status == WEFT_OK) status = weft_dataset_keep(context); /* all runs read it once */
    int code = status == WEFT_OK ? compare(k, &options) : usage_failure("compare");
    weft_options_free(weft_compare_table(context), &options);
    for (int i = 0; i < k->count; i++) compared_run_free(&k->all[i]);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    comparison *k = calloc(1, sizeof(*k));
    if (!k) {
        fprintf(stderr, "weft: compare: not enough memory\n");
        return 1;
    }
    weft_status status = take_own_options(own_table, k, &argc, argv);
    int code = status == WEFT_OK ? compare_files(context, k->json, argc, argv) : 2;
    if (status != WEFT_OK) (void)usage_failure("compare");
    if (code < 0) code = run_all_options(k, context, argc, argv);
    free(k);
    return code;
}

const command command_compare = {
    .name = "compare",
    .usage = "[RUN.yaml] --strategies LIST | --sweep RANGE [options]\n"
             "       weft compare METRICS.jsonl METRICS.jsonl ... [--plot FILE] [--target LOSS] "
             "[--metric LIST] [--json]",
    .summary = "run several strategies on the same model, data and seed, and compare them",
    .text =
        "Runs one strategy after the other, on this machine or, with --cluster, in virtual\n"
        "time, each with the common options and its own. Then prints a table: the time at which\n"
        "the training loss reached the target (as a moving mean over a fortieth of the run) and\n"
        "from which on it was never above twice of it, samples per second (simulated: while all\n"
        "learners were training), loss and metrics (--metric) of the last evaluation of the part\n"
        "of --validation, or without one of the test part, and with --keep-best or --patience of\n"
        "the best evaluation, bytes sent, mean staleness of updates, and utilisation, the share\n"
        "of time in which learners computed. A real run has the training loss of learner 0, a\n"
        "simulated one the mean over learners; if its messages arrive after its last step, all\n"
        "its times are stretched to its end. A dash marks a figure that a run does not have.",
    .examples = "  weft compare -n 4 --strategies 'exchange=average:every=4; exchange=gossip' "
                "--plot losses.svg\n"
                "  weft compare --cluster cluster.yaml --target 0.5 --strategies \\\n"
                "      'exchange=server:policy=bsp; exchange=server:policy=async servers=2'\n"
                "  weft compare --model mlp --sweep lr=1e-4..1e-1:log:8\n",
    .table = weft_compare_table,
    .own = own_table,
    .run = run,
    .tasks = TASKS_ALONE,
    .computes = true,
};
