/* Tests the rates and remaining times of the progress display, for steps of unequal length and with
 * a clock that the test sets. */
#include <math.h>
#include <unistd.h>

#include "support.h"

#include "cli/cli.h"
#include "train/trainer.h"

static double clock_now;

double clock_seconds(void)
{
    return clock_now;
}

/* Replaces the command's function that prints metrics, which these tests do not check. */
const char *figure_text(const weft_figure *figure, char *out, size_t size)
{
    (void)figure;
    (void)snprintf(out, size, "-");
    return out;
}

/* --- what is printed --- */

static char printed[1 << 16];
static int before, file;

static void begin(void)
{
    char path[] = "/tmp/progress-XXXXXX";
    fflush(stdout);
    before = dup(STDOUT_FILENO);
    file = mkstemp(path);
    assert_true(before >= 0 && file >= 0);
    unlink(path);
    assert_true(dup2(file, STDOUT_FILENO) >= 0);
    clock_now = 1000;
}

static void end(void)
{
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    ssize_t size = pread(file, printed, sizeof(printed) - 1, 0);
    assert_true(size >= 0);
    printed[size] = '\0';
    close(file);
}

static void step(progress *p, int64_t number, double samples, double seconds, double waited)
{
    clock_now += seconds + waited;
    weft_event e = {.kind = WEFT_EVENT_STEP,
                    .step = number,
                    .total_steps = 100,
                    .epoch = 1,
                    .epochs = 1,
                    .loss = 1,
                    .samples_per_second = samples / seconds,
                    .step_seconds = seconds};
    progress_event(p, &e);
}

static weft_train_options options_of(char *kind)
{
    weft_train_options o = {.length = {.batch = 100}};
    o.show.progress = kind;
    return o;
}

/* --- tests --- */

/* The rate of a line is the samples since the last line divided by the seconds since then,
 * evaluations included; neither the last step's rate (5000) nor the mean of the steps' rates
 * (1000). */
static void test_lines(void **state)
{
    (void)state;
    char kind[] = "lines";
    weft_train_options o = options_of(kind);
    begin();
    progress *p = progress_new(&o, false);
    step(p, 1, 100, 1, 0); /* the measurement begins after this step */
    step(p, 2, 100, 8, 0);
    step(p, 3, 100, 0.02, 0);
    step(p, 4, 100, 0.02, 0);
    step(p, 5, 50, 2, 0); /* 10.04 seconds after step 1 */
    step(p, 6, 100, 1, 8.98);
    step(p, 7, 100, 0.02, 0); /* 10 seconds later, 8.98 of them between steps */
    progress_end(p);
    end();
    assert_string_equal(printed, "epoch 1, step 5 of 100: loss 1.0000, 35 samples/s\n"
                                 "epoch 1, step 7 of 100: loss 1.0000, 20 samples/s\n");
}

