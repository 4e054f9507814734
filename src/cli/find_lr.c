/* weft find-lr: the learning-rate range test (Smith 2015). A run of a hundred steps or so, whose
 * rate rises exponentially, and which ends when its loss has become four times its smallest; its
 * weights are thrown away. */
#include "find_lr.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/data.h"

typedef struct find_options {
    double from, to;
    int64_t tries;
    char *plot;
} find_options;

static const weft_option own[] = {
    {.name = "from",
     .argument = "X",
     .offset = offsetof(find_options, from),
     .kind = WEFT_OPT_REAL,
     .low = 1e-12,
     .high = 1e3,
     .help = "first learning rate (1e-7)"},
    {.name = "to",
     .argument = "X",
     .offset = offsetof(find_options, to),
     .kind = WEFT_OPT_REAL,
     .low = 1e-11,
     .high = 1e4,
     .help = "last learning rate (10)"},
    {.name = "tries",
     .argument = "N",
     .offset = offsetof(find_options, tries),
     .kind = WEFT_OPT_INT,
     .low = 10,
     .high = 1e6,
     .help = "steps, if the loss does not end the test before (100)"},
    {.name = "plot",
     .argument = "FILE",
     .offset = offsetof(find_options, plot),
     .kind = WEFT_OPT_STRING,
     .help = "draw the losses against the rates, as SVG; - is standard output"},
    {.name = NULL},
};

typedef struct search {
    lr_test test;
    weft_trainer *trainer;
    progress *bar;
    bool ended; /* by the test itself, not by a user */
} search;

/* --- the test --- */

enum { LEAST = 9 }; /* steps before one that counts, since their mean is of few losses */

static void on_event(void *user, const weft_event *e)
{
    const double decay = 0.98, most = 4;
    search *s = user;
    lr_test *t = &s->test;
    if (e->kind != WEFT_EVENT_STEP || s->ended) return;
    if (s->bar) progress_event(s->bar, e);
    if (isnan(e->loss)) return;
    t->mean = decay * t->mean + (1 - decay) * e->loss;
    t->rate[t->count] = e->lr;
    t->loss[t->count] = t->mean / (1 - pow(decay, (double)t->count + 1));
    if (t->count <= LEAST || t->loss[t->count] < t->loss[t->lowest]) t->lowest = t->count;
    s->ended = ++t->count == t->room || t->loss[t->count - 1] > most * t->loss[t->lowest];
    if (s->ended) weft_trainer_stop(s->trainer);
}

/* Least squares of the losses against the logarithms of the rates, which are equally far apart,
 * over the steps within `half` of step i. */
static double slope_at(const lr_test *t, size_t i, size_t half)
{
    double sum = 0, squares = 0, apart = log(t->rate[1] / t->rate[0]);
    for (size_t k = 1; k <= half; k++) {
        sum += (double)k * (t->loss[i + k] - t->loss[i - k]);
        squares += 2 * (double)(k * k);
    }
    return sum / squares / apart;
}

/* The steepest fall lies where the mean loss has lost a tenth of its whole fall and not regained
 * it, since the plateau before has the steep slopes of noise. A loss that has fallen by less than a
 * hundredth gives no slope. */
static void find_slope(lr_test *t)
{
    double steep = 0, top = t->loss[LEAST], low = t->loss[t->lowest];
    if (t->count <= LEAST || low > 0.99 * top) return;
    for (size_t i = LEAST; i < t->lowest; i++) top = fmax(top, t->loss[i]);
    size_t from = t->lowest;
    while (from > LEAST + 1 && t->loss[from - 1] < top - 0.1 * (top - low)) from--;
    for (size_t i = from; i < t->lowest; i++) {
        size_t half = t->room / 20 > 1 ? t->room / 20 : 1;
        if (half > i) half = i;
        if (half > t->count - 1 - i) half = t->count - 1 - i;
        double slope = slope_at(t, i, half);
        if (!(slope < steep)) continue;
        steep = slope;
        t->steepest = i;
    }
}

