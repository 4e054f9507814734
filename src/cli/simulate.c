/* weft simulate: runs a simulated training run, and shows its progress and summary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/data.h"

/* The display of a simulation. */
typedef struct watch {
    const weft_train_options *options;
    progress *bar;
    double began;
} watch;

const weft_series *find_series(const weft_event *event, const char *name)
{
    for (int i = 0; i < event->series_count; i++)
        if (strcmp(event->series[i].name, name) == 0) return &event->series[i];
    return NULL;
}

double series_number(const weft_event *event, const char *name)
{
    const weft_series *s = find_series(event, name);
    return s ? s->numbers[0] : 0;
}

double mean_staleness(const weft_event *event)
{
    const weft_series *s = find_series(event, "staleness");
    double updates = 0, sum = 0;
    for (int i = 0; s && i < s->count; i++) {
        updates += s->numbers[i];
        sum += i * s->numbers[i];
    }
    return s && updates > 0 ? sum / updates : -1;
}

const char *bytes_text(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    for (; bytes >= 999.5 && u < 4; u++) bytes /= 1000;
    (void)snprintf(out, size,
                   bytes < 9.995 && u  ? "%.2f %s"
                   : bytes < 99.5 && u ? "%.1f %s"
                                       : "%.0f %s",
                   bytes, units[u]);
    return out;
}

/* Prints the histogram of staleness: a line for each value or, if there are many, for each of at
 * most LINES ranges of values. */
static void print_staleness(const weft_series *s)
{
    enum { LINES = 16, WIDTH = 40 };
    int step = (s->count + LINES - 1) / LINES;
    double most = 1;
    for (int i = 0; i < s->count; i += step) {
        double sum = 0;
        for (int j = i; j < i + step && j < s->count; j++) sum += s->numbers[j];
        if (sum > most) most = sum;
    }
    printf("  staleness     updates\n");
    for (int i = 0; i < s->count; i += step) {
        char range[32];
        double sum = 0;
        for (int j = i; j < i + step && j < s->count; j++) sum += s->numbers[j];
        (void)snprintf(range, sizeof(range), step > 1 ? "%d to %d" : "%d", i, i + step - 1);
        printf("  %-10s %10.0f  ", range, sum);
        for (int j = 0; j < (int)(sum / most * WIDTH + 0.5); j++) putchar('#');
        printf("\n");
    }
}

static void print_summary(const watch *w, const weft_event *e)
{
    char sent[32];
    const weft_series *staleness = find_series(e, "staleness");
    double mean = mean_staleness(e), lost = series_number(e, "exchange_messages_lost");
    printf("%lld step%s of %d learner%s in %.6g s of virtual time (%.1f s here, %.0f MB at the "
           "most)\n",
           (long long)e->step, weft_plural(e->step), e->learners, weft_plural(e->learners),
           e->seconds, clock_seconds() - w->began, (double)e->peak_memory / 1e6);
    printf("%.6g samples/s, learners computed %.1f %% of the time\n", e->samples_per_second,
           100 * series_number(e, "utilisation"));
    (void)bytes_text(series_number(e, "exchange_bytes"), sent, sizeof(sent));
    if (!find_series(e, "exchange_messages")) {
        printf("sent between machines: %s\n", sent);
        return;
    }
    printf("sent: %s in %.0f messages", sent, series_number(e, "exchange_messages"));
    printf(lost > 0 ? ", of which %.0f were lost\n" : "\n", lost);
    if (mean < 0) return;
    printf("mean staleness of updates: %.3g\n", mean);
    print_staleness(staleness);
}

static void on_event(void *user, const weft_event *e)
{
    watch *w = user;
    if (e->kind != WEFT_EVENT_SUMMARY) {
        if (w->bar) progress_event(w->bar, e);
        return;
    }
    progress_end(w->bar);
    w->bar = NULL;
    if (!w->options->show.quiet) print_summary(w, e);
}