/* A loss that diverges takes no more room than another one. */
static void test_scores(void **state)
{
    static const struct {
        double score;
        const char *text;
    } cases[] = {{0.25, "0.2500"},   {-3.00004, "-3.0000"},        {999999, "999999.0000"},
                 {1e6, "1.000e+06"}, {-4.2334e133, "-4.233e+133"}, {1e300, "1.000e+300"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(cases); i++)
        assert_string_equal(score_text(cases[i].score, text, sizeof(text)), cases[i].text);
}

/* The rate of a bar is samples divided by seconds, both summed over the steps with weights that
 * fall by a factor of 0.95 per step, and without the time between steps. The time left follows. */
static void test_bar(void **state)
{
    (void)state;
    char kind[] = "bar", rate[64], left[64];
    weft_train_options o = options_of(kind);
    double samples = 0, seconds = 0, steps = 0;
    setenv("COLUMNS", "200", 1);
    begin();
    progress *p = progress_new(&o, false);
    for (int i = 1; i <= 30; i++) {
        double n = i % 7 ? 100 : 20, took = i % 3 ? 0.5 : 4;
        steps = 0.95 * steps + 1;
        samples = 0.95 * samples + n;
        seconds = 0.95 * seconds + took;
        step(p, i, n, took, i % 5 ? 0 : 60);
    }
    progress_end(p);
    end();
    (void)snprintf(rate, sizeof(rate), "  %.0f samples/s", samples / seconds);
    int rest = (int)(70 * seconds / steps + 0.5);
    (void)snprintf(left, sizeof(left), "  %dm%02ds left", rest / 60, rest % 60);
    const char *last = strstr(printed, " 30%");
    assert_non_null(last);
    assert_non_null(strstr(last, rate));
    assert_non_null(strstr(last, left));
}

/* In a simulated run, rate and time left are in real seconds, not in virtual ones. */
static void test_simulated(void **state)
{
    (void)state;
    char kind[] = "bar";
    weft_train_options o = options_of(kind);
    begin();
    progress *p = progress_new(&o, true);
    for (int i = 1; i <= 30; i++) {
        weft_event e = {.kind = WEFT_EVENT_STEP,
                        .step = i,
                        .total_steps = 90,
                        .epochs = 1,
                        .samples_per_second = 1e6 * i,
                        .step_seconds = 400 / (1e6 * i)};
        clock_now += 2;
        progress_event(p, &e);
    }
    progress_end(p);
    end();
    assert_non_null(strstr(strstr(printed, " 33%"), "  200 samples/s  2m00s left"));
}

/* The lines of a run: the samples of a step are those of all learners; a resumed run's summary
 * counts only its own steps; and the peak memory is that of one process, as the line says. */
static void test_sentences(void **state)
{
    (void)state;
    char kind[] = "lines", model[] = "mlp", data[] = "glyphs", exchange[] = "gossip";
    weft_train_options o = options_of(kind);
    o.task.model = model;
    o.task.data = data;
    o.parallel.exchange = exchange;
    weft_event start = {.kind = WEFT_EVENT_START,
                        .parameters = 7,
                        .samples = 9,
                        .step = 150,
                        .total_steps = 200,
                        .learners = 4};
    weft_event summary = {.kind = WEFT_EVENT_SUMMARY,
                          .since = 150,
                          .step = 200,
                          .total_steps = 200,
                          .seconds = 2,
                          .samples_per_second = 1000,
                          .peak_memory = 73000000,
                          .ranks = 8,
                          .process_ranks = 2};
    begin();
    progress *p = progress_new(&o, false);
    progress_event(p, &start);
    weft_event begun = {.kind = WEFT_EVENT_BEGIN, .step = 150, .total_steps = 200, .epoch = 3};
    progress_event(p, &begun);
    begun.step = 200;
    progress_event(p, &begun);
    progress_event(p, &summary);
    summary.learners = 4;
    progress_event(p, &summary);
    start.step = 0;
    start.learners = 1;
    summary.since = 0;
    summary.process_ranks = 8;
    progress_event(p, &start);
    begun.step = 0;
    progress_event(p, &begun);
    progress_event(p, &summary);
    progress_end(p);
    end();
    assert_string_equal(
        printed,
        "mlp on glyphs: 7 parameters, 9 training samples, 200 steps of 400 samples, 100 by "
        "each of 4 learners, exchange gossip\n"
        "resumed after step 150, in epoch 3\n"
        "resumed after step 200\n"
        "50 steps since step 150 in 2.0 s, 1000 samples/s in training, peak memory 73 MB "
        "in this one of 4 processes\n"
        "50 steps since step 150 in 2.0 s, 1000 samples/s in training, peak memory 73 MB "
        "of this learner alone\n"
        "mlp on glyphs: 7 parameters, 9 training samples, 200 steps of 100 samples\n"
        "200 steps in 2.0 s, 1000 samples/s in training, peak memory 73 MB\n");
}

/* --- events of runs --- */

enum { BATCH = 10, OTHER = 2 }; /* OTHER: see `uneven` */

typedef struct seen {
    const weft_trainer *trainer;
    double samples, seconds;
    double all, working; /* samples of all learners in the steps so far; seconds of these steps */
    double summary;      /* rate of the summary */
    int learners, steps, wrong;
} seen;

static void on_event(void *user, const weft_event *e)
{
    seen *s = user;
    if (e->kind == WEFT_EVENT_SUMMARY) s->summary = e->samples_per_second;
    if (e->kind != WEFT_EVENT_STEP) return;
    double total = e->samples_per_second * e->step_seconds, keep = exp(-e->step_seconds / 5);
    /* With one learner 63 samples are 6 batches of 10 and one of 3; with two, 3 of 20 and one of
     * 3, of which the first learner has one. */
    bool full = ++s->steps % (s->learners == 1 ? 7 : 4) != 0;
    double expected = full ? BATCH * s->learners : 3, own = full ? BATCH : s->learners == 1 ? 3 : 1;
    s->all += total;
    s->working += e->step_seconds;
    s->samples = keep * s->samples + own;
    s->seconds = keep * s->seconds + e->step_seconds;
    double rate = s->samples / s->seconds;
    s->wrong += fabs(total - expected) > 1e-6 * expected;
    s->wrong += fabs(s->trainer->runs[0].rank.rate - rate) > 1e-6 * rate;
}

/* Runs 63 samples in batches of 10, with these options besides. */
static void run_with(const char *const (*options)[2], const weft_exchange_ops *exchange, seen *s)
{
    weft_context *context;
    weft_train_options o = {.task = {.model = NULL}};
    weft_trainer *trainer;
    assert_ok(weft_context_create(&context));
    const weft_entry entry = {.kind = WEFT_KIND_EXCHANGE, .name = "uneven", .ops = exchange};
    if (exchange) assert_ok(weft_context_register(context, &entry, 1));
    assert_ok(weft_train_options_init(context, &o));
    const weft_option *table = weft_train_table(context);
    assert_ok(weft_options_set(table, &o, "model", "mlp"));
    assert_ok(weft_options_set(table, &o, "data", "glyphs:size=8,train=63,test=10"));
    assert_ok(weft_options_set(table, &o, "batch", "10"));
    assert_ok(weft_options_set(table, &o, "threads", "1"));
    for (; (*options)[0]; options++)
        assert_ok(weft_options_set(table, &o, (*options)[0], (*options)[1]));
    assert_ok(weft_trainer_create(context, &o, &trainer));
    s->trainer = trainer;
    assert_ok(weft_trainer_run(trainer, on_event, s));
    weft_trainer_destroy(&trainer);
    weft_options_free(table, &o);
    weft_context_destroy(&context);
}

/* The rate in a learner's heartbeats counts its own samples. Samples and seconds are summed
 * separately and then divided, over steps that count less the longer ago they ended: as many
 * seconds of short steps weigh as much as of long ones. */
static void test_learner_rate(void **state)
{
    (void)state;
    static const char *const one[][2] = {{"epochs", "3"}, {NULL, NULL}}, *const two[][2] = {
                                                                             {"epochs", "3"},
                                                                             {"ranks", "2"},
                                                                             {"exchange",
                                                                              "average"},
                                                                             {NULL, NULL}};
    for (int learners = 1; learners <= 2; learners++) {
        seen s = {.learners = learners};
        run_with(learners == 1 ? one : two, NULL, &s);
        assert_int_equal(s.steps, learners == 1 ? 21 : 12);
        assert_int_equal(s.wrong, 0);
    }
}

/* The exchange `uneven`: learner 1 takes OTHER steps during the second step of learner 0, and the
 * others when learner 0 has taken its last one. */
static _Atomic int steps_of[2];
static atomic_bool first_has_ended;

static weft_status uneven_open(weft_exchange *exchange, const char *arguments,
                               const weft_exchange_setup *setup)
{
    (void)exchange;
    (void)arguments;
    (void)setup;
    return WEFT_OK;
}

static void uneven_close(weft_exchange *exchange)
{
    (void)exchange;
}

static weft_status uneven_before(weft_exchange *exchange, int64_t step)
{
    (void)step;
    while (exchange->setup.endpoint->learner == 1 && atomic_load(&steps_of[0]) == 0) usleep(100);
    return WEFT_OK;
}

static weft_status uneven_after(weft_exchange *exchange, weft_step_result *turn)
{
    int learner = exchange->setup.endpoint->learner;
    atomic_store(&steps_of[learner], (int)turn->step);
    while (learner == 0 && turn->step == 1 && atomic_load(&steps_of[1]) < OTHER) usleep(100);
    while (learner == 1 && turn->step == OTHER && !atomic_load(&first_has_ended)) usleep(100);
    return WEFT_OK;
}

static weft_status uneven_end(weft_exchange *exchange)
{
    if (exchange->setup.endpoint->learner == 0) atomic_store(&first_has_ended, true);
    return WEFT_OK;
}

static const weft_exchange_ops uneven_ops = {
    .struct_size = sizeof(uneven_ops),
    .size = sizeof(weft_exchange),
    .open = uneven_open,
    .close = uneven_close,
    .step = {.before = uneven_before, .after = uneven_after},
    .life = {.end = uneven_end},
};

/* Events report the samples that the learners have really processed in the steps of the first one,
 * not those of the first one times their number. */
static void test_uneven_learners(void **state)
{
    (void)state;
    static const char *const options[][2] = {
        {"ranks", "2"}, {"exchange", "uneven"}, {"steps", "12"}, {NULL, NULL}};
    seen s = {.learners = 2};
    run_with(options, &uneven_ops, &s);
    assert_int_equal(s.steps, 12);
    /* Steps 4, 8 and 12 of the first learner have one sample each. */
    double expected = 9 * BATCH + 3 + OTHER * BATCH;
    assert_true(fabs(s.all - expected) < 1e-6);
    assert_true(fabs(s.summary * s.working - expected) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),           cmocka_unit_test(test_bar),
        cmocka_unit_test(test_simulated),       cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_learner_rate),    cmocka_unit_test(test_scores),
        cmocka_unit_test(test_uneven_learners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