static weft_status test(weft_context *context, const weft_train_options *o, search *s)
{
    s->test.rate = calloc(s->test.room, sizeof(double));
    s->test.loss = calloc(s->test.room, sizeof(double));
    if (!s->test.rate || !s->test.loss) return WEFT_ERR_MEMORY;
    weft_status status = weft_trainer_create(context, o, &s->trainer);
    if (status != WEFT_OK) return status;
    s->bar = o->show.quiet ? NULL : progress_new(o, false);
    status = run_until_stopped(s->trainer, on_event, s);
    progress_end(s->bar);
    weft_trainer_destroy(&s->trainer);
    /* A loss that is not finite ends the test as a large one does. */
    bool burst = status == WEFT_ERR_NUMERIC && s->test.count > LEAST;
    if ((status == WEFT_ERR_INTERRUPTED && s->ended) || burst) status = WEFT_OK;
    find_slope(&s->test);
    return status;
}

/* --- its options --- */

static weft_status set(weft_context *context, weft_train_options *o, const char *name, double x)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%.17g", x);
    return weft_options_set(weft_train_table(context), o, name, text);
}

/* The run begins with the weights of a checkpoint that it would have gone on with, writes nothing,
 * and has the schedule and the length of the test. */
static weft_status change(weft_context *context, const find_options *f, weft_train_options *o)
{
    const weft_option *table = weft_train_table(context);
    weft_train_options plain = {0};
    weft_status status = weft_train_options_init(context, &plain);
    if (status != WEFT_OK) return status;
    if (o->output.resume && o->output.checkpoint)
        status = weft_options_set(table, o, "init", o->output.checkpoint);
    const weft_output_choice written = o->output;
    o->output = plain.output;
    plain.output = written;
    weft_free(o->weights.without);
    o->weights.without = NULL;
    o->weights.unfreeze = 0;
    o->length.patience = 0;
    o->length.epochs = plain.length.epochs;
    o->update.warmup = 0;
    o->update.gamma = plain.update.gamma;
    o->update.decay_every = plain.update.decay_every;
    weft_options_free(table, &plain);
    if (status == WEFT_OK) status = weft_options_set(table, o, "lr-schedule", "range-test");
    if (status == WEFT_OK) status = set(context, o, "lr-floor", f->from);
    /* One more, so that the last one of the test ends the run without an evaluation: its rate, one
     * factor above `to`, is never taken, and within the bounds of --lr by those of the options. */
    const double beyond = f->to * pow(f->to / f->from, 1 / ((double)f->tries - 1));
    if (status == WEFT_OK) status = set(context, o, "lr", beyond);
    return status == WEFT_OK ? set(context, o, "steps", (double)f->tries + 1) : status;
}

/* Options of the rate, of the length and of outputs, which a test has of its own. */
static const char *const useless[] = {
    "lr",     "lr-schedule",      "lr-floor",       "warmup",    "gamma",   "decay-every", "epochs",
    "steps",  "patience",         "keep",           "keep-best", "metrics", "unfreeze",    "trace",
    "metric", "checkpoint-every", "evaluate-every", NULL};

/* false: the options are not those of a test, and an error was printed. */
static bool fits(weft_context *context, const find_options *f, const weft_train_options *o,
                 int argc, char **argv)
{
    if (!refuse_given(context, "find-lr", useless,
                      "a test has a rate, a length and outputs of its own; leave it out", argc,
                      argv))
        return false;
    if (o->output.checkpoint && !o->output.resume) {
        static const char *const folder[] = {"checkpoint", NULL};
        if (!refuse_given(context, "find-lr", folder,
                          "a test keeps no weights; add --resume to begin with those in the "
                          "folder, or leave it out",
                          argc, argv))
            return false;
    }
    if (!(f->from < f->to)) {
        fprintf(stderr,
                "weft: from is %g and to is %g; the first rate must be below the last one\nTry "
                "'weft help find-lr'.\n",
                f->from, f->to);
        return false;
    }
    if (weft_job_needs_supervisor(o)) {
        fprintf(stderr,
                "weft: find-lr runs all ranks as threads of this process, which engine '%s' or "
                "--max-restarts does not; leave them out, since the losses are the same\nTry 'weft "
                "help find-lr'.\n",
                o->job.engine);
        return false;
    }
    return suffix_fits("find-lr", "plot", f->plot ? f->plot : "", OTHER_PICTURES, "an SVG picture",
                       ".svg");
}