static weft_status init(const weft_context *context, void *options)
{
    return weft_simulate_options_init(context, options);
}

/* The exit code of a run that does not fit into the machines of the cluster, which is printed. */
static int refuse_lack(weft_context *context, const weft_simulate_options *options)
{
    const char *cluster = options->cluster;
    weft_status status = weft_dataset_keep(context); /* the run reads it again */
    char *lack =
        status == WEFT_OK && cluster ? memory_lack(context, &options->train, cluster) : NULL;
    if (lack) fprintf(stderr, "weft: the run does not fit into %s: %s\n", cluster, lack);
    int code = lack != NULL;
    free(lack);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_simulate_options scratch = {0}, options = {0};
    const weft_option *table = weft_simulate_table(context);
    weft_status status = read_run_options(context, table, init, &scratch, &options, argc, argv);
    int code = 2;
    if (status != WEFT_OK) {
        code = usage_failure("simulate");
    } else if ((code = load_plugins(context, table, &options)) == 0 &&
               (code = refuse_lack(context, &options)) == 0) {
        print_log(context, options.train.show.quiet);
        watch w = {.options = &options.train,
                   .bar = progress_new(&options.train, true),
                   .began = clock_seconds()};
        catch_signals();
        status = weft_simulate(context, &options, &wanted_stop, on_event, &w);
        if (w.bar) progress_end(w.bar);
        code = report_failure(status);
        if (code == 0) note_processor(options.cluster, options.train.show.quiet);
        if (status == WEFT_ERR_INTERRUPTED) code = interrupted_code();
    }
    weft_options_free(table, &options);
    return code;
}

const command command_simulate = {
    .name = "simulate",
    .usage = "[RUN.yaml] [options]",
    .summary = "train many learners in virtual time, with real numbers",
    .text =
        "Each learner computes the steps of a run with the same options and sends the same\n"
        "messages; durations come from a description of a cluster. Strategies can be tried with\n"
        "up to 1,024 learners, fast and slow, on near and far links, on one machine, and a run\n"
        "with the same --seed is always the same. The times and samples/s of --metrics are\n"
        "virtual; a step there is one step of every learner.\n\n"
        "With a cluster file of weft measure the times of steps and handlers are those of weft\n"
        "plan --cluster, -n ranks fill the machines in the order of the file, and server k is\n"
        "in the process of learner k, as in a run of weft train. Ranks that wait for each other\n"
        "(a --mesh of one learner, or --exchange average or oneshot) need such a file: they run\n"
        "as threads, with the numbers of weft train, and each step takes the estimated time.\n\n"
        "Keys of a cluster file, all optional:\n"
        "  rate: 1e10            floating point operations per second of a learner of speed 1, or\n"
        "  step: 0.02            seconds per step\n"
        "  latency: 0.0001       seconds per message besides its transfer; latency-jitter: largest "
        "addition\n"
        "  bandwidth: 125e6      bytes per second; 0: unlimited\n"
        "  lost: 0.01            share of messages that are lost; likewise twice (duplicated) and "
        "reordered\n"
        "  machines:             several groups of one learner each, or -n equal learners\n"
        "    - count: 3\n"
        "      speed: 0.1        relative speed; default 1\n"
        "      jitter: 0.2       steps take up to this share longer\n"
        "      slow: 0.05        share of steps that take slowdown (10) times as long\n"
        "      awake: 0.02       share of each period (1 second) in which they run; otherwise they "
        "are paused\n"
        "      latency: 0.02     and the other link keys: for these learners; the worse end of a "
        "link counts,\n"
        "                        and servers of a file with rate or step have the keys above",
    .examples =
        "  weft simulate -n 8 --exchange server:policy=async --servers 2\n"
        "  weft simulate --cluster cluster.yaml --exchange gossip:mode=average --metrics a.jsonl\n",
    .table = weft_simulate_table,
    .run = run,
    .computes = true,
};