/* --- the command --- */

static void print_result(const lr_test *t, bool chart)
{
    const double lowest = t->rate[t->lowest];
    if (chart) lr_test_print(t);
    if (t->steepest == 0) {
        printf("the loss has not fallen: no learning rate from %.3g to %.3g is suggested\n",
               t->rate[0], t->rate[t->count - 1]);
        return;
    }
    printf("the loss falls most steeply at  --lr %.3g\n", t->rate[t->steepest]);
    printf("a tenth of that of its minimum  --lr %.3g  (%.4g at %.3g)\n", lowest / 10,
           t->loss[t->lowest], lowest);
}

static int search_and_print(weft_context *context, const find_options *f,
                            const weft_train_options *o)
{
    search s = {.test = {.room = (size_t)f->tries}};
    weft_output *plot = NULL;
    char title[200];
    (void)snprintf(title, sizeof(title), "%s on %s", o->task.model, o->task.data);
    weft_status status = weft_train_refuse_overwrite(o, "plot", f->plot);
    if (status == WEFT_OK && f->plot)
        status = weft_output_open(f->plot, WEFT_OUTPUT_REPLACE, &plot);
    if (status == WEFT_OK) status = test(context, o, &s);
    int code = status == WEFT_ERR_INTERRUPTED ? interrupted_code() : report_failure(status);
    if (status == WEFT_OK) print_result(&s.test, !o->show.quiet && !plot);
    if (status == WEFT_OK && plot) status = lr_test_plot(&s.test, title, plot);
    weft_status closed = weft_output_close(&plot, status == WEFT_OK);
    if (code == 0) code = report_failure(status == WEFT_OK ? closed : status);
    free(s.test.rate);
    free(s.test.loss);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    const weft_option *table = weft_train_table(context);
    static weft_train_options options; /* too large for a stack */
    find_options f = {.from = 1e-7, .to = 10, .tries = 100};
    weft_status status = take_own_options(own, &f, &argc, argv);
    if (status == WEFT_OK) status = read_train_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    int code = 2;
    if (status != WEFT_OK) {
        code = usage_failure("find-lr");
    } else if (fits(context, &f, &options, argc, argv)) {
        print_log(context, options.show.quiet);
        status = load_option_plugins(context, table, &options);
        if (status == WEFT_OK) status = change(context, &f, &options);
        code = status == WEFT_OK ? search_and_print(context, &f, &options) : report_failure(status);
    }
    weft_options_free(table, &options);
    weft_options_free(own, &f);
    return code;
}

const command command_find_lr = {
    .name = "find-lr",
    .usage = "[RUN.yaml] [options]",
    .summary = "find a learning rate by a short run in which it rises",
    .text =
        "Takes the options of weft train, and a hundred steps or fewer from where that run\n"
        "would begin (with --checkpoint DIR --resume from the weights in DIR), in which the\n"
        "learning rate rises exponentially (Smith 2015). The test ends when the loss, as a\n"
        "moving mean, has become four times its smallest. Then prints two rates: where the loss\n"
        "fell most steeply, and a tenth of the rate at which it was smallest. No weight is\n"
        "kept, and nothing else is written; options of the rate's schedule, of the run's length\n"
        "and of its outputs have no effect where a run file has them, and are refused elsewhere.\n"
        "All ranks are threads of this process.",
    .examples = "  weft find-lr --model lenet --data idx:mnist --batch 64\n"
                "  weft find-lr run.yaml --from 1e-5 --to 1 --plot rates.svg\n",
    .table = weft_train_table,
    .own = own,
    .run = run,
    .tasks = TASKS_ALONE,
    .computes = true,
};
